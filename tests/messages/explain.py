"""Failure messages in four parts: the call, what was expected, what came back, the likely cause.

    group_advantages(rewards=[1, 0, 0, 0], G=4)
    expected  [1.7317, -0.5772, -0.5772, -0.5772]
    yours     [1.4997, -0.4999, -0.4999, -0.4999]  (first difference at index 0)
    likely    these are the numbers with the sample std (divide by G-1); ...

The cause is looked up, not guessed: a known mistake is named only when it gives the numbers that
came back. Where no mistake (or more than one) fits, the last part is left out.

Every mistake has a stable id ("task2.sample_std") and one text, in the file of its task
(mistakes/task2.py). Two ids joined by "+" stand for two mistakes at once. The exception that is
raised carries the id in its attribute `mistake` (None where no cause was found).
"""

import contextlib
import linecache
import math
import numbers
import textwrap
from typing import NamedTuple

import pytest
import torch

from ..labfile import TASKS, ascii_line, error_text, is_real, lab_frames
from ..mistakes import task1, task2, task3, task4, task5
from ..spec import nested
from ..spec.nested import near, same

WIDTH, MOST = 80, 9  # columns and lines of a message
INDENT = " " * 10
ROOM = WIDTH - len(INDENT)


class Mistake(NamedTuple):
    """A mistake in words, and the chapter section to read (None: no section)."""

    text: str
    section: int | None


GENERAL = {
    "any.none": ("the function returned None: is a `return` missing, or only in one branch?", None),
    "any.type": (
        "the docstring promises a different type. Which line made this one? .item(), float() and "
        ".tolist() turn a tensor into plain Python; numpy arrays and lists are not tensors either.",
        None,
    ),
    "any.shape": (
        "the docstring promises a different shape. Print the shape after every line: which one "
        "changes it?",
        None,
    ),
    "any.dtype": (
        "the tensor holds whole numbers or booleans; the docstring promises floating-point ones.",
        None,
    ),
    "any.half": ("float16 and bfloat16 keep too few digits: compute in float32.", None),
    "any.close": (
        "close to the right numbers, but not equal: is something rounded, or computed in half "
        "precision on the way, or is a small number added, left out or in the wrong place?",
        None,
    ),
    "any.nan": ("NaN: a 0/0, an inf - inf, or the log or root of a negative number.", None),
}

TEXTS = {1: task1.TEXTS, 2: task2.TEXTS, 3: task3.TEXTS,
         4: task4.TEXTS, 5: task5.TEXTS}
MISTAKES = {name: Mistake(*entry) for name, entry in GENERAL.items()}
MISTAKES |= {f"task{n}.{name}": Mistake(text, TASKS[n].section)
             for n, texts in TEXTS.items() for name, text in texts.items()}


# ---------------------------------------------------------------- numbers as text


def number(x, digits=4):
    """Return a number as short text: `digits` decimals without trailing zeros."""
    if isinstance(x, bool) or not isinstance(x, numbers.Real):
        return ascii(x)
    x = float(x)
    if not math.isfinite(x):
        return str(x)
    if x != 0 and (abs(x) < 0.5 * 10**-digits or abs(x) >= 1e6):
        return f"{x:.{digits}g}"
    text = f"{x:.{digits}f}".rstrip("0").rstrip(".")
    return "0" if text == "-0" else text


