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

from beyond.losses.variants import *  # noqa: F403
from beyond.losses.variants import __all__ as __all__
