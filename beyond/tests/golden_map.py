"""From a golden record's words (project, variant, hyper) to our function: loss_for.

    from beyond.tests.golden_map import loss_for
    f = loss_for("trl", "dapo", {"loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28})
    loss, stats = f(logp, old_logp, ref_logp, adv, mask)

loss_for returns a function of beyond/losses/variants.py (or `assembled`, where a combination has no
name) with every option of `hyper` bound by name; only strings are looked up here; no formula is
written.
`project` is the first part of a record's name: the libraries use the same words for other things.
A combination that we do not build raises Unsupported with the reason.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from beyond import losses
from beyond.losses import pieces
from beyond.losses.weights import near_sampler, tis

Hyper = dict[str, Any]
Call = Callable[..., tuple[Tensor, dict[str, float]]]


class Unsupported(Exception):
    """The zoo has no function for this record; the text says why."""


def loss_for(project: str, variant: str, hyper: Hyper) -> Call:
    """Return our function of (logp, old_logp, ref_logp, adv, mask) for a record.

    Args:
        project: derived, trl, verl, torchforge, titanrl, openrlhf or forge_rl.
        variant: the record's variant.
        hyper: the record's options, in the library's own words.
    """
    makers = {"derived": derived, "trl": trl, "verl": verl, "torchforge": torchforge,
              "titanrl": titanrl, "openrlhf": openrlhf}
    if project not in makers:
        raise Unsupported(f"{project} has no loss that we build")
    return makers[project](variant, hyper)


def nonempty(mask: Tensor) -> Tensor:
    """Return the number of rows with a token, 0 if there is none: as verl and OpenRLHF divide."""
    return (mask != 0).any(1).sum()


def per_nonempty_row(f: Call) -> Call:
    """Return f with rows= the rows that have a token."""
    def call(logp, old_logp, ref_logp, adv, mask, **extras):
        return f(logp, old_logp, ref_logp, adv, mask, rows=nonempty(mask), **extras)

    return call


def pick(table: dict[Any, Any], name: Any, what: str) -> Any:
    """Return table[name], or raise Unsupported."""
    if name not in table:
        raise Unsupported(f"{what} {name!r} is not built")
    return table[name]


def number(h: Hyper, *names: str) -> float:
    """Return the first of these options that is there, or 0.2, every library's clip range."""
    return next((float(h[name]) for name in names if name in h), 0.2)


def bind(f: Call, clip_eps: float, beta: float = 0.0, **extras: Any) -> Call:
    """Return f with everything but its five tensors bound."""
    return partial(f, clip_eps=clip_eps, beta=beta, **extras)


# ============================================================== one function per project


def derived(variant: str, h: Hyper) -> Call:
    """Records of the independent derivation: the definitions of the papers and of this lab."""
    low = number(h, "clip_eps", "clip_low")
    clip: Hyper = {"clip_high": h.get("clip_high")}
    makers: dict[str, Callable[[], Call]] = {
        "grpo": lambda: bind(losses.grpo, low, h.get("beta", 0.0), **clip),
        "dr_grpo": lambda: bind(losses.dr_grpo, low, h.get("beta", 0.0), L=h.get("L"), **clip),
        "dapo": lambda: bind(losses.dapo, low, h.get("beta", 0.0), **clip),
        "bnpo": lambda: bind(losses.bnpo, low, h.get("beta", 0.0), **clip),
        "dapo_dual_clip": lambda: bind(losses.dual_clip, low, c=h.get("c", 3.0), **clip),
        "dual_clip": lambda: bind(losses.dual_clip, low, c=h.get("c", 3.0), **clip),
        "two_sided": lambda: bind(losses.two_sided, low, h.get("beta", 0.0),
                                  ratio_ceiling=h["delta"], **clip),
        "dapo_group": lambda: bind(losses.dapo_group, low, G=h["G"], **clip),
        "cispo": lambda: bind(losses.cispo, low, ratio_floor=h["bounds"][0],
                              ratio_cap=h["bounds"][1]),
        "gspo": lambda: bind(losses.gspo, low, h.get("beta", 0.0), **clip),
        "gspo_token": lambda: bind(losses.gspo_token, low, h.get("beta", 0.0), **clip),
        "sapo": lambda: bind(losses.sapo, low, tau_pos=h["tau_pos"], tau_neg=h["tau_neg"]),
        "reinforce": lambda: bind(losses.reinforce, low, is_clamp=h.get("is_clamp")),
        "rloo": lambda: bind(losses.rloo, low, **clip),
        "dp_normalisation": lambda: bind(losses.dapo, low, **clip),
    }
    f = pick(makers, variant, "variant")()
    return per_nonempty_row(f) if "NON-EMPTY" in str(h.get("agg")) else f


