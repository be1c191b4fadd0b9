"""The known mistakes of task 4's three statistics."""

import itertools
from math import log

from .suspects import mean
from .suspects_loss import (
    LOSS_TABLE,
    all_mean,
    cells,
    everything,
    lengths,
    over_T,
    per_response,
    real,
    sums,
    token_mean,
)


def _gap(a, b, p):
    return token_mean(cells(lambda x, y: x - y, a, b), p)


def _share(weigh):
    """clip_frac as the mean over real tokens of weigh(rho, unclipped, clipped, A, clip_eps)."""

    def clip_frac(m, p):
        names = ("rho", "un", "cl", "A")
        flags = cells(lambda *numbers: float(weigh(*numbers, p.clip_eps)), *(m[n] for n in names))
        return mean(real(flags, p.mask))

    return {"clip_frac": clip_frac}


def _counted(count):
    def clip_frac(m, p):
        return count(cells(lambda u, c: float(c < u), m["un"], m["cl"]), p)

    return {"clip_frac": clip_frac}


def _kl(function):
    return {"kl": lambda m, p: function(m["k3"], p)}


def _top(function):
    return {"ratio_max": function}


def _ones(p):
    """Return the ratios at padding where the mask was multiplied with log(rho)."""
    return [1.0 for on in everything(p.mask) if not on]


def _logs(m, p):
    return [log(rho) for rho in real(m["rho"], p.mask)]


STATS = [
    ("task4.stat_kl_padding", _kl(all_mean)),
    ("task4.stat_kl_padding", _kl(over_T)),
    ("task4.stat_kl_padding", _kl(lambda k, p: sum(everything(k)) / sum(lengths(p)))),
    ("task4.stat_kl_rows", _kl(per_response)),
    ("task4.stat_kl_sum", _kl(lambda k, p: sum(real(k, p.mask)))),
    ("task4.stat_kl_sum", _kl(lambda k, p: mean(sums(k, p)))),
    ("task4.stat_kl_beta", _kl(lambda k, p: p.beta * token_mean(k, p))),
    ("task4.stat_kl_sign", _kl(lambda k, p: -token_mean(k, p))),
    ("task4.stat_kl_max", _kl(lambda k, p: max(real(k, p.mask)))),
    ("task4.stat_not_k3", _kl(lambda k, p: _gap(p.logp, p.ref_logp, p))),
    ("task4.stat_not_k3", _kl(lambda k, p: _gap(p.ref_logp, p.logp, p))),
    ("task4.stat_kl_old", _kl(lambda k, p: _gap(p.logp, p.old_logp, p))),
    ("task4.stat_kl_old", _kl(lambda k, p: _gap(p.old_logp, p.logp, p))),
    ("task4.stat_clip_outside", _share(lambda rho, un, cl, A, e: abs(rho - 1) > e + 1e-6)),
    ("task4.stat_clip_outside", _share(lambda rho, un, cl, A, e: un != cl)),
    ("task4.stat_clip_reversed", _share(lambda rho, un, cl, A, e: un < cl)),
    ("task4.stat_clip_complement", _share(lambda rho, un, cl, A, e: un <= cl)),
    ("task4.stat_clip_ties", _share(lambda rho, un, cl, A, e: cl <= un)),
    ("task4.stat_clip_one_side", _share(lambda rho, un, cl, A, e: rho > 1 + e + 1e-6)),
    ("task4.stat_clip_one_side", _share(lambda rho, un, cl, A, e: rho < 1 - e - 1e-6)),
    ("task4.stat_clip_one_side", _share(lambda rho, un, cl, A, e: cl < un and A > 0)),
    ("task4.stat_clip_one_side", _share(lambda rho, un, cl, A, e: cl < un and A < 0)),
    ("task4.stat_clip_fixed", _share(lambda rho, un, cl, A, e: (rho - 1) * A > 0.2 * abs(A))),
    ("task4.stat_clip_padding", _counted(all_mean)),
    ("task4.stat_clip_padding", _counted(over_T)),
    ("task4.stat_clip_padding", _counted(lambda c, p: sum(everything(c)) / sum(lengths(p)))),
    ("task4.stat_clip_rows", _counted(per_response)),
    ("task4.stat_clip_count", _counted(lambda c, p: sum(real(c, p.mask)))),
    ("task4.stat_clip_count", _counted(lambda c, p: mean(sums(c, p)))),
    ("task4.stat_clip_percent", _counted(lambda c, p: 100 * token_mean(c, p))),
    ("task4.stat_top_padding", _top(lambda m, p: max(everything(m["rho"])))),
    ("task4.stat_top_padding", _top(lambda m, p: max(real(m["rho"], p.mask) + _ones(p)))),
    ("task4.stat_top_clipped", _top(lambda m, p: max(real(m["cut"], p.mask)))),
    ("task4.stat_top_clipped", _top(lambda m, p: min(max(real(m["rho"], p.mask)), 1 + p.clip_eps))),
    ("task4.stat_top_min", _top(lambda m, p: min(real(m["rho"], p.mask)))),
    ("task4.stat_top_mean", _top(lambda m, p: token_mean(m["rho"], p))),
    ("task4.stat_top_mean", _top(lambda m, p: per_response(m["rho"], p))),
    ("task4.stat_top_log", _top(lambda m, p: max(_logs(m, p)))),
    ("task4.stat_top_log", _top(lambda m, p: max(_logs(m, p) + [x - 1 for x in _ones(p)]))),
    ("task4.stat_top_log", _top(lambda m, p: max(abs(r - 1) for r in real(m["rho"], p.mask)))),
    ("task4.stat_top_product", _top(lambda m, p: max(real(m["un"], p.mask)))),
    *[
        ("task4.stats_swapped", {"stats": lambda *three, order=order: [three[i] for i in order]})
        for order in itertools.permutations(range(3))
        if order != (0, 1, 2)
    ],
]



_K3 = [(name, stages) for name, stages in LOSS_TABLE if set(stages) == {"k3"}]
_RATIOS = [entry for entry in LOSS_TABLE if entry[0] in ("task4.ratio_ref", "task4.ratio_inverted")]
# What a statistic may get wrong for itself. The last two take too few values to tell more apart.
STATS_OF = {"kl": STATS + _K3, "clip_frac": STATS, "ratio_max": STATS + _RATIOS}