def show(values, digits=4, focus=0, room=ROOM):
    """Return nested lists of numbers as text, cut to `room` characters around flat index `focus`.

    Tensors are shown like lists; anything else as its (ASCII) repr, cut off where it is too long.

    Args:
        values: nested lists, a tensor, or anything else.
        digits: behind the point.
        focus: flat index of the entry that must be seen.
        room: characters.
    """
    if isinstance(values, torch.Tensor):
        values = nested.values(values)
    text = _text(values, digits)
    if len(text) <= room or not isinstance(values, (list, tuple)):
        return text if len(text) <= room else text[: room - 4] + " ..."
    shape = nested.shape(values)
    if shape is None or len(shape) not in (1, 2) or 0 in shape:
        return text[: room - 4] + " ..."
    if len(shape) == 2:  # only the row that holds the focus
        row, column = divmod(focus, shape[1])
        start = f"row {row}: "
        return start + show(values[row], digits, column, room - len(start))
    first, last = focus, focus + 1  # a window that grows around the focus
    while True:
        wider = (max(first - 1, 0), min(last + 1, len(values)))
        text = _window(values, *wider, digits)
        if len(text) > room or wider == (first, last):
            return _window(values, first, last, digits)
        first, last = wider


def _text(values, digits):
    if isinstance(values, (list, tuple)):
        return "[" + ", ".join(_text(v, digits) for v in values) + "]"
    return number(values, digits)


def _window(values, first, last, digits):
    inside = ", ".join(number(v, digits) for v in values[first:last])
    return "[" + "..., " * (first > 0) + inside + ", ..." * (last < len(values)) + "]"


# ---------------------------------------------------------------- comparing


def cause(expected, yours, guesses, atol=1e-4, rtol=1e-4, order=()):
    """Return the id of the one known mistake that gives `yours` and not `expected`, else None.

    Args:
        expected: the right value.
        yours: what the student's function returned.
        guesses: pairs (mistake id, value or function without arguments that returns the value).
        atol: absolute tolerance.
        rtol: relative tolerance.
        order: ids that win, first one first, where several mistakes fit.
    """
    found = []
    for name, value in guesses:
        try:
            value = value() if callable(value) else value
        except Exception:  # a mistake that cannot run on this input did not give these numbers
            continue
        fits = same(yours, value, atol, rtol) and not same(expected, value, atol, rtol)
        if fits and name not in found:
            found.append(name)
    if len(found) > 1:
        found = [name for name in order if name in found][:1]
    return found[0] if found else None


def _kind_problem(expected, yours, kind):
    """(expected, yours, mistake id) as text if `yours` cannot be compared, else None."""
    shape = nested.shape(nested.values(expected))
    wanted = {
        "tensor": f"a tensor of shape {shape}",
        "float": "a Python float",
        "number": "a number (a tensor of shape () will do)",
    }[kind]
    if yours is None:
        return wanted, "None", "any.none"
    is_tensor = isinstance(yours, torch.Tensor)
    is_number = is_real(yours)
    right_type = {"tensor": is_tensor, "float": is_number, "number": is_number or is_tensor}[kind]
    if not right_type:
        what = f"{type(yours).__name__}: "
        if is_tensor:
            what = f"a tensor of shape {tuple(yours.shape)}: "
        return wanted, what + show(yours, room=60), "any.type"
    if is_tensor and tuple(yours.shape) != shape:
        what = f"shape {tuple(yours.shape)}: "
        return f"shape {shape}: {show(expected, room=70)}", what + show(yours, room=70), "any.shape"
    if is_tensor and not yours.is_floating_point():
        what = f"dtype {yours.dtype}: {show(yours, room=60)}"
        return "a floating-point tensor", what, "any.dtype"
    return None