def trl(variant: str, h: Hyper) -> Call:
    """TRL: loss_type, importance_sampling_level, epsilon, epsilon_high, delta, beta."""
    low, high, beta = h.get("epsilon", 0.2), h.get("epsilon_high"), h.get("beta", 0.0)
    if variant == "rloo":
        return bind(losses.rloo, low, clip_high=high)
    kl = pieces.k3_is if h.get("use_bias_correction_kl", True) else pieces.k3
    kind, level = h.get("loss_type", "dapo"), h.get("importance_sampling_level", "token")
    clip: Hyper = {"clip_high": high, "kl": kl}
    if kind == "cispo":
        cap = low if high is None else high
        if cap < 1:
            raise Unsupported(f"epsilon_high = {cap} caps every ratio below 1; ours refuses that")
        f = bind(losses.cispo, low, beta, ratio_cap=cap, kl=kl)
    elif kind == "sapo":
        f = bind(losses.sapo, low, beta, tau_pos=h.get("sapo_temperature_pos", 1.0),
                 tau_neg=h.get("sapo_temperature_neg", 1.05), kl=kl)
    elif kind == "vespo":
        names = ("k_pos", "lambda_pos", "k_neg", "lambda_neg")
        given = {n: h[f"vespo_{n}"] for n in names if f"vespo_{n}" in h}
        f = bind(losses.vespo, low, beta, kl=kl, **given)
    elif h.get("delta") is None and level == "token":
        named = {"grpo": losses.grpo, "bnpo": losses.bnpo, "dapo": losses.dapo,
                 "dr_grpo": partial(losses.dr_grpo, L=h.get("max_completion_length"))}
        f = bind(pick(named, kind, "loss_type"), low, beta, **clip)
    elif h.get("delta") is None and kind in ("grpo", "luspo"):
        f = bind({"grpo": losses.gspo, "luspo": losses.luspo}[kind], low, beta, **clip)
    elif level == "token" and kind == "grpo":
        f = bind(losses.two_sided, low, beta, ratio_ceiling=h["delta"], **clip)
    else:
        f = trl_unnamed(h, kind, level, low, beta, clip)
    if (threshold := h.get("off_policy_mask_threshold")) is not None:
        f = masked_by_distance(f, threshold)
    return f


def trl_unnamed(h: Hyper, kind: str, level: str, low: float, beta: float, clip: Hyper) -> Call:
    """Return what TRL can combine and nobody has named."""
    aggregation = {
        "grpo": pieces.response_mean, "bnpo": pieces.token_mean, "dapo": pieces.token_mean,
        "dr_grpo": partial(pieces.constant, L=h.get("max_completion_length")),
        "luspo": pieces.response_sum,
    }
    ratio = {"token": pieces.token_ratio, "sequence": pieces.sequence_ratio}
    surrogate: Any = pieces.clipped_min
    if h.get("delta") is not None:
        surrogate = partial(pieces.two_sided, ratio_ceiling=h["delta"])
    return bind(losses.assembled, low, beta, surrogate=surrogate, **clip,
                ratio=pick(ratio, level, "importance_sampling_level"),
                aggregation=pick(aggregation, kind, "loss_type"))


