"""The known mistakes of Task 3: what a message says, and which stage of k3 each replaces."""

import math

from .arithmetic import div, exp, expm1, log, mean, nudge

TEXTS = {
    "sign": "d has the wrong sign: d is the log of pi_ref/pi_theta.",
    "k1": "this is k1, the plain difference of the log-probs (it can be negative), not k3.",
    "k2": "this is the squared difference of the log-probs (as in k2), not k3.",
    "one_missing": "the last term, -1, is missing: for equal log-probs k3 must be 0.",
    "one_twice": "1 is subtracted twice (expm1 has done it already): for d = 0, k3 must be 0.",
    "one_added": "1 is added where it should be subtracted: for d = 0, k3 must be 0.",
    "d_added": "d is added where it should be subtracted.",
    "d_missing": "the middle term, -d, is missing.",
    "only_ratio": "this is the ratio pi_ref/pi_theta alone; two terms are missing.",
    "exp_sign": "the two terms use d with opposite signs; d is the same in both.",
    "other_exp": "the ratio is exp(d); another function is used instead.",
    "e_rounded": (
        "a rounded number such as 2.718 is used for e: close, but wrong from the fourth digit on. "
        "The exponential function has all the digits."
    ),
    "not_ratio": "a difference of probabilities is taken where their ratio belongs.",
    "logs_divided": (
        "the log-probs are divided by each other; the log of a ratio is a difference of logs."
    ),
    "log_of_d": "a log is taken of d, which is a log already: log(pi_ref/pi_theta) is d itself.",
    "other_k3": "this is r*log(r) - r + 1 with r = pi_ref/pi_theta, a different estimator, not k3.",
    "added": "logp and ref_logp are added; d is a difference.",
    "exp_missing": "the ratio pi_ref/pi_theta is missing: d itself is used instead.",
    "negated": "every sign is reversed: k3 is never negative.",
    "factor": "every number is off by the same factor of 2.",
    "abs": "the sign of d is lost: k3 is not the same for d and -d.",
    "series": "this is the beginning of a series for k3, right only where d is small.",
    "parentheses": "1 is subtracted from d, in the exponent. Check the parentheses.",
    "weighted": (
        "the numbers are weighted by a probability. The tokens were sampled, so the average "
        "over them does the weighting already."
    ),
    "squared": "this is the squared difference of the ratio from 1, not k3.",
    "detached": "right values, but no gradient reaches logp.",
    "exp_detached": "right values, wrong gradient: the ratio is cut off from the gradient.",
    "d_detached": "right values, wrong gradient: the term -d is cut off from the gradient.",
    "times_rho": (
        "right values, but the gradient of k2 = d*d/2. This is also the result if k3 is multiplied "
        "by a ratio that equals 1."
    ),
    "clamped": "something is clamped; the formula holds for every d.",
    "zeros": "every number is 0, whatever the log-probs are.",
    "reduced": "a mean or sum was taken; the result must have one number per token, (B, T).",
    "flat": "right numbers, but flattened; the result must keep the shape (B, T).",
    "in_place": "the call changed the tensors it was given; work on a copy.",
}

# ---------------------------------------------------------------- the specification in stages

# Stage arguments: a = logp of the token, still = the same number cut off from the gradient,
# b = ref_logp of the token.
RIGHT = {
    "token": lambda a, still, b: expm1(b - a) - (b - a),
    "finish": lambda rows: rows,
}


def run(stages, probe, key="value"):
    """Return k3 with some stages replaced, or ("grad") the gradient of the sum of its entries.

    Args:
        stages: {name: function} that replace those of RIGHT.
        probe: the function's arguments.
        key: "value" or "grad".
    """
    logp, ref_logp = probe
    s = {**RIGHT, **stages}

    def value(live):
        rows = [
            [s["token"](*numbers) for numbers in zip(*row)] for row in zip(live, logp, ref_logp)
        ]
        return s["finish"](rows)

    if key == "value":
        return value(logp)
    return nudge(value, logp)


def _everything(reduce):
    return {"finish": lambda rows: reduce([x for row in rows for x in row])}


def _rows(reduce):
    return {"finish": lambda rows: [reduce(row) for row in rows]}


def _columns(reduce):
    return {"finish": lambda rows: [reduce(column) for column in zip(*rows)]}


def _token(function):
    return {"token": function}


def _series(d, n):
    return sum(d**k / math.factorial(k) for k in range(2, n + 1))


def _clamped(low, high):
    def token(a, still, b):
        # Outside the range the clamped d is a constant, and so is k3.
        d = min(max(b - a, low), high)
        return exp(d) - d - 1

    return {"token": token}


