"""Importance weights for samples of ANOTHER program: constants that multiply the policy term.

The sampler (another process, another precision, older weights) is not quite the policy that
old_logp scores. A weight near pi_old / pi_sampler corrects for that: give it to any loss as
weights=, or wrap the loss in wrappers.tis. Do not if old_logp comes from the sampler itself: then
the ratio already corrects for that.

Shapes: all log-probs and the mask (B, T); the weights (B, T), 0 at padding, without gradient.
Source: truncation, Ionides 2008; token and sequence level as in verl's rollout correction. TRL
masks sequences above 3 by default, verl truncates at 2 at the sequence level.
"""

import torch
from torch import Tensor


def clean_log_ratio(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, T) old_logp - sampler_logp with 0 at padding, and (B, T) True for real tokens."""
    on = mask != 0
    return torch.where(on, old_logp.detach() - sampler_logp.detach(), 0.0), on


def band(weight: Tensor, low: float | None, cap: float) -> Tensor:
    """Return min(weight, cap); with low, weight where low <= weight <= cap and else 0 (IcePop)."""
    if not cap >= 1 or (low is not None and not 0 <= low <= 1):
        raise ValueError(f"low = {low}, cap = {cap}: a weight is about 1, so give a cap of 1 or "
                         "more, and as low None or a number from 0 to 1")
    if low is None:
        return weight.clamp(max=cap)
    return torch.where((weight >= low) & (weight <= cap), weight, 0.0)


def token_weights(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, cap: float = 2.0,
                  low: float | None = None) -> Tensor:
    """Return min(pi_old / pi_sampler, cap) of every token: biased, little variance.

    low: None, or IcePop: the weight is 0 outside [low, cap] instead of truncated.
    """
    e, on = clean_log_ratio(old_logp, sampler_logp, mask)
    return torch.where(on, band(e.exp(), low, cap), 0.0)


def sequence_weights(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, cap: float = 2.0,
                     low: float | None = None) -> Tensor:
    """Return min(product over the response's tokens, cap), the same for all of its tokens."""
    e, on = clean_log_ratio(old_logp, sampler_logp, mask)
    return torch.where(on, band(e.sum(1, keepdim=True).exp(), low, cap), 0.0)


def near_sampler(logp: Tensor, sampler_logp: Tensor, mask: Tensor, adv: Tensor,
                 threshold: float) -> Tensor:
    """Return 1, or 0 for the responses with adv < 0 that the policy has moved away from (OPSM).

    Moved away: the mean over its tokens of sampler_logp - logp is above threshold. Source: TRL,
    off-policy sequence masking, as described for DeepSeek-V3.2 (arXiv 2512.02556).
    """
    e, on = clean_log_ratio(logp, sampler_logp, mask)
    distance = -e.sum(1) / on.sum(1).clamp(min=1)  # (B,)
    keep = (adv >= 0) | (distance <= threshold)
    return (keep.unsqueeze(1) & on).to(logp.dtype)
