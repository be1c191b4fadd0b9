"""The known mistakes of Task 4: what a message says, and which stage of the loss each replaces."""

import itertools
from collections import namedtuple
from functools import partial

from .arithmetic import div, exp, expm1, log, mean, nudge, std

TEXTS = {
    # what comes back
    "tuple": "return two things: the loss and the dict of stats.",
    "tuple_order": "the loss comes first, the dict of stats second.",
    "loss_float": "the loss is a Python number, so backward cannot run: it must stay a tensor.",
    "loss_shape": "the loss must be one number, averaged over the responses: a tensor of shape ().",
    "loss_no_grad": (
        "the loss has no gradient. It must be computed from logp, and without no_grad, detach, "
        ".data or .item on the way."
    ),
    "stats_dict": "the stats must be a dict.",
    "stats_keys": 'the dict must have the keys "kl", "clip_frac" and "ratio_max".',
    "stat_tensor": "a number in the stats is a tensor; the docstring promises a dict of floats.",
    "in_place": "the call changed a tensor that it was given; work on a copy.",
    "grad_off": "gradients were switched off for the whole program and never switched on again.",
    "defaults": (
        "right when all arguments are given, wrong with the defaults: clip_eps=0.2 and beta=0.04 "
        "are the defaults of the docstring's signature."
    ),
    "positions": (
        "right when the arguments are given by name, wrong by position: keep their order as in "
        "the docstring's signature."
    ),
    # the ratio
    "ratio_ref": (
        "the ratio is taken against ref_logp; rho compares with the policy that sampled, old_logp."
    ),
    "ratio_old_ref": "the ratio compares old_logp with ref_logp; logp is not in it.",
    "ratio_no_exp": "rho is a ratio of probabilities; here log-probs are combined without exp.",
    "ratio_inverted": "the ratio is upside down: rho is the current policy over the old one.",
    "ratio_detached": "right value, but the ratio is cut off from the gradient.",
    "old_ignored": "old_logp plays no part in the ratio.",
    "ratio_of_row": "one ratio is used for a whole response; here every token has its own.",
    "ratio_limited": "the ratio, or its log, is held in a range of its own before the clip.",
    "logp_not_ratio": "logp is multiplied by A where the ratio belongs.",
    "term_detached": "right value, wrong gradient: one of the two terms in the min is detached.",
    # the advantage
    "broadcast": (
        "adv runs along the positions (T): (B,) combined with (B, T) pairs the wrong axes. A "
        "response's advantage belongs to all tokens of its row."
    ),
    "adv_sign": "the advantage enters with the wrong sign.",
    "adv_abs": "the sign of the advantage is lost.",
    "adv_missing": "the advantage plays no part.",
    "adv_again": "adv is centred or normalised again inside the loss; use it as it is.",
    # min and clip
    "max": "max was taken where the min of the two terms belongs.",
    "max_negative": (
        "for A < 0 the larger term was taken (the min of the ratios, before they are multiplied "
        "by A, does this, too); it is the smaller one for both signs of A."
    ),
    "max_positive": "for A > 0 max was taken; it is the min for both signs of A.",
    "clip_upper_only": "for A < 0 nothing is clipped; the lower bound 1 - eps has no effect.",
    "clip_lower_only": "for A > 0 nothing is clipped; the upper bound 1 + eps has no effect.",
    "no_min": "always the clipped term; the smaller of the two terms is needed.",
    "no_clip": "the clipping has no effect: these are the numbers of the unclipped term alone.",
    "clip_log": "the log of the ratio was clipped to -eps .. eps; clip the ratio itself.",
    "clip_product": "the product rho * A was clipped; clip rho first, then multiply by A.",
    "clipped_without_adv": "the clipped ratio is not multiplied by A.",
    "clip_bounds": (
        "the clipped ratio is not rho held between 1 - eps and 1 + eps: check the two bounds, and "
        "what is clipped."
    ),
    "clip_eps_ignored": "the argument clip_eps is ignored: the clip range is fixed.",
    "dual_clip": "for A < 0 there is a second bound (dual clip); this loss has none.",
    # the KL term
    "kl_sign": "the KL term has the wrong sign: a larger k3 must make the loss larger.",
    "kl_missing": "the KL term is missing from the loss, or is always 0.",
    "beta_ignored": "the argument beta is ignored: the KL term has a fixed weight.",
    "kl_weight": "the weight of the KL term is not beta.",
    "kl_times_adv": "the KL term is multiplied by A; it must not depend on the advantage.",
    "kl_in_min": "the KL term is inside the min; it is subtracted after the min is taken.",
    "surrogate_sign": "the min term has the wrong sign; the KL term is right.",
    "k3_swapped": "the two arguments of k3 are swapped: they are logp and ref_logp, in this order.",
    "k3_detached": "right value, but the KL term is cut off from the gradient.",
    "k3_old": "old_logp is used in the KL term; it compares logp with ref_logp.",
    "k3_times_rho": "k3 is multiplied by the ratio; the KL term is beta * k3 alone.",
    "not_k3": "the KL term is not k3 (see Task 3).",
    "kl_over_batch": (
        "the KL term is averaged over all tokens of the batch; like the first term, it is "
        "averaged over each response's own tokens first."
    ),
    "kl_unmasked": "padding counts in the average of the KL term (in its sum or in its count).",
    "kl_summed": "the KL term is summed over tokens; it is averaged like the first term.",
    # the averages
    "token_mean": (
        "all tokens of the batch are averaged at once, so long responses weigh more; average "
        "each response over its own tokens first, then the responses."
    ),
    "over_T": "row sums are divided by the padded width T, not by the response's own length.",
    "mask_ignored": "padding counts in the sum over a response; the mask must exclude it.",
    "mask_on_ratio": (
        "the mask changes the ratio (or the KL term, too), not the average: padding still counts "
        "there."
    ),
    "sum_over_tokens": "the sum over a response is not divided by its number of tokens.",
    "longest": "all rows are divided by the same length; each has its own number of tokens.",
    "sum_over_rows": "the sum over the responses is not divided by their number B.",
    "sum_over_all": "everything is summed; each response and then the batch must be averaged.",
    "length_wrong": "the number of tokens of a response is off by one.",
    "token_dropped": (
        "the first or the last token of a response is left out of its average; the mask marks all "
        "tokens that count, END included."
    ),
    "token_too_many": (
        "one position behind the end of a response counts in its average; the mask marks all "
        "tokens that count, END included."
    ),
    "by_column": (
        "a sum or a count runs down the columns, over the responses; each response is averaged "
        "over its own tokens, which are a row."
    ),
    "one_row": "one response was picked (max, min or median) where the mean over all belongs.",
    "zero_rows_dropped": "a response with A = 0 was left out; it counts, and so does its KL term.",
    "zeros": "the loss is always 0.",
    "factor": "the loss is off by a factor of 2.",
    "not_negated": "wrong sign: the objective is maximised, so the loss is its negative.",
    # the stats
    "stat_kl_padding": '"kl" counts padding (in its sum or in its count).',
    "stat_kl_tokens": (
        '"kl" leaves out the first or the last token of a response, or counts one behind its end.'
    ),
    "stat_kl_rows": '"kl" is a mean of row means; it is the mean over all real tokens at once.',
    "stat_kl_sum": '"kl" is a sum over tokens; it must be the mean over all real tokens.',
    "stat_kl_beta": '"kl" is multiplied by beta; it is the mean k3 itself.',
    "stat_kl_sign": '"kl" has the wrong sign; k3 is never negative.',
    "stat_kl_max": '"kl" is the largest k3; it must be the mean.',
    "stat_not_k3": '"kl" is the mean difference of the log-probs (k1); it must be the mean k3.',
    "stat_kl_old": '"kl" compares logp with old_logp; it is the mean k3 (with ref_logp).',
    "stat_clip_outside": (
        '"clip_frac" counts every ratio outside the clip range. Outside it, the clip changes the '
        "objective only for one sign of A."
    ),
    "stat_clip_complement": '"clip_frac" is the share of tokens that the clip did not change.',
    "stat_clip_reversed": '"clip_frac" counts where the unclipped term is the smaller one.',
    "stat_clip_ties": (
        '"clip_frac" counts ties: where both terms are equal, the clip changed nothing.'
    ),
    "stat_clip_one_side": (
        '"clip_frac" sees only one side of the clip range, or only one sign of A.'
    ),
    "stat_clip_fixed": '"clip_frac" uses a fixed clip range, whatever clip_eps is.',
    "stat_clip_padding": '"clip_frac" counts padding (in its sum or in its count).',
    "stat_clip_rows": '"clip_frac" is a mean of row means; it is a fraction of all real tokens.',
    "stat_clip_count": '"clip_frac" is a number of tokens, not a fraction of the real tokens.',
    "stat_clip_percent": '"clip_frac" is in percent; it must be a fraction between 0 and 1.',
    "stat_top_padding": '"ratio_max" looks at padding.',
    "stat_top_clipped": '"ratio_max" is taken after the clip; it is the largest rho itself.',
    "stat_top_min": '"ratio_max" is the smallest ratio.',
    "stat_top_mean": '"ratio_max" is a mean of the ratios; it must be the largest one.',
    "stat_top_log": '"ratio_max" is taken of log(rho) or of the distance from 1, not of rho.',
    "stat_top_product": '"ratio_max" is the largest rho * A; it must be the largest rho.',
    "stats_swapped": "the right numbers, but under the wrong keys.",
}

