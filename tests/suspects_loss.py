"""The known mistakes of task 4, each one stage of the specification replaced."""

from collections import namedtuple
from math import exp, expm1, log

from .suspects import div, mean, nudge, std

Probe = namedtuple("Probe", "logp old_logp ref_logp adv mask clip_eps beta")

KEYS = ("loss", "grad", "kl", "clip_frac", "ratio_max")


def real(matrix, mask):
    """Return the entries of `matrix` at real tokens as one list."""
    return [x for r, m in zip(matrix, mask) for x, on in zip(r, m) if on]


def everything(matrix):
    """Return all entries as one list, padding included."""
    return [x for row in matrix for x in row]


def cells(function, *matrices):
    """Apply the function to every cell of matrices of one shape."""
    rows = zip(*matrices)
    return [[function(*numbers) for numbers in zip(*row)] for row in rows]


def _clip(rho, low, high):
    return min(max(rho, low), high)


def _masked_mean(row, mask_row):
    return div(sum(x * m for x, m in zip(row, mask_row)), sum(mask_row))


def per_response(obj, p):
    """Return the mean over each row's own tokens, then over the rows."""
    return mean([_masked_mean(row, m) for row, m in zip(obj, p.mask)])


def _both_terms(m, p):
    return real(m["un"], p.mask), real(m["cl"], p.mask)


def _k3(d):
    return expm1(d) - d


def _default_total(s, p, surrogate, kl, advs):
    """Return the objective from the matrices of its two terms."""
    obj = cells(lambda a, k, A: s["combine"](a, k, p.beta, A), surrogate, kl, advs)
    return s["aggregate"](obj, p)


# ---------------------------------------------------------------- the stages of the right loss

# Their arguments are numbers of one token, unless a comment says otherwise. In the mistakes below:
# p = the probe, x = logp as a matrix that the gradient flows through (p.logp holds the same
# numbers, cut off from it), i and t = row and position, e = clip_eps, A = the advantage, un and
# cl = the unclipped and the clipped term, m = a dict of matrices, see _matrices.


def _adv(p, i, t):
    return p.adv[i]


def _rho(p, x, i, t):
    return exp(x[i][t] - p.old_logp[i][t])


def _both_from_logp(x, still):
    """Return the logp of the unclipped and of the clipped term; `still` has no gradient."""
    return x, x


def _clip_rho(rho, e):
    return _clip(rho, 1 - e, 1 + e)


def _unclipped_term(rho, A, x):
    return rho * A


def _clipped_term(rho, cut, A, e):
    return cut * A


def _smaller(un, cl, A, penalty):
    return min(un, cl)


def _k3_of_token(p, x, i, t):
    return _k3(p.ref_logp[i][t] - x[i][t])


def _minus_penalty(surrogate, k, beta, A):
    return surrogate - beta * k


def _negative(total):
    return -total


def _mean_k3(m, p):  # of the batch
    return mean(real(m["k3"], p.mask))


def _share_clipped(m, p):  # of the batch
    return mean([cl < un for un, cl in zip(*_both_terms(m, p))])


def _largest_rho(m, p):  # of the batch
    return max(real(m["rho"], p.mask))


def _in_order(kl, clip_frac, ratio_max):
    return kl, clip_frac, ratio_max


RIGHT = {
    "adv": _adv,
    "ratio": _rho,
    "sees": _both_from_logp,
    "clip": _clip_rho,
    "unclipped": _unclipped_term,
    "clipped": _clipped_term,
    "pick": _smaller,
    "k3": _k3_of_token,
    "combine": _minus_penalty,
    "aggregate": per_response,
    "total": _default_total,
    "negate": _negative,
    "kl": _mean_k3,
    "clip_frac": _share_clipped,
    "ratio_max": _largest_rho,
    "stats": _in_order,
}


