"""The part of the zoo with another surrogate than PPO's clip, or another mean.

Arguments, extras and results are those of beyond/losses.py, where all of these are imported.
"""

import math

import torch
from torch import Tensor

from beyond.pieces import (
    Stats,
    add_kl,
    by_sign,
    clipped_min,
    exp,
    log_ratio,
    product,
    real_tokens,
    response_mean,
    response_sum,
    sequence_ratio,
    soft_gate,
    statistics,
    token_mean,
    token_ratio,
)


def sapo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
         tau_pos=1.0, tau_neg=1.05, rows=None, **common) -> tuple[Tensor, Stats]:
    """SAPO: GRPO with a SOFT GATE instead of the clip; no KL.

        loss = 1/B sum_i 1/|y_i| sum_t -(4/tau) sigmoid(tau (r - 1)) A

    Gradient: -4 sig (1 - sig) r A, which is -r A at r = 1 and fades away on both sides.

    Args beyond the common ones: tau_pos, the steepness where A > 0; tau_neg, elsewhere. clip_eps is
    not used and clip_frac is 0.
    Source: arXiv 2511.20347, eq. 5 and 6.
    Differs: TRL, torchforge and verl have the same formula and taus (verl: rows not empty).
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = soft_gate(rho, x.A, tau_pos, tau_neg)
    terms = add_kl(terms, x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, hit)


def luspo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
          clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """LUSPO: gspo WITHOUT the division by the length: longer responses weigh more.

        loss = 1/B sum_i |y_i| * -min(s A, clip(s, 1-clip_eps, 1+clip_high) A)

    Source: TRL, loss_type="luspo" with importance_sampling_level="sequence".
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = sequence_ratio(x)  # (B, 1)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return response_sum(terms, x, rows), statistics(x, rho, hit)


def vespo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *, k_pos=2.0,
          lambda_pos=3.0, k_neg=3.0, lambda_neg=2.0, tokens=None, **common) -> tuple[Tensor, Stats]:
    """VESPO: reinforce weighted by a GAMMA-SHAPED function of the whole response's ratio.

        W    = exp(sum_t (logp - old_logp))
        phi  = W^k exp(lambda (1 - W)), without gradient; k, lambda by the sign of A
        loss = 1/N sum_i sum_t -phi A logp

    phi is 1 at W = 1. As in TRL, the token log-ratios are clamped to +-20 and log W to
    [log 1e-8, 20]; here that bounds a weight and takes no gradient away. clip_eps is not used.

    Args beyond the common ones: k_pos and lambda_pos where A >= 0, k_neg and lambda_neg elsewhere.
    Extra in stats: phi_mean, over the responses.
    Source: TRL, loss_type="vespo".
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    with torch.no_grad():
        log_W = log_ratio(x).clamp(-20, 20).sum(1, keepdim=True).clamp(math.log(1e-8), 20)
        k = by_sign(x.A >= 0, k_pos, k_neg, x.logp)
        lam = by_sign(x.A >= 0, lambda_pos, lambda_neg, x.logp)
        phi = torch.exp(k * log_W + lam * (1 - log_W.exp()))  # (B, 1)
    rho = token_ratio(x)
    terms = add_kl(-phi * x.A * x.logp, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho) | {"phi_mean": float(phi.mean())}


def gmpo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.4, beta=0.0, *,
         clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """GMPO: GRPO with the GEOMETRIC mean of a response's clipped ratios, clipped in the exponent.

        e_t  = min(logp - old_logp, clip_high) if A > 0, max(logp - old_logp, -clip_eps) if A < 0
        loss = 1/B sum_i -A exp(1/|y_i| sum_t e_t)

    Source: arXiv 2507.20673, eq. 4 (clip range exp(-0.4) to exp(0.4)); verl's loss mode geo_mean.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    e, high = log_ratio(x), clip_eps if clip_high is None else clip_high
    low = by_sign(x.A < 0, -clip_eps, -math.inf, e)  # (B, 1), and the upper bound likewise
    clipped = e.clamp(low, by_sign(x.A > 0, high, math.inf, e))
    rho = exp(clipped.sum(1, keepdim=True) / x.n.clamp(min=1))  # (B, 1)
    terms = add_kl(-product(rho, x.A), x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, clipped != e)
