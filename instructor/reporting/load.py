"""Read what the grader left: one record for each student, merged from several folders.

A results.json holds text that came from a student's file, so nothing in it is believed: types,
lengths and ranges are checked here, and a file that does not fit is listed, never fatal.
"""

import json
import math
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from tests.labfile import TASKS

from ..records.results import CLASS

LARGEST = 4 << 20  # bytes of a results.json
LARGEST_LAB = 1 << 20  # bytes of a student's file
STATES = ("written", "unwritten", "missing", "broken")


class Outcome(NamedTuple):
    """What came of one task of one student.

    score: points that the hidden tests gave.
    final: points with what was changed by hand.
    """

    score: float
    most: float
    hidden: dict[str, bool]
    mistakes: tuple[str, ...]
    public: str
    state: str
    final: float


class Hand(NamedTuple):
    """One change by hand: "task 3" or "total", points before and after, the reason."""

    where: str
    before: float
    after: float
    reason: str


@dataclass
class Record:
    """One student's result; `folder` is where it was found.

    score: points that the hidden tests gave.
    final: points in scores.csv, with what was changed by hand and taken off for being late.
    """

    student: str
    folder: Path
    score: float
    final: float
    tasks: dict[int, Outcome]
    seconds: float | None = None
    submitted: str = ""
    late: str = ""
    version: str = ""
    hidden_hash: tuple[tuple[str, str], ...] = ()
    file_hash: str = ""
    notes: list[str] = field(default_factory=list)
    by_hand: list[Hand] = field(default_factory=list)
    penalty: float = 0.0

    @property
    def handed_in(self) -> bool:
        """Return whether there was a file to grade."""
        known = any(t.state not in ("missing", "") for t in self.tasks.values())
        return known or (self.folder / "lab15_grpo.py").is_file()


class Found(NamedTuple):
    """All that was read.

    records: one for each student, in the order of their names.
    broken: (folder, reason) of results that could not be read.
    repeated: students that stood in more than one place.
    withdrawn: students with a result who are in no class of the last runs: not among the records.
    ungraded: students of those classes without any result.
    """

    records: list[Record]
    broken: list[tuple[Path, str]]
    repeated: list[str]
    withdrawn: list[str] = []
    ungraded: list[str] = []


# ---------------------------------------------------------------- one file


def plain_file(path: Path, largest: int) -> bytes:
    """Return the bytes of an ordinary file; links are not followed.

    Raises:
        OSError: it cannot be read, or it is no ordinary file.
        ValueError: it is too large.
    """
    flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
    fd = os.open(path, flags | getattr(os, "O_BINARY", 0))
    with os.fdopen(fd, "rb") as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError("no ordinary file")
        data = file.read(largest + 1)
    if len(data) > largest:
        raise ValueError(f"larger than {largest >> 20} MiB")
    return data


def text(value: Any, limit: int = 4000) -> str:
    """Return a value as text without control or direction characters, or an empty string."""
    if not isinstance(value, str):
        return ""
    kept = (c if c.isprintable() or c == "\n" else "?" for c in value[:limit])
    return "".join(kept)


def amount(value: Any, what: str) -> float:
    """Return a number of points or seconds.

    Raises:
        ValueError: it is none.
    """
    good = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not good or not math.isfinite(value) or not 0 <= value < 1e6:
        raise ValueError(f"{what} is no number of 0 or more")
    return float(value)


def dictionary(value: Any, what: str) -> dict:
    """Return a dict; None is an empty one.

    Raises:
        ValueError: it is something else.
    """
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError(f"{what} is no object")
    return value


def outcome(entry: Any) -> tuple[int, Outcome]:
    """Return (number, outcome) of one of the five tests of a results.json.

    Raises:
        ValueError: it is none.
    """
    entry = dictionary(entry, "a test")
    number = text(entry.get("number"), 10)
    if not number.isdecimal() or int(number) not in TASKS:
        raise ValueError("a test belongs to no task")
    more = dictionary(entry.get("extra_data"), f"test {number}: extra_data")
    hidden = dictionary(more.get("hidden"), f"test {number}: hidden")
    mistakes = more.get("mistakes")
    mistakes = mistakes[:20] if isinstance(mistakes, list) else []
    state = more.get("state")
    final = amount(entry.get("score"), f"test {number}: score")
    return int(number), Outcome(
        amount(more.get("computed", final), f"test {number}: computed"),
        amount(entry.get("max_score"), f"test {number}: max_score"),
        {text(name, 200): passed is True for name, passed in list(hidden.items())[:200]},
        tuple(dict.fromkeys(part for m in mistakes for part in text(m, 200).split("+") if part)),
        text(more.get("public")),
        state if state in STATES else "",
        final,
    )


