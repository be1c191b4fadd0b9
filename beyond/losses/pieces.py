"""The pieces that every loss of variants.py is built from.

A loss takes one choice from each of these shelves and nothing else:

    level        token_ratio | sequence_ratio | sequence_ratio_token_gradient | product_ratio
    surrogate    clipped_min | dual_clip | two_sided | capped_weight | soft_gate | log_prob
    aggregation  response_mean | row_mean | response_sum | token_mean | group_token_mean | constant
    KL           k1 | k2 | k3 | k3_is | k_abs | straight_through

Shapes: B rows (responses), T positions. Ratios are (B, T), or (B, 1) where one number stands for
the whole response. The terms of a loss, one per token, are to be MINIMIZED: the aggregations do
not negate.

real_tokens removes padding once, before any exp(), so nothing can overflow there, neither in value
nor in gradient. Multiplying by the mask later would not do: inf * 0 is NaN.
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

Kl = Callable[..., Tensor]
Stats = dict[str, float]


# ============================================================== KL estimators
# All are per token, for samples of pi (the current policy), with d = ref_logp - logp.
# They take the ratio pi / pi_old as a third argument; only k3_is uses it.


def k1(logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None) -> Tensor:
    """Return -d = logp - ref_logp: unbiased value, but a gradient that is 0 on average."""
    return logp - ref_logp


def k2(logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None) -> Tensor:
    """Return d^2 / 2: biased value, unbiased gradient of KL(pi || ref)."""
    return 0.5 * (ref_logp - logp).square()


def k3(
    logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None, *,
    d_clip: float | None = None, value_clip: float | None = None,
) -> Tensor:
    """Return exp(d) - d - 1: unbiased value; its gradient is that of KL(ref || pi).

    Args:
        logp: (B, T) log-probs under the current policy.
        ref_logp: (B, T) log-probs under the reference.
        rho: not used.
        d_clip: None, or d is clamped to +-d_clip (torchforge 10, verl 20).
        value_clip: None, or the result is clamped to +-value_clip (verl 10). Beyond a clamp the
            gradient is exactly 0, just where the policy is farthest away; hence no default.
    """
    d = ref_logp - logp
    if d_clip is not None:
        d = d.clamp(-d_clip, d_clip)
    value = expm1(d) - d  # never below 0; exp(d) - d - 1 can be, by rounding
    return value if value_clip is None else value.clamp(-value_clip, value_clip)


def k3_is(logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None) -> Tensor:
    """Return rho * k3, rho with its gradient: TRL's default since 1.10.

    On policy its gradient is that of k2: unbiased for KL(pi || ref). TRL also logs this product
    under the name kl; here stats["kl"] is plain k3 and this one is stats["kl_term"].
    """
    if rho is None:
        raise ValueError("k3_is needs the ratio: k3_is(logp, ref_logp, rho)")
    return rho * k3(logp, ref_logp)


def k_abs(logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None) -> Tensor:
    """Return |d|, one of verl's choices. It estimates no KL; it is a distance."""
    return (logp - ref_logp).abs()


def straight_through(logp: Tensor, ref_logp: Tensor, rho: Tensor | None = None, *,
                     value: Kl = k3) -> Tensor:
    """Return another estimator's value with k2's gradient (verl's names that end in +)."""
    gradient = k2(logp, ref_logp)
    return gradient - gradient.detach() + value(logp, ref_logp, rho).detach()


# ============================================================== padding


class Batch(NamedTuple):
    """What real_tokens returns: log-probs that are 0 at padding, and the options of the call."""

    logp: Tensor  # (B, T)
    old_logp: Tensor  # (B, T)
    ref_logp: Tensor | None  # (B, T)
    A: Tensor  # (B, 1), or (B, T) if the advantages were per token
    on: Tensor  # (B, T) bool, True for real tokens
    mask: Tensor  # (B, T) 1.0 or 0.0, dtype of logp
    n: Tensor  # (B, 1) number of real tokens of each response
    kl: Kl
    weights: Tensor | None
    log_ratio_clip: float | None
    noted: dict[str, Tensor]  # what add_kl leaves for statistics, to compute it only once


