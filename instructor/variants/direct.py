"""The hidden tests on a file of our own, in this process: no sandbox, the same frames.

Never for a student's file.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import tinylm
from tests.labfile import ROOT, load_lab

from ..box import calls, wire
from ..grading import judging


class Direct:
    """Takes the place of a Box: the same calls, in this process, by way of the same frames."""

    def __init__(self, lab: Any, task: int):
        self.lab, self.task = lab, task

    def call(self, send: Any, answer: Any = None) -> Any:
        """Call the function of the file."""

        def ask(question: Any) -> Any:
            return through({"answer": answer(through(question))})["answer"]

        reply = calls.call(self.lab, self.task, through(send), ask)
        try:
            return through(reply)
        except wire.WireError as error:
            return {"ok": False, "error": type(error).__name__}


def through(value: Any) -> Any:
    """Return what comes out of a pipe for what goes in."""
    return wire.decode(wire.encode(value)[4:])


@contextlib.contextmanager
def hooked() -> Iterator[None]:
    """Let tinylm ask the stand-ins; it is as it was afterwards, and so is the name lab15_grpo."""
    sys.path.append(str(ROOT / "instructor" / "box"))
    own = {name: getattr(tinylm, name) for name in ("sample", "reward")}
    lab = sys.modules.get("lab15_grpo")
    calls.hook(tinylm)
    try:
        yield
    finally:
        if sys.modules.pop("lab15_grpo", None) and lab:
            sys.modules["lab15_grpo"] = lab
        for name, function in own.items():
            setattr(tinylm, name, function)
        sys.path.remove(str(ROOT / "instructor" / "box"))


def verdict(text: str, task: int, course: judging.Course, folder: Path) -> tuple[float, dict]:
    """Return (points, {id of a hidden test: passed}) of a task in a file's text.

    Args:
        text: of the file.
        task: its number.
        course: the hidden tests.
        folder: to write the file to.
    """
    path = folder / "lab15_grpo.py"
    path.write_text(text, encoding="utf-8")
    module, cases = course.modules[task], course.cases[task]
    lab = sys.modules["lab15_grpo"] = load_lab(path)  # a file may import itself inside a function
    verdicts = judging.run_cases(Direct(lab, task), module, cases)[0]
    return judging.scored(task, module, cases, verdicts)[:2]
