"""The loss zoo: each variant of GRPO's loss as one function with grpo_loss's arguments.

    from functools import partial
    from beyond.losses import LOSSES, dapo
    loss, stats = dapo(logp, old_logp, ref_logp, adv, mask)
    my_loss = partial(dapo, clip_high=0.4)        # extras are bound by name

Read them side by side: every body is the same five lines (take out padding, ratio, surrogate, KL,
aggregation and statistics), and a variant differs from `grpo` in the line that its docstring names.

All of them take, first and in this order:
    logp: (B, T) log-probs of the sampled tokens under the current policy (with grad).
    old_logp: (B, T) log-probs under the policy that sampled them (no grad).
    ref_logp: (B, T) log-probs under the frozen reference (no grad); None is fine if beta is 0.
    adv: (B,) one advantage per response ((B, T), one per token, works as well).
    mask: (B, T) 1.0 for real response tokens, 0.0 for padding; holes are allowed.
    clip_eps: the lower clip range, and the upper one unless clip_high is given.
    beta: KL coefficient. 0.0 by default where the paper has no KL term; it works everywhere.
and, by name:
    clip_high: the upper clip range; None: clip_eps.
    rows, tokens, groups: the denominator over all micro-batches and ranks; None: count here.
    common: kl=k3 (or another estimator of pieces.py), weights=None ((B, T) constants on the policy
        term, say from weights.token_weights), log_ratio_clip=None (no silent clamps).

All return (loss, stats): a scalar tensor, and a dict of floats with kl (plain k3), clip_frac,
ratio_max and named extras (pieces.statistics). A response without a token counts as a row and adds
0, as in grpo_loss (rloo apart); rows=nonempty_rows(mask) leaves it out, as verl and OpenRLHF do.
With nothing to train on, the loss and its gradient are 0.

In the formulas r is the token ratio exp(logp - old_logp), s the sequence ratio, A the advantage,
sg() stop-gradient, |y| the number of real tokens of a response, N that of the batch.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from beyond.losses.advantages import ADVANTAGES
from beyond.losses.pieces import (
    Stats,
    add_kl,
    by_sign,
    capped_weight,
    clipped_min,
    constant,
    exp,
    group_token_mean,
    k1,
    k2,
    k3,
    k3_is,
    k_abs,
    log_prob,
    log_ratio,
    product,
    product_ratio,
    real_tokens,
    response_mean,
    response_sum,
    row_mean,
    sequence_ratio,
    sequence_ratio_token_gradient,
    soft_gate,
    statistics,
    token_mean,
    token_ratio,
)
from beyond.losses.pieces import dual_clip as dual_clipped
from beyond.losses.pieces import two_sided as two_sided_clipped

__all__ = [
    "ADVANTAGES", "KL_ESTIMATORS", "LOSSES", "Loss", "assembled", "bnpo", "cispo", "dapo",
    "dapo_group", "dr_grpo", "dual_clip", "gmpo", "grpo", "gspo", "gspo_token", "guide_custom",
    "luspo", "reinforce", "reinforce_pp", "rloo", "sapo", "simple_grpo", "torchforge_reinforce",
    "two_sided", "vespo", "zoo",
]

Loss = Callable[..., tuple[Tensor, Stats]]


# ============================================================== PPO's clip


def grpo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
         clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """GRPO, the lab's grpo_loss made of the pieces: equal to it in value and gradient.

        loss = 1/B sum_i 1/|y_i| sum_t [ -min(r A, clip(r, 1-clip_eps, 1+clip_high) A) + beta k3 ]

    Source: DeepSeekMath, arXiv 2402.03300, eq. 3 and 4 (k3). GRPO itself is your own function: see
        zoo.
    Differs: TRL (loss_type="grpo") multiplies k3 by r since 1.10: kl=k3_is. verl, OpenRLHF:
        rows=nonempty_rows(mask). verl clamps r's exponent to +-20, d to +-20 and k3 to +-10, and
        has dual clip on. torchforge (merged version) clamps d to +-10; its class GRPOLoss is
        dr_grpo.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, hit)


