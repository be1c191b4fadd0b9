"""How many points a task is worth: one table, and the rule for applying it.

    python -m instructor.grade --points        prints it

A task's points are divided among properties that can be tested separately (a value, its
gradient, a statistic, ...). Every hidden test is about one of them and gives its share if it
passes in all of its cases; so a mistake costs only the properties that it spoils. Tests of
form give no points: if one fails, the task gives at most half of its points.
"""

import argparse

from tests.labfile import TASKS

# Task -> hidden test -> points. A test that is not listed is a test of form.
SHARES = {
    1: {"rows": 0.6, "responses": 0.5, "rewards": 0.6, "sampling": 0.3},
    2: {"binary": 0.6, "real": 0.6, "no_scale": 0.4, "eps": 0.4},
    3: {"values": 0.5, "gradient": 0.5},
    4: {"loss": 1.0, "gradient": 1.0, "kl": 0.35, "clip_frac": 0.35, "ratio_max": 0.3},
    5: {"policy": 1.0, "reward": 0.3, "last": 0.4, "entropy": 0.3},
}
# For a property that holds only in the simple cases: one prompt (Task 1), one response (Task 4).
SIMPLE = 0.3
CAP = 0.5  # of a task's points at most where a test of form fails


def by_test(number, passed, simple=None):
    """Return {id of a hidden test: (points that it gives, its share)}; a share of 0: of form.

    Args:
        number: of the task.
        passed: {id of a hidden test: whether it passed in all of its cases}.
        simple: {id: whether it passed in those of its cases that are simple}.
    """
    simple, shares = simple or {}, SHARES[number]
    part = {name: 1.0 if passed.get(name) else SIMPLE * bool(simple.get(name)) for name in shares}
    ids = dict.fromkeys([*passed, *shares])
    return {i: (round(shares.get(i, 0.0) * part.get(i, 0.0), 3), shares.get(i, 0.0)) for i in ids}


def of_task(number, passed, simple=None):
    """Return the points of a task; see by_test for the arguments.

    Args:
        number: of the task.
        passed: {id of a hidden test: whether it passed in all of its cases}.
        simple: {id: whether it passed in those of its cases that are simple}.
    """
    shares = SHARES[number]
    if all(passed.values()) and passed.keys() >= shares.keys():
        return float(TASKS[number].points)
    given = sum(points for points, _ in by_test(number, passed, simple).values())
    if not all(good for name, good in passed.items() if name not in shares):
        given = min(given, CAP * TASKS[number].points)
    return round(given, 2)


def table():
    """Return the lines of the table that --points prints."""
    import importlib

    lines = [
        "A hidden test gives its points if it passes in all of its cases. If a test of form fails,",
        f"a task gives {CAP:.0%} of its points at most; with all tests passed it gives all.",
    ]
    for number, task in TASKS.items():
        module = importlib.import_module(f"instructor.hidden.task{number}")
        plural = "s" * (task.points != 1)
        lines += ["", f"Task {number}, {task.name}: {task.points} point{plural}"]
        simple = getattr(module, "SIMPLE_CASES", "")
        for name, share in SHARES[number].items():
            lines.append(f"  {share:4.2f}  {module.TESTS[name].name}")
        form = [test.name for name, test in module.TESTS.items() if name not in SHARES[number]]
        lines += [f"  form  {name}" for name in form]
        if simple:
            lines.append(f"  {SIMPLE:.0%} of a test's points if it passes only {simple}")
    return lines


class Show(argparse.Action):
    """The flag --points: print the table and exit."""

    def __call__(self, parser, namespace, values, option_string=None):
        """Print the table."""
        print("\n".join(table()))
        parser.exit()
