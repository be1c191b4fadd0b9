"""Keep account of a run, task by task, and put it into words; for conftest.py and judge.py."""

import pytest

from tests.labfile import TASKS, problem_line

# Keys of the config's stash.
LAB = pytest.StashKey()  # the loaded module
COLLECTED = pytest.StashKey()  # task -> {test file: number of its tests}
OUTCOMES = pytest.StashKey()  # task -> {test: "passed", "failed" or "skipped"}
ENDLESS = pytest.StashKey()  # task -> line where the time limit stopped a test


def progress(config, n, state, outcomes):
    """Return how far a task is, such as "3 of 9 tests fail".

    Args:
        config: pytest's.
        n: the task.
        state: its State.
        outcomes: the outcomes of its tests that ran, as in OUTCOMES.
    """
    run = [outcome for outcome in outcomes if outcome != "skipped"]
    if state.kind != "written":
        return state.short
    if not run:
        return "written, not tested in this run"
    failed, total = run.count("failed"), sum(config.stash[COLLECTED][n].values())
    if n in config.stash[ENDLESS]:
        line = config.stash[ENDLESS][n]
        return f"does not end: stopped at line {line}; {len(run)} of {total} tests ran"
    partly = "" if len(outcomes) >= total else f"; {len(outcomes)} of {total} tests ran"
    if failed:
        return f"{failed} of {len(run)} tests fail{partly}"
    return f"passed ({len(run)} of {len(run)}{partly})"


def load_notes(lab, states, ran):
    """Return lines about load failures that no other line of the run reports.

    Args:
        lab: the loaded module.
        states: task -> its State.
        ran: task -> the outcomes of its tests that ran.
    """
    texts = [states[n].short for n in TASKS] + [states[n].text for n in TASKS if ran[n]]
    reported = "\n".join(texts)
    # The message of a failing test names the problems of its task.
    failed = {n for n in TASKS if states[n].kind == "written" and "failed" in ran[n]}
    notes = [p for p in lab.__problems__ if p.text not in reported and p.task not in failed]
    rest = len(notes) - 5
    more = [f"when loaded: {rest} more error{'s' * (rest != 1)}"] if rest > 0 else []
    return [f"when loaded: {problem_line(lab, problem)}" for problem in notes[:5]] + more
