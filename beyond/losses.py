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

from collections.abc import Callable
from typing import Any

from torch import Tensor

from beyond.advantages import ADVANTAGES
from beyond.losses_more import gmpo, luspo, sapo, vespo
from beyond.losses_reinforce import (
    cispo,
    guide_custom,
    reinforce,
    reinforce_pp,
    rloo,
    simple_grpo,
    torchforge_reinforce,
)
from beyond.pieces import (
    Stats,
    add_kl,
    clipped_min,
    constant,
    group_token_mean,
    k1,
    k2,
    k3,
    k3_is,
    k_abs,
    real_tokens,
    response_mean,
    sequence_ratio,
    sequence_ratio_token_gradient,
    statistics,
    token_mean,
    token_ratio,
)
from beyond.pieces import dual_clip as dual_clipped
from beyond.pieces import two_sided as two_sided_clipped

__all__ = [
    "ADVANTAGES", "KL_ESTIMATORS", "LOSSES", "assembled", "bnpo", "cispo", "dapo", "dapo_group",
    "dr_grpo", "dual_clip", "gmpo", "grpo", "gspo", "gspo_token", "guide_custom", "luspo",
    "reinforce", "reinforce_pp", "rloo", "sapo", "simple_grpo", "torchforge_reinforce",
    "two_sided", "vespo", "zoo",
]

Loss = Callable[..., tuple[Tensor, Stats]]


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
    """Return LOSSES with a lab file's own grpo_loss, unchanged, in the place of grpo.

    lab: a module from tests.labfile.load_lab, the student's or the solution's.
    """
    return {**LOSSES, "grpo": lab.grpo_loss}
