"""Describe a failure in a few lines about the student's file, instead of pytest's traceback."""

import inspect
import linecache
import os
import re
import textwrap
import traceback
from pathlib import Path

import pytest

from tests.labfile import NUMBER_OF, TASKS, ascii_line, error_text, lab_frames, problem_line
from tests.loader.errors import advice
from tests.loader.limits import OutOfTime
from tests.loader.surroundings import EndsPython
from tests.messages import screen

TESTS = Path(__file__).parents[1]
CALL = re.compile(r"(?P<call>.*?)\nexpected  +(?P<expected>.*?)\nyours  +(?P<yours>.*)", re.DOTALL)
LONGEST = 150  # characters of an exception's line: two lines of a screen


def describe(error, lab, n):
    """Return the lines that describe an exception in a test of task n (None: of no task).

    Args:
        error: the exception.
        lab: the student's module.
        n: number of the task, or None.
    """
    if isinstance(error, pytest.fail.Exception):
        text = str(error.msg)
    elif isinstance(error, OutOfTime):
        text = _out_of_time(error, lab, n)
    elif frames := lab_frames(error, lab.__file__):
        text = _in_student_code(error, lab, frames)
    else:
        text = _in_test(error, lab, n)
    for change in getattr(error, "switched", None) or ():
        text += f"\nyour code changed this, perhaps the cause: {change}"
    lines = [ascii_line(line, 300) if not line.isascii() else line for line in text.split("\n")]
    for problem in lab.__problems__:
        if n and problem.task == n:  # often the real cause
            lines.append(f"when loaded: {problem_line(lab, problem)}")
    return "\n".join(lines)


# ============================================================== its cause


def failure(error, lab, n, test, printed=""):
    """Return a failing test as a screen.Failure.

    Args:
        error: the exception.
        lab: the module under test.
        n: the task, or None.
        test: the test's name.
        printed: what the student's code printed.
    """
    rank, cause, short, raised = _cause(error, lab, n)
    text, short = describe(error, lab, n), " ".join(short.split())
    short = ascii_line(short, 400) if not short.isascii() else short
    return screen.Failure(n or 0, test, text, rank, cause, short, raised, printed)


def _cause(error, lab, n):
    """Return (rank, cause, short, raised) of an exception; see screen.Failure."""
    if isinstance(error, pytest.fail.Exception):
        return _cause_of_message(error, lab, n)
    if isinstance(error, OutOfTime):
        text = describe(error, lab, n).split("\n")[0]
        return screen.ENDLESS, f"time at line {error.line}", text, ""
    if frames := lab_frames(error, lab.__file__):
        where, _, *told = _in_student_code(error, lab, frames).split("\n")  # without the code
        text = " ".join(told).removeprefix(f"{type(error).__name__}: ")
        return screen.RAISED, _raised(error, frames), _joined(where, text), ""
    text = (_error_lines(error) or [type(error).__name__])[0]
    if n and isinstance(error, TypeError) and f"{TASKS[n].name}() " in str(error):
        return screen.RAISED, f"call of task {n}: {text}", text, ""
    return screen.UNKNOWN, f"task {n}: {text}", text, ""


def _raised(error, frames):
    return f"{type(error).__name__} at line {frames[-1][1]}"


def _cause_of_message(error, lab, n):
    """Return _cause of a failure that has a message already."""
    mistake, message = getattr(error, "mistake", None), str(error.msg)
    likely = getattr(error, "likely", "") or message.split("\n")[0]
    if mistake and not mistake.startswith("any."):
        # The student's exception that led the test to this mistake, where there was one.
        frames = error.__context__ and lab_frames(error.__context__, lab.__file__)
        raised = _raised(error.__context__, frames) if frames else ""
        return screen.NAMED, "+".join(sorted(mistake.split("+"))), likely, raised
    what, values = _differing(message)
    if mistake:
        return screen.GENERAL, f"task {n}: {mistake} {what}", _joined(what, likely), ""
    return screen.UNKNOWN, f"task {n}: {what}", _joined(what, values), ""


def _joined(*parts):
    return ": ".join(part for part in parts if part)


def _differing(message):
    """Return (part of the result that is wrong, its two values) of a four-part message.

    Of another message: its first line, and nothing.
    """
    match = CALL.match(message)
    if match is None:
        return message.split("\n")[0], ""
    call = " ".join(match["call"].split())
    head, named, _ = call.partition("grpo_loss: ")  # 'loss of grpo_loss: rho=...'
    if named:
        what = re.sub(" (of|in) $", "", head)
    else:  # 'sample_group(...): rewards, with ...', '..., cfg with G=3: result['kl']'
        what = call[call.rfind(")") + 1 :].rpartition(": ")[2].partition(", with ")[0]
        what = "" if "cfg with" in what else what.strip(", ")
    expected = match["expected"].split("\n")[0].split("  (")[0]
    yours = match["yours"].split("\n")[0].split("  (")[0]
    return what, f"expected {_brief(expected)}, yours {_brief(yours)}"


def _brief(text, room=20):
    return text if len(text) <= room else text[: room - 4] + " ..."


# ============================================================== its lines


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
        lines.append("This call ends Python: remove it.")
    else:
        lines += _error_lines(error)
        lines += textwrap.wrap(advice(error, code, vars(lab)) or "", screen.WIDTH)
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
    """Describe an error that comes from no line of the student's file: mostly a wrong call."""
    task = TASKS[n]
    if isinstance(error, TypeError) and f"{task.name}() " in str(error):
        where = f"{os.path.basename(lab.__file__)} line {lab.__definitions__.get(task.name, '?')}"
        call = f"it is called as  {task.name}{task.signature}"
        return "\n".join([*_error_lines(error), f"your def: {where}", call, *_renamed(lab, task)])
    frames = traceback.walk_tb(error.__traceback__)
    places = [(Path(frame.f_code.co_filename), line) for frame, line in frames]
    ours = [(path, line) for path, line in places if TESTS in path.parents]
    lines = [f"the test of {task.name} stopped:"] + _error_lines(error, 6)
    if ours:
        path, line = ours[-1]
        lines.append(f"(in tests/{path.relative_to(TESTS).as_posix()} line {line})")
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


def _error_lines(error, limit=3):
    """Return the exception's own text, cut to a few short lines."""
    lines = [line for line in error_text(error).splitlines() if line.strip()]
    return [ascii_line(line, LONGEST) for line in lines[:limit]]
