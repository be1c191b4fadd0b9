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

LARGEST = 4 << 20  # bytes of a results.json
LARGEST_LAB = 1 << 20  # bytes of a student's file
STATES = ("written", "unwritten", "missing", "broken")


class Outcome(NamedTuple):
    """What came of one task of one student."""

    score: float
    most: float
    hidden: dict[str, bool]
    mistakes: tuple[str, ...]
    public: str
    state: str


@dataclass
class Record:
    """One student's result; `folder` is where it was found."""

    student: str
    folder: Path
    score: float
    tasks: dict[int, Outcome]
    seconds: float | None = None
    submitted: str = ""
    late: str = ""
    version: str = ""
    hidden_hash: tuple[tuple[str, str], ...] = ()
    file_hash: str = ""
    notes: list[str] = field(default_factory=list)

    @property
    def handed_in(self) -> bool:
        """Whether there was a file to grade."""
        known = any(t.state not in ("missing", "") for t in self.tasks.values())
        return known or (self.folder / "lab15_grpo.py").is_file()


class Found(NamedTuple):
    """All that was read.

    records: one for each student, in the order of their names.
    broken: (folder, reason) of results that could not be read.
    repeated: students that stood in more than one place.
    """

    records: list[Record]
    broken: list[tuple[Path, str]]
    repeated: list[str]


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
    return int(number), Outcome(
        amount(entry.get("score"), f"test {number}: score"),
        amount(entry.get("max_score"), f"test {number}: max_score"),
        {text(name, 200): passed is True for name, passed in list(hidden.items())[:200]},
        tuple(dict.fromkeys(part for m in mistakes for part in text(m, 200).split("+") if part)),
        text(more.get("public")),
        state if state in STATES else "",
    )


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
    return Record(
        student=text(more.get("student"), 200) or text(folder.name, 200),
        folder=folder,
        score=amount(whole.get("score"), "score"),
        tasks=tasks,
        seconds=None if seconds is None else amount(seconds, "seconds"),
        submitted=text(more.get("submitted"), 40),
        late="yes" if late is True else text(late, 100),
        version=text(more.get("file_lab_version"), 20),
        hidden_hash=tuple(sorted((str(k)[:10], text(v, 64)) for k, v in hashes.items())),
        file_hash=text(more.get("file_hash"), 80),
        notes=[text(n, 300) for n in notes[:20]] if isinstance(notes, list) else [],
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


def newer(one: Record, other: Record) -> Record:
    """Return which of a student's two results counts: handed in later, else read later."""
    return one if one.submitted > other.submitted else other


def load(folders: Sequence[Path]) -> Found:
    """Read the results of all folders.

    Raises:
        FileNotFoundError: a folder does not exist, or there is no result at all.
    """
    chosen: dict[str, Record] = {}
    broken, repeated = [], []
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
            old = chosen.get(record.student)
            if old is not None:
                repeated.append(record.student)
            chosen[record.student] = newer(old, record) if old else record
    if not chosen and not broken:
        raise FileNotFoundError(
            f"there is no results.json below {', '.join(map(str, folders))}; "
            "give the folder that instructor.grade wrote with --out"
        )
    return Found([chosen[s] for s in sorted(chosen)], broken, sorted(set(repeated)))


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