def hand(entry: Any) -> Hand:
    """Return one change by hand of a results.json.

    Raises:
        ValueError: it is none.
    """
    entry = dictionary(entry, "a change by hand")
    number = entry.get("task")
    where = f"task {number}" if type(number) is int and number in TASKS else "total"
    before, after = (amount(entry.get(k), f"by hand: {k}") for k in ("before", "after"))
    return Hand(where, before, after, text(entry.get("reason"), 300))


def parse(data: bytes, folder: Path) -> Record:
    """Return the record of one results.json.

    Raises:
        ValueError: it is none; the message says why.
    """
    try:
        whole = dictionary(json.loads(data.decode("utf-8")), "the file")
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise ValueError(f"no JSON ({type(error).__name__})") from None
    tests = whole.get("tests")
    tasks = dict(map(outcome, tests)) if isinstance(tests, list) else {}
    if sorted(tasks) != sorted(TASKS):
        raise ValueError(f"it holds tasks {sorted(tasks)}, not {sorted(TASKS)}")
    more = dictionary(whole.get("extra_data"), "extra_data")
    hashes = dictionary(more.get("hidden_hash"), "hidden_hash")
    notes, late, seconds = more.get("notes"), more.get("late"), more.get("seconds")
    by_hand = more.get("by_hand")
    return Record(
        student=text(more.get("student"), 200) or text(folder.name, 200),
        folder=folder,
        score=round(sum(task.score for task in tasks.values()), 2),
        final=amount(whole.get("score"), "score"),
        tasks=tasks,
        seconds=None if seconds is None else amount(seconds, "seconds"),
        submitted=text(more.get("submitted"), 40),
        late="yes" if late is True else text(late, 100),
        version=text(more.get("file_lab_version"), 20),
        hidden_hash=tuple(sorted((str(k)[:10], text(v, 64)) for k, v in hashes.items())),
        file_hash=text(more.get("file_hash"), 80),
        notes=[text(n, 300) for n in notes[:20]] if isinstance(notes, list) else [],
        by_hand=[hand(e) for e in by_hand[:100]] if isinstance(by_hand, list) else [],
        penalty=amount(more.get("penalty") or 0, "penalty"),
    )


# ---------------------------------------------------------------- folders


def places(folder: Path) -> Iterator[Path]:
    """Yield the students' folders of RESULTS, also where it holds one folder for each shard."""
    for path in sorted(folder.iterdir()):
        if not path.is_dir() or path.is_symlink():
            continue
        if (path / "results.json").exists():
            yield path
        else:
            yield from (p.parent for p in sorted(path.glob("*/results.json")))


def class_of(folder: Path) -> set[str] | None:
    """Return the students of the class last graded into a folder, or None if that is unknown."""
    try:
        names = json.loads(plain_file(folder / CLASS, LARGEST).decode("utf-8"))["students"]
        return {text(name, 200) for name in names}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def newer(one: Record, other: Record) -> Record:
    """Return which of a student's two results counts: handed in later, else read later."""
    return one if one.submitted > other.submitted else other


def load(folders: Sequence[Path]) -> Found:
    """Read the results of all folders.

    Raises:
        FileNotFoundError: a folder does not exist, or there is no result at all.
    """
    chosen: dict[str, Record] = {}
    broken, repeated, gone = [], [], set()
    classes: dict[Path, set[str] | None] = {}
    for folder in folders:
        if not folder.is_dir():
            raise FileNotFoundError(f"there is no folder {folder}")
        for place in places(folder):
            try:
                record = parse(plain_file(place / "results.json", LARGEST), place)
            except (OSError, ValueError) as error:
                reason = getattr(error, "strerror", None) or str(error)
                broken.append((place, text(reason, 100)))
                continue
            here = place.parent
            known = classes[here] if here in classes else classes.setdefault(here, class_of(here))
            if known is not None and record.student not in known:
                gone.add(record.student)
                continue
            old = chosen.get(record.student)
            if old is not None:
                repeated.append(record.student)
            chosen[record.student] = newer(old, record) if old else record
    if not chosen and not broken:
        raise FileNotFoundError(
            f"there is no results.json below {', '.join(map(str, folders))}; "
            "give the folder that instructor.grade wrote with --out"
        )
    everybody = {s for known in classes.values() for s in known or ()}
    unread = {text(place.name, 200) for place, _ in broken}
    return Found([chosen[s] for s in sorted(chosen)], broken, sorted(set(repeated)),
                 sorted(gone - set(chosen)), sorted(everybody - set(chosen) - unread))


def lab_text(record: Record) -> str:
    """Return the text of the graded file, or an empty string where there is none."""
    try:
        data = plain_file(record.folder / "lab15_grpo.py", LARGEST_LAB)
    except (OSError, ValueError):
        return ""
    try:
        read = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        read = data.decode("latin-1")
    return read.replace("\r\n", "\n").replace("\r", "\n")