def real_tokens(
    logp: Tensor, old_logp: Tensor, ref_logp: Tensor | None, adv: Tensor, mask: Tensor, *,
    kl: Kl = k3, weights: Tensor | None = None, log_ratio_clip: float | None = None,
) -> Batch:
    """Return the inputs with padding made harmless.

    Args:
        logp: (B, T) log-probs of the sampled tokens under the current policy.
        old_logp: (B, T) the same under the policy that sampled them.
        ref_logp: (B, T) the same under the frozen reference, or None if no KL is wanted.
        adv: (B,) one advantage per response, or (B, T).
        mask: (B, T) 1 for real tokens, 0 elsewhere; holes (tool output) are allowed.
        kl: the estimator of the KL term.
        weights: (B, T) constants that multiply the policy term, say from weights.token_weights.
        log_ratio_clip: None, or log-ratios are clamped to +-log_ratio_clip (verl 20, TitanRL 10);
            beyond it the gradient is 0.
    """
    on, zero = mask.bool(), logp.new_zeros(())

    def clean(x: Tensor) -> Tensor:
        return torch.where(on, x, zero)

    mask = mask.to(logp.dtype)
    n = mask.sum(1, keepdim=True)
    if adv.dim() == 2:
        A = torch.where(on, adv, zero)
    else:
        A = adv.unsqueeze(1)  # (B, 1), else B == T would broadcast along T
        A = torch.where((n > 0) | A.isfinite(), A, zero)  # NaN * 0 would be NaN in an empty row
    ref_logp = None if ref_logp is None else clean(ref_logp)
    weights = None if weights is None else clean(weights).detach()
    return Batch(clean(logp), clean(old_logp), ref_logp, A, on, mask, n, kl, weights,
                 log_ratio_clip, {})


def nonempty_rows(mask: Tensor) -> Tensor:
    """Return how many responses have a real token, at least 1; pass it as rows=.

    verl and OpenRLHF average over these only, TRL, torchforge and this lab over all rows. (With
    nothing to train on those two divide 0 by 0 and get NaN; here it is 0.)
    """
    return mask.bool().any(1).sum().clamp(min=1)


# ============================================================== ratio levels
# A ratio may be infinite: exp(512 log-ratios of 0.18). Where the clip takes its place, its gradient
# is 0, but 0 * inf is NaN; the three functions here keep it at 0.


class _Exponential(torch.autograd.Function):
    """exp(x), or exp(x) - 1, with gradient 0 where 0 comes in, however large exp(x) is."""

    @staticmethod
    def forward(ctx, x: Tensor, less_one: bool) -> Tensor:  # type: ignore[override]
        """Return the value."""
        value = torch.expm1(x) if less_one else x.exp()
        ctx.save_for_backward(value)
        ctx.less_one = less_one
        return value

    @staticmethod
    def backward(ctx, gradient: Tensor) -> tuple:  # type: ignore[override]
        """Return gradient * exp(x)."""
        (value,) = ctx.saved_tensors
        slope = value + 1 if ctx.less_one else value
        return torch.where(gradient == 0, gradient, gradient * slope), None


def exp(x: Tensor) -> Tensor:
    """Return e to the power of x; its gradient is 0 where what follows has none."""
    return _Exponential.apply(x, False)


def expm1(x: Tensor) -> Tensor:
    """Return e to the power of x, less 1; its gradient is 0 where what follows has none."""
    return _Exponential.apply(x, True)


def product(rho: Tensor, A: Tensor) -> Tensor:
    """Return rho * A, and 0 where A is 0, however large rho is."""
    return torch.where(A == 0, 0.0, rho * A)


def log_ratio(x: Batch) -> Tensor:
    """Return (B, T) logp - old_logp, 0 at padding."""
    value = x.logp - x.old_logp
    return value if x.log_ratio_clip is None else value.clamp(-x.log_ratio_clip, x.log_ratio_clip)


def token_ratio(x: Batch) -> Tensor:
    """Return (B, T) r = exp(logp - old_logp)."""
    return exp(log_ratio(x))


def sequence_ratio(x: Batch) -> Tensor:
    """Return (B, 1) s = (product of r)^(1/|y|) = exp(mean of logp - old_logp), GSPO's ratio."""
    return exp(log_ratio(x).sum(1, keepdim=True) / x.n.clamp(min=1))


def sequence_ratio_token_gradient(x: Batch) -> Tensor:
    """Return (B, T) sg(s) * exp(logp - sg(logp)): the value of s, a gradient per token."""
    value = sequence_ratio(x).detach().clamp(max=torch.finfo(x.logp.dtype).max)  # 0 * inf is NaN
    return value * (x.logp - x.logp.detach()).exp()


def product_ratio(x: Batch) -> Tensor:
    """Return (B, 1) exp(sum of logp - old_logp), the true importance ratio of the response."""
    return exp(log_ratio(x).sum(1, keepdim=True))


# ============================================================== surrogates
# Each returns (terms, hit): the loss per token, and where the clip changed it (bool, or None).


def clip_range(clip_low: float, clip_high: float | None) -> tuple[float, float]:
    """Return the bounds (1 - clip_low, 1 + clip_high); clip_high None means clip_low."""
    return 1 - clip_low, 1 + (clip_low if clip_high is None else clip_high)