def dr_grpo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
            L=None, clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """Dr. GRPO: GRPO with a CONSTANT instead of each response's length; no KL.

        loss = 1/(B L) sum_i sum_t -min(r A, clip(r, 1-clip_eps, 1+clip_high) A)

    A long wrong response is no longer punished less per token than a short one. Its advantages
    are not divided by the std: advantages.mean_only.

    Args beyond the common ones: L, the longest response allowed; None: T, the padded width, which
    changes from batch to batch, so give L in training.
    Source: arXiv 2503.20783, section 3.1 and 3.2.
    Differs: TRL L = max_completion_length. torchforge's GRPOLoss: L = padded width with the prompt,
        beta 0.1, clip 0.2/0.28. verl: L = loss_scale_factor or the padded width, rows not empty.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return constant(terms, x, L, rows), statistics(x, rho, hit)


def dapo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
         clip_high=0.28, tokens=None, **common) -> tuple[Tensor, Stats]:
    """DAPO as every library has it: GRPO with a TOKEN MEAN, a higher upper clip, and no KL.

        loss = 1/N sum_i sum_t -min(r A, clip(r, 1-clip_eps, 1+clip_high) A)

    Source: arXiv 2503.14476, eq. 8 to 12. The paper's mean is per prompt first: dapo_group. Its
        other two parts are shaping.overlong_penalty and shaping.informative_groups.
    Differs: TRL's default loss, but with epsilon_high = epsilon = 0.2. torchforge and verl add dual
        clip (c = 3), which the paper has not: dual_clip. TitanRL clamps the exponent of r to +-10.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho, hit)


def dapo_group(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
               G, clip_high=0.28, groups=None, **common) -> tuple[Tensor, Stats]:
    """DAPO as the paper writes it: token mean within each prompt's GROUP, then over prompts.

        loss = 1/P sum_p 1/N_p sum_(i in p) sum_t -min(r A, clip(r, 1-clip_eps, 1+clip_high) A)

    It differs from dapo as soon as the groups differ in their total length.

    Args beyond the common ones: G, the group size; rows 0..G-1 answer prompt 0, and so on.
    Source: arXiv 2503.14476, eq. 8.
    Differs: no library has it; all take the token mean over the batch.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return group_token_mean(terms, x, G, groups), statistics(x, rho, hit)


def bnpo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
         clip_high=None, **common) -> tuple[Tensor, Stats]:
    """BNPO as TRL names it: dapo whose N is always that of the LOCAL micro-batch.

        loss = 1/N_local sum_i sum_t -min(r A, clip(r, 1-clip_eps, 1+clip_high) A)

    With gradient accumulation the result depends on how the batch was cut.
    Source: TRL, loss_type="bnpo". The paper of this name (arXiv 2506.02864) is about rewards
        normalised by a beta distribution; only the aggregation is meant here.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x), statistics(x, rho, hit)


def dual_clip(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
              c=3.0, clip_high=None, tokens=None, **common) -> tuple[Tensor, Stats]:
    """Dual clip: dapo whose loss is BOUNDED by -c A where A < 0.

        l = -min(r A, clip(r, 1-clip_eps, 1+clip_high) A);  A < 0: min(l, -c A)
        loss = 1/N sum_i sum_t l

    Without it l grows without end when A < 0 and r is large (min picks the unclipped branch).

    Args beyond the common ones: c, above 1. Extra in stats: dual_clip_frac, the bounded tokens.
    Source: arXiv 1912.09729, eq. 5. Not in the DAPO paper.
    Differs: on by default, c = 3, in verl ("vanilla") and in torchforge's DAPOLoss (0.2/0.28).
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = dual_clipped(rho, x.A, clip_eps, clip_high, c)
    terms = add_kl(terms, x, rho, beta)
    bounded = (x.A < 0) & (rho.detach() > c) & x.on
    extra = {"dual_clip_frac": float(bounded.sum() / x.n.sum().clamp(min=1))}
    return token_mean(terms, x, tokens), statistics(x, rho, hit) | extra


def two_sided(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
              ratio_ceiling=4.0, clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """Two-sided clip: GRPO with min(r, RATIO_CEILING) in the unclipped branch.

        l = -min(min(r, ratio_ceiling) A, clip(r, 1-clip_eps, 1+clip_high) A)
        loss = 1/B sum_i 1/|y_i| sum_t [ l + beta k3 ]

    Bounds the loss for A < 0 as dual_clip does, at the same value if c = ratio_ceiling.

    Args beyond the common ones: ratio_ceiling, above 1 + clip_high.
    Source: INTELLECT-2, arXiv 2505.07291 (delta).
    Differs: TRL has it as delta=None, off, and for every loss_type that clips.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = two_sided_clipped(rho, x.A, clip_eps, clip_high, ratio_ceiling)
    terms = add_kl(terms, x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, hit)