def _matrices(s, p, x):
    """Return the matrices A, rho, cut (rho clipped), un, cl and k3 as a dict."""
    places = [[(i, t) for t in range(len(row))] for i, row in enumerate(p.mask)]
    e = p.clip_eps
    A = [[s["adv"](p, i, t) for i, t in row] for row in places]
    rho, rho_2 = (
        [[s["ratio"](p, seen, i, t) for i, t in row] for row in places]
        for seen in s["sees"](x, p.logp)
    )
    cut = cells(lambda r: s["clip"](r, e), rho_2)
    un = cells(s["unclipped"], rho, A, x)
    cl = cells(lambda r, c, a: s["clipped"](r, c, a, e), rho_2, cut, A)
    k3 = [[s["k3"](p, x, i, t) for i, t in row] for row in places]
    return {"A": A, "rho": rho, "cut": cut, "un": un, "cl": cl, "k3": k3}


def _loss(s, p, x):
    m = _matrices(s, p, x)
    penalty = cells(lambda k: p.beta * k, m["k3"])
    surrogate = cells(s["pick"], m["un"], m["cl"], m["A"], penalty)
    return s["negate"](s["total"](s, p, surrogate, m["k3"], m["A"]))


def run(stages, p, key):
    """Return the loss, its gradient to logp, or a statistic, with some stages replaced."""
    s = {**RIGHT, **stages}
    if key == "loss":
        return _loss(s, p, p.logp)
    if key == "grad":
        return nudge(lambda x: _loss(s, p, x), p.logp)
    m = _matrices(s, p, p.logp)
    three = s["stats"](*(s[name](m, p) for name in KEYS[2:]))
    return three[KEYS.index(key) - 2]


# ---------------------------------------------------------------- stages of the mistakes


def _ratio(function):
    """Make the ratio of one token's numbers: a = logp, still = a without gradient, old, ref."""

    def ratio(p, x, i, t):
        return function(x[i][t], p.logp[i][t], p.old_logp[i][t], p.ref_logp[i][t])

    return {"ratio": ratio}


def _row_ratio(reduce, masked=True):
    def ratio(p, x, i, t):
        mask_row = p.mask[i] if masked else [1.0] * len(p.mask[i])
        changes = [a - b for a, b in zip(x[i], p.old_logp[i])]
        return exp(reduce([c for c, on in zip(changes, mask_row) if on]))

    return {"ratio": ratio}


def _k3_of(function):
    def k3(p, x, i, t):
        return function(x[i][t], p.logp[i][t], p.old_logp[i][t], p.ref_logp[i][t])

    return {"k3": k3}


def _masked_ratio(p, x, i, t):
    return exp((x[i][t] - p.old_logp[i][t]) * p.mask[i][t])


def _along_positions(p, i, t):
    if len(p.mask) not in (1, len(p.mask[i])):
        raise ValueError("shapes do not fit")
    return p.adv[t % len(p.adv)]


def _standardised(divide):
    def adv(p, i, t):
        return (p.adv[i] - mean(p.adv)) / (std(p.adv, 1) + 1e-8 if divide else 1)

    return {"adv": adv}


def _aggregate(function):
    return {"aggregate": function}


def sums(obj, p):
    """Return the sum over each row's own tokens."""
    rows = zip(obj, p.mask)
    return [sum(x * m for x, m in zip(row, marks)) for row, marks in rows]


def lengths(p):
    """Return the number of tokens of each row."""
    return [sum(row) for row in p.mask]


def _by_column(obj, p):
    return per_response(zip(*obj), p._replace(mask=list(zip(*p.mask))))


def _crossed(over_columns, count_columns, least):
    """Divide sums by counts, each over rows or columns; `least` replaces smaller counts."""

    def aggregate(obj, p):
        masked = cells(lambda x, m: x * m, obj, p.mask)
        numbers = [sum(line) for line in (zip(*masked) if over_columns else masked)]
        counts = [sum(line) for line in (zip(*p.mask) if count_columns else p.mask)]
        size = max(len(numbers), len(counts))
        if not {len(numbers), len(counts)} <= {1, size}:
            raise ValueError("shapes do not fit")
        numbers, counts = (x * size if len(x) < size else x for x in (numbers, counts))
        return mean([div(x, max(n, least)) for x, n in zip(numbers, counts)])

    return aggregate


