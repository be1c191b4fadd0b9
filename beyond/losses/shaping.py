"""DAPO's two parts that are not in the loss: overlong reward shaping and dynamic sampling.

Source: DAPO, arXiv 2503.14476, eq. 11 and 13.
"""

from collections.abc import Callable

from torch import Tensor

from beyond.losses.advantages import Rewards, mean_std, rows_of
from lab15_run import counted


def overlong_penalty(lengths: Tensor, L_max: int, L_cache: int) -> Tensor:
    """Return (B,) what to add to the reward of responses of these lengths, from 0 down to -1.

        0                                if |y| <= L_max - L_cache
        ((L_max - L_cache) - |y|) / L_cache  up to L_max
        -1                               beyond

    Args:
        lengths: (B,) number of tokens of each response.
        L_max: the longest response wanted.
        L_cache: how long before that the penalty starts, 1 to L_max.
    """
    if not 0 < L_cache <= L_max:
        raise ValueError(f"L_cache = {L_cache}: give 1 to L_max = {L_max}")
    return ((L_max - L_cache - lengths) / L_cache).clamp(-1.0, 0.0)


def informative_groups(rewards: Rewards, G: int) -> Tensor:
    """Return (P,) bool: the groups whose rewards are not all equal, which have a gradient.

    With 0/1 rewards, before any shaping, this is the paper's 0 < #correct < G. Rewards that could
    not be scored (NaN) are left out; a group of one is never kept. (verl filters on std > 0 and
    keeps groups of one.)
    """
    r, on = rows_of(rewards, G)
    return ~mean_std(r, on, 1, False)[2].squeeze(1)


def fill_with_informative(draw: Callable[[], tuple], P: int, G: int, max_draws: int = 10) -> list:
    """Return P groups that have a gradient, sampling again until there are enough.

    What is right and what it is worth are two tensors: a penalty for the length makes the rewards
    of a group differ that is all wrong. So groups are chosen by what is right, and shaped after.

    Args:
        draw: samples a batch and returns (groups, right): a list with one item per prompt,
            whatever you want to get back, and the (len(groups)*G,) rewards before any shaping.
        P: how many groups are wanted; more are cut off.
        G: group size.
        max_draws: give up after this many draws and return what was found, maybe fewer than P.
    """
    kept: list = []
    for _ in range(max_draws):
        groups, right = draw()
        keep = informative_groups(right, G).tolist()
        if len(groups) != len(keep):
            raise ValueError(f"draw returned {counted(len(groups), 'group')} but rewards of "
                             f"{len(keep)}")
        kept += [group for group, wanted in zip(groups, keep) if wanted]
        if len(kept) >= P:
            break
    return kept[:P]
