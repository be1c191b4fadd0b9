"""Random inputs for losses, in float64, with masks that have holes and empty rows."""

from functools import partial
from inspect import signature
from typing import NamedTuple

import torch
from torch import Tensor

from beyond.losses import LOSSES, Loss

G = 2  # group size of dapo_group in these tests
L = 7.0  # constant of dr_grpo in these tests

# name -> function of the seven arguments, bound where the zoo has a required extra
BOUND: dict[str, Loss] = {
    **LOSSES,
    "dapo_group": partial(LOSSES["dapo_group"], G=G),
    "dr_grpo": partial(LOSSES["dr_grpo"], L=L),
}
# What the denominator over all micro-batches counts: the keyword that a loss takes for it.
BY_ROW, BY_GROUP = (
    {name for name, loss in LOSSES.items() if keyword in signature(loss).parameters}
    for keyword in ("rows", "groups"))
BY_TOKEN = set(LOSSES) - BY_ROW - BY_GROUP


class Case(NamedTuple):
    """The five tensors of a loss."""

    logp: Tensor
    old_logp: Tensor
    ref_logp: Tensor
    adv: Tensor
    mask: Tensor


def case(seed: int, B: int = 6, T: int = 5, spread: float = 0.4, holes: bool = True) -> Case:
    """Return random inputs: log-ratios of about +-spread, some tokens off, perhaps empty rows."""
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng, dtype=torch.float64)

    old_logp = -1 - normal(B, T).abs()
    mask = torch.rand(B, T, generator=rng) < 0.7 if holes else torch.ones(B, T)
    return Case(old_logp + spread * normal(B, T), old_logp, old_logp + 0.5 * normal(B, T),
                normal(B), mask.to(torch.float64))


def value_and_gradient(loss: Loss, given: Case, *args: float, **extras) -> tuple[Tensor, Tensor]:
    """Return the loss and its gradient with respect to logp."""
    logp = given.logp.clone().requires_grad_()
    value, _ = loss(logp, *given[1:], *args, **extras)
    return value.detach(), torch.autograd.grad(value, logp)[0]
