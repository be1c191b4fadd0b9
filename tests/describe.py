"""What a test prints in the place of pytest's traceback: a few lines about the student's file."""

import inspect
import linecache
import os
import re
import textwrap
from pathlib import Path

import pytest

from tests.errors import advice
from tests.labfile import NUMBER_OF, TASKS, ascii_line, error_text, lab_frames, problem_line
from tests.limits import OutOfTime
from tests.surroundings import EndsPython


def describe(error, lab, n):
    """Return the lines that stand for an exception in a test, of task n or of none (None)."""
    if isinstance(error, pytest.fail.Exception):
        text = str(error.msg)
    elif isinstance(error, OutOfTime):
        text = _out_of_time(error, lab, n)
    elif frames := lab_frames(error, lab.__file__):
        text = _in_student_code(error, lab, frames)
    else:
        text = _in_test(error, lab, n)
    for change in getattr(error, "switched", None) or ():
        text += f"\nyour code switched this, perhaps the cause: {change}"
    lines = [ascii_line(line, 300) if not line.isascii() else line for line in text.split("\n")]
    for problem in lab.__problems__:
        if n and problem.task == n:  # often the real cause
            lines.append(f"when loaded: {problem_line(lab, problem)}")
    return "\n".join(lines)


def _in_student_code(error, lab, frames):
    name, line = frames[-1]
    first = next((f for f, _ in frames if f in NUMBER_OF), frames[0][0])
    file = os.path.basename(lab.__file__)
    where = f"{file} line {line}" + (f" (in {name})" if name != first else "")
    code = linecache.getline(lab.__file__, line)
    kind = SystemExit if isinstance(error, EndsPython) else type(error)
    lines = [f"{first} raised {kind.__name__} at {where}", "    " + ascii_line(code)]
    if isinstance(error, NotImplementedError):
        lines.append("The line of the stub is still there: delete it when the task is written.")
    elif isinstance(error, SystemExit):
        lines.append("This call ends Python: take it out.")
    else:
        lines += _error_lines(error)
        lines += textwrap.wrap(advice(error, code, vars(lab)) or "", 100)
    return "\n".join(lines)


def _out_of_time(error, lab, n):
    first = TASKS[n].name if n else error.name
    inner = "" if error.name in (first, "<module>") else f" (in {error.name})"
    return "\n".join([
        f"{first} did not end within {error.seconds:.3g} s; it was at "
        f"{os.path.basename(lab.__file__)} line {error.line}{inner}",
        "    " + ascii_line(linecache.getline(lab.__file__, error.line)),
        "Is there a loop that never ends? The other tests of this task were not run."
        if n else "Is there a loop that never ends?",
    ])


def _in_test(error, lab, n):
    """An error that no line of the student's file raised: mostly a call that does not fit."""
    task = TASKS[n]
    if isinstance(error, TypeError) and f"{task.name}() " in str(error):
        where = f"{os.path.basename(lab.__file__)} line {lab.__definitions__.get(task.name, '?')}"
        call = f"it is called as  {task.name}{task.signature}"
        return "\n".join([*_error_lines(error), f"your def: {where}", call, *_renamed(lab, task)])
    ours = [f for f in _frames(error.__traceback__) if Path(f[0]).parent == Path(__file__).parent]
    lines = [f"the test of {task.name} stopped:"] + _error_lines(error, 6)
    if ours:
        lines.append(f"(in tests/{Path(ours[-1][0]).name} line {ours[-1][1]})")
    return "\n".join(lines)


def _renamed(lab, task):
    """Return a line about parameters of a student's function that have other names, if any."""
    try:
        theirs = list(inspect.signature(getattr(lab, task.name)).parameters)
    except (TypeError, ValueError):
        return []
    ours = re.findall(r"(\w+)(?:=[^,)]+)?[,)]", task.signature)
    missing, other = [n for n in ours if n not in theirs], [n for n in theirs if n not in ours]
    if missing and other:
        return [f"Keep the names of the parameters: not {', '.join(other)} but "
                f"{', '.join(missing)}; they are also passed by name."]
    return []


def _frames(tb):
    while tb is not None:
        yield tb.tb_frame.f_code.co_filename, tb.tb_lineno
        tb = tb.tb_next


def _error_lines(error, limit=3):
    """Return the exception's own text, cut to a few short lines."""
    lines = [line for line in error_text(error).splitlines() if line.strip()]
    return [ascii_line(line) for line in lines[:limit]]
