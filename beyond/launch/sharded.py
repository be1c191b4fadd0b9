"""A policy that may lie on the ranks in parts, and checkpoints that any number of ranks reads.

    OUT/checkpoint-40/      .metadata, __0_0.distcp, __1_0.distcp: weights, Adam's state, every
                            rank's random numbers (torch.distributed.checkpoint);
                            run.json: settings and history, from rank 0

Weights and Adam's state go under their plain names, whether DDP or FSDP2 trained them, so a run may
go on with another number of processes and the other kind. A folder is written under another name
and renamed when it is complete: a kill in the middle loses that one only. Several machines need a
folder that all of them see.
"""

import copy
import json
import re
import shutil
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict

import tinylm
from beyond.parallel import World, full, total, wrap

KEEP = 2


def random_numbers(world: World) -> dict[str, torch.Tensor]:
    """Return the state of this rank's generators, those that sampling draws from."""
    state = {"cpu": torch.get_rng_state()}
    if world.device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(world.device)
    return state


def set_random_numbers(world: World, state: dict[str, torch.Tensor]) -> None:
    """Put back what random_numbers returned."""
    if "cpu" in state:
        torch.set_rng_state(state["cpu"])
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"], world.device)


def found(folder: str | Path) -> list[Path]:
    """Return the complete checkpoints of a run, oldest first."""
    paths = [p for p in Path(folder).glob("checkpoint-*") if re.fullmatch(r"\D+-\d+", p.name)]
    return sorted(paths, key=lambda p: int(p.name.split("-")[1]))


@contextmanager
def undamaged(path: Path) -> Iterator[None]:
    """Turn whatever reading a checkpoint raises into an OSError that says what to do."""
    try:
        yield
    except (Exception, dcp.api.CheckpointException) as error:
        raise OSError(f"{path} is damaged ({type(error).__name__}): remove it, and --resume goes "
                      "on from the one before") from None


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
        # Of outputs that are views: nobody here changes one in place.
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


class Checkpoints:
    """The checkpoints of one run.

    Args:
        folder: where they go; the same for all ranks.
        world: the ranks.
        policy: the policy.
        opt: its optimizer.
        about: what must be the same for a run to go on: seed, loss and so on; plain data.
    """

    def __init__(self, folder: Path, world: World, policy: Policy, opt: torch.optim.Optimizer,
                 about: dict[str, Any]):
        self.folder, self.world, self.about = folder, world, about
        self.policy, self.opt = policy, opt

    def state(self) -> dict[str, Any]:
        """Return what is written: the tensors of this rank, under names that all ranks share."""
        model, opt = get_state_dict(self.policy.trained, self.opt)
        return {"model": model, "opt": opt, f"random{self.world.rank}": random_numbers(self.world)}

    def save(self, it: int, history: dict[str, list]) -> None:
        """Write checkpoint-it, and remove all but the newest; every rank must call it.

        What cannot be written is said, and training goes on: those before are whole.
        """
        temporary = self.folder / f".checkpoint-{it}.tmp"
        try:
            if self.world.main:
                for path in self.folder.glob(".checkpoint-*.tmp"):  # left by a kill
                    shutil.rmtree(path, ignore_errors=True)
            total(self.world, [0])  # nobody writes before rank 0 has cleaned up
            with warnings.catch_warnings():  # of one process, which is what is wanted
                warnings.filterwarnings("ignore", message="torch.distributed is")
                dcp.save(self.state(), checkpoint_id=temporary, no_dist=not self.world.many)
            if self.world.main:  # dcp.save returns on rank 0 when all ranks have written
                run = {"about": self.about, "ranks": self.world.size, "history": history}
                (temporary / "run.json").write_text(json.dumps(run), encoding="utf-8")
                temporary.rename(self.folder / f"checkpoint-{it}")
                for path in found(self.folder)[:-KEEP]:
                    shutil.rmtree(path, ignore_errors=True)
        except (dcp.api.CheckpointException, OSError) as error:  # the former on all ranks
            if self.world.main:
                why = str(error).strip().splitlines()[-1]
                print(f"checkpoint-{it} was not saved: {why}. Those before are whole.", flush=True)

    def load(self, resume: bool) -> dict[str, list]:
        """Take up the newest checkpoint; return its history, {} if there is none.

        Args:
            resume: False: there must be none, or a restart would take up another run's.

        A rank goes on with the random numbers that it had. One that was not there then (there are
        more ranks now) starts at its seed, and those of ranks that are gone are dropped.

        Raises:
            ValueError: there is one though resume is False, or it has other settings; which.
            OSError: it is damaged.
        """
        if not (paths := found(self.folder)):
            return {}
        if not resume:
            raise ValueError(f"{paths[-1]} is of another run: go on with it by --resume, or give "
                             "another --out")
        with undamaged(paths[-1]):
            run = json.loads((paths[-1] / "run.json").read_text(encoding="utf-8"))
        for name, value in self.about.items():
            if run["about"].get(name) != value:
                raise ValueError(f"{paths[-1]} was made with {name} = {run['about'].get(name)!r}, "
                                 f"not {value!r}: give that, or another --out")
        state = self.state()
        mine = f"random{self.world.rank}"
        with warnings.catch_warnings(), undamaged(paths[-1]):
            warnings.filterwarnings("ignore", message="torch.distributed is")
            there = dcp.FileSystemReader(paths[-1]).read_metadata().state_dict_metadata
            state[mine] = {k: v for k, v in state[mine].items() if f"{mine}.{k}" in there}
            dcp.load(state, checkpoint_id=paths[-1], no_dist=not self.world.many)
        set_state_dict(self.policy.trained, self.opt, model_state_dict=state["model"],
                       optim_state_dict=state["opt"])
        self.policy.refresh()
        set_random_numbers(self.world, state[mine])
        return run["history"]