def gspo(logp, old_logp, ref_logp, adv, mask, clip_eps=3e-4, beta=0.0, *,
         clip_high=4e-4, rows=None, **common) -> tuple[Tensor, Stats]:
    """GSPO: GRPO with the SEQUENCE RATIO, clipped as a whole, and no KL.

        s_i  = exp(1/|y_i| sum_t (logp - old_logp))
        loss = 1/B sum_i -min(s A, clip(s, 1-clip_eps, 1+clip_high) A)

    All tokens of a response are clipped, or none. s lies much closer to 1 than r does, hence the
    narrow range; with 0.2 nothing is ever clipped. Give clip_eps and clip_high together.

    Extra in stats: clip_frac_rows, the fraction of responses that were clipped (TRL's metric).
    Source: arXiv 2507.18071, eq. 5 to 7.
    Differs: torchforge clips at 0.2/0.2. verl clamps the exponent at 10, and version 0.9.1 takes
        its token mean by default (longer responses weigh more). TRL: loss_type="grpo" and
        importance_sampling_level="sequence".
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = sequence_ratio(x)  # (B, 1)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, hit)


def gspo_token(logp, old_logp, ref_logp, adv, mask, clip_eps=3e-4, beta=0.0, *,
               clip_high=4e-4, rows=None, **common) -> tuple[Tensor, Stats]:
    """GSPO-token: gspo with a gradient PER TOKEN, so that adv may be per token, (B, T).

        s_it = sg(s_i) exp(logp - sg(logp))
        loss = 1/B sum_i 1/|y_i| sum_t -min(s_it A, clip(s_it, 1-clip_eps, 1+clip_high) A)

    With one advantage per response its value and its gradient are gspo's.
    Source: arXiv 2507.18071, eq. 13 and 14.
    Differs: this is the form verl computes under the name gspo.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = sequence_ratio_token_gradient(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return response_mean(terms, x, rows), statistics(x, rho, hit)


# ============================================================== another surrogate, another mean


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


# ============================================================== gradient through logp, or a product


def cispo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
          ratio_cap=5.0, ratio_floor=0.0, tokens=None, **common) -> tuple[Tensor, Stats]:
    """CISPO: dapo that caps the WEIGHT of a token and never drops its gradient.

        loss = 1/N sum_i sum_t -sg(clip(r, ratio_floor, ratio_cap)) A logp

    clip_frac counts every token whose ratio was outside the bounds, whatever the sign of A.

    Args beyond the common ones: ratio_cap, an absolute bound of 1 or more; ratio_floor, 0 = open.
    clip_eps is not used.
    Source: MiniMax-M1, arXiv 2506.13585, eq. 4 (mean per prompt first, lower bound open); the cap
        as a number of its own: ScaleRL, arXiv 2510.13786.
    Differs: TRL's epsilon_high is this cap, and its default 0.2 shrinks every gradient five times:
        caps below 1 are refused here. torchforge: [0, 1 + 4]. verl: [1 - 0.2, 1 + 0.2].
    """
    if not ratio_cap >= 1:
        raise ValueError(f"ratio_cap = {ratio_cap}: it caps the ratio itself, which starts at 1, so"
                         " give 1 or more, say 5.0 (a cap of 0.2 would scale all gradients by 0.2)")
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = capped_weight(x, rho, ratio_floor, ratio_cap)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho, hit)


def reinforce(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
              is_clamp=None, tokens=None, **common) -> tuple[Tensor, Stats]:
    """REINFORCE: no ratio, no clip, a token mean.

        loss = 1/N sum_i sum_t -w A logp,  w = 1, or sg(clamp(r, *is_clamp)) if that is given

    With w = 1 it is right only for the policy that sampled: the first inner step. clip_eps is not
    used.

    Args beyond the common ones: is_clamp, None or the two bounds of the ratio, say (0.1, 10.0);
    (0.0, inf) is the plain importance weight.
    Source: Williams 1992. verl's loss mode gpg is the same; REINFORCE++ has reinforce_pp.
    Differs: torchforge always has the clamp: torchforge_reinforce.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = log_prob(x) if is_clamp is None else capped_weight(x, rho, *is_clamp)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho, hit)


def torchforge_reinforce(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
                         tokens=None, **common) -> tuple[Tensor, Stats]:
    """Torchforge's ReinforceLoss: reinforce times the CLAMPED RATIO, without its gradient.

        loss = 1/N sum_i sum_t -sg(clamp(r, 0.1, 10)) A logp

    It is cispo with a lower bound and a higher cap. clip_eps is not used.
    Source: torchforge, src/forge/losses/reinforce_loss.py (2025).
    Differs: there the bounds are written into the code; a clip_ratio argument does not exist.
    """
    return reinforce(logp, old_logp, ref_logp, adv, mask, clip_eps, beta,
                     is_clamp=(0.1, 10.0), tokens=tokens, **common)


def reinforce_pp(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
                 clip_high=None, tokens=None, **common) -> tuple[Tensor, Stats]:
    """REINFORCE++: PPO's clip with a token mean; what is new is its ADVANTAGE, not the loss.

        loss = 1/N sum_i sum_t -min(r A, clip(r, 1-clip_eps, 1+clip_high) A)

    A is whitened over the whole batch, no group needed: advantages.whitened.
    Source: arXiv 2501.03262 (its KL is a penalty k1 in the reward, not a term of the loss).
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho, hit)


