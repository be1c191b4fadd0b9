"""Losses around another loss: they need something that only the training loop can give.

Arguments and results are those of beyond/losses.py; the extras of the inner loss are passed on.
"""

from torch import Tensor

from beyond.losses import grpo
from beyond.pieces import Stats, real_tokens, token_mean
from beyond.weights import token_weights


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
