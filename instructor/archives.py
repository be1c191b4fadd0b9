"""Zips, whole classes or one student's: only what may be a lab file comes out, and stays inside.

Nothing in them is trusted: neither names nor sizes nor the zip's own table of contents.
"""

import datetime
import os
import re
import zipfile
from pathlib import Path, PurePosixPath

MOST, LARGEST, TOTAL = 20000, 2 << 20, 1 << 30  # entries of a zip; bytes of a file, and of all
WANTED = (".py", ".zip")
ALSO = ("timestamp.txt", "submission_metadata.yml")
NESTED = 8 << 20  # bytes of a zip in a zip
NO_ZIP = (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError)


class Unpacked:
    """What came out of a zip. `times`: path -> ISO time, as the zip has it."""

    def __init__(self, folder):
        self.folder, self.times, self.size = Path(folder), {}, 0


def unpack(path, folder):
    """Write the .py files of a zip, and the zips in it, to a folder; return an Unpacked.

    Args:
        path: a zip of Moodle, Canvas or Gradescope, of student folders, or of one student.
        folder: an empty folder; nothing is written outside of it.

    Raises:
        ValueError: it is no zip, or holds more than a class can have sent.
    """
    result = Unpacked(folder)
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
            if len(entries) > MOST:
                raise ValueError(f"{path} holds more than {MOST} files")
            for entry in entries:
                if not entry.is_dir() and _is_wanted(entry.filename):
                    _write(file, entry, result)
    except NO_ZIP as error:
        if isinstance(error, ValueError) and "holds more" in str(error):
            raise
        raise ValueError(f"{path} cannot be unpacked ({type(error).__name__})") from None
    return result


def _is_wanted(name):
    name = name.lower()
    return name.endswith(WANTED) or PurePosixPath(name).name in ALSO


def _write(file, entry, result):
    """Write one entry; what is too large is cut, and refused when it is read."""
    parts = [p for p in re.split(r"[\\/]", entry.filename) if p not in ("", ".", "..")]
    target = result.folder.joinpath(*map(_safe, parts[:1] + parts[1:][-6:]))
    nested = target.suffix.lower() == ".zip"
    try:
        with file.open(entry) as source:
            data = source.read(NESTED if nested else LARGEST)
    except NO_ZIP:  # encrypted, an unknown method, a broken stream: the others are read
        data = b"\0"
    result.size += len(data)
    if result.size > TOTAL:
        raise ValueError(f"it holds more than {TOTAL >> 20} MiB of files")
    target.parent.mkdir(parents=True, exist_ok=True)
    while target.exists():  # two entries of one name, or of names that differ by a bad character
        target = target.with_name(f"{target.stem}~{target.suffix}")
    target.write_bytes(data)
    if entry.date_time[0] > 1980:
        try:
            when = datetime.datetime(*entry.date_time)
        except ValueError:
            return
        result.times[target] = when.isoformat(sep=" ")


def _safe(part):
    """Return a part of a path that stays where it is put."""
    part = re.sub(r"[^\w .,@()'+=-]", "_", part)
    stem, dot, suffix = part.rpartition(".")
    part = f"{stem[:90]}{dot}{suffix[:8]}" if dot else part[:90]
    while len(os.fsencode(part)) > 200:
        part = part[:50] + part[-20:] if len(part) > 80 else part[1:]
    return part.strip(" ").lstrip(".") or "_"
