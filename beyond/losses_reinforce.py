"""The part of the zoo whose gradient goes through logp itself, or through a whole response.

Arguments, extras and results are those of beyond/losses.py, where all of these are imported.
"""

from torch import Tensor

from beyond.pieces import (
    Stats,
    add_kl,
    capped_weight,
    clipped_min,
    k1,
    log_prob,
    product_ratio,
    real_tokens,
    response_mean,
    row_mean,
    statistics,
    token_mean,
    token_ratio,
)


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
