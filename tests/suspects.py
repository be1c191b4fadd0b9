"""Known mistakes as functions, and the search for the one that a student's function makes.

The specification is cut into stages. A known mistake replaces one stage, so it can be run on any
input, and two mistakes can be combined. A mistake is suspected only if it gives what the student's
function gives on every probe of the task, not only on the one that failed.
"""

import contextlib
import itertools
import linecache
import math

from . import explain
from .explain import same
from .labfile import ascii_line, error_text, lab_frames

# ---------------------------------------------------------------- arithmetic that never raises


def div(a, b):
    """Divide as torch does: 0/0 is NaN, x/0 is infinite."""
    if b == 0:
        return math.nan if a == 0 or math.isnan(a) else math.copysign(math.inf, a)
    return a / b


def root(x):
    """Return the square root, NaN for a negative number, as torch does."""
    return math.sqrt(x) if x >= 0 else math.nan


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


# ---------------------------------------------------------------- the search


def outcome(run, *args):
    """Return what `run` returns, or None if it raises."""
    try:
        return run(*args)
    except Exception:  # which error does not matter here: the test shows the student's own one
        return None


def fits(run, stages, probes, yours, keys, tolerance=2e-5):
    """Return whether these stages give the student's outcomes on all probes."""
    for key in keys:
        for name, probe in probes.items():
            theirs, mine = outcome(run, stages, probe, key), yours[name]
            if theirs is None or mine is None:
                if theirs is not mine:
                    return False
            elif key == "grad" and theirs[0][0] != theirs[0][0]:
                continue  # the value is NaN, and then a gradient found by nudging says nothing
            elif not same(mine[key], theirs, tolerance, tolerance):
                return False
    return True


def identify(run, table, probes, yours, keys, pairs=()):
    """Return the mistakes that explain the student's outcomes on all probes.

    Args:
        run: function (stages, probe, key) -> what the specification with these stages gives.
        table: list of (mistake id, stages to replace).
        probes: dict name -> probe.
        yours: dict name -> outcome of the student's function: a dict with the keys, or None if
            the call raised.
        keys: the parts of an outcome that must agree, the quickest first.
        pairs: the part of the table in which to look for two mistakes at once if one alone does
            not explain everything.

    Returns: list of (id, stages); [] if nothing fits or nothing is wrong.
    """
    if fits(run, {}, probes, yours, keys) or all(mine is None for mine in yours.values()):
        return []
    found = [(name, s) for name, s in table if fits(run, s, probes, yours, keys)]
    if found or None in yours.values():
        return found
    for (a, first), (b, second) in itertools.combinations(pairs, 2):
        both = {**first, **second}
        if a != b and not first.keys() & second.keys():
            if fits(run, both, probes, yours, keys):
                found.append((f"{a}+{b}", both))
    return found


def guesses(found, run, probe, key):
    """Yield pairs (id, value) for explain.compare."""
    for name, stages in found:
        value = outcome(run, stages, probe, key)
        if value is not None:
            yield name, value


@contextlib.contextmanager
def named_crash(lab, call, expected, find):
    """If the student's code raises and one known mistake explains that, name it.

    Args:
        lab: the student's module.
        call: the call as text.
        expected: the right value.
        find: function without arguments that returns what `identify` found.
    """
    try:
        yield
    except Exception as error:
        names = {name for name, _ in find()}
        frames = lab_frames(error, lab.__file__)
        if len(names) != 1 or not frames:
            raise
        line = frames[-1][1]
        source = linecache.getline(lab.__file__, line).strip()
        problem = f"{error_text(error)}  (line {line}: {source})"
        explain.fail(call, expected, ascii_line(problem, 180), names.pop())


def nudge(function, x, step=1e-5):
    """Return the gradient of `function` at the matrix `x`, by nudging one entry at a time."""
    result = []
    for i, row in enumerate(x):
        result.append([])
        for t, value in enumerate(row):
            ends = []
            for moved in (value + step, value - step):
                y = [list(r) for r in x]
                y[i][t] = moved
                ends.append(function(y))
            result[i].append((ends[0] - ends[1]) / (2 * step))
    return result
