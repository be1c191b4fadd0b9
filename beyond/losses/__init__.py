"""The losses: one function for each variant, all with the arguments of grpo_loss.

    from beyond.losses import LOSSES, ADVANTAGES, dapo

To be read in this order; the names of variants.py can be imported from here:

    variants    all of them next to each other; LOSSES, ADVANTAGES, KL_ESTIMATORS
    pieces      what all of them are put together from: ratios, clips, means, KL estimators
    advantages  what a reward is compared with, and what the difference is divided by
    weights     importance weights for samples of an older policy, and losses around others
    shaping     rewards that are changed before there are advantages
    names       what a loss's name means: its advantages and its settings
"""

# ruff: noqa: F405  the names come with the star, for tools that check types
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from beyond.losses.variants import *  # noqa: F403

# As in variants; importing it imports torch, which the names alone do not need.
__all__ = [
    "ADVANTAGES", "KL_ESTIMATORS", "LOSSES", "Loss", "assembled", "bnpo", "cispo", "dapo",
    "dapo_group", "dr_grpo", "dual_clip", "gmpo", "grpo", "gspo", "gspo_token", "guide_custom",
    "luspo", "reinforce", "reinforce_pp", "rloo", "sapo", "simple_grpo", "torchforge_reinforce",
    "two_sided", "vespo", "zoo",
]


def __getattr__(name: str) -> Any:
    """Import a name of variants.py when it is first asked for."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from beyond.losses import variants

    return getattr(variants, name)
