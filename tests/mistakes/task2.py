"""The known mistakes of Task 2: what a message says, and which stage of the task each replaces.

A text must be true of every way to make the mistake, and must not contain the right code.
"""

from ..spec.nested import flat, values
from .arithmetic import div, mean, root, std

TEXTS = {
    # how the groups are cut
    "swapped_cut": (
        "the rewards were cut into G rows of P numbers; there are P groups, and each of them has "
        "G rewards that stand next to each other."
    ),
    "strided_cut": (
        "every P-th reward was put into one group; the G rewards of a group stand next to each "
        "other."
    ),
    "fixed_size": "these are groups of a fixed size; the argument G is ignored.",
    "order": "right numbers, wrong order: result i must belong to reward i.",
    "shape": "the result is still in groups; it must be flat again, one number for each reward.",
    # mean and std
    "sample_std": (
        "these are the numbers with the sample std (divide by G-1, torch's default); this lab "
        "uses the population std (divide by G)."
    ),
    "batch_std": "the std is taken over the whole batch; it must be each group's own.",
    "batch_mean": "the mean is taken over the whole batch; it must be each group's own.",
    "batch_stats": "mean and std are taken over the whole batch; they must be each group's own.",
    "columns": (
        "mean or std was taken over dim 0, that is across the prompts; the rewards of one prompt "
        "are a row of the (P, G) matrix."
    ),
    "keepdim": (
        "a (P,) tensor of group means or stds was combined with the (P, G) rewards: it runs along "
        "the wrong axis, or does not fit. Its shape should be (P, 1)."
    ),
    "tiled": (
        "the groups' means or stds are in the order a b c a b c ...; each must line up with the "
        "rewards of its own group: a a ... b b ... c c ..."
    ),
    "not_centred": "the group mean is not subtracted from the rewards.",
    "raw_rewards": "these are the rewards themselves.",
    "sign": "every sign is reversed: a response above the group's mean has a positive advantage.",
    "abs": "all signs are gone: a response below the group's mean has a negative advantage.",
    "mean_added": "the group mean was added; it must be subtracted.",
    "leave_one_out": "a reward counts in its own group's mean, too (not a leave-one-out mean).",
    "sum": "the sum of the group was subtracted, not its mean.",
    "median": "the median of the group was subtracted, not its mean.",
    "best_or_worst": "the group's largest or smallest reward was subtracted, not its mean.",
    "variance": "these are the numbers with the variance; the std is its root.",
    "other_spread": (
        "the centred rewards are divided by some other measure of spread; the population std is "
        "the root of the mean squared distance from the group's mean."
    ),
    "divides_by_mean": "the centred rewards are divided by the group's mean, not by its std.",
    "multiplies": "the centred rewards are multiplied by the std; they must be divided by it.",
    "twice": "the result was normalised a second time, over the whole batch.",
    "zeros": "every number is 0, whatever the rewards are.",
    "factor": "every number is off by the same factor of 2.",
    "clamped": "the result was clamped to a range; nothing in the formula does that.",
    "cancellation": (
        "right for small rewards, wrong for rewards near 1000: a difference of two large squares "
        "loses its digits in float32. Subtract the mean before you square."
    ),
    "g1": "a group of one has mean = reward and std = 0, so its advantage is 0.",
    "whole_numbers": (
        "the rewards were turned into whole numbers, or into 0 and 1; rewards may be fractions."
    ),
    "part_of_group": (
        "mean or std comes from a part of the group only: check where the slice ends."
    ),
    "last_group": "the last group is missing, its results are 0: check where the loop ends.",
    "equal_groups": (
        "in a group with equal rewards, the mean was not subtracted; its advantages are 0."
    ),
    # eps
    "no_eps": "eps is missing: the std of a group with equal rewards is 0, and 0/0 is NaN.",
    "eps_ignored": "the argument eps is ignored: another number is added to the std.",
    "eps_in_root": "eps was added under the root, to the variance; it is added to the std.",
    "eps_floor": "eps was used as a lower bound for the std; it is added to the std.",
    "eps_only_equal": (
        "eps plays no part for groups with unequal rewards; it is added to the std of every group."
    ),
    "eps_sign": "eps was subtracted from the std; it is added.",
    "eps_weight": "eps itself is added to the std, not a multiple or a power of it.",
    "eps_times": "the std was multiplied by eps; eps is added to it.",
    "eps_alone": "the centred rewards are divided by eps alone; the std is missing.",
    "eps_elsewhere": "eps is used in a second place, too; it is added to the std and nowhere else.",
    "eps_outside": (
        "eps was not added to the std: it is outside the divisor. Check the parentheses."
    ),
    "parentheses": (
        "the division comes before the subtraction. Check the parentheses: subtract the mean "
        "first, then divide the difference."
    ),
    # arguments
    "always_scaled": "scale_std is ignored: with False, only the group mean is subtracted.",
    "never_scaled": "scale_std is ignored: with True, the result is divided by the std (plus eps).",
    "scale_reversed": "scale_std is reversed: True means divide by the std, False do not.",
    "unscaled_divided": "with scale_std=False nothing is divided, not even by eps.",
    "in_place": "the call changed the rewards it was given; work on a copy.",
    "device": "the result is not on the device of the rewards; stay on the input's device.",
    "defaults": (
        "right when all arguments are given, wrong with the defaults: scale_std=True and eps=1e-4 "
        "are the defaults of the docstring's signature."
    ),
    "positions": (
        "right when the arguments are given by name, wrong by position: keep their order as in "
        "the docstring's signature."
    ),
}

