"""What the name of a loss means: one table with function, advantage, clip range and beta.

A variant is a loss, an advantage, a KL estimator and its numbers. To add one, write the function
(or take one from beyond.losses) and add a line to VARIANTS. Every command trains these rows: for
beyond.compare, beyond.launch.tiny, train_hf, the services and TRL's adapter "dr_grpo" is the same
algorithm. Settings given by hand override the row. Nothing here imports torch before a function is
needed, so a misspelled name is reported at once.

The settings follow the papers, rescaled where this task needs it; `note` says so. Adam
divides the scale of a loss out, so a constant in front of it (Dr. GRPO's 1 / L, SAPO's 4 / tau)
needs no learning rate of its own; only the KL term's weight relative to the rest would notice, and
where the constant matters beta is 0.
"""

import sys
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from inspect import signature
from types import ModuleType
from typing import Any

from beyond.settings import nearest

# The names of LOSSES that have no row of their own, of ADVANTAGES, and of KL_ESTIMATORS.
OTHERS = ("dual_clip", "gspo_token", "luspo", "vespo", "torchforge_reinforce", "simple_grpo",
          "guide_custom")
ADVANTAGE_NAMES = ("group", "mean_only", "sample_std", "batch_std", "leave_one_out", "whitened")
KL_NAMES = ("k1", "k2", "k3", "k3_is", "k_abs")


def own_settings(loss: Callable) -> dict[str, Any]:
    """Return a loss's own default clip_eps, beta and clip_high, or those of grpo_loss."""
    known = signature(loss).parameters
    found: dict[str, Any] = {"clip_eps": 0.2, "beta": 0.04, "clip_high": None}
    for name in found.keys() & known.keys():
        if isinstance(value := known[name].default, (int, float)):
            found[name] = float(value)
    return found


def bound(loss: Callable, extras: dict[str, Any]) -> Callable:
    """Return a loss with the extras that it accepts bound; itself if it accepts none."""
    taken = {k: v for k, v in extras.items() if k in signature(loss).parameters}
    return partial(loss, **taken) if taken else loss


@dataclass(frozen=True)
class Variant:
    """One row of the table."""

    name: str
    loss: str  # a name of losses.LOSSES
    advantage: str = "group"  # a name of advantages.ADVANTAGES
    kl: str = "k3"  # a name of losses.KL_ESTIMATORS
    clip_eps: float = 0.2
    beta: float = 0.0
    extras: dict = field(default_factory=dict)  # the loss's own keywords
    overlong: bool = False  # add shaping.overlong_penalty to the reward
    refill: bool = False  # dynamic sampling: replace groups without signal
    note: str = ""


VARIANTS = {
    v.name: v
    for v in (
        Variant("grpo", "grpo", beta=0.04,
                note="the lab's own functions and defaults; all others are compared with it"),
        Variant("grpo_beta0", "grpo",
                note="grpo without KL term, like most below: tells their loss from their beta"),
        Variant("dr_grpo", "dr_grpo", "mean_only",
                note="L = the task's budget; no division by the std; beta 0 as in the paper"),
        Variant("bnpo", "bnpo",
                note="token mean over the batch, clip 0.2/0.2: dapo without clip-higher"),
        Variant("dapo", "dapo", extras={"clip_high": 0.28},
                note="token mean over the batch as in the libraries, clip 0.2/0.28"),
        Variant("dapo_group", "dapo_group", extras={"clip_high": 0.28},
                note="dapo with the paper's aggregation: token mean per group"),
        Variant("dapo_overlong", "dapo", extras={"clip_high": 0.28}, overlong=True,
                note="dapo with overlong reward shaping (L_max = budget)"),
        Variant("dapo_full", "dapo_group", extras={"clip_high": 0.28}, overlong=True, refill=True,
                note="all four parts of the paper: also dynamic sampling (up to 3 draws)"),
        Variant("cispo", "cispo", extras={"ratio_cap": 5.0},
                note="ratio capped at 5 (ScaleRL's and TRL's advice), lower bound open"),
        Variant("gspo", "gspo", clip_eps=0.06, extras={"clip_high": 0.08},
                note="range widened from the paper's 3e-4/4e-4 (responses of 1000s of tokens): the "
                     "log of a mean of n token ratios shrinks like 1/sqrt(n), 0.2/sqrt(12) = 0.06"),
        Variant("gspo_paper", "gspo", clip_eps=3e-4, extras={"clip_high": 4e-4},
                note="the paper's numbers as they are"),
        Variant("sapo", "sapo", extras={"tau_pos": 1.0, "tau_neg": 1.05},
                note="the paper's taus"),
        Variant("gmpo", "gmpo", clip_eps=0.4, note="clip of 0.4 in the exponent, as in the paper"),
        Variant("rloo", "rloo", "leave_one_out", note="PPO clip 0.2 on the ratio of the response"),
        Variant("reinforce", "reinforce", "whitened",
                note="no ratio and no clip, though there is more than one inner step"),
        Variant("reinforce_pp", "reinforce_pp", "whitened",
                note="advantages whitened over the batch, PPO clip"),
        Variant("two_sided", "two_sided", beta=0.04, extras={"ratio_ceiling": 4.0},
                note="grpo with the ratio bounded at 4 where A < 0"),
    )
}


NAMES = (*VARIANTS, *OTHERS)


