"""Importance weights for samples of ANOTHER program: constants that multiply the policy term.

The sampler (another process, another precision, older weights) is not quite the policy that
old_logp scores. A weight near pi_old / pi_sampler corrects for that: give it to any loss as
weights=, or wrap the loss in tis. Do not if old_logp comes from the sampler itself: then
the ratio already corrects for that.

Shapes: all log-probs and the mask (B, T); the weights (B, T), 0 at padding, without gradient.
Source: truncation, Ionides 2008; token and sequence level as in verl's rollout correction. TRL
masks sequences above 3 by default, verl truncates at 2 at the sequence level.
"""

import torch
from torch import Tensor

from beyond.losses import grpo
from beyond.losses.pieces import Stats, real_tokens, token_mean


def clean_log_ratio(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return (B, T) old_logp - sampler_logp with 0 at padding, and (B, T) True for real tokens.

    Args:
        old_logp: (B, T) under the policy that sampled.
        sampler_logp: (B, T) as the sampling program reported them.
        mask: (B, T).
    """
    on = mask != 0
    return torch.where(on, old_logp.detach() - sampler_logp.detach(), 0.0), on


def band(weight: Tensor, low: float | None, cap: float) -> Tensor:
    """Return min(weight, cap); with low, weight where low <= weight <= cap and else 0 (IcePop).

    Args:
        weight: (B, T) or (B, 1), 0 or more.
        low: None, or 0 to 1.
        cap: 1 or more.

    Raises:
        ValueError: low or cap is out of range.
    """
    if not cap >= 1 or (low is not None and not 0 <= low <= 1):
        raise ValueError(f"low = {low}, cap = {cap}: a weight is about 1, so give a cap of 1 or "
                         "more, and as low None or a number from 0 to 1")
    if low is None:
        return weight.clamp(max=cap)
    return torch.where((weight >= low) & (weight <= cap), weight, 0.0)


def token_weights(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, cap: float = 2.0,
                  low: float | None = None) -> Tensor:
    """Return min(pi_old / pi_sampler, cap) of every token: biased, little variance.

    Args:
        old_logp: (B, T) under the policy that sampled.
        sampler_logp: (B, T) as the sampling program reported them.
        mask: (B, T).
        cap: 1 or more.
        low: None, or IcePop, 0 to 1: the weight is 0 outside [low, cap] instead of truncated.
    """
    e, on = clean_log_ratio(old_logp, sampler_logp, mask)
    return torch.where(on, band(e.exp(), low, cap), 0.0)


def sequence_weights(old_logp: Tensor, sampler_logp: Tensor, mask: Tensor, cap: float = 2.0,
                     low: float | None = None) -> Tensor:
    """Return min(product over the response's tokens, cap), the same for all of its tokens.

    Args:
        old_logp: (B, T) under the policy that sampled.
        sampler_logp: (B, T) as the sampling program reported them.
        mask: (B, T).
        cap: 1 or more.
        low: as in token_weights.
    """
    e, on = clean_log_ratio(old_logp, sampler_logp, mask)
    return torch.where(on, band(e.sum(1, keepdim=True).exp(), low, cap), 0.0)


def near_sampler(logp: Tensor, sampler_logp: Tensor, mask: Tensor, adv: Tensor,
                 threshold: float) -> Tensor:
    """Return 1, or 0 for the responses with adv < 0 that the policy has moved away from (OPSM).

    Moved away: the mean over its tokens of sampler_logp - logp is above threshold. Source: TRL,
    off-policy sequence masking, as described for DeepSeek-V3.2 (arXiv 2512.02556).

    Args:
        logp: (B, T) under the current policy.
        sampler_logp: (B, T) as the sampling program reported them.
        mask: (B, T).
        adv: (B,) advantages.
        threshold: nats a token, 0 or more.
    """
    e, on = clean_log_ratio(logp, sampler_logp, mask)
    distance = -e.sum(1) / on.sum(1).clamp(min=1)  # (B,)
    keep = (adv >= 0) | (distance <= threshold)
    return (keep.unsqueeze(1) & on).to(logp.dtype)


# ============================================================== losses around another loss
# They need something that only the training loop can give. Arguments and results are those of
# beyond/losses/variants.py; the extras of the inner loss are passed on.


def tis(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
        sampler_logp, cap=2.0, low=None, level=token_weights, loss=grpo,
        **extras) -> tuple[Tensor, Stats]:
    """Any loss with TRUNCATED IMPORTANCE SAMPLING: its policy term times sg(min(w, cap)).

        w = exp(old_logp - sampler_logp) per token, or of its sum over the response

    Args beyond the common ones: sampler_logp, (B, T) log-probs that the sampling program reported
    (no grad); cap; low, None, or 0 outside [low, cap] (IcePop); level, weights.token_weights or
    weights.sequence_weights; loss, a function of this zoo.
    Extra in stats: weight_mean, over the real tokens.
    Differs: TRL and verl likewise leave the KL term unweighted.
    """
    weights = level(old_logp, sampler_logp, mask, cap, low)
    value, stats = loss(logp, old_logp, ref_logp, adv, mask, clip_eps, beta,
                        weights=weights, **extras)
    mean = weights.sum() / (mask != 0).sum().clamp(min=1)
    return value, {**stats, "weight_mean": float(mean)}


def entropy_bonus(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
                  entropy, coef=0.01, loss=grpo, tokens=None, **extras) -> tuple[Tensor, Stats]:
    """Any loss minus coef times the mean ENTROPY of the policy over the real tokens.

        loss = loss(...) - coef 1/N sum_i sum_t entropy

    Args beyond the common ones: entropy, (B, T) with grad, from entropy_of_logits; coef; loss, a
    function of this zoo; tokens, the denominator of the entropy's mean, and not of the loss.
    Extra in stats: entropy.
    Differs: TRL does the same for every loss_type; verl aggregates the entropy as it does the loss.
    """
    value, stats = loss(logp, old_logp, ref_logp, adv, mask, clip_eps, beta, **extras)
    x = real_tokens(entropy, entropy, None, adv, mask)
    mean = token_mean(x.logp, x, tokens)
    return value - coef * mean, {**stats, "entropy": float(mean.detach())}


def entropy_of_logits(logits: Tensor) -> Tensor:
    """Return (B, T) the entropy in nats, -sum p log p, of logits (B, T, V)."""
    logp = logits.log_softmax(-1)
    return -(logp.exp() * logp).sum(-1)
