"""Known mistakes as functions, and the search for the one that a student's function makes.

The specification is cut into stages. A known mistake replaces one stage, so it can be run on any
input, and two mistakes can be combined. A mistake is suspected only if it gives what the student's
function gives on every probe of the task, not only on the one that failed.
"""

import itertools

from ..spec.nested import same

# ---------------------------------------------------------------- the search


def outcome(run, *args):
    """Return what `run` returns, or None if it raises."""
    try:
        return run(*args)
    except Exception:  # which error does not matter here: the test shows the student's own one
        return None


def fits(run, stages, probes, yours, keys, tolerance=2e-5):
    """Return whether these stages give the student's outcomes on all probes.

    Args:
        run: function (stages, probe, key) -> what the specification with these stages gives.
        stages: {name: function} that replace those of the specification.
        probes: dict name -> probe.
        yours: dict name -> outcome of the student's function, or None if the call raised.
        keys: the parts of an outcome that must agree.
        tolerance: absolute and relative.
    """
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
    """Yield pairs (id, value) for explain.compare.

    Args:
        found: list of (mistake id, stages), from identify.
        run: function (stages, probe, key).
        probe: the input.
        key: the part of an outcome.
    """
    for name, stages in found:
        value = outcome(run, stages, probe, key)
        if value is not None:
            yield name, value
