"""Write the points in the format that a course system imports.

    python -m instructor.grade SUBMISSIONS --out OUT --roster EXPORT.csv --for canvas

Best is a roster that the same system has just exported: then the file is that table with its own
header, ids and column for the lab, so that nothing has to be matched by name.
"""

import codecs
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from . import feedback, files, tables
from .roster import NO_STUDENT, Roster

LAB = re.compile(r".*\blab ?15\b.*", re.I)
TITLE = {"canvas": "Lab 15 (points)", "moodle": "Grade", "blackboard": "Lab 15"}
SYSTEMS = tuple(TITLE)
GRADE = re.compile(r"grade|bewertung|note|calificaci\u00f3n|qualification|grado|cijfer")


class Upload(NamedTuple):
    """A file for a course system: text, encoding, the students left out, warnings."""

    text: str
    encoding: str
    left_out: list[str]
    warnings: list[str]


class Row(NamedTuple):
    """A student's row of scores.csv, and the line of the roster it belongs to."""

    cells: Mapping[str, str]
    line: int | None


def write(system: str, out: Path, rows: Sequence[Row], roster: Roster | None,
          column: str | None = None) -> tuple[Path, Upload]:
    """Write OUT/scores-SYSTEM.csv and return (its path, the Upload).

    Args:
        system: one of SYSTEMS.
        out: the folder.
        rows: of all students.
        roster: as it was read, or None.
        column: the name of the lab's column, if the roster does not tell it.
    """
    upload = {"canvas": _canvas, "moodle": _moodle, "blackboard": _blackboard}[system](
        rows, roster, column
    )
    path = out / f"scores-{system}.csv"
    files.write(path, upload.text.encode(upload.encoding))
    return path, upload


def _title(system: str, roster: Roster | None, column: str | None) -> str:
    """Return the name of the lab's column: as given, as on the roster, or of our own."""
    header = roster.table.header if roster else []
    exact = next((h for h in header if column and h.strip().lower() == column.strip().lower()), "")
    return exact or column or next((h for h in header if LAB.fullmatch(h)), "") or TITLE[system]


def _points(row: Row) -> str:
    return row.cells["total"]


def _canvas(rows: Sequence[Row], roster: Roster | None, column: str | None) -> Upload:
    """Canvas knows students by ID, else by SIS ids; a column by the number in its header."""
    title = _title("canvas", roster, column)
    header = ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", title]
    lines, left, warnings = [], [], []
    sections = _cells(roster, re.compile("section"))
    names = _cells(roster, re.compile("student"))
    for row in rows:
        c = row.cells
        if not _points(row):
            left.append(c["student"])
        elif c["id"] or c["sis_id"] or c["login"]:
            name = names.get(row.line) or c["student"]
            lines.append([name, c["id"], c["sis_id"], c["login"], sections.get(row.line, ""),
                          _points(row)])
        else:
            left.append(c["student"])
    if not re.search(r"\(\d+\)$", title):
        warnings.append(f"the column \"{title}\" has no number of Canvas: where there is no "
                        "assignment of exactly this name, Canvas offers to make a new one; give "
                        "the gradebook's export as --roster, or its header with --column")
    most = ["    Points Possible", "", "", "", "", f"{feedback.MOST:g}"]
    return Upload(tables.written([header, most, *lines]), "utf-8", left, warnings)


def _moodle(rows: Sequence[Row], roster: Roster | None, column: str | None) -> Upload:
    """Moodle's grading worksheet: the downloaded one filled in, else one of our own."""
    table = roster.table if roster else None
    grade = table.column(GRADE) if table else None
    whose = table.column(re.compile(r"identifier|id|teilnehmer.*|kennung|identificador"))\
        if table else None
    if table is not None and grade is not None and whose is not None:
        return _worksheet(rows, table, grade)
    lines, left = [], []
    for row in rows:
        c = row.cells
        if c["id"] and _points(row):
            name = re.sub(r" \(\d+\)$", "", c["student"])
            lines.append([f"Participant {c['id']}", name, c["email"], _points(row), "-"])
        else:
            left.append(c["student"])
    header = ["Identifier", "Full name", "Email address", column or "Grade",
              "Last modified (grade)"]
    warnings = ["the header is English; a Moodle in another language takes only its own: give its "
                "grading worksheet as --roster"]
    return Upload(tables.written([header, *lines]), "utf-8", left, warnings)


def _worksheet(rows: Sequence[Row], table: tables.Table, grade: int) -> Upload:
    """Return Moodle's own worksheet with the points in it."""
    by_line = {row.line: row for row in rows}
    maximum = table.column(re.compile(r"maximum grade|max.* grade|bestwertung|.*m\u00e1xim.*"))
    warnings: list[str] = []
    lines, comma = [], False
    for cells, line in zip(table.rows, table.numbers, strict=True):
        cells = list(cells)
        most = cells[maximum] if maximum is not None else ""
        comma = comma or "," in most
        value = tables.number(most) if most else None
        if value not in (None, float(feedback.MOST)) and not warnings:
            warnings.append(f"Moodle's maximum is {value:g} points, the lab's {feedback.MOST:g}: "
                            "set the assignment's maximum to that; points are not converted")
        if line in by_line and _points(by_line[line]):
            points = _points(by_line[line])
            cells[grade] = points.replace(".", ",") if comma else points
        lines.append(cells)
    missing = [r.cells["student"] for r in rows if r.line not in table.numbers or not _points(r)]
    text = tables.written([table.header, *lines], as_it_is=True)
    return Upload(text, "utf-8", missing, warnings)


def _blackboard(rows: Sequence[Row], roster: Roster | None, column: str | None) -> Upload:
    """Blackboard knows students by Username; a column by the number behind its header's |."""
    title = _title("blackboard", roster, column)
    lines, left, warnings = [], [], []
    last, first = (_cells(roster, re.compile(f"{x} name")) for x in ("last", "first"))
    for row in rows:
        c = row.cells
        if c["login"] and _points(row):
            names = last.get(row.line, ""), first.get(row.line, "")
            lines.append([*names, c["login"], _points(row)])
        else:
            left.append(c["student"])
    if not re.search(r"\|\d+$", title):
        warnings.append(f"the column \"{title}\" has no number of Blackboard, such as |123456: "
                        "Blackboard makes a new column; give the grade center's download as "
                        "--roster")
    text = tables.written([["Last Name", "First Name", "Username", title], *lines])
    return Upload(codecs.BOM_UTF8.decode("utf-8") + text, "utf-8", left, warnings)


def _cells(roster: Roster | None, pattern: re.Pattern) -> dict[int | None, str]:
    """Return {line: cell} of a column of the roster, {} if there is none."""
    if roster is None or (at := roster.table.column(pattern)) is None:
        return {}
    table = roster.table
    return {n: row[at] for n, row in zip(table.numbers, table.rows, strict=True)
            if not NO_STUDENT.fullmatch(row[at])}