# ---------------------------------------------------------------- the specification in stages

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
RIGHT = {
    "adv": lambda p, i, t: p.adv[i],
    "ratio": lambda p, x, i, t: exp(x[i][t] - p.old_logp[i][t]),
    # The logp of the unclipped and of the clipped term; `still` has no gradient.
    "sees": lambda x, still: (x, x),
    "clip": lambda rho, e: _clip(rho, 1 - e, 1 + e),
    "unclipped": lambda rho, A, x: rho * A,
    "clipped": lambda rho, cut, A, e: cut * A,
    "pick": lambda un, cl, A, penalty: min(un, cl),
    "k3": lambda p, x, i, t: _k3(p.ref_logp[i][t] - x[i][t]),
    "combine": lambda surrogate, k, beta, A: surrogate - beta * k,
    "aggregate": per_response,  # of the batch, as all that follows
    "total": _default_total,
    "negate": lambda total: -total,
    "kl": lambda m, p: token_mean(m["k3"], p),
    "clip_frac": lambda m, p: token_mean(cells(lambda un, cl: cl < un, m["un"], m["cl"]), p),
    "ratio_max": lambda m, p: max(real(m["rho"], p.mask)),
    "stats": lambda kl, clip_frac, ratio_max: (kl, clip_frac, ratio_max),
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
    """Return the loss, its gradient to logp, or a statistic, with some stages replaced.

    Args:
        stages: {name: function} that replace those of RIGHT.
        p: a Probe: the function's arguments.
        key: one of KEYS.
    """
    s = {**RIGHT, **stages}
    if key == "loss":
        return _loss(s, p, p.logp)
    if key == "grad":
        return nudge(lambda x: _loss(s, p, x), p.logp)
    m = _matrices(s, p, p.logp)
    three = s["stats"](*(s[name](m, p) for name in KEYS[2:]))
    return three[KEYS.index(key) - 2]


# ---------------------------------------------------------------- stages of the mistakes


def _of_token(stage, function):
    """Make a stage of one token's numbers: a = logp, still = a without gradient, old, ref."""

    def made(p, x, i, t):
        return function(x[i][t], p.logp[i][t], p.old_logp[i][t], p.ref_logp[i][t])

    return {stage: made}


_ratio, _k3_of = partial(_of_token, "ratio"), partial(_of_token, "k3")


def _row_ratio(reduce, masked=True):
    def ratio(p, x, i, t):
        mask_row = p.mask[i] if masked else [1.0] * len(p.mask[i])
        changes = [a - b for a, b in zip(x[i], p.old_logp[i])]
        return exp(reduce([c for c, on in zip(changes, mask_row) if on]))

    return {"ratio": ratio}


def _masked_ratio(p, x, i, t):
    return exp((x[i][t] - p.old_logp[i][t]) * p.mask[i][t])


def _masked_k3(p, x, i, t):
    return _k3((p.ref_logp[i][t] - x[i][t]) * p.mask[i][t])


def _without_first(marks):
    return [0.0, *marks[1:]]


def _without_last(marks):
    return [*marks[1:], 0.0]  # of real tokens; these stand at the start of a row


def _with_next(marks):
    return [1.0, *marks[:-1]]


def _other_mask(obj, p, change, counted):
    """Average each row over the tokens of a changed mask.

    Args:
        obj: matrix.
        p: the probe.
        change: function row of the mask -> row.
        counted: whether the row's length is that of the changed mask, too.
    """
    marks = [change(row) for row in p.mask]
    totals = sums(obj, p._replace(mask=marks))
    sizes = [sum(row) for row in (marks if counted else p.mask)]
    return mean([x / max(n, 1) for x, n in zip(totals, sizes)])


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


def _means(surrogate=per_response, kl=per_response):
    """Average each of the two terms in its own way."""

    def total(s, p, surrogates, kls, advs):
        return surrogate(surrogates, p) - p.beta * kl(kls, p)

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
    *[
        ("task4.ratio_limited", _ratio(lambda a, still, old, ref, c=c: exp(_clip(a - old, -c, c))))
        for c in (1.0, 2.0, 3.0, 5.0, 10.0)
    ],
    *[
        ("task4.ratio_limited", _ratio(lambda a, still, old, ref, c=c: min(exp(a - old), c)))
        for c in (2.0, 3.0, 5.0, 10.0, 100.0, 1000.0, 1e4)
    ],
    ("task4.logp_not_ratio", {"unclipped": lambda rho, A, x: x * A}),
    ("task4.logp_not_ratio", {"unclipped": lambda rho, A, x: x * A} | _pick(lambda un, cl, A: un)),
    ("task4.term_detached", {"sees": lambda x, still: (still, x)}),
    ("task4.term_detached", {"sees": lambda x, still: (x, still)}),
    ("task4.broadcast", {"adv": _along_positions}),
    ("task4.broadcast", {"adv": lambda p, i, t: p.adv[(i * len(p.mask[0]) + t) % len(p.adv)]}),
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
    ("task4.kl_over_batch", _means(kl=token_mean)),
    ("task4.kl_unmasked", _means(kl=all_mean)),
    ("task4.kl_unmasked", _means(kl=_unmasked_sums)),
    ("task4.kl_unmasked", _means(kl=over_T)),
    ("task4.kl_summed", _means(kl=lambda kl, p: sum(real(kl, p.mask)))),
    ("task4.kl_summed", _means(kl=lambda kl, p: mean(sums(kl, p)))),
]

