"""Detect changes made by hand in scores.csv and keep them before the table is rewritten."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

from . import files, tables

SHOWN = 12  # changes that are named


class Ledger:
    """The table of points, and a copy of what was last written, to compare it with.

    Args:
        path: of the table.
        numbers: the columns in which 2 and 2.0 are the same.
    """

    def __init__(self, path: Path, numbers: tuple[str, ...]):
        self.path, self.numbers = path, numbers
        self.written = path.with_name(f".{path.stem}.written.csv")
        self.said: list[str] = []  # lines for the instructor

    def write(self, text: str) -> None:
        """Write the table; if it was changed by hand, keep a copy and report the changes."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self._alone():  # several graders may share the folder
            self._look(text)
            for path in (self.written, self.path):
                files.write(path, text)

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """Wait for other graders that write the same table, where the disk can do that."""
        from filelock import FileLock, Timeout

        lock = FileLock(self.path.with_name(f".{self.path.stem}.lock"), timeout=20)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(Timeout, OSError, NotImplementedError):
                stack.enter_context(lock)
            yield

    def _look(self, new: str) -> None:
        try:
            now = self.path.read_bytes()
        except OSError:
            return
        known = self.written.is_file()
        if known and now == self.written.read_bytes():
            return
        before = tables.parse(self.written.read_text(encoding="utf-8") if known else new)
        try:
            after = tables.parse(*tables.decoded(now), self.path)
            changes = differences(before, after, self.numbers, rows=known)
        except (ValueError, UnicodeDecodeError):
            changes = ["it cannot be read as a table"]
        if not changes:
            return
        kept = self._keep(now)
        why = "was changed by hand" if known else "is not what this grader writes"
        self.said.append(f"{self.path.name} {why}: {'; '.join(changes[:SHOWN])}"
                         + f"; and {len(changes) - SHOWN} more" * (len(changes) > SHOWN))
        place = tables.shown(self.path.with_name("overrides.csv"))
        self.said.append(
            f"It is kept as {tables.shown(kept)}; {self.path.name} was rewritten. To keep such "
            f"points, put them with a reason into {place}:"
        )
        self.said += ["    student,task,points,change,reason", *examples(changes)]

    def _keep(self, data: bytes) -> Path:
        """Write a copy under a free name and return its path."""
        n = 1
        while True:
            path = self.path.with_name(f"{self.path.stem}-by-hand-{n}.csv")
            try:
                with open(path, "xb") as file:
                    file.write(data)
                return path
            except FileExistsError:
                n += 1


class Change(str):
    """A change as words; `cell` is (student, column, value) if it is one of points."""

    cell: tuple[str, str, str] | None = None


def differences(before: tables.Table, after: tables.Table, numbers: tuple[str, ...],
                rows: bool = True) -> list[str]:
    """Return the differences between two tables in words; ignores how cells are written.

    Args:
        before: the one table; the first column names the rows.
        after: the other.
        numbers: columns in which 2 and 2.0 are the same.
        rows: whether rows and columns that are missing or new count.
    """
    was, now = _by_name(before), _by_name(after)
    changes: list[str] = []
    if rows:
        changes += [f"no row of {name}" for name in was if name not in now]
        changes += [f"a new row, {name}" for name in now if name not in was]
        changes += [f"no column {c}" for c in before.header if c not in after.header]
        changes += [f"a new column, {c}" for c in after.header if c not in before.header]
    for name in (n for n in was if n in now):
        for column in (c for c in before.header[1:] if c in after.header):
            old, new = was[name].get(column, ""), now[name].get(column, "")
            if not _same(old, new, column in numbers):
                change = Change(f"{name}: {column} {old or 'empty'} -> {new or 'empty'}")
                change.cell = (name, column, new)
                changes.append(change)
    return changes


def _by_name(table: tables.Table) -> dict[str, dict[str, str]]:
    """Return {first cell: {column: cell}}, without the marks that keep formulas out."""
    return {
        row[0].lstrip("'"): dict(zip(table.header, (c.lstrip("'") for c in row), strict=False))
        for row in table.rows
    }


def _same(old: str, new: str, is_number: bool) -> bool:
    if is_number:
        one, other = tables.number(old), tables.number(new)
        if one is not None and other is not None:
            return abs(one - other) < 1e-9
    return " ".join(old.split()) == " ".join(new.split())


def examples(changes: list[str]) -> list[str]:
    """Return lines for overrides.csv that say the same as the changes of points."""
    lines = []
    for change in changes:
        cell = getattr(change, "cell", None)
        if cell and (cell[1] == "total" or cell[1].startswith("task")):
            value = tables.number(cell[2])
            if value is not None:
                task = cell[1].removeprefix("task")
                row = [cell[0], task, f"{value:g}", "", "REASON"]
                lines.append("    " + tables.written([row]).strip())
    more = len(lines) - SHOWN
    return lines[:SHOWN] + [f"    ... and {more} more, in the copy that was kept"] * (more > 0)