def _only_nonzero(obj, p):
    rows = [(r, m) for r, m, A in zip(obj, p.mask, p.adv) if A != 0]
    return mean([_masked_mean(r, m) for r, m in rows])


def _unmasked_sums(obj, p):
    return mean([div(sum(r), n) for r, n in zip(obj, lengths(p))])


def _separate(kl_mean):
    """Average the surrogate as it should be, the KL term by `kl_mean`."""

    def total(s, p, surrogate, kl, advs):
        return per_response(surrogate, p) - p.beta * kl_mean(kl, p)

    return {"total": total}


def _surrogate(surrogate_mean):
    """Average the KL term as it should be, the surrogate by `surrogate_mean`."""

    def total(s, p, surrogate, kl, advs):
        return surrogate_mean(surrogate, p) - p.beta * per_response(kl, p)

    return {"total": total}


def over_T(matrix, p):
    """Return the mean of the row sums over real tokens, divided by T."""
    return mean([x / len(p.mask[0]) for x in sums(matrix, p)])


def _pick_row(choose):
    return _aggregate(
        lambda obj, p: choose([_masked_mean(row, marks) for row, marks in zip(obj, p.mask)])
    )


def _by_T(obj, p):
    return per_response(obj, p) * len(p.mask) / len(p.mask[0])


def _longer(obj, p, by):
    """Average with lengths that are off by `by`."""
    return mean([x / max(n + by, 1) for x, n in zip(sums(obj, p), lengths(p))])


def all_mean(matrix, p):
    """Return the mean over everything, padding included."""
    return mean(everything(matrix))


def token_mean(matrix, p):
    """Return the mean over all real tokens of the batch."""
    return mean(real(matrix, p.mask))


def _clipping(function):
    return {"clip": function}


def _pick(function):
    return {"pick": lambda un, cl, A, penalty: function(un, cl, A)}


def _combine(function):
    return {"combine": function}


def _fixed_beta(size):
    return _combine(lambda s, k, beta, A: s - size * k)


def _fixed_eps(size):
    return _clipping(lambda rho, e: _clip(rho, 1 - size, 1 + size))


def _dual(c):
    return _pick(lambda un, cl, A: max(min(un, cl), c * A) if A < 0 else min(un, cl))


def _penalty_in(which):
    """Subtract the KL term from one of the two terms before taking the min."""

    def pick(un, cl, A, penalty):
        return min(un - penalty, cl) if which == "un" else min(un, cl - penalty)

    return {"pick": pick, "combine": lambda s, k, beta, A: s}


# A bound at 1 exactly: torch.clamp lets the gradient through at the bound itself.
_ONE_DOWN, _ONE_UP = 1 - 1.5e-5, 1 + 1.5e-5
_DETACHED_RATIO = _ratio(lambda a, still, old, ref: exp(still - old))
_DETACHED_K3 = _k3_of(lambda a, still, old, ref: _k3(ref - still))