# ---------------------------------------------------------------- the specification in stages


def _contiguous(n, G):
    return [list(range(start, start + G)) for start in range(0, n, G)]


# Stage arguments: group = the rewards of the group, r = all rewards, k = position in the group,
# i = position in r.
RIGHT = {
    "input": lambda x: x,
    "cut": _contiguous,
    "base": lambda group, r, k, i: mean(group),
    "spread": lambda group, r, k, i: std(group),
    "scaled": lambda x, base, spread, eps: div(x - base, spread + eps),
    "unscaled": lambda x, base, spread, eps: x - base,
    "finish": lambda result, r, G: result,
}


def run(stages, probe, key="value"):
    """Return group-relative advantages, computed with some stages replaced.

    Args:
        stages: {name: function} that replace those of RIGHT.
        probe: the function's arguments.
        key: "value".
    """
    rewards, G, scale_std, eps = probe
    s = {**RIGHT, **stages}
    rewards = [s["input"](x) for x in rewards]
    result = [0.0] * len(rewards)
    for rows in s["cut"](len(rewards), G):
        group = [rewards[i] for i in rows]
        for k, i in enumerate(rows):
            base = s["base"](group, rewards, k, i)
            # As in real code, the std is not looked at where it is not needed.
            spread = s["spread"](group, rewards, k, i) if scale_std or "unscaled" in stages else 0
            last = s["scaled"] if scale_std else s["unscaled"]
            result[i] = last(rewards[i], base, spread, eps)
    return s["finish"](result, rewards, G)


# ---------------------------------------------------------------- stages of the mistakes