def clipped_min(rho: Tensor, A: Tensor, clip_low: float, clip_high: float | None = None,
                ceiling: float | None = None) -> tuple[Tensor, Tensor]:
    """Return -min(rho A, clip(rho, 1 - clip_low, 1 + clip_high) A), PPO's surrogate.

    Gradient: -rho A where the unclipped branch is the smaller one, or rho lies in the range, its
    ends included; else 0. For A < 0 and a large rho there is no bound: see dual_clip, two_sided.
    ceiling: None, or the unclipped branch uses min(rho, ceiling).
    """
    unclipped = product(rho, A)
    clipped = rho.clamp(*clip_range(clip_low, clip_high)) * A
    hit = clipped < unclipped
    if ceiling is not None:
        unclipped = rho.clamp(max=ceiling) * A
    return -torch.min(unclipped, clipped), hit


def two_sided(rho: Tensor, A: Tensor, clip_low: float, clip_high: float | None,
              ratio_ceiling: float) -> tuple[Tensor, Tensor]:
    """Return clipped_min with min(rho, ratio_ceiling) in its unclipped branch (INTELLECT-2)."""
    if not ratio_ceiling > clip_range(clip_low, clip_high)[1]:
        raise ValueError(f"ratio_ceiling = {ratio_ceiling}: give a number above 1 + clip_high = "
                         f"{clip_range(clip_low, clip_high)[1]:g}, say 4.0")
    return clipped_min(rho, A, clip_low, clip_high, ratio_ceiling)


def dual_clip(rho: Tensor, A: Tensor, clip_low: float, clip_high: float | None,
              c: float) -> tuple[Tensor, Tensor]:
    """Return clipped_min where A >= 0, and min(that, -c A) where A < 0."""
    if not c > 1:
        raise ValueError(f"c = {c}: dual clip bounds the loss at -c * A, so give c above 1, say 3")
    terms, hit = clipped_min(rho, A, clip_low, clip_high)
    return terms.clamp(max=torch.where(A < 0, -c * A, torch.inf)), hit


def capped_weight(x: Batch, rho: Tensor, floor: float, cap: float) -> tuple[Tensor, Tensor]:
    """Return -sg(clip(rho, floor, cap)) A logp: every token keeps its gradient."""
    weight = rho.detach()
    return -weight.clamp(floor, cap) * x.A * x.logp, (weight < floor) | (weight > cap)


def by_sign(where: Tensor, yes: float, no: float, like: Tensor) -> Tensor:
    """Return yes or no, in the dtype of like (torch.where(c, 1.0, 1.05) would round to float32)."""
    return torch.where(where, like.new_full((), yes), like.new_full((), no))


def soft_gate(rho: Tensor, A: Tensor, tau_pos: float, tau_neg: float) -> tuple[Tensor, None]:
    """Return -(4 / tau) sigmoid(tau (rho - 1)) A with tau = tau_pos if A > 0, else tau_neg."""
    tau = by_sign(A > 0, tau_pos, tau_neg, rho)
    return -(4 / tau) * torch.sigmoid(tau * (rho - 1)) * A, None


def log_prob(x: Batch) -> tuple[Tensor, None]:
    """Return -A logp, no ratio at all: right only for the policy that sampled."""
    return -x.A * x.logp, None


# ============================================================== aggregations
# terms is (B, T), or (B, 1) if it is the same for all tokens of a response. A denominator that is
# not given is counted here, in this micro-batch. With gradient accumulation or several ranks give
# the global one: a mean of local means weighs a token by how empty its micro-batch is. (Under DDP,
# which averages gradients over ranks, pass the global count / world size.)


def row_sums(terms: Tensor, x: Batch) -> Tensor:
    """Return (B, 1) the sum of the terms over each response's real tokens."""
    if terms.shape[1] < x.mask.shape[1]:  # one term for all tokens of a response
        return terms * x.n
    return (terms * x.mask).sum(1, keepdim=True)


def response_mean(terms: Tensor, x: Batch, rows: Tensor | float | None = None) -> Tensor:
    """Return the mean over each response's tokens, then over the responses.

    rows: number of responses to divide by; None: B, an empty one counts and adds 0.
    """
    per_response = row_sums(terms, x) / x.n.clamp(min=1)
    return per_response.sum() / (max(len(x.n), 1) if rows is None else rows)


def row_mean(terms: Tensor, x: Batch, rows: Tensor | float | None = None) -> Tensor:
    """Return response_mean, but a response without a token counts with the term it has."""
    per_response = torch.where(x.n == 0, terms[:, :1], row_sums(terms, x) / x.n.clamp(min=1))
    return per_response.sum() / (max(len(x.n), 1) if rows is None else rows)


def response_sum(terms: Tensor, x: Batch, rows: Tensor | float | None = None) -> Tensor:
    """Return the sum over each response's tokens, then the mean over the responses."""
    return row_sums(terms, x).sum() / (max(len(x.n), 1) if rows is None else rows)