def rloo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *,
         clip_high=None, rows=None, **common) -> tuple[Tensor, Stats]:
    """RLOO: the ratio is that of the WHOLE response, a product and not a mean of tokens.

        R_i  = exp(sum_t (logp - old_logp))
        loss = 1/B sum_i -min(R A, clip(R, 1-clip_eps, 1+clip_high) A)

    On policy the gradient is the paper's, that of 1/B sum_i -A sum_t logp. A is leave-one-out:
    advantages.leave_one_out. The KL, if any, is averaged over a response's tokens as in grpo. A
    response without a token has R = 1 and adds -A, which has no gradient.

    Extra in stats: clip_frac_rows, the fraction of responses that were clipped (TRL's metric).
    Source: arXiv 2402.14740, eq. 7 and 8.
    Differs: TRL's RLOOTrainer puts the KL (k1, beta 0.05) into the reward. verl and OpenRLHF have
        the advantage only.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = product_ratio(x)  # (B, 1)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return row_mean(terms, x, rows), statistics(x, rho, hit)


def simple_grpo(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.1, *,
                rows=None, **common) -> tuple[Tensor, Stats]:
    """Torchforge's SimpleGRPOLoss: GRPO whose ratio has the VALUE 1 whatever the policy did.

        loss = 1/B sum_i 1/|y_i| sum_t [ -exp(logp - sg(logp)) A + beta k3 ]

    Equal to grpo on the first inner step (old_logp = logp), wrong afterwards: old_logp and clip_eps
    are not used. stats["ratio_max"] is that of the real ratio, so that you can see it.
    Source: torchforge, src/forge/losses/grpo_loss.py (2025), beta 0.1.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    one = (x.logp - x.logp.detach()).exp()
    terms = add_kl(-one * x.A, x, one, beta)
    return response_mean(terms, x, rows), statistics(x, token_ratio(x))


def guide_custom(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.1, *,
                 clip_high=None, tokens=None, kl=k1, **common) -> tuple[Tensor, Stats]:
    """The custom-loss example of a torchforge guide, with the SIGN of its KL put right.

        q    = exp(logp - ref_logp)
        loss = 1/N sum_i sum_t [ -min(q A, clip(q, 1-clip_eps, 1+clip_high) A)
                                 + beta (logp - ref_logp) ]

    The guide adds beta (ref_logp - logp), which pushes every sampled token up. What is left is
    still not GRPO: its ratio is against the REFERENCE, so that the clip ends all learning 20% away
    from the SFT model; old_logp is not used. And the mean gradient of k1 is 0.
    Source: a third-party guide to torchforge. The lesson is in the differences to grpo.
    """
    x = real_tokens(logp, ref_logp, ref_logp, adv, mask, kl=kl, **common)
    rho = token_ratio(x)
    terms, hit = clipped_min(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return token_mean(terms, x, tokens), statistics(x, rho, hit)


# ============================================================== any other combination


def assembled(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
              ratio=token_ratio, surrogate=clipped_min, aggregation=response_mean,
              clip_high=None, **common) -> tuple[Tensor, Stats]:
    """Any combination of pieces that has no name above; the default is grpo.

    Args beyond the common ones: ratio, a function of the batch; surrogate, a function of (rho, A,
    clip_eps, clip_high); aggregation, a function of (terms, batch). Bind their extras with partial.
    """
    x = real_tokens(logp, old_logp, ref_logp, adv, mask, **common)
    rho = ratio(x)
    terms, hit = surrogate(rho, x.A, clip_eps, clip_high)
    terms = add_kl(terms, x, rho, beta)
    return aggregation(terms, x), statistics(x, rho, hit)


# ============================================================== tables, for command lines

LOSSES: dict[str, Loss] = {
    "grpo": grpo,
    "dr_grpo": dr_grpo,
    "dapo": dapo,
    "dapo_group": dapo_group,
    "bnpo": bnpo,
    "dual_clip": dual_clip,
    "two_sided": two_sided,
    "cispo": cispo,
    "gspo": gspo,
    "gspo_token": gspo_token,
    "sapo": sapo,
    "reinforce": reinforce,
    "reinforce_pp": reinforce_pp,
    "rloo": rloo,
    "torchforge_reinforce": torchforge_reinforce,
    "simple_grpo": simple_grpo,
    "guide_custom": guide_custom,
    "luspo": luspo,
    "vespo": vespo,
    "gmpo": gmpo,
}

KL_ESTIMATORS = {"k1": k1, "k2": k2, "k3": k3, "k3_is": k3_is, "k_abs": k_abs}


def zoo(lab: Any) -> dict[str, Loss]:
    """Return LOSSES with a lab file's own grpo_loss, unchanged, instead of our grpo.

    lab: a module from tests.labfile.load_lab, the student's or the solution's.
    """
    return {**LOSSES, "grpo": lab.grpo_loss}