# An id may stand for several ways of making the same mistake.
SURROGATE = [
    ("task4.ratio_ref", _ratio(lambda a, still, old, ref: exp(a - ref))),
    ("task4.ratio_old_ref", _ratio(lambda a, still, old, ref: exp(old - ref))),
    ("task4.ratio_no_exp", _ratio(lambda a, still, old, ref: a - old)),
    ("task4.ratio_no_exp", _ratio(lambda a, still, old, ref: a - old + 1)),
    ("task4.ratio_no_exp", _ratio(lambda a, still, old, ref: a / old)),
    ("task4.ratio_inverted", _ratio(lambda a, still, old, ref: exp(old - a))),
    ("task4.ratio_inverted", _ratio(lambda a, still, old, ref: old / a)),
    ("task4.ratio_detached", _DETACHED_RATIO),
    ("task4.old_ignored", _ratio(lambda a, still, old, ref: exp(a - still))),
    ("task4.old_ignored", _ratio(lambda a, still, old, ref: exp(a))),
    ("task4.old_ignored", _ratio(lambda a, still, old, ref: 1.0)),
    ("task4.ratio_of_row", _row_ratio(mean)),
    ("task4.ratio_of_row", _row_ratio(mean, masked=False)),
    ("task4.ratio_of_row", _row_ratio(sum)),
    ("task4.ratio_of_row", _row_ratio(sum, masked=False)),
    ("task4.logp_not_ratio", {"unclipped": lambda rho, A, x: x * A}),
    ("task4.logp_not_ratio", {"unclipped": lambda rho, A, x: x * A} | _pick(lambda un, cl, A: un)),
    ("task4.term_detached", {"sees": lambda x, still: (still, x)}),
    ("task4.term_detached", {"sees": lambda x, still: (x, still)}),
    ("task4.broadcast", {"adv": _along_positions}),
    ("task4.adv_sign", {"adv": lambda p, i, t: -p.adv[i]}),
    ("task4.adv_abs", {"adv": lambda p, i, t: abs(p.adv[i])}),
    ("task4.adv_missing", {"adv": lambda p, i, t: 1.0}),
    ("task4.adv_again", _standardised(True)),
    ("task4.adv_again", _standardised(False)),
    ("task4.max", _pick(lambda un, cl, A: max(un, cl))),
    ("task4.max_negative", _pick(lambda un, cl, A: min(un, cl) if A >= 0 else max(un, cl))),
    ("task4.max_positive", _pick(lambda un, cl, A: max(un, cl) if A >= 0 else min(un, cl))),
    ("task4.clip_upper_only", _clipping(lambda rho, e: min(rho, 1 + e))),
    ("task4.clip_lower_only", _clipping(lambda rho, e: max(rho, 1 - e))),
    ("task4.no_min", _pick(lambda un, cl, A: cl)),
    ("task4.no_clip", _pick(lambda un, cl, A: un)),
    ("task4.no_clip", _clipping(lambda rho, e: rho)),
    ("task4.clip_log", _clipping(lambda rho, e: exp(_clip(log(rho), -e, e)))),
    ("task4.clip_product", {"clipped": lambda rho, cut, A, e: _clip(rho * A, 1 - e, 1 + e)}),
    ("task4.clipped_without_adv", {"clipped": lambda rho, cut, A, e: cut}),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, -e, e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: 1 - e)),
    ("task4.clip_bounds", _clipping(lambda rho, e: 1 + e)),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 0.0, _ONE_UP))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, _ONE_DOWN, 1 + e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e, _ONE_UP))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 / (1 + e), 1 + e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e, 1 / (1 - e)))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - 2 * e, 1 + 2 * e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e / 2, 1 + e / 2))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, e, 1 + e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e, e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e, 1 + 1.4 * e))),
    ("task4.clip_bounds", _clipping(lambda rho, e: _clip(rho, 1 - e, 1.28))),
    *[("task4.clip_eps_ignored", _fixed_eps(size)) for size in (0.2, 0.1, 0.3, 0.28)],
    *[("task4.dual_clip", _dual(c)) for c in (3.0, 2.0)],
]

