"""Zips, whole classes or one student's: only what may be a lab file comes out, and stays inside.

Nothing in them is trusted: neither names nor sizes nor the zip's own table of contents.
"""

import re
import zipfile
from pathlib import Path, PurePosixPath
from typing import NamedTuple

MOST, LARGEST, TOTAL = 20000, 2 << 20, 1 << 30  # entries of a zip; bytes of a file, and of all
WANTED = (".py", ".zip")
ALSO = ("timestamp.txt", "submission_metadata.yml")
INFO = re.compile(r"_attempt_[\d-]{10,}\.txt$", re.I)  # what Blackboard says of an attempt
NESTED = 8 << 20  # bytes of a zip in a zip
NO_ZIP = (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, EOFError, ValueError)


class Entry(NamedTuple):
    """One entry of a zip: its name's parts, and where its bytes lie if they were wanted."""

    parts: tuple[str, ...]
    path: Path | None
    is_folder: bool


class Unpacked:
    """What came out of a zip, and in `entries` all that is in it.

    The zip's own times are not kept: whoever makes a zip can write any time into it.
    """

    def __init__(self, folder):
        self.folder, self.entries, self.size = Path(folder), [], 0


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
                wanted = not entry.is_dir() and _is_wanted(entry.filename)
                at = _write(file, entry, result) if wanted else None
                if parts := _parts(_name(entry)):
                    result.entries.append(Entry(parts, at, entry.is_dir()))
    except NO_ZIP as error:
        if isinstance(error, ValueError) and "holds more" in str(error):
            raise
        raise ValueError(f"{path} cannot be unpacked ({type(error).__name__})") from None
    return result


def _is_wanted(name):
    name = name.lower()
    return name.endswith(WANTED) or PurePosixPath(name).name in ALSO or bool(INFO.search(name))


def _name(entry):
    """Return an entry's name; many programs write UTF-8 without the flag that says so."""
    if not entry.flag_bits & 0x800:
        try:
            return entry.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return entry.filename


def _parts(name):
    return tuple(p for p in re.split(r"[\\/]", name) if p not in ("", ".", ".."))


def _write(file, entry, result):
    """Write one entry and return its path; what is too large is cut, and refused when read.

    The file has a number for a name: names in a zip may be of any length, stand there twice, or
    be both a file's and a folder's.
    """
    suffix = PurePosixPath(entry.filename.lower()).suffix
    target = result.folder / f"{len(result.entries)}{suffix}"
    try:
        with file.open(entry) as source:
            data = source.read(NESTED if suffix == ".zip" else LARGEST)
    except NO_ZIP:  # encrypted, an unknown method, a broken stream: the others are read
        data = b"\0"
    result.size += len(data)
    if result.size > TOTAL:
        raise ValueError(f"it holds more than {TOTAL >> 20} MiB of files")
    result.folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    return target
