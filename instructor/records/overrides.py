"""Points that an instructor sets by hand, each with a reason: overrides.csv.

    student,task,points,change,reason
    ada,3,1,,"right, but the file was cut off; see mail of 3 May"
    ben,total,,+0.5,found a mistake in the lab

A line sets the points of a task or of the total, or changes them. It is read at every run.
"""

import difflib
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.labfile import TASKS

from ..submissions.intake import Submission
from . import roster, tables

HEADER = ("student", "task", "points", "change", "reason")
EXAMPLE = (
    "student,task,points,change,reason (task: 1 to 5 or total; points or a change, such as -0.5)"
)
TASK = re.compile(r"(?:task ?)?(?P<number>[1-5])(?:\.0)?|(?P<total>total|all)", re.I)
TOTAL = 0  # the task number that stands for the total


class Override(NamedTuple):
    """One line. Either `points` or `change` is a number; `line` is its place in the file."""

    student: str
    task: int
    points: float | None
    change: float | None
    reason: str
    line: int

    def of(self, before: float) -> float:
        """Return the points after it."""
        after = self.points if self.points is not None else before + (self.change or 0.0)
        return round(after, 2)


class Overrides(NamedTuple):
    """The changes by hand: {student: [Override]}, and a line for each that cannot be applied."""

    by_student: dict[str, list[Override]]
    problems: list[str]


def most(task: int) -> float:
    """Return the points of a task, or of all."""
    return float(sum(t.points for t in TASKS.values()) if task == TOTAL else TASKS[task].points)


def read(path: Path, subs: Sequence[Submission]) -> Overrides:
    """Read overrides.csv; an error in a line invalidates only that line.

    Args:
        path: of the file, which need not exist.
        subs: all students.

    Raises:
        ValueError: it is not a table, or has other columns.
    """
    if not path.exists():
        return Overrides({}, [])
    table = tables.read(path)
    at = {name: table.column(re.compile(name)) for name in HEADER}
    missing = [n for n in ("student", "task", "reason") if at[n] is None]
    if at["points"] is None and at["change"] is None:
        missing.append("points")
    if missing:
        raise ValueError(f"{tables.shown(path)} has no column {', '.join(missing)}; its first line "
                         f"must be {EXAMPLE}")
    found: dict[str, list[Override]] = {}
    problems, surplus = [], set(table.surplus())
    if table.encoding == "cp1252":
        problems.append(f"{tables.shown(path)} is not UTF-8; it was read as Windows-1252")
    for row, line in zip(table.rows, table.numbers, strict=True):
        cell = {name: row[i] if i is not None else "" for name, i in at.items()}
        try:
            if line in surplus:
                raise ValueError("it has more cells than the first line: put quotes around a "
                                 "reason or a number with a comma")
            one = _line(cell, line, subs)
            _add(found.setdefault(one.student, []), one)
        except ValueError as error:
            problems.append(f"{tables.shown(path)}, line {line}: {error}; this line is left out")
    return Overrides(found, problems)


def _line(cell: dict[str, str], line: int, subs: Sequence[Submission]) -> Override:
    """Return the Override of one line.

    Raises:
        ValueError: it is none; the message says why.
    """
    who = roster.find(cell["student"], subs)
    if not who:
        names = [s.student for s in subs]
        near = difflib.get_close_matches(cell["student"], names, 2, 0.7)
        hint = f" (is it {' or '.join(near)}?)" if near else ""
        raise ValueError(f"there is no student \"{cell['student']}\"{hint}")
    if len(who) > 1:
        raise ValueError(f"\"{cell['student']}\" can be {' or '.join(s.student for s in who[:3])}")
    task = TASK.fullmatch(cell["task"])
    if not task:
        raise ValueError(f"task \"{cell['task']}\" is none; write 1 to {len(TASKS)} or total")
    number = int(task["number"] or TOTAL)
    points, change = cell["points"], cell["change"]
    if bool(points) == bool(change):
        raise ValueError("give either points or a change")
    value = tables.number(points or change)
    if value is None:
        raise ValueError(f'"{points or change}" is no number')
    if points and not 0 <= value <= most(number):
        raise ValueError(f"{value:g} points are out of range; {_name(number)} has 0 to "
                         f"{most(number):g}")
    if not cell["reason"]:
        raise ValueError("a reason is missing")
    return Override(who[0].student, number, value if points else None,
                    value if change else None, cell["reason"], line)


def _add(mine: list[Override], one: Override) -> None:
    """Add a line to those of its student.

    Raises:
        ValueError: another line has set the same points.
    """
    for other in mine:
        if other.task == one.task and None not in (other.points, one.points):
            what = f"{_name(one.task)} of {one.student}"
            raise ValueError(f"line {other.line} has already set {what}")
    mine.append(one)


def _name(task: int) -> str:
    return "the total" if task == TOTAL else f"task {task}"


def apply(mine: Sequence[Override], task: int, before: float) -> tuple[float, list[Override], list]:
    """Return (points, the lines that hold, the lines that would leave the range).

    Args:
        mine: a student's lines.
        task: its number, or TOTAL.
        before: the points so far.
    """
    points, held, refused = before, [], []
    # Lines that set points apply before lines that change them, whatever their order.
    for one in sorted((o for o in mine if o.task == task), key=lambda o: o.points is None):
        after = one.of(points)
        if 0 <= after <= most(task):
            points = after
            held.append(one)
        else:
            refused.append(one)
    return points, held, refused


def told(one: Override, before: float, after: float) -> dict[str, Any]:
    """Return one line as results.json records it.

    Args:
        one: the line.
        before: points before it.
        after: points after it.
    """
    return {"task": one.task or "total", "before": before, "after": after, "reason": one.reason,
            "line": one.line}


def words(entry: dict[str, Any]) -> str:
    """Return an entry of `told` as words."""
    where = "total" if entry["task"] == "total" else f"task {entry['task']}"
    return f"{where} {entry['before']:g} -> {entry['after']:g}: {entry['reason']}"