def token_mean(terms: Tensor, x: Batch, tokens: Tensor | float | None = None) -> Tensor:
    """Return the mean over all tokens. tokens: their number; None: those of this batch."""
    return row_sums(terms, x).sum() / (x.n.sum().clamp(min=1) if tokens is None else tokens)


def group_token_mean(terms: Tensor, x: Batch, G: int,
                     groups: Tensor | float | None = None) -> Tensor:
    """Return the mean over all tokens of each prompt's G responses, then over the prompts.

    groups: number of prompts to divide by; None: B / G.
    """
    if len(x.mask) % G:
        raise ValueError(f"{len(x.mask)} rows are not groups of G = {G}: give whole groups")
    per_group = row_sums(terms, x).view(-1, G).sum(1) / x.n.view(-1, G).sum(1).clamp(min=1)  # (P,)
    return per_group.sum() / (max(len(per_group), 1) if groups is None else groups)


def constant(terms: Tensor, x: Batch, L: float | None = None,
             rows: Tensor | float | None = None) -> Tensor:
    """Return the sum over all tokens / (rows * L), the same weight for every token.

    L: the longest response allowed; None: T, the padded width. rows: as in response_mean.
    """
    return response_sum(terms, x, rows) / (x.mask.shape[1] if L is None else L)


# ============================================================== KL term, weights, statistics


def add_kl(terms: Tensor, x: Batch, rho: Tensor, beta: float) -> Tensor:
    """Return terms * weights + beta * KL; the weights are for the policy term alone."""
    if x.weights is not None:
        terms = terms * x.weights
    if beta == 0:
        return terms
    if x.ref_logp is None:
        raise ValueError(f"beta = {beta} needs ref_logp; give it, or beta=0")
    kl = x.kl(x.logp, x.ref_logp, rho)
    x.noted["k3" if x.kl is k3 else "kl_term"] = kl.detach()
    return terms + beta * kl


@torch.no_grad()
def statistics(x: Batch, rho: Tensor, hit: Tensor | None = None) -> Stats:
    """Return the three numbers of grpo_loss, and more, as floats.

    Args:
        x: the batch.
        rho: the ratio, (B, T) or (B, 1).
        hit: where the clip changed the objective; None: nothing is clipped.

    Keys: kl (mean of plain k3 over the real tokens, whatever estimator is in the loss), clip_frac
    (of the real tokens), ratio_max. Extras: ratio_mean; clip_frac_low and clip_frac_high, the
    part of clip_frac where A < 0 and where A > 0; clip_frac_rows, ..._low and ..._high, the same as
    fractions of all responses, if there is one ratio per response (or one token); kl_term, the
    mean of another estimator than k3.
    """
    one_each = rho.shape[1] < x.mask.shape[1]
    rho = torch.where(x.n > 0, rho, 0.0) if one_each else rho * x.mask
    sums = {"n": x.n.sum(), "ratio_mean": (rho * x.n if one_each else rho).sum()}
    sums["ratio_max"] = rho.max() if rho.numel() else sums["n"]
    sums |= hits_by_sign(x, hit) if hit is not None else {}
    if x.ref_logp is not None:
        value = x.noted.get("k3")
        sums["kl"] = (k3(x.logp, x.ref_logp) if value is None else value).sum()  # 0 at padding
        if x.kl is not k3:
            value = x.noted.get("kl_term")
            value = x.kl(x.logp, x.ref_logp, rho) if value is None else value
            sums["kl_term"] = row_sums(value, x).sum()
    values = dict(zip(sums, torch.stack(list(sums.values())).tolist()))
    n, top = max(values.pop("n"), 1.0), values.pop("ratio_max")
    rows = max(len(x.n), 1)
    means = {key: value / (rows if "rows" in key else n) for key, value in values.items()}
    return {"kl": 0.0, "clip_frac": 0.0, "ratio_max": top, **means}


def hits_by_sign(x: Batch, hit: Tensor) -> dict[str, Tensor]:
    """Return the clip_frac entries of statistics, still as counts."""
    signs = {"": None, "_low": x.A < 0, "_high": x.A > 0}
    tokens = hit * x.n if hit.shape[1] == 1 else hit & x.on
    if x.A.shape[1] == 1:
        tokens = tokens.sum(1, keepdim=True)  # (B, 1), so that the rest is cheap
    found = {f"clip_frac{name}": (tokens if sign is None else tokens * sign).sum()
             for name, sign in signs.items()}
    if hit.shape[1] == 1:
        found |= {f"clip_frac_rows{name}": (hit if sign is None else hit & sign).sum()
                  for name, sign in signs.items()}
    return found
