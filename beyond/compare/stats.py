"""What beyond.compare says about its runs: the table, the differences to grpo, the papers' claims.

All differences are paired: seed by seed, the same batches. The interval is a paired bootstrap over
the seeds; the p-value is that of the exact sign-flip test (if the variant made no difference, each
seed's difference could as well have had the other sign). With 10 pairs a percentile bootstrap
alone calls 10 of 100 differences significant where there is none, not 5; the sign-flip test
keeps its level (beyond/tests/compare/test_compare.py). Holm's correction counts all
comparisons of a column.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

BASE = "grpo"
LEVEL = 0.05
RESAMPLES = 10_000
LAST = 3  # evaluations that "end" is the mean of
MAX_EXACT = 14  # pairs; with more, sign flips are drawn at random

# The columns of the table: (key of summary, heading, digits, is it compared with grpo)
COLUMNS = (
    ("sampled", "sampled", 3, True),
    ("greedy", "greedy", 3, True),
    ("pass@1", "pass@1", 3, False),
    ("pass@4", "pass@4", 3, False),
    ("pass@8", "pass@8", 3, True),
    ("area", "area", 3, True),
    ("entropy", "entropy", 3, True),
    ("kl", "KL", 3, True),
    ("length", "length", 2, True),
    ("train_clip_frac", "clipped", 4, False),
    ("seconds", "seconds", 1, False),
)


class Claim(NamedTuple):
    """What a paper says of a variant, as a comparison that can fail."""

    task: str
    variant: str
    base: str
    key: str  # of summary
    sign: int  # +1: the claim is that the variant has more of it
    text: str


CLAIMS = (
    Claim("long", "dr_grpo", "grpo_beta0", "wrong_all", -1,
          "Dr. GRPO: wrong responses are shorter than with a mean per response"),
    Claim("long", "dr_grpo", "grpo_beta0", "length", -1,
          "Dr. GRPO: responses end shorter"),
    Claim("long", "bnpo", "grpo_beta0", "wrong_all", -1,
          "token mean (DAPO; TRL's bnpo): wrong responses are shorter than with a mean "
          "per response"),
    Claim("long", "dapo", "bnpo", "entropy", +1,
          "DAPO's clip-higher: entropy stays higher (0.28 against 0.2)"),
    Claim("short", "dapo", "bnpo", "entropy", +1,
          "DAPO's clip-higher, on the short task: entropy stays higher"),
    Claim("long", "dapo_overlong", "dapo", "cut_all", -1,
          "DAPO's overlong shaping: fewer responses are cut off"),
    Claim("long", "dapo_overlong", "dapo", "sampled", +1,
          "DAPO's overlong shaping: and accuracy is better"),
    Claim("long", "grpo", "grpo_beta0", "entropy", +1,
          "the KL term keeps entropy up (0.04 against 0)"),
    Claim("long", "cispo", "dapo", "area", +1, "CISPO: learns faster than DAPO"),
    Claim("long", "gspo", "grpo_beta0", "area", +1, "GSPO: learns faster than GRPO"),
    Claim("hack", "grpo_beta0", "grpo_beta0@long", "gap_end", +1,
          "a reward that accepts the answer anywhere is hacked: rewarded and right part ways"),
    Claim("hack", "grpo_beta0", "grpo_beta0@long", "length", +1,
          "and the hack shows in the length"),
)  # fmt: skip

# ============================================================== one run, in numbers


def column(run: dict, key: str) -> list[float]:
    """Return one measure over the evaluations of a run; NaN where there was nothing to measure."""
    return [np.nan if row.get(key) is None else row[key] for row in run["evaluations"]]


def mean_of(values: Sequence[float]) -> float:
    """Return the mean without NaN; NaN if nothing is left."""
    real = [v for v in values if v == v]
    return sum(real) / len(real) if real else float("nan")


def summary(run: dict) -> dict[str, float]:
    """Return a run's numbers: name -> mean of the last evaluations, and a few of the whole run.

    area: under the curve of sampled accuracy, divided by the number of iterations.
    wrong_all, cut_all: length of wrong responses and share of cut-off ones, mean over all
    evaluations but the first. gap_end: answer found anywhere minus answer at the end.
    """
    keys = [key for key in run["evaluations"][-1] if key != "iter"]
    told = {key: mean_of(column(run, key)[-LAST:]) for key in keys}
    x, y = column(run, "iter"), column(run, "sampled")
    told["area"] = float(np.trapezoid(y, x)) / x[-1] if x[-1] else y[-1]
    told["wrong_all"] = mean_of(column(run, "length_wrong")[1:])
    told["cut_all"] = mean_of(column(run, "cut")[1:])
    if "anywhere" in told:
        told["gap_end"] = told["anywhere"] - told["sampled"]
    return told | {key: value for key, value in run["done"].items() if key != "failed"}


# ============================================================== statistics


def bootstrap(differences: Sequence[float], level: float = LEVEL,
              seed: int = 0) -> tuple[float, float]:
    """Return the (low, high) ends of the percentile bootstrap interval of the mean.

    Args:
        differences: n numbers, one for each seed, 1 or more.
        level: share of the draws outside of the interval, above 0 and below 1.
        seed: of the draws.
    """
    d = np.asarray(differences)
    draws = np.random.default_rng(seed).integers(len(d), size=(RESAMPLES, len(d)))
    low, high = np.quantile(d[draws].mean(1), [level / 2, 1 - level / 2])
    return float(low), float(high)


def sign_flip(differences: Sequence[float], seed: int = 0) -> float:
    """Return the two-sided p-value of the sign-flip test of "the mean difference is 0".

    Exact, over all 2^n signs, for up to MAX_EXACT differences; else over RESAMPLES random ones.
    The smallest value that n pairs can give is 2 / 2^n: 0.0625 for 5, 0.002 for 10.
    """
    d = np.asarray(differences)
    if len(d) <= MAX_EXACT:
        signs = np.array(list(itertools.product((1.0, -1.0), repeat=len(d))))
        extra = 0
    else:
        rng = random.Random(seed)
        signs = np.array([[rng.choice((1.0, -1.0)) for _ in d] for _ in range(RESAMPLES)])
        extra = 1  # the signs as they are
    means = np.abs(signs @ d)
    hits = int((means >= abs(d.sum()) - 1e-12 * np.abs(d).sum()).sum())
    return (hits + extra) / (len(signs) + extra)


def holm(p_values: Sequence[float]) -> list[float]:
    """Return Holm's adjusted p-values, in the order given."""
    order = sorted(range(len(p_values)), key=lambda i: p_values[i])
    adjusted, highest = [0.0] * len(p_values), 0.0
    for rank, i in enumerate(order):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted


