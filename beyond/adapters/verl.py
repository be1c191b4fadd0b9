"""Your loss in verl: a function with the arguments that verl calls, around one of ours.

    # my_losses.py, in a folder on PYTHONPATH of every worker
    from verl.trainer.ppo.core_algos import register_policy_loss
    from beyond.losses import dapo
    from beyond.adapters.verl import as_verl_loss
    register_policy_loss("my_dapo")(as_verl_loss(dapo))

    VERL_USE_EXTERNAL_MODULES=my_losses python -m verl.trainer.main_ppo ... \
        actor_rollout_ref.actor.policy_loss.loss_mode=my_dapo

verl samples, scores and shards; it calls this for every micro-batch. From its config the clip range
is taken (clip_ratio_low, clip_ratio_high, clip_ratio_c) and the counts of the global batch. The KL
term (use_kl_loss) and the entropy bonus verl adds itself, so ours runs with beta 0. Not done here
because ours do not: verl clamps log-ratios to +-20 (log_ratio_clip=20.0 does the same), and its
"vanilla" loss has dual clip on (take beyond.losses.dual_clip). GSPO under verl's default clip range
of 0.2 never clips: give as_verl_loss(gspo, clip_eps=3e-4, clip_high=4e-4).

Written against verl 0.9.1 (workers/utils/losses.py, trainer/ppo/core_algos.py); nothing here
imports verl.
"""

import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from beyond.losses.pieces import nonempty_rows

MODES = ("token-mean", "seq-mean-token-mean", "seq-mean-token-sum", "seq-mean-token-sum-norm")
BY_NAME = {"rloo": MODES[2], "luspo": MODES[2], "bnpo": MODES[0]}  # not seen in their arguments


def mode_of(loss: Callable) -> str:
    """Return verl's word for a loss's aggregation: by its arguments L, tokens, rows.

    Raises:
        ValueError: verl has no such aggregation (dapo_group).
    """
    name = getattr(getattr(loss, "func", loss), "__name__", "loss")
    known = inspect.signature(loss).parameters
    if "groups" in known:
        raise ValueError(f"{name} takes a mean within groups, which verl has not: its micro-batches"
                         f" need not hold whole groups. Modes there: {', '.join(MODES)}")
    if name in BY_NAME:
        return BY_NAME[name]
    return MODES[3] if "L" in known else MODES[0] if "tokens" in known else MODES[1]


def per_response(advantages: Tensor, on: Tensor) -> Tensor:
    """Return (B,) advantages if each response has one, else the (B, T) that were given.

    advantages: (B, T). on: (B, T) bool, real tokens; other positions do not matter.
    """
    high = advantages.masked_fill(~on, -torch.inf).amax(1)
    low = advantages.masked_fill(~on, torch.inf).amin(1)
    empty = ~on.any(1)
    if bool(((high == low) | empty).all()):
        return high.masked_fill(empty, 0.0)
    return advantages


def share(on: Tensor, mode: str, counts: dict[str, Any]) -> float:
    """Return what turns the mean over this micro-batch into its part of the global batch's mean.

    verl averages gradients over dp_size ranks and adds them up over micro-batches.

    Args:
        on: (B, T) bool.
        mode: one of MODES, or token-sum.
        counts: config.global_batch_info: dp_size, batch_num_tokens, global_batch_size.

    Raises:
        ValueError: several ranks, and the global count is missing (verl says the same).
    """
    ranks = counts.get("dp_size") or 1
    by_token = mode.startswith("token")
    here = float(on.sum()) if by_token else float(len(on))
    if mode == "token-sum":
        return here * ranks
    name = "batch_num_tokens" if by_token else "global_batch_size"
    everywhere = counts.get(name)
    if everywhere is None:
        if ranks > 1:
            raise ValueError(f"{name} is needed for loss_agg_mode {mode} on {ranks} ranks")
        everywhere = max(here, 1.0) if by_token else nonempty_rows(on)
    return here * ranks / float(everywhere)


