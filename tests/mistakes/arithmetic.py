"""Compute on plain Python numbers as torch does on tensors: nothing here raises."""

import math


def div(a, b):
    """Divide as torch does: 0/0 is NaN, x/0 is infinite."""
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def root(x):
    """Return the square root, NaN for a negative number, as torch does."""
    return math.sqrt(x) if x >= 0 else math.nan


def exp(x):
    """Return e to the x; infinite where it is too large."""
    try:
        return math.exp(x)
    except OverflowError:
        return math.inf


def expm1(x):
    """Return e to the x, minus 1; infinite where it is too large."""
    try:
        return math.expm1(x)
    except OverflowError:
        return math.inf


def log(x):
    """Return the natural logarithm: of 0 minus infinity, of a negative number NaN."""
    if x == 0:
        return -math.inf
    return math.log(x) if x > 0 else math.nan


def mean(values):
    """Return the mean; NaN for no values."""
    return div(sum(values), len(values))


def variance(values, less=0):
    """Return the variance, divided by the count minus `less`."""
    m = mean(values)
    return div(sum((x - m) ** 2 for x in values), len(values) - less)


def std(values, less=0):
    """Return the standard deviation, divided by the count minus `less`."""
    return root(variance(values, less))


def nudge(function, x, step=1e-5):
    """Return the gradient of `function` at the matrix `x`, by nudging one entry at a time.

    Args:
        function: matrix -> number, or nested lists of numbers, of whose sum it is the gradient.
        x: matrix as nested lists.
        step: by which an entry is moved, up and down.
    """
    result = []
    for i, row in enumerate(x):
        result.append([])
        for t, value in enumerate(row):
            ends = []
            for moved in (value + step, value - step):
                y = [list(r) for r in x]
                y[i][t] = moved
                ends.append(function(y))
            result[i].append(_difference(*ends) / (2 * step))
    return result


def _difference(a, b):
    """Return the sum of a minus the sum of b; large entries that are equal cost no digits."""
    return sum(map(_difference, a, b)) if isinstance(a, list) else a - b
