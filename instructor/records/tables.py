"""Read the tables that course systems and spreadsheets write: CSV, with tabs, in UTF-16."""

import csv
import io
import os
import re
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

LARGEST = 64 << 20  # bytes of a table
# The last four are as wide as a Chinese character; Excel takes them for the first four.
FORMULA = ("=", "+", "@", "-", "\uff1d", "\uff0b", "\uff20", "\uff0d")


class Table(NamedTuple):
    """A table with a header. `numbers` has the line of the file that each row begins in."""

    header: list[str]
    rows: list[list[str]]
    numbers: list[int]
    separator: str = ","
    encoding: str = "utf-8"

    def surplus(self) -> list[int]:
        """Return the lines that have more cells than the header: a comma without quotes, mostly."""
        width = len(self.header)
        return [line for row, line in zip(self.rows, self.numbers, strict=True)
                if any(row[width:])]

    def column(self, pattern: re.Pattern) -> int | None:
        """Return the number of the first column whose plain name fits, or None."""
        return next((i for i, h in enumerate(self.header) if pattern.fullmatch(plain(h))), None)


def plain(text: str) -> str:
    """Return a column's name in small letters, with one space for all that is no letter."""
    text = unicodedata.normalize("NFC", text).casefold()
    return re.sub(r"[\W_]+", " ", text).strip()


def decoded(data: bytes) -> tuple[str, str]:
    """Return (text, encoding) of a table's bytes."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        return data.decode("utf-16"), "utf-16"
    if data[:200].count(b"\0") > 20:  # without a mark
        name = "utf-16-le" if data[1:2] == b"\0" else "utf-16-be"
        return data.decode(name), name
    try:
        return data.decode("utf-8-sig"), "utf-8-sig" if data[:3] == b"\xef\xbb\xbf" else "utf-8"
    except UnicodeDecodeError:
        return data.decode("cp1252", "replace"), "cp1252"


def read(path: Path) -> Table:
    """Read a table with cells separated by commas, semicolons or tabs.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no table.
    """
    with open(path, "rb") as file:
        data = file.read(LARGEST + 1)
    if len(data) > LARGEST:
        raise ValueError(f"{path} is larger than {LARGEST >> 20} MiB: no table of a class")
    if data.startswith(b"PK\x03\x04") or data.startswith(b"\xd0\xcf\x11\xe0"):
        raise ValueError(f"{path} is a spreadsheet; save it as CSV (UTF-8)")
    try:
        text, encoding = decoded(data)
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text; save it as CSV (UTF-8)") from None
    return parse(text, encoding, path)


def parse(text: str, encoding: str = "utf-8", path: Path | str = "the table") -> Table:
    """Return the Table in a text.

    Args:
        text: of the file.
        encoding: it was read as.
        path: for messages.

    Raises:
        ValueError: it is none.
    """
    skip = 0
    if hint := re.match(r"sep=(.)\r?\n", text):  # as Excel writes and wants it
        text, skip = text[hint.end():], 1
    head = next((line for line in text.splitlines() if line.strip()), "")
    counts = {s: len(next(csv.reader([head], delimiter=s), [])) for s in (",", ";", "\t")}
    separator = hint[1] if hint else max(counts, key=lambda s: counts[s])
    rows, numbers, last = [], [], skip
    csv.field_size_limit(LARGEST)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                rows.append([cell.strip() for cell in row])
                numbers.append(last + 1)
            last = skip + reader.line_num
    except csv.Error as error:
        raise ValueError(f"{path}, line {last + 1}: no table ({error})") from None
    if not rows:
        raise ValueError(f"{path} is empty")
    width = len(rows[0])
    rows = [row + [""] * (width - len(row)) for row in rows]
    return Table(rows[0], rows[1:], numbers[1:], separator, encoding)


def number(text: str) -> float | None:
    """Return a finite number, also with a comma for the point, or None."""
    text = text.strip().lstrip("'").replace("\u2212", "-")
    if not re.fullmatch(r"[+-]?(\d+([.,]\d*)?|[.,]\d+)", text) or not text.isascii():
        return None
    return float(text.replace(",", "."))


def harmless(row: Sequence) -> list[str]:
    """Return a row none of whose cells a spreadsheet takes for a formula.

    Nor a part of a cell, where the spreadsheet's language has a semicolon for a comma.
    """
    cells = [re.sub(r"([;\t][^\S\t]*)(?=[=+@-])", r"\1'", str(cell)) for cell in row]
    return [f"'{cell}" if cell.startswith(FORMULA) and cell[1:] else cell for cell in cells]


def written(rows: Iterable[Sequence], as_it_is: bool = False) -> str:
    """Return rows as the text of a table in which a spreadsheet runs nothing.

    Args:
        rows: of cells.
        as_it_is: leave the cells as a course system has written them.
    """
    out = io.StringIO()
    rows = rows if as_it_is else map(harmless, rows)
    csv.writer(out, lineterminator="\n").writerows(rows)
    return out.getvalue()


def shown(path: Path) -> str:
    """Return a path for a message, as short as possible."""
    return os.path.relpath(path) if Path(path).is_relative_to(Path.cwd()) else str(path)