def masked_by_distance(f: Call, threshold: float) -> Call:
    """Return f with TRL's off-policy sequence mask (OPSM)."""
    def call(logp, old_logp, ref_logp, adv, mask):
        weights = near_sampler(logp, old_logp, mask, adv, threshold)
        return f(logp, old_logp, ref_logp, adv, mask, weights=weights)

    return call


def verl(variant: str, h: Hyper) -> Call:
    """Version 0.9.1 of verl: loss_mode, loss_agg_mode, clip_ratio(_low, _high, _c), KL."""
    low, high = (number(h, f"clip_ratio_{end}", "clip_ratio") for end in ("low", "high"))
    if "rollout_is" in h:
        return verl_tis(h)
    kl, beta = verl_kl(h.get("kl_loss_type", "low_var_kl")), h.get("kl_loss_coef", 0.0)
    mode, agg = h.get("loss_mode", "vanilla"), h.get("loss_agg_mode", "token-mean")
    common = {"kl": kl, "log_ratio_clip": 20.0}
    by_row = agg == "seq-mean-token-mean"
    if mode == "gpg" and agg == "token-mean":
        return bind(losses.reinforce, low, beta, **common)
    if mode == "cispo" and agg == "token-mean":
        return bind(losses.cispo, low, beta, ratio_floor=1 - low, ratio_cap=1 + high, **common)
    if mode == "sapo" and by_row:
        taus = {"tau_pos": h.get("tau_pos", 1.0), "tau_neg": h.get("tau_neg", 1.05)}
        return per_nonempty_row(bind(losses.sapo, low, beta, **taus, **common))
    if mode == "geo_mean":  # it clamps nothing, and divides by all rows
        return bind(losses.gmpo, low, beta, clip_high=high, kl=kl)
    if mode == "gspo" and by_row:
        return per_nonempty_row(bind(losses.gspo_token, low, beta, clip_high=high, kl=kl))
    return verl_clip(h, mode, agg, low, high, beta, common)


def verl_clip(h: Hyper, mode: str, agg: str, low: float, high: float, beta: float,
              common: Hyper) -> Call:
    """Return verl's clipped losses under any of its aggregations."""
    c = h.get("clip_ratio_c", 3.0)
    clip = {"clip_high": high, **common}
    if mode == "vanilla" and c < 1e6:
        if agg == "token-mean":
            return bind(losses.dual_clip, low, beta, c=c, **clip)
    elif mode == "vanilla":
        if agg == "token-mean":
            return bind(losses.dapo, low, beta, **clip)
        if agg == "seq-mean-token-mean":
            return per_nonempty_row(bind(losses.grpo, low, beta, **clip))
        if agg == "seq-mean-token-sum-norm":
            L = h.get("loss_scale_factor")
            return per_nonempty_row(bind(losses.dr_grpo, low, beta, L=L, **clip))
    surrogates = {"vanilla": partial(pieces.dual_clip, c=c), "gspo": pieces.clipped_min}
    ratios = {"vanilla": pieces.token_ratio, "gspo": pieces.sequence_ratio_token_gradient}
    f = bind(losses.assembled, low, beta, ratio=pick(ratios, mode, "loss_mode"),
             surrogate=surrogates[mode], **clip)

    def call(logp, old_logp, ref_logp, adv, mask):
        rows = nonempty(mask)
        aggregation = {
            "token-mean": pieces.token_mean,
            "token-sum": partial(pieces.token_mean, tokens=1.0),
            "seq-mean-token-mean": partial(pieces.response_mean, rows=rows),
            "seq-mean-token-sum": partial(pieces.response_sum, rows=rows),
            "seq-mean-token-sum-norm": partial(pieces.constant, L=h.get("loss_scale_factor"),
                                               rows=rows),
        }
        return f(logp, old_logp, ref_logp, adv, mask,
                 aggregation=pick(aggregation, agg, "loss_agg_mode"))

    return call


