"""What is wrong with a lab file's functions, named as their tests name it, before they train.

The tests' own functions are called, on TinyLM and with their probes: what a run on a real model
says of Task 3 is what `python -m pytest -k task3` says.
"""

import contextlib
import importlib
import io
import itertools
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from beyond.student.checks import how_to_test
from beyond.tasks.reward_limit import in_time

LIMIT = 30.0  # seconds for the probes of one task: a loop without end must not stop a run


def used_by(cfg: Any) -> list[int]:
    """Return the tasks whose functions a run calls.

    Args:
        cfg: a GRPOConfig.
    """
    return [number for number, used in (
        (1, True), (2, cfg.adv in (None, "lab")), (3, cfg.loss == "lab"), (4, cfg.loss == "lab"),
        (5, cfg.step == "lab")) if used]


def tests_of(number: int) -> Iterator[Callable[[Any], Any]]:
    """Yield the tests of a task, each as a function of a loaded lab file."""
    from tests.labfile import TASKS

    module = importlib.import_module(f"tests.test_task{number}_{TASKS[number].name}")
    for name, test in list(vars(module).items()):
        if not name.startswith(f"test_task{number}"):
            continue
        marks = [mark for mark in getattr(test, "pytestmark", []) if mark.name == "parametrize"]
        for values in itertools.product(*(mark.args[1] for mark in marks)):
            given: dict[str, Any] = {}
            for mark, value in zip(marks, values):
                names = mark.args[0]
                names = names.replace(" ", "").split(",") if isinstance(names, str) else names
                given |= dict(zip(names, [value] if len(names) == 1 else value))
            yield lambda lab, test=test, given=given: test(lab, **given)


def failure_of(lab: Any, number: int) -> BaseException | None:
    """Return the failure that says most about a task, None if its tests pass.

    Args:
        lab: of load_lab, on TinyLM.
        number: of the task.
    """
    import pytest

    first: BaseException | None = None
    for test in tests_of(number):
        try:
            test(lab)
        except pytest.skip.Exception:
            continue
        except (Exception, pytest.fail.Exception) as error:
            if getattr(error, "likely", ""):
                return error
            first = first or error
    return first


def said(error: BaseException) -> str:
    """Return a failure in one line: its likely cause, or what was expected and what came."""
    likely = getattr(error, "likely", "")
    kind = "" if hasattr(error, "mistake") else f"it raised {type(error).__name__}: "
    return f"{kind}{' '.join(str(likely or error).split())}"[:300].rstrip(". ")


def differences(path: str | Path, numbers: Iterable[int]) -> list[str]:
    """Return a line for each task whose function is not what the lab asks for.

    They are warnings: perhaps something else is what you want to try.

    Args:
        path: of a lab file whose tasks are written.
        numbers: the tasks that are looked at.
    """
    from tests.labfile import TASKS, load_lab

    lines = []
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        lab = load_lab(path)
        for number in numbers:
            try:
                error = in_time(lambda number=number: failure_of(lab, number), LIMIT)
            except TimeoutError as late:
                error = late
            if error is not None:
                lines.append(
                    f"warning: your {TASKS[number].name} (Task {number}) is not what the lab asks "
                    f"for: {said(error)}. Training continues with it. Test: "
                    f"{how_to_test(number, path)}")
    return lines