def compare(call, expected, yours, guesses=(), atol=1e-4, rtol=1e-4, order=(), kind=None):
    """Fail with a four-part message unless `yours` agrees with `expected`.

    Args:
        call: the call as text, with its small numbers.
        expected: nested lists of numbers, or a number.
        yours: whatever the student's function returned. A wrong type, None, a wrong shape, a
            dtype that is not floating point and NaN are named first.
        guesses: pairs (mistake id, value or function without arguments). Only looked at when
            the comparison fails; a generator will do. "likely" is printed if exactly one
            mistake fits `yours` and differs from `expected`.
        atol: absolute tolerance.
        rtol: relative tolerance.
        order: where several mistakes fit, the first of these ids that is among them is named.
        kind: "tensor" (default for a list), "number" (default for a number: a Python number or
            a tensor of shape ()) or "float" (no tensor).
    """
    kind = kind or ("tensor" if isinstance(expected, (list, tuple)) else "number")
    problem = _kind_problem(expected, yours, kind)
    if problem is None and same(yours, expected, atol, rtol):
        return
    guesses = list(guesses)
    found = cause(expected, yours, guesses, atol, rtol, order)
    if problem:
        fail(call, problem[0], problem[1], found or problem[2])
    right, got = nested.flat(nested.values(expected)), nested.flat(nested.values(yours))
    pairs = list(zip(right, got))
    if found is None and any(math.isnan(x) for x in got):
        found = "any.nan"
    if found is None and _is_half(yours) and same(yours, expected, 2e-2, 2e-2):
        found = "any.half"
    near_miss = 0.01 * max(map(abs, right))
    if found is None and all(near(x, r, near_miss, 0) for r, x in pairs):
        found = "any.close"
    index = next(i for i, (a, b) in enumerate(pairs) if not near(b, a, atol, rtol))
    digits = 4 if number(pairs[index][0]) != number(pairs[index][1]) else 7
    where = _place(index, nested.shape(nested.values(expected)))
    room = ROOM - len(where)
    fail(call, show(expected, digits, index, room), show(yours, digits, index, room) + where, found)


def unchanged(call, mistake, **arguments):
    """Fail if an argument of a call is not what it was before.

    Args:
        call: the call as text.
        mistake: the id to name.
        arguments: name=(before, now), nested lists of numbers or tensors.
    """
    for name, (before, now) in arguments.items():
        if not same(now, before, 0, 0):
            fail(f"{call}, then {name} itself", before, now, mistake)


def _is_half(x):
    return isinstance(x, torch.Tensor) and x.dtype in (torch.float16, torch.bfloat16)


def _place(index, shape):
    if shape == ():
        return ""
    if len(shape) == 1:
        return f"  (first difference at index {index})"
    position = []
    for size in reversed(shape):
        index, place = divmod(index, size)
        position.append(place)
    return f"  (first difference at index {tuple(reversed(position))})"


# ---------------------------------------------------------------- the message


def message(call, expected, yours, mistake=None):
    """Return the four-part message as text; at most MOST lines of WIDTH columns.

    Args:
        call: the call as text.
        expected: text, or numbers to show.
        yours: text, or numbers to show.
        mistake: an id of MISTAKES, several joined by "+", or None.
    """
    lines = textwrap.wrap(call, WIDTH, subsequent_indent="    ")[:2]
    lines += _part("expected", expected, 2) + _part("yours", yours, 2)
    if mistake:
        lines += _part("likely", likely(mistake), MOST - len(lines))
    return "\n".join(lines)


def likely(mistake):
    """Return the text of a mistake id, or of several joined by "+"."""
    return "  And: ".join(MISTAKES[name].text for name in mistake.split("+"))


def _part(label, value, most):
    text = value if isinstance(value, str) else show(value)
    lines = textwrap.wrap(text, ROOM, break_on_hyphens=False) or [""]
    if len(lines) > most:
        lines = [*lines[: most - 1], lines[most - 1][: ROOM - 4] + " ..."]
    return [(label if i == 0 else "").ljust(len(INDENT)) + line for i, line in enumerate(lines)]


def fail(call, expected, yours, mistake=None):
    """Fail with the same four parts where the test itself knows what is wrong.

    Args:
        call: the call as text.
        expected: text, or numbers to show.
        yours: text, or numbers to show.
        mistake: an id of MISTAKES, several joined by "+", or None.

    Raises:
        pytest.fail.Exception: always.
    """
    failure = pytest.fail.Exception(message(call, expected, yours, mistake), pytrace=False)
    failure.mistake, failure.likely = mistake, likely(mistake) if mistake else ""
    raise failure from None  # an error of the student's that led here is part of the message


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
        fail(call, expected, ascii_line(problem, 180), names.pop())