def variant_of(name: str) -> Variant:
    """Return the Variant that a loss's name means.

    Raises:
        ValueError: an unknown name, with the nearest one.
    """
    if name not in NAMES:
        raise ValueError(f"loss = {name!r} is unknown{nearest(name, ['lab', *NAMES])}")
    return VARIANTS.get(name) or _default(name)


def check(name: str) -> None:
    """Raise a ValueError for an unknown loss, or one that also changes rewards or batches."""
    if name in OTHERS:
        return
    v = variant_of(name)
    if v.overlong or v.refill:
        raise ValueError(f"loss = {name!r} changes rewards or batches, which only beyond.compare "
                         f"does; here take {v.loss}")


def own(name: str) -> dict[str, Any]:
    """Return the settings that a loss's name implies, under train_hf's names.

    They are clip_epsilon, clip_high (None: as clip_epsilon), kl_beta, adv and kl. The group's
    advantages are the lab file's own, as in beyond.compare: adv "lab".

    Raises:
        ValueError: an unknown name, or one that also changes rewards or batches.
    """
    check(name)
    v = variant_of(name)
    high = v.extras.get("clip_high")
    if high is None and name not in VARIANTS:
        high = own_settings(function_of(v.loss))["clip_high"]
    adv = "lab" if v.advantage == "group" else v.advantage
    return {"clip_epsilon": v.clip_eps, "clip_high": high, "kl_beta": v.beta, "adv": adv,
            "kl": v.kl}


def extras_of(name: str) -> dict[str, Any]:
    """Return the keywords of a loss that are no settings: caps, taus and the like."""
    return {k: v for k, v in variant_of(name).extras.items() if k != "clip_high"}


def function_of(loss: str) -> Callable:
    """Return the function of a name of losses.LOSSES."""
    from beyond.losses import LOSSES

    return LOSSES[loss]


def described(loss: str, settings: Any) -> str:
    """Describe a loss's training settings in one line.

    Args:
        loss: its name.
        settings: an object with adv, clip_epsilon, clip_low, clip_high, kl_beta and kl.
    """
    s = settings
    low = s.clip_epsilon if s.clip_low is None else s.clip_low
    high = s.clip_epsilon if s.clip_high is None else s.clip_high
    clip = f"{low:g}" if low == high else f"{low:g}/{high:g}"
    kl = f"KL {s.kl} x {s.kl_beta:g}" if s.kl_beta else "no KL (kl_beta 0)"
    extras = "" if loss not in NAMES else "".join(
        f", {k} {v:g}" for k, v in extras_of(loss).items())
    return f"loss {loss}: advantages {s.adv}, clip range {clip}{extras}, {kl}"


def known(name: str, names: Collection[str], what: str) -> str:
    """Return the name if it is valid; otherwise exit with a line that names the nearest.

    Args:
        name: as it was given.
        names: all valid names.
        what: the kind of thing they name.
    """
    if name not in names:
        sys.exit(f"no {what} is called {name!r}{nearest(name, names)}")
    return name


def resolve(losses: Sequence[str], advantages: Sequence[str], kls: Sequence[str]) -> list[Variant]:
    """Return the variants asked for: every loss with every advantage and every KL estimator.

    Args:
        losses: names of VARIANTS, or names of losses.LOSSES that have no row there.
        advantages: names of ADVANTAGES; empty: each variant's own.
        kls: names of KL_ESTIMATORS; empty: each variant's own. One that is given switches the
            KL term on, with the lab's beta of 0.04, where the variant has none.
    """
    found: dict[str, Variant] = {}
    for name in dict.fromkeys(losses):
        known(name, NAMES, "variant or loss")
        base = variant_of(name)
        for advantage in advantages or [base.advantage]:
            known(advantage, ADVANTAGE_NAMES, "advantage")
            for kl in kls or [base.kl]:
                known(kl, KL_NAMES, "KL estimator")
                made = base
                if advantage != base.advantage:
                    made = replace(made, advantage=advantage, name=f"{made.name}+{advantage}")
                if kls and (kl != base.kl or not base.beta):
                    made = replace(made, kl=kl, beta=base.beta or 0.04, name=f"{made.name}+{kl}")
                found.setdefault(made.name, made)
    return list(found.values())


def _default(name: str) -> Variant:
    """Return a loss of LOSSES with its own defaults, for one that has no row in VARIANTS."""
    loss = function_of(name)
    defaults, kl = own_settings(loss), signature(loss).parameters.get("kl")
    return Variant(name, name, kl=kl.default.__name__ if kl else "k3",
                   clip_eps=defaults["clip_eps"], beta=defaults["beta"],
                   note="the function's own defaults")


def functions(variant: Variant, lab: ModuleType, budget: int, G: int) -> tuple[Callable, Callable]:
    """Return (loss, advantage) of a variant, with its extras bound.

    grpo and the group advantages are the lab file's own functions, unchanged.

    Args:
        variant: a row of the table.
        lab: a module of load_lab.
        budget: L of losses that take it: tokens of the longest response.
        G: group size.
    """
    from beyond.losses import ADVANTAGES, KL_ESTIMATORS, LOSSES, zoo

    own_kl = variant.kl != "k3"  # the lab's grpo_loss knows k3 only
    loss = (LOSSES if own_kl else zoo(lab))[variant.loss]
    loss = bound(loss, {"L": budget, "G": G} | variant.extras)
    if own_kl:
        loss = partial(loss, kl=KL_ESTIMATORS[variant.kl])
    return loss, {**ADVANTAGES, "group": lab.group_advantages}[variant.advantage]