def _swapped(n, G):  # G rows of P instead of P rows of G
    return _contiguous(n, n // G)


def _strided(n, G):
    return [list(range(start, n, n // G)) for start in range(n // G)]


def _fixed_size(size):
    def cut(n, G):
        if n % size:
            raise ValueError("does not divide")
        return _contiguous(n, size)

    return cut


def _column(group, r, k):
    return r[k :: len(group)]


def _row_k(group, r, k):
    """Return the rewards of group k; (P, G) with (P,) is only possible for P == G or P == 1."""
    G = len(group)
    if len(r) == G:
        return group
    if len(r) != G * G:
        raise ValueError("shapes do not fit")
    return r[k * G : k * G + G]


def _tiled(function):
    """Lay the groups' numbers out as a b c a b c ... instead of a a ... b b ... c c ..."""

    def stage(group, r, k, i):
        G = len(group)
        start = i % (len(r) // G) * G
        return function(r[start : start + G])

    return stage


def _centred(group, r):
    G = len(group)
    groups = [r[start : start + G] for start in range(0, len(r), G)]
    return [x - mean(g) for g in groups for x in g]


def _mean_abs(group, r, k, i):
    return mean([abs(x - mean(group)) for x in group])


def _median(group, r, k, i):
    return sorted(group)[(len(group) - 1) // 2]  # torch.median: the lower one


def _rows(result, r, G):
    return [result[start : start + G] for start in range(0, len(r), G)]


def _strided_rows(result, r, G):
    return [result[i] for rows in _strided(len(r), G) for i in rows]


def _by_position(result, r, G):
    return [x for k in range(G) for x in result[k::G]]


def clamped_at(yours):
    """Return the mistake of a clamp at the largest number that came back, whatever that is.

    Args:
        yours: dict name -> outcome of the student's function, or None if the call raised.
    """
    outcomes = [mine["value"] for mine in yours.values() if mine]
    numbers = [x for value in outcomes for x in flat(values(value)) if isinstance(x, float)]
    size = max(map(abs, numbers), default=0.0)
    return [("task2.clamped", {"finish": _clamped(size)})] if size > 0 else []


def _clamped(size):
    return lambda result, r, G: [min(max(x, -size), size) for x in result]


def _again(less):
    def finish(result, r, G):
        return [div(x - mean(result), std(result, less) + 1e-4) for x in result]

    return finish


def _formula_eps(function):
    """Change the difference that is divided, whatever scale_std is."""
    return {
        "scaled": lambda x, base, spread, eps: div(function(x, base, eps), spread + eps),
        "unscaled": lambda x, base, spread, eps: function(x, base, eps),
    }


def _divisor(function):
    """Divide by function(std, eps) instead of std + eps."""
    return {"scaled": lambda x, base, spread, eps: div(x - base, function(spread, eps))}


def _spread(function):
    return {"spread": lambda group, r, k, i: function(group, r, k)}


def _base(function):
    return {"base": lambda group, r, k, i: function(group, r, k)}


def _whole(n, G):
    return [list(range(n))]


_FIXED_EPS = (1.0, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6, 1e-7, 1e-8)
_COLUMN_BASE = _base(lambda g, r, k: mean(_column(g, r, k)))
_COLUMN_SPREAD = _spread(lambda g, r, k: std(_column(g, r, k)))
_ROW_K_BASE = _base(lambda g, r, k: mean(_row_k(g, r, k)))
_ROW_K_SPREAD = _spread(lambda g, r, k: std(_row_k(g, r, k)))

# An id may stand for several ways of making the same mistake.
TABLE = [
    ("task2.sample_std", _spread(lambda g, r, k: std(g, 1))),
    ("task2.batch_std", _spread(lambda g, r, k: std(r))),
    ("task2.batch_std", _spread(lambda g, r, k: std(r, 1))),
    ("task2.batch_std", _spread(lambda g, r, k: std(_centred(g, r)))),
    ("task2.batch_std", _spread(lambda g, r, k: std(_centred(g, r), 1))),
    ("task2.batch_mean", _base(lambda g, r, k: mean(r))),
    ("task2.batch_stats", {"cut": _whole}),
    ("task2.batch_stats", {"cut": _whole, **_spread(lambda g, r, k: std(r, 1))}),
    ("task2.columns", _COLUMN_BASE),
    ("task2.columns", _COLUMN_SPREAD),
    ("task2.columns", _COLUMN_BASE | _COLUMN_SPREAD),
    ("task2.keepdim", _ROW_K_BASE),
    ("task2.keepdim", _ROW_K_SPREAD),
    ("task2.keepdim", _ROW_K_BASE | _ROW_K_SPREAD),
    ("task2.tiled", {"base": _tiled(mean)}),
    ("task2.tiled", {"spread": _tiled(std)}),
    ("task2.tiled", {"base": _tiled(mean), "spread": _tiled(std)}),
    ("task2.swapped_cut", {"cut": _swapped}),
    ("task2.strided_cut", {"cut": _strided}),
    ("task2.strided_cut", {"cut": _strided, "finish": _strided_rows}),
    *[("task2.fixed_size", {"cut": _fixed_size(size)}) for size in (2, 4, 8)],
    ("task2.order", {"finish": _by_position}),
    ("task2.shape", {"finish": _rows}),
    ("task2.sign", {"finish": lambda result, r, G: [-x for x in result]}),
    ("task2.abs", {"finish": lambda result, r, G: [abs(x) for x in result]}),
    ("task2.zeros", {"finish": lambda result, r, G: [0.0 for x in result]}),
    ("task2.factor", {"finish": lambda result, r, G: [x * 2 for x in result]}),
    ("task2.factor", {"finish": lambda result, r, G: [x / 2 for x in result]}),
    ("task2.twice", {"finish": _again(0)}),
    ("task2.twice", {"finish": _again(1)}),
    ("task2.raw_rewards", {"finish": lambda result, r, G: list(r)}),
    ("task2.not_centred", _base(lambda g, r, k: 0.0)),
    ("task2.not_centred", {"scaled": lambda x, b, s, e: div(x, s + e)}),
    ("task2.not_centred", {"unscaled": lambda x, b, s, e: x}),
    ("task2.mean_added", _base(lambda g, r, k: -mean(g))),
    ("task2.part_of_group", _base(lambda g, r, k: mean(g[:-1] or g))),
    ("task2.part_of_group", _base(lambda g, r, k: mean(g[1:] or g))),
    ("task2.part_of_group", _spread(lambda g, r, k: std(g[:-1] or g))),
    ("task2.part_of_group", _spread(lambda g, r, k: std(g[1:] or g))),
    *[("task2.part_of_group", {**_base(lambda g, r, k, cut=cut: mean(g[cut] or g)),
                               **_spread(lambda g, r, k, cut=cut: std(g[cut] or g))})
      for cut in (slice(-1), slice(1, None))],
    ("task2.last_group", {"finish": lambda result, r, G: result[:-G] + [0.0] * G}),
    ("task2.equal_groups", _base(lambda g, r, k: mean(g) if min(g) < max(g) else 0.0)),
    ("task2.equal_groups", {
        **_base(lambda g, r, k: mean(g) if min(g) < max(g) else 0.0),
        "scaled": lambda x, b, s, e: div(x - b, s + e) if s else x - b,
    }),
    ("task2.whole_numbers", {"input": lambda x: float(int(x))}),
    ("task2.whole_numbers", {"input": lambda x: float(x > 0)}),
    ("task2.whole_numbers", {"input": lambda x: float(x != 0)}),
    ("task2.whole_numbers", {"input": lambda x: float(x == 1)}),
    ("task2.whole_numbers", {"input": lambda x: float(round(x))}),
    ("task2.leave_one_out", {"base": lambda g, r, k, i: mean(g[:k] + g[k + 1 :])}),
    ("task2.sum", _base(lambda g, r, k: sum(g))),
    ("task2.median", {"base": _median}),
    ("task2.best_or_worst", _base(lambda g, r, k: max(g))),
    ("task2.best_or_worst", _base(lambda g, r, k: min(g))),
    ("task2.variance", _divisor(lambda s, e: s * s + e)),
    ("task2.variance", {**_divisor(lambda s, e: s * s + e), **_spread(lambda g, r, k: std(g, 1))}),
    ("task2.other_spread", {"spread": _mean_abs}),
    ("task2.other_spread", _spread(lambda g, r, k: max(abs(x - mean(g)) for x in g))),
    ("task2.other_spread", _spread(lambda g, r, k: max(g))),
    ("task2.other_spread", _spread(lambda g, r, k: sum(abs(x - mean(g)) for x in g))),
    ("task2.other_spread", _spread(lambda g, r, k: max(g) - min(g))),
    ("task2.other_spread", _spread(lambda g, r, k: root(sum((x - mean(g)) ** 2 for x in g)))),
    ("task2.other_spread", _spread(lambda g, r, k: root(mean([x * x for x in g])))),
    ("task2.other_spread", _spread(lambda g, r, k: root(sum(x * x for x in g)))),
    ("task2.other_spread", _spread(lambda g, r, k: std(g) / root(len(g)))),
    ("task2.divides_by_mean", _spread(lambda g, r, k: mean(g))),
    ("task2.multiplies", {"scaled": lambda x, b, s, e: (x - b) * (s + e)}),
    ("task2.no_eps", _divisor(lambda s, e: s)),
    *[("task2.eps_ignored", _divisor(lambda s, e, size=size: s + size)) for size in _FIXED_EPS],
    ("task2.eps_in_root", _divisor(lambda s, e: root(s * s + e))),
    ("task2.eps_in_root", _divisor(lambda s, e: root(s * s + e * e))),
    ("task2.eps_floor", _divisor(max)),
    ("task2.eps_only_equal", _divisor(lambda s, e: s if s > 0 else 1.0)),
    ("task2.eps_sign", _divisor(lambda s, e: s - e)),
    ("task2.eps_weight", _divisor(lambda s, e: s + e / 2)),
    ("task2.eps_weight", _divisor(lambda s, e: s + e * 2)),
    ("task2.eps_weight", _divisor(lambda s, e: s + e * e)),
    ("task2.eps_times", _divisor(lambda s, e: s * e)),
    ("task2.eps_alone", _divisor(lambda s, e: e)),
    ("task2.eps_outside", {"scaled": lambda x, b, s, e: div(x - b, s) + e}),
    ("task2.eps_outside", {"scaled": lambda x, b, s, e: div(x - b + e, s)}),
    ("task2.eps_elsewhere", {"scaled": lambda x, b, s, e: div(x - b, s + e) + e}),
    ("task2.eps_elsewhere", {"scaled": lambda x, b, s, e: div(x - b + e, s + e)}),
    ("task2.eps_elsewhere", _formula_eps(lambda x, b, e: x - b + e)),
    ("task2.eps_elsewhere", _formula_eps(lambda x, b, e: x - b - e)),
    ("task2.parentheses", {"scaled": lambda x, b, s, e: x - div(b, s + e)}),
    ("task2.parentheses", {"scaled": lambda x, b, s, e: div(x, s + e) - b}),
    ("task2.always_scaled", {"unscaled": RIGHT["scaled"]}),
    ("task2.never_scaled", {"scaled": RIGHT["unscaled"]}),
    ("task2.scale_reversed", {"scaled": RIGHT["unscaled"], "unscaled": RIGHT["scaled"]}),
    ("task2.unscaled_divided", {"unscaled": lambda x, b, s, e: div(x - b, e)}),
    ("task2.unscaled_divided", {"unscaled": lambda x, b, s, e: div(x - b, 1 + e)}),
]
