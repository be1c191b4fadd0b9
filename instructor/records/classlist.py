"""The class as the grader's options describe it: submissions, roster, points by hand."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from lab15_run import counted
from tests.labfile import TASKS

from ..submissions import intake, skipped
from ..submissions.intake import Submission
from . import lateness, overrides, roster, tables

SHOWN = 8  # names in a line


class Class(NamedTuple):
    """Everything known before grading starts.

    submissions: of everybody, those on the roster who handed in nothing among them.
    overrides: {student: [Override]}.
    due: a Due.
    numbers: {student: line of the roster}.
    roster: as it was read, or None.
    lines: for the instructor.
    """

    submissions: list[Submission]
    overrides: dict[str, list[overrides.Override]]
    due: lateness.Due
    numbers: dict[str, int]
    roster: roster.Roster | None
    lines: list[str]


def some(names: Sequence[str]) -> str:
    """Return the first names of several as one text."""
    rest = len(names) - SHOWN
    return ", ".join(names[:SHOWN]) + f" and {rest} more" * (rest > 0)


def read(flags: argparse.Namespace, unpacked: Path) -> Class:
    """Return the Class that the flags ask for.

    Args:
        flags: of instructor.grade.
        unpacked: an empty folder for the contents of zips.

    Raises:
        OSError, ValueError: there is nothing to grade, or an option is not understood.
    """
    by_hand = flags.overrides or flags.out / "overrides.csv"
    if flags.overrides and not flags.overrides.exists():
        raise FileNotFoundError(f"there is no {flags.overrides}")
    lateness.due(flags.due, flags.late, {})  # report a slip there before unpacking
    ours = [p for p in (flags.roster, by_hand, flags.seed_file) if p]
    listed = roster.read(flags.roster) if flags.roster else None
    found = intake.survey(flags.submissions, unpacked, ours)
    lines = list(found.warnings)
    lines += skipped.of_class([(s.student, s.skipped) for s in found.submissions], some)
    if found.left_out:
        count = sum(found.left_out.values())
        lines.append(f"left out, handed in by no student: {some(list(found.left_out))} "
                     f"({counted(count, 'file')})")
    subs, extra, numbers = found.submissions, {}, {}
    if listed:
        matched = roster.match(listed, subs, found.system)
        subs, extra, numbers = matched.submissions, matched.extra, matched.lines
        lines += listed.warnings
        lines += _told(listed, matched, flags.roster)
    given = overrides.read(by_hand, subs)
    due = lateness.due(flags.due, flags.late, extra)
    if due.time:
        lines.append(f"due {due.time:%Y-%m-%d %H:%M %z}; {_timed(subs)}")
    return Class(subs, given.by_student, due, numbers, listed, [*lines, *given.problems])


def _told(listed: roster.Roster, matched: roster.Matched, path: Path) -> list[str]:
    """Return lines: who of the roster handed in, who did not, who is not on it."""
    absent, strangers = matched.absent, matched.strangers
    lines = [f"{tables.shown(path)}: {counted(len(listed.members), 'student')}, "
             f"{len(matched.submissions) - len(absent) - len(strangers)} of them handed in"]
    if absent:
        lines.append(f"handed in nothing: {len(absent)}: {some(absent)}")
    if strangers:
        lines.append(f"handed in, but not on the roster (or several there could be meant): "
                     f"{len(strangers)}: {some(strangers)}")
    return lines


def _timed(subs: Sequence[Submission]) -> str:
    """Return the line on how many times of submission are known."""
    there = [s for s in subs if s.note != intake.NOTHING]
    known = sum(bool(s.submitted and lateness.moment(s.submitted)) for s in there)
    return f"the course system gives the time of {known} of {len(there)} submissions"


def one(text: str, subs: Sequence[Submission]) -> Submission:
    """Return the student that a text identifies.

    Raises:
        ValueError: there is none, or there are several.
    """
    found = roster.find(text, subs)
    if len(found) != 1:
        which = f"can be {some([s.student for s in found])}" if found else "is no student here"
        raise ValueError(f"\"{text}\" {which}; give the name in scores.csv, or an id")
    return found[0]


# ---------------------------------------------------------------- what a regrade changed


def changes(student: str, before: dict[str, Any] | None, after: dict[str, Any] | None) -> list[str]:
    """Return what a new verdict changed, and why, line by line.

    Args:
        student: as in scores.csv.
        before: the earlier results.json, or None if there was none.
        after: the new one.
    """
    if after is None or before is None:
        return [f"{student}: there was no result before" if after else f"{student}: no result"]
    lines = [line for number in TASKS for line in _task_change(number, before, after)]
    if before["score"] != after["score"]:
        why = ", ".join(_why_total(before["extra_data"], after["extra_data"]))
        lines.append(f"total {before['score']:g} -> {after['score']:g}{f' ({why})' if why else ''}")
    if not lines:
        lines.append(f"{counted(after['score'], 'point')} as before")
        if _other_file(before, after):
            lines.append("the file is another one")
    return [f"{student}: {line}" for line in lines]


def _other_file(before: dict[str, Any], after: dict[str, Any]) -> bool:
    """Return whether two results are of different files."""
    return before["extra_data"]["file_hash"] != after["extra_data"]["file_hash"]


def _task_change(number: int, before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Return the line about a task whose points changed, or none."""
    was, now = _test(before, number), _test(after, number)
    if was["score"] == now["score"]:
        return []
    why = []
    if _other_file(before, after):
        why.append("another file")
    hashes = [x["extra_data"]["hidden_hash"].get(str(number)) for x in (before, after)]
    if hashes[0] != hashes[1]:
        why.append("other hidden tests or another seed")
    if was["extra_data"].get("by_hand") != now["extra_data"].get("by_hand"):
        why.append("points by hand")
    return [f"task {number} {was['score']:g} -> {now['score']:g} "
            f"({', '.join(why) or 'the same file and tests: another verdict'})"]


def _why_total(old: dict[str, Any], new: dict[str, Any]) -> list[str]:
    """Return why the total changed beyond the tasks: lateness, points by hand."""
    why = []
    if old.get("penalty", 0) != new.get("penalty", 0):
        why.append(new.get("why_late") or "no points off for being late")
    totals = [[e for e in x.get("by_hand", []) if e["task"] == "total"] for x in (old, new)]
    if totals[0] != totals[1]:
        why.append("points by hand")
    return why


def _test(document: dict[str, Any], number: int) -> dict[str, Any]:
    return next(t for t in document["tests"] if t["number"] == str(number))
