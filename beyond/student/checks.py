"""A lab file's five functions on a real model: what goes wrong in one is a line that names it."""

import contextlib
import functools
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lab15_run

HOUSE = Path(__file__).resolve().parents[1]
KNOWN = (ValueError, OSError, FloatingPointError)  # errors of this folder: one line each
HANGS = {  # what runs in a call of the services that does not come back
    "generate": "sample_group", "train_step": "group_advantages, k3_kl or grpo_loss",
    "score": "the reward",
}


class LabError(ValueError):
    """One of the five functions raised, or returned what the next one cannot use."""


class Fault(RuntimeError):
    """A reward of yours failed in another process; the text is one line and names it."""


def line_of(error: BaseException) -> str:
    """Return an exception as one line: its type, and its text."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"[:300].rstrip(": ")


def how_to_test(task: int, path: str | Path) -> str:
    """Return the command that tests a task of a lab file, to be pasted into a terminal."""
    return lab15_run.test_command(task, {"__file__": str(path)})


def wrong_with(task: int, result: Any, args: tuple) -> str | None:
    """Return what is wrong with the result of a task, or None.

    Args:
        task: 1 to 5; of Task 5 only hf/whole_step.py knows what it needs.
        result: what the function returned.
        args: the arguments of the call, in the order of the contract.
    """
    names: Any = lab15_run.TASKS[task][1]
    given = dict(zip(names, args))
    with torch.no_grad(), warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        return lab15_run.RESULTS[task](result, given) if task < 5 else None
    return None  # arguments that the contract does not have: nothing to compare with


def where_in(error: BaseException, path: str) -> tuple[int, bool]:
    """Return (the last line of a file that an error came through, whether beyond/ raised it)."""
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno or 0 for frame in frames if frame.filename == path]
    inner = Path(frames[-1].filename)
    return (lines[-1] if lines else 0), HOUSE in inner.parents


@contextlib.contextmanager
def as_tinylm(backend: Any):
    """Let "import tinylm" give the backend, for functions that import when they are called."""
    known = sys.modules.get("tinylm")
    sys.modules["tinylm"] = backend
    try:
        yield
    finally:
        if known is None:
            del sys.modules["tinylm"]
        else:
            sys.modules["tinylm"] = known


def checked(function: Callable, task: int, lab: Any, backend: Any) -> Callable:
    """Return a lab file's function, with its exceptions and odd results as a LabError.

    Out-of-memory errors, and what beyond/ itself says in one line (a reward that raised, a prompt
    that is too long), go through.

    Args:
        function: the lab file's.
        task: its number, 1 to 5.
        lab: the lab file's module.
        backend: what stands for tinylm while the function runs.
    """
    head = f"your {function.__name__} (Task {task})"
    tail = f"Test: {how_to_test(task, lab.__file__)}"

    @functools.wraps(function)
    def run(*args, **kwargs):
        try:
            with as_tinylm(backend):
                result = function(*args, **kwargs)
        except LabError:
            raise
        except (Exception, SystemExit) as error:
            line, ours = where_in(error, lab.__file__)
            if lab15_run.out_of_memory(error) or (ours and isinstance(error, KNOWN)):
                raise
            what = (str(error).strip().splitlines() or [""])[0]
            if isinstance(error, NameError):  # an import that failed was only noted by load_lab
                what += "".join(f"; line {p.line}: {p.text:.90}" for p in lab.__problems__[:1])
            raise LabError(f"{head} raised {type(error).__name__} at line {line}: {what:.250}. "
                           f"{tail}") from error
        given = inspect.signature(function).bind(*args, **kwargs).args
        if wrong := wrong_with(task, result, given):
            raise LabError(f"{head} returned {wrong}. {tail}")
        return result

    return run


def check_all(lab: Any, backend: Any) -> None:
    """Put checked functions into a module of load_lab; its functions call each other's so, too."""
    from tests.labfile import TASKS

    for number, task in TASKS.items():
        setattr(lab, task.name, checked(getattr(lab, task.name), number, lab, backend))