PENALTY = [
    ("task4.kl_sign", _combine(lambda s, k, beta, A: s + beta * k)),
    ("task4.kl_missing", _combine(lambda s, k, beta, A: s)),
    *[("task4.beta_ignored", _fixed_beta(size)) for size in (0.04, 1.0, 0.1, 0.01)],
    ("task4.kl_weight", _combine(lambda s, k, beta, A: s - 2 * beta * k)),
    ("task4.kl_weight", _combine(lambda s, k, beta, A: s - beta / 2 * k)),
    ("task4.kl_weight", _combine(lambda s, k, beta, A: s - beta**2 * k)),
    ("task4.kl_times_adv", _combine(lambda s, k, beta, A: s - beta * k * A)),
    ("task4.kl_in_min", _penalty_in("un")),
    ("task4.kl_in_min", _penalty_in("cl")),
    ("task4.surrogate_sign", _combine(lambda s, k, beta, A: -s - beta * k)),
    ("task4.k3_swapped", _k3_of(lambda a, still, old, ref: _k3(a - ref))),
    ("task4.loss_no_grad", _DETACHED_RATIO | _DETACHED_K3),
    ("task4.k3_detached", _DETACHED_K3),
    ("task4.k3_old", _k3_of(lambda a, still, old, ref: _k3(old - a))),
    ("task4.k3_old", _k3_of(lambda a, still, old, ref: _k3(a - old))),
    ("task4.k3_old", _k3_of(lambda a, still, old, ref: _k3(ref - old))),
    ("task4.k3_old", _k3_of(lambda a, still, old, ref: _k3(old - ref))),
    ("task4.k3_times_rho", _k3_of(lambda a, still, old, ref: exp(a - old) * _k3(ref - a))),
    ("task4.k3_times_rho", _k3_of(lambda a, still, old, ref: exp(a - still) * _k3(ref - a))),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: a - ref)),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: ref - a)),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: abs(a - ref))),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: (a - ref) ** 2 / 2)),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: exp(ref - a) - (ref - a))),
    ("task4.not_k3", _k3_of(lambda a, still, old, ref: exp(ref - a) - 1)),
    ("task4.kl_over_batch", _separate(token_mean)),
    ("task4.kl_unmasked", _separate(all_mean)),
    ("task4.kl_unmasked", _separate(_unmasked_sums)),
    ("task4.kl_unmasked", _separate(over_T)),
    ("task4.kl_summed", _separate(lambda kl, p: sum(real(kl, p.mask)))),
    ("task4.kl_summed", _separate(lambda kl, p: mean(sums(kl, p)))),
]

MEANS = [
    ("task4.token_mean", _aggregate(token_mean)),
    ("task4.token_mean", _surrogate(token_mean)),
    ("task4.over_T", _aggregate(over_T)),
    ("task4.over_T", _surrogate(over_T)),
    ("task4.mask_ignored", _aggregate(all_mean)),
    ("task4.mask_ignored", _aggregate(_unmasked_sums)),
    ("task4.mask_ignored", _surrogate(all_mean)),
    ("task4.mask_ignored", _surrogate(_unmasked_sums)),
    ("task4.mask_on_ratio", {"ratio": _masked_ratio, **_aggregate(all_mean)}),
    ("task4.mask_on_ratio", {"ratio": _masked_ratio, **_aggregate(_unmasked_sums)}),
    ("task4.sum_over_tokens", _aggregate(lambda obj, p: mean(sums(obj, p)))),
    ("task4.longest", _aggregate(lambda obj, p: div(mean(sums(obj, p)), max(lengths(p))))),
    ("task4.sum_over_rows", _aggregate(lambda obj, p: per_response(obj, p) * len(p.mask))),
    ("task4.sum_over_rows", _aggregate(_by_T)),
    ("task4.sum_over_all", _aggregate(lambda obj, p: sum(sums(obj, p)))),
    ("task4.length_wrong", _aggregate(lambda obj, p: _longer(obj, p, 1))),
    ("task4.length_wrong", _aggregate(lambda obj, p: _longer(obj, p, -1))),
    ("task4.by_column", _aggregate(_by_column)),
    *[
        ("task4.by_column", _aggregate(_crossed(*which, least)))
        for which in ((True, True), (True, False), (False, True))
        for least in (0, 1)
    ],
    ("task4.zero_rows_dropped", _aggregate(_only_nonzero)),
    ("task4.one_row", _pick_row(lambda rows: sorted(rows)[(len(rows) - 1) // 2])),
    ("task4.one_row", _pick_row(max)),
    ("task4.one_row", _pick_row(min)),
    ("task4.not_negated", {"negate": lambda total: total}),
    ("task4.zeros", {"negate": lambda total: 0.0}),
    ("task4.factor", {"negate": lambda total: -2 * total}),
    ("task4.factor", {"negate": lambda total: -total / 2}),
]

LOSS_TABLE = SURROGATE + PENALTY + MEANS