def verl_kl(name: str) -> Callable[..., Tensor]:
    """Return the estimator that verl means: k3 is clamped there, and + is straight-through."""
    clamped = partial(pieces.k3, d_clip=20.0, value_clip=10.0)
    table = {"k1": pieces.k1, "kl": pieces.k1, "k2": pieces.k2, "mse": pieces.k2, "k3": clamped,
             "low_var_kl": clamped, "abs": pieces.k_abs}
    value = pick(table, name.removesuffix("+"), "KL")
    return partial(pieces.straight_through, value=value) if name.endswith("+") else value


def verl_tis(h: Hyper) -> Call:
    """Return reinforce weighted against old_logp as the sampler: a number, or "low_high"."""
    from beyond.losses.weights import sequence_weights, token_weights

    level = pick({"token": token_weights, "sequence": sequence_weights}, h["rollout_is"],
                 "rollout_is")
    *low, cap = (float(part) for part in str(h["threshold"]).split("_"))

    def call(logp, old_logp, ref_logp, adv, mask):
        return tis(logp, logp, ref_logp, adv, mask, beta=0.0, sampler_logp=old_logp, cap=cap,
                   low=low[0] if low else None, level=level, loss=losses.reinforce)

    return call


def torchforge(variant: str, h: Hyper) -> Call:
    """torchforge: clip_low, clip_high, beta, dual_clip_c, agg_type; its k3 clamps d to +-10."""
    low, high, beta = h.get("clip_low", 0.2), h.get("clip_high", 0.2), h.get("beta", 0.0)
    kl = partial(pieces.k3, d_clip=10.0)
    if variant == "reinforce":
        return bind(losses.torchforge_reinforce if h.get("is_clamp") == [0.1, 10.0] else
                    partial(losses.reinforce, is_clamp=h.get("is_clamp")), low)
    if variant == "grpo_on_policy":
        return bind(losses.simple_grpo, low, beta)
    if variant == "cispo":
        return bind(losses.cispo, low, beta, ratio_floor=1 - low, ratio_cap=1 + high, kl=kl)
    if variant == "sapo":
        return bind(losses.sapo, low, beta, tau_pos=h["tau_pos"], tau_neg=h["tau_neg"], kl=kl)
    if variant == "gspo":
        return bind(losses.gspo, low, beta, clip_high=high, kl=kl)
    named = {("fixed_horizon", False): losses.dr_grpo, ("sequence_mean", False): losses.grpo,
             ("token_mean", False): losses.dapo,
             ("token_mean", True): partial(losses.dual_clip, c=h.get("dual_clip_c"))}
    pair = h.get("agg_type"), h.get("dual_clip_c") is not None
    return bind(pick(named, pair, "agg_type, dual clip"), low, beta, clip_high=high, kl=kl)


def titanrl(variant: str, h: Hyper) -> Call:
    """TitanRL: a token mean, exponents clamped to +-10."""
    return bind(losses.dapo, h["ratio_clip_low"], clip_high=h["ratio_clip_high"],
                log_ratio_clip=10.0)


def openrlhf(variant: str, h: Hyper) -> Call:
    """OpenRLHF: token mean or mean over the rows that have a token; exponents clamped to +-20."""
    low, high = h["clip_eps_low"], h["clip_eps_high"]
    if h.get("policy_loss_type") == "gspo":
        return per_nonempty_row(bind(losses.gspo, low, clip_high=high))
    common = {"clip_high": high, "log_ratio_clip": 20.0}
    if h.get("token_level_loss", True):
        return bind(losses.dapo, low, **common)
    return per_nonempty_row(bind(losses.grpo, low, **common))


def tensor(values: Any) -> Tensor:
    """Return a float64 tensor; a record's "nan" and "inf" are strings."""
    def number(x: Any) -> Any:
        return [number(y) for y in x] if isinstance(x, list) else float(x)

    return torch.tensor(number(values), dtype=torch.float64)
