"""A lab file's five functions on a real model: what goes wrong in one is a line that names it."""

import contextlib
import functools
import inspect
import re
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

HOUSE = Path(__file__).resolve().parent
KNOWN = (ValueError, OSError, FloatingPointError)  # errors of this folder: one line each


class LabError(ValueError):
    """One of the five functions raised, or returned what the next one cannot use."""


def how_to_test(task: int, path: str | Path) -> str:
    """Return the command that tests a task of a lab file, to be pasted into a terminal."""
    name = str(path)
    if re.search(r"[^\w./\\:~+-]", name):
        name = f'"{name}"'
    return f"python -m pytest -q -k task{task} --lab={name}"


def _is_tensor(value: Any, shape: torch.Size | tuple[int, ...]) -> str | None:
    """Return what is wrong with a value that should be a tensor of a shape, or None."""
    if not isinstance(value, torch.Tensor):
        return f"{type(value).__name__}, not a tensor of shape {tuple(shape)}"
    if value.shape != shape:
        return f"a tensor of shape {tuple(value.shape)}, not {tuple(shape)}"
    return None


def sampled(result: Any, model, prompts, answers, G, *rest) -> str | None:
    """Return what is wrong with the result of Task 1, or None."""
    if not isinstance(result, dict):
        return f"{type(result).__name__}, not a dict"
    missing = [k for k in ("out", "responses", "rewards") if k not in result]
    if missing:
        return f"a dict without {', '.join(missing)}"
    B = len(prompts) * G
    if len(result["responses"]) != B:
        return f"{len(result['responses'])} responses, not {B}"
    wrong = _is_tensor(result["rewards"], (B,))
    return wrong and f"rewards: {wrong}"


def compared(result: Any, rewards, *rest) -> str | None:
    """Return what is wrong with the result of Task 2, or None."""
    wrong = _is_tensor(result, rewards.shape)
    if wrong is None and rewards.isfinite().all() and not result.isfinite().all():
        return "NaN or infinity for finite rewards"
    return wrong


def diverged(result: Any, logp, *rest) -> str | None:
    """Return what is wrong with the result of Task 3, or None."""
    return _is_tensor(result, logp.shape)


def lost(result: Any, logp, *rest) -> str | None:
    """Return what is wrong with the result of Task 4, or None."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return f"{type(result).__name__}, not (loss, stats)"
    loss, stats = result
    if not isinstance(stats, dict):
        return f"stats: {type(stats).__name__}, not a dict"
    if missing := [k for k in ("kl", "clip_frac") if k not in stats]:
        return f"stats without {', '.join(missing)}"
    wrong = _is_tensor(loss, loss.shape if getattr(loss, "numel", int)() == 1 else ())
    if wrong is None and logp.requires_grad and not loss.requires_grad:
        wrong = "no gradient flows from it to logp"
    return wrong and f"loss: {wrong}"


CHECKS: dict[int, Callable] = {1: sampled, 2: compared, 3: diverged, 4: lost}


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
    """
    head = f"your {function.__name__} (Task {task})"
    tail = f"Test: {how_to_test(task, lab.__file__)}"

    @functools.wraps(function)
    def run(*args, **kwargs):
        from beyond.models import is_out_of_memory

        try:
            with as_tinylm(backend):
                result = function(*args, **kwargs)
        except LabError:
            raise
        except Exception as error:
            line, ours = where_in(error, lab.__file__)
            if is_out_of_memory(error) or (ours and isinstance(error, KNOWN)):
                raise
            what = (str(error).strip().splitlines() or [""])[0]
            if isinstance(error, NameError):  # an import that failed was only noted by load_lab
                what += "".join(f"; line {p.line}: {p.text:.90}" for p in lab.__problems__[:1])
            raise LabError(f"{head} raised {type(error).__name__} at line {line}: {what:.250}. "
                           f"{tail}") from error
        if task not in CHECKS:
            return result
        given = inspect.signature(function).bind(*args, **kwargs).args
        if wrong := CHECKS[task](result, *given):
            raise LabError(f"{head} returned {wrong}. {tail}")
        return result

    return run


def check_all(lab: Any, backend: Any) -> None:
    """Put checked functions into a module of load_lab; its functions call each other's so, too."""
    from tests.labfile import TASKS

    for number, task in TASKS.items():
        setattr(lab, task.name, checked(getattr(lab, task.name), number, lab, backend))
