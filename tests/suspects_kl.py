"""The known mistakes of task 3, each one stage of the specification replaced."""

from math import exp, expm1, log

from .suspects import mean, nudge

# Stage arguments: a = logp of the token, still = the same number cut off from the gradient,
# b = ref_logp of the token.
RIGHT = {
    "token": lambda a, still, b: expm1(b - a) - (b - a),
    "finish": lambda rows: rows,
}


def run(stages, probe, key="value"):
    """Return k3 with some stages replaced, or ("grad") the gradient of the sum of its entries."""
    logp, ref_logp = probe
    s = {**RIGHT, **stages}

    def value(live):
        rows = [
            [s["token"](*numbers) for numbers in zip(*row)] for row in zip(live, logp, ref_logp)
        ]
        return s["finish"](rows)

    if key == "value":
        return value(logp)
    return nudge(lambda live: _total(value(live)), logp)


def _total(value):
    return sum(map(_total, value)) if isinstance(value, list) else value


def _everything(reduce):
    return {"finish": lambda rows: reduce([x for row in rows for x in row])}


def _rows(reduce):
    return {"finish": lambda rows: [reduce(row) for row in rows]}


def _columns(reduce):
    return {"finish": lambda rows: [reduce(column) for column in zip(*rows)]}


def _token(function):
    return {"token": function}


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
    ("task3.logs_divided", _token(lambda a, still, b: b / a - log(b / a) - 1)),
    ("task3.logs_divided", _token(lambda a, still, b: exp(b / a) - b / a - 1)),
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