def as_verl_loss(loss: Callable, mode: str | None = None, **fixed: Any) -> Callable:
    """Return a loss of ours as a policy loss of verl, for register_policy_loss.

    Args:
        loss: grpo_loss of a lab file, or a function of beyond.losses.
        mode: its aggregation, one of MODES; None: mode_of(loss).
        fixed: extras of the loss by name; they win over verl's config.

    The result takes old_log_prob, log_prob (with grad), advantages and response_mask, all (B, T),
    loss_agg_mode, config (an ActorConfig) and rollout_is_weights, (B, T) or None. It returns
    (scalar loss, dict of floats with verl's names). Empty responses: the denominator is verl's
    count; without one they are left out, as verl does.

    Raises:
        ValueError: verl's config asks for what the loss does not do; the line says what to set.
    """
    own = mode or mode_of(loss)
    if own not in MODES:
        raise ValueError(f"mode = {own!r} is not allowed; give one of {', '.join(MODES)}")
    known = inspect.signature(loss).parameters
    extras = any(p.kind is p.VAR_KEYWORD for p in known.values())
    allowed = {own, "token-sum"} if own == "token-mean" else {own}

    def verl_loss(old_log_prob: Tensor, log_prob: Tensor, advantages: Tensor,
                  response_mask: Tensor, loss_agg_mode: str = "token-mean", config: Any = None,
                  rollout_is_weights: Tensor | None = None) -> tuple[Tensor, dict[str, float]]:
        if loss_agg_mode not in allowed:
            raise ValueError(f"this loss is a {own}, but verl's loss_agg_mode is {loss_agg_mode}; "
                             f"set actor_rollout_ref.actor.loss_agg_mode={own}")
        on, counts = response_mask.bool(), getattr(config, "global_batch_info", None) or {}
        adv = per_response(advantages, on)
        given = {**clip_range(config, known, extras), **fixed}
        if "L" in known and "L" not in fixed:
            given["L"] = counts.get("loss_scale_factor") or on.shape[1]
        if rollout_is_weights is not None:
            given["weights"] = rollout_is_weights
        if not extras and (adv.dim() == 2 or "weights" in given):
            raise ValueError("this loss takes one advantage a response and no weights; use a "
                             "function of beyond.losses, or no rollout correction in verl")
        mask, old = on.to(log_prob.dtype), old_log_prob.detach()
        # beta is 0: any constants will do as ref_logp, and the kl in stats means nothing.
        value, stats = loss(log_prob, old, old, adv, mask, beta=0.0, **given)
        return value * share(on, loss_agg_mode, counts), metrics(stats, log_prob, old, on)

    return verl_loss


def clip_range(config: Any, known: Any, extras: bool) -> dict[str, float]:
    """Return clip_eps, clip_high and c from verl's config, as far as a loss takes them.

    Args:
        config: verl's ActorConfig, or None.
        known: the parameters of the loss.
        extras: whether the loss takes any keyword.

    Raises:
        ValueError: two bounds for a loss with one.
    """
    base = getattr(config, "clip_ratio", 0.2)
    low, high = (base if (x := getattr(config, f"clip_ratio_{end}", None)) is None else x
                 for end in ("low", "high"))
    if not extras and low != high:
        raise ValueError(f"clip_ratio_low = {low} and clip_ratio_high = {high}: this loss has one "
                         "clip_eps; set both to it")
    found = {"clip_eps": low, "clip_high": high, "c": getattr(config, "clip_ratio_c", 3.0)}
    return {name: value for name, value in found.items() if name in known}


@torch.no_grad()
def metrics(stats: dict[str, float], logp: Tensor, old: Tensor, on: Tensor) -> dict[str, float]:
    """Return the numbers that verl's own losses log, and ratio_max; means of this micro-batch.

    Args:
        stats: of the loss.
        logp: (B, T) under the current policy.
        old: (B, T) under the policy that sampled.
        on: (B, T) bool, real tokens.
    """
    moved = torch.where(on, old - logp, 0.0).sum() / on.sum().clamp(min=1)
    return {"actor/pg_clipfrac": stats["clip_frac"], "actor/ppo_kl": float(moved),
            "actor/pg_clipfrac_lower": stats.get("dual_clip_frac", 0.0),
            "actor/ratio_max": stats["ratio_max"]}
