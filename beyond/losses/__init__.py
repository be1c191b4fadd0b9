"""The losses: one function for each variant, all with the arguments of grpo_loss.

    from beyond.losses import LOSSES, ADVANTAGES, dapo

Read in this order; the names of variants.py can be imported from here:

    variants    all losses side by side; LOSSES, ADVANTAGES, KL_ESTIMATORS
    pieces      the parts that they are built from: ratios, clips, means, KL estimators
    advantages  what a reward is compared with, and what the difference is divided by
    weights     importance weights for samples of an older policy, and wrappers around losses
    shaping     changes to rewards before advantages are computed
    names       what the name of a loss means: function, advantages, settings
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
    """Import a name of variants.py on first use."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from beyond.losses import variants

    return getattr(variants, name)