TABLE = [
    ("task3.sign", _token(lambda a, still, b: exp(a - b) - (a - b) - 1)),
    ("task3.k1", _token(lambda a, still, b: a - b)),
    ("task3.k1", _token(lambda a, still, b: b - a)),
    ("task3.k1", _token(lambda a, still, b: abs(a - b))),
    ("task3.k2", _token(lambda a, still, b: (a - b) ** 2 / 2)),
    ("task3.k2", _token(lambda a, still, b: (a - b) ** 2)),
    ("task3.one_missing", _token(lambda a, still, b: exp(b - a) - (b - a))),
    ("task3.one_twice", _token(lambda a, still, b: exp(b - a) - (b - a) - 2)),
    ("task3.one_added", _token(lambda a, still, b: exp(b - a) - (b - a) + 1)),
    ("task3.d_added", _token(lambda a, still, b: exp(b - a) + (b - a) - 1)),
    ("task3.d_missing", _token(lambda a, still, b: exp(b - a) - 1)),
    ("task3.only_ratio", _token(lambda a, still, b: exp(b - a))),
    ("task3.exp_sign", _token(lambda a, still, b: exp(a - b) - (b - a) - 1)),
    ("task3.other_exp", _token(lambda a, still, b: 2 ** (b - a) - (b - a) - 1)),
    ("task3.other_exp", _token(lambda a, still, b: 10 ** (b - a) - (b - a) - 1)),
    ("task3.other_exp", _token(lambda a, still, b: 1 / (1 + exp(a - b)) - (b - a) - 1)),
    *[
        ("task3.e_rounded", _token(lambda a, still, b, e=e: e ** (b - a) - (b - a) - 1))
        for e in (2.7, 2.71, 2.72, 2.718, 2.7182, 2.7183)
    ],
    ("task3.not_ratio", _token(lambda a, still, b: exp(b) - exp(a))),
    ("task3.not_ratio", _token(lambda a, still, b: exp(b) - exp(a) - (b - a) - 1)),
    ("task3.logs_divided", _token(lambda a, still, b: div(b, a) - log(div(b, a)) - 1)),
    ("task3.logs_divided", _token(lambda a, still, b: exp(div(b, a)) - div(b, a) - 1)),
    ("task3.log_of_d", _token(lambda a, still, b: exp(b - a) - log(b - a) - 1)),
    ("task3.log_of_d", _token(lambda a, still, b: (b - a) - log(b - a) - 1)),
    ("task3.abs", _token(lambda a, still, b: exp(abs(b - a)) - abs(b - a) - 1)),
    ("task3.abs", _token(lambda a, still, b: exp(b - a) - abs(b - a) - 1)),
    ("task3.abs", _token(lambda a, still, b: exp(abs(b - a)) - (b - a) - 1)),
    *[("task3.series", _token(lambda a, still, b, n=n: _series(b - a, n))) for n in (3, 4, 5)],
    ("task3.parentheses", _token(lambda a, still, b: exp(b - a - 1) - (b - a))),
    ("task3.parentheses", _token(lambda a, still, b: exp(b - a - 1) - (b - a) - 1)),
    ("task3.parentheses", _token(lambda a, still, b: exp(b - a - (b - a) - 1))),
    ("task3.other_k3", _token(lambda a, still, b: exp(b - a) * (b - a) - exp(b - a) + 1)),
    ("task3.sign+task3.one_missing", _token(lambda a, still, b: exp(a - b) - (a - b))),
    ("task3.d_added+task3.one_missing", _token(lambda a, still, b: exp(b - a) + (b - a))),
    ("task3.d_added+task3.one_added", _token(lambda a, still, b: exp(b - a) + (b - a) + 1)),
    ("task3.added", _token(lambda a, still, b: exp(b + a) - (b + a) - 1)),
    ("task3.exp_missing", _token(lambda a, still, b: (b - a) - (b - a) - 1)),
    ("task3.negated", _token(lambda a, still, b: -(exp(b - a) - (b - a) - 1))),
    ("task3.factor", _token(lambda a, still, b: (exp(b - a) - (b - a) - 1) / 2)),
    ("task3.factor", _token(lambda a, still, b: (exp(b - a) - (b - a) - 1) * 2)),
    ("task3.weighted", _token(lambda a, still, b: exp(a) * (a - b))),
    ("task3.weighted", _token(lambda a, still, b: exp(b) * (b - a))),
    ("task3.weighted", _token(lambda a, still, b: exp(a) * (exp(b - a) - (b - a) - 1))),
    ("task3.weighted", _token(lambda a, still, b: exp(still) * (exp(b - a) - (b - a) - 1))),
    ("task3.squared", _token(lambda a, still, b: (exp(b - a) - 1) ** 2)),
    ("task3.squared", _token(lambda a, still, b: (exp(b - a) - 1) ** 2 / 2)),
    ("task3.detached", _token(lambda a, still, b: exp(b - still) - (b - still) - 1)),
    ("task3.exp_detached", _token(lambda a, still, b: exp(b - still) - (b - a) - 1)),
    ("task3.d_detached", _token(lambda a, still, b: exp(b - a) - (b - still) - 1)),
    ("task3.times_rho", _token(lambda a, still, b: exp(a - still) * (exp(b - a) - (b - a) - 1))),
    *[("task3.clamped", _clamped(-size, size)) for size in (0.5, 1.0, 2.0, 3.0, 5.0, 10.0)],
    ("task3.clamped", _clamped(0.0, 99.0)),
    ("task3.clamped", _clamped(-99.0, 0.0)),
    ("task3.clamped", _token(lambda a, still, b: min(exp(b - a) - (b - a) - 1, 1.0))),
    ("task3.clamped", _token(lambda a, still, b: min(exp(b - a) - (b - a) - 1, 10.0))),
    ("task3.reduced", _everything(mean)),
    ("task3.reduced", _everything(sum)),
    ("task3.reduced", _rows(mean)),
    ("task3.reduced", _rows(sum)),
    ("task3.reduced", _columns(mean)),
    ("task3.reduced", _columns(sum)),
    ("task3.zeros", _token(lambda a, still, b: 0.0)),
    ("task3.flat", {"finish": lambda rows: [x for row in rows for x in row]}),
]
