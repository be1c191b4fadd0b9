"""A policy whose weights may lie on the ranks in parts."""

import copy
import warnings

import torch

import tinylm
from beyond.parallel.ranks import World, full, wrap


class Policy:
    """The policy as it is trained, and as one whole model on every rank.

    Under FSDP2 every rank holds a part of each weight, and a forward takes all ranks. But `sample`
    calls the model once for every token of its longest response: a number that differs from rank to
    rank, so they would wait for each other for ever. Hence a whole copy, made anew after every
    step, answers where no gradient is needed. Large systems sample on an engine of its own, with
    the same copying of weights. With DDP, or one process, it is simply the model itself.

    Args:
        model: a TinyLM.
        world: the ranks.
        how: "ddp" or "fsdp".
    """

    def __init__(self, model: torch.nn.Module, world: World, how: str):
        self.copied = how == "fsdp" and world.many
        self.whole = copy.deepcopy(model) if self.copied else model
        self.model = model  # what wrap wraps; with FSDP2 its weights are in parts from here on
        # It warns of outputs that are views; none is changed in place here.
        warnings.filterwarnings("ignore", message="FSDP2-wrapped module")
        self.trained = wrap(model, world, how)

    @torch.no_grad()
    def refresh(self) -> None:
        """Bring the whole copy up to date; every rank must call it."""
        if self.copied:
            for mine, part in zip(self.whole.parameters(), self.trained.parameters()):
                mine.copy_(full(part))

    def sample(self, model, *args, **kwargs):
        """Do as tinylm.sample does, on the whole copy."""
        model = self.whole if model is self.trained else model
        return tinylm.sample(model, *args, **kwargs)