@dataclass
class Difference:
    """A variant's mean difference to its base in one measure, over the seeds both have."""

    mean: float
    low: float
    high: float
    p: float
    n: int
    adjusted: float = 1.0  # set by the caller, who knows how many comparisons there are
    comparisons: int = 1

    @property
    def significant(self) -> bool:
        """Whether it holds at LEVEL with all comparisons counted."""
        return self.adjusted < LEVEL

    def text(self, digits: int = 3) -> str:
        """Return "+0.012 [+0.004, +0.019] p 0.021 *"; the star says significant."""
        ends = f"[{self.low:+.{digits}f}, {self.high:+.{digits}f}]"
        star = " *" if self.significant else ""
        return f"{self.mean:+.{digits}f} {ends} p {self.adjusted:.3f}{star}"


def difference(ours: dict[int, float], base: dict[int, float]) -> Difference | None:
    """Return the paired difference of two dicts from seed to value; None without two pairs."""
    d = [ours[s] - base[s] for s in sorted(ours.keys() & base.keys())]
    d = [x for x in d if x == x]
    if len(d) < 2:
        return None
    low, high = bootstrap(d)
    return Difference(sum(d) / len(d), low, high, sign_flip(d), len(d))


def adjust(found: Sequence[Difference | None]) -> None:
    """Correct the differences for their number, in place."""
    real = [d for d in found if d is not None]
    for d, p in zip(real, holm([d.p for d in real])):
        d.adjusted, d.comparisons = p, len(real)


# ============================================================== all runs

Summaries = dict[str, dict[int, dict[str, float]]]  # variant -> seed -> summary


def summaries(runs: Sequence[dict]) -> Summaries:
    """Return the summaries of the finished runs; a failed one (NaN) has no place among them."""
    found: Summaries = {}
    for run in runs:
        here = found.setdefault(run["variant"], {})
        if "failed" not in run["done"]:
            here[run["seed"]] = summary(run)
    return found


def values(found: Summaries, variant: str, key: str) -> dict[int, float]:
    """Return one measure of a variant, seed by seed.

    Args:
        found: of summaries.
        variant: its name.
        key: of summary.
    """
    return {seed: told[key] for seed, told in found.get(variant, {}).items() if key in told}


def compared(found: Summaries, key: str, base: str = BASE) -> dict[str, Difference | None]:
    """Return every variant's difference to the base in one measure, corrected for their number.

    Args:
        found: of summaries.
        key: of summary.
        base: the variant that the others are compared with.
    """
    others = [name for name in found if name != base]
    result = {v: difference(values(found, v, key), values(found, base, key)) for v in others}
    adjust(list(result.values()))
    return result


def claims(by_task: dict[str, Summaries]) -> list[tuple[Claim, Difference]]:
    """Return the claims that the runs can speak to, with what was found."""
    result = []
    for claim in CLAIMS:
        base, _, task = claim.base.partition("@")
        ours = values(by_task.get(claim.task, {}), claim.variant, claim.key)
        theirs = values(by_task.get(task or claim.task, {}), base, claim.key)
        found = difference(ours, theirs)
        if found:
            result.append((claim, found))
    adjust([found for _, found in result])
    return result


def verdict(claim: Claim, found: Difference) -> str:
    """Return what the runs say of a claim, in words."""
    if not found.significant:
        return "does not show"
    return "shows" if found.mean * claim.sign > 0 else "the opposite shows"