MEANS = [
    ("task4.token_mean", _aggregate(token_mean)),
    ("task4.token_mean", _means(surrogate=token_mean)),
    ("task4.over_T", _aggregate(over_T)),
    ("task4.over_T", _means(surrogate=over_T)),
    ("task4.mask_ignored", _aggregate(all_mean)),
    ("task4.mask_ignored", _aggregate(_unmasked_sums)),
    ("task4.mask_ignored", _means(surrogate=all_mean)),
    ("task4.mask_ignored", _means(surrogate=_unmasked_sums)),
    ("task4.mask_on_ratio", {"ratio": _masked_ratio, **_aggregate(all_mean)}),
    ("task4.mask_on_ratio", {"ratio": _masked_ratio, **_aggregate(_unmasked_sums)}),
    *[
        ("task4.mask_on_ratio", {"ratio": _masked_ratio, "k3": _masked_k3, **_aggregate(how)})
        for how in (all_mean, _unmasked_sums)
    ],
    *[
        (name, _aggregate(lambda obj, p, cut=cut, n=n: _other_mask(obj, p, cut, n)))
        for name, cut in (
            ("task4.token_dropped", _without_first),
            ("task4.token_dropped", _without_last),
            ("task4.token_too_many", _with_next),
        )
        for n in (True, False)
    ],
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

# ---------------------------------------------------------------- mistakes in the statistics


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
    *[
        ("task4.stat_kl_tokens", _kl(lambda k, p, cut=cut: token_mean(k, p._replace(
            mask=[cut(row) for row in p.mask]))))
        for cut in (_without_first, _without_last, _with_next)
    ],
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
# Mistakes of a single statistic. The last two take too few values to tell more apart.
STATS_OF = {"kl": STATS + _K3, "clip_frac": STATS, "ratio_max": STATS + _RATIOS}
