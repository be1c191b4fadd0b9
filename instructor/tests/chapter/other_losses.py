"""The losses of other libraries on the small batch of section 9, as beyond/losses computes them.

What they compute there is compared with records of the libraries: beyond/tests/losses. Only
forge-rl's loss, which no table of beyond has, is written out here.
"""

import math
from functools import partial

import torch

from beyond.losses import LOSSES
from beyond.losses.advantages import group_advantages, mean_only, sample_scaled
from beyond.losses.pieces import k3_is
from instructor.tests.chapter.formulas import adv_by, clip, mean, sstd

# One group, G = 2: a right response of three tokens, a wrong one of a single token.
REWARDS = [1.0, 0.0]
RHO = [[1.5, 1.0, 0.9], [4.0]]
D = [[0.5, 0.0, -0.5], [1.0]]  # ref_logp - logp
# Name in the chapter's table: loss, advantages, and what differs from that loss's own settings.
ROWS = {
    "lab": ("grpo", group_advantages, {}),  # and DeepSeekMath's objective
    "dr_grpo": ("dr_grpo", mean_only, {"L": 4}),  # the longest response allowed
    "dapo": ("dapo_group", group_advantages, {"G": 2}),
    "gspo": ("gspo", group_advantages, {"clip_eps": 0.2, "clip_high": 0.2}),
    "trl": ("bnpo", sample_scaled, {}),  # 1.16 as it comes
    "trl_grpo": ("grpo", sample_scaled, {"kl": k3_is}),  # its KL term is multiplied with rho
    "verl": ("dual_clip", partial(sample_scaled, eps=1e-6), {}),  # 0.9 as it comes
    "torchforge": ("dual_clip", sample_scaled, {"clip_high": 0.28}),  # its DAPOLoss
    # Its class GRPOLoss: the constant is the padded width with the prompt.
    "torchforge_grpo": ("dr_grpo", sample_scaled, {"L": 8, "clip_high": 0.28, "beta": 0.1}),
    "guide": ("guide_custom", sample_scaled, {"beta": -0.1}),  # beyond puts its sign right
}


def padded(rows):
    """Return lists of numbers as a (B, T) tensor of float64, 0 behind each."""
    rows = [torch.tensor(row, dtype=torch.float64) for row in rows]
    return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)


def value(name):
    """Return the loss in a row of the chapter's table."""
    loss, advantages, settings = ROWS[name]
    mask = padded([[1.0] * len(row) for row in RHO])
    old_logp = -2.0 * mask
    logp = old_logp + padded([[math.log(x) for x in row] for row in RHO])
    adv = advantages(torch.tensor(REWARDS, dtype=torch.float64), len(REWARDS))
    return LOSSES[loss](logp, old_logp, logp + padded(D), adv, mask, **settings)[0].item()


def forge_rl():
    """Forge-rl 0.1.2: mean log-probs, ratio against ref, k3 the wrong way round; beta 0.01."""
    A, total = adv_by(sstd, REWARDS, 1e-8), []
    for i, row in enumerate(D):
        x = -mean(row)  # mean logp minus mean ref_logp
        ratio = math.exp(x)
        kl = math.exp(x) - x - 1
        total.append(-min(ratio * A[i], clip(ratio, 0.8, 1.2) * A[i]) + 0.01 * kl)
    return mean(total)
