"""Zips, whole classes or one student's: only what may be a lab file comes out, and stays inside.

Nothing in them is trusted: neither names nor sizes nor the zip's own table of contents. A part
that cannot be read costs itself: the others come out.
"""

import datetime
import errno
import os
import re
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath

MOST, LARGEST, TOTAL = 20000, 2 << 20, 1 << 30  # entries of a zip; bytes of a file, and of all
OF_ONE = 500  # entries of one folder, so that no student's takes the place of the others'
LONGEST = 1000  # characters of a name that are looked at
WANTED = (".py", ".zip")
ALSO = ("timestamp.txt", "submission_metadata.yml")
NESTED = 8 << 20  # bytes of a zip in a zip
# Compressed bytes that are unpacked at a time: a block of bzip2, 40 bytes, may become 46 MiB, and
# the library does not stop at what was asked for.
SIP = 16
# Whatever zipfile and what it stands on raise: BadZipFile, NotImplementedError, RuntimeError
# (encrypted), zlib.error, LZMAError, struct.error, OverflowError, EOFError, MemoryError ...
NO_ZIP = (Exception,)
FULL = (errno.ENOSPC, errno.EDQUOT)  # that is no student's fault
DAMAGED = b"\0this entry of the zip cannot be read\0"


class Unpacked:
    """What came out of a zip.

    times: path -> ISO time, as the zip has it.
    damaged: paths of entries that could not be read.
    dropped: folder in the zip -> number of its entries that were too many.
    """

    def __init__(self, folder):
        self.folder, self.times, self.size = Path(folder), {}, 0
        self.damaged, self.dropped, self.names = set(), Counter(), Counter()


def unpack(path, folder):
    """Write the .py files of a zip, and the zips in it, to a folder; return an Unpacked.

    Args:
        path: a zip of Moodle, Canvas or Gradescope, of student folders, or of one student.
        folder: an empty folder; nothing is written outside of it.

    Raises:
        ValueError: it is no zip, or holds more than a class can have sent.
        OSError: the disk is full.
    """
    result = Unpacked(folder)
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
            if len(entries) > MOST:
                raise TooMuch(f"{path} holds more than {MOST} files")
            for entry in _kept(entries, result):
                _write(file, entry, result)
    except NO_ZIP as error:
        if isinstance(error, TooMuch):
            raise ValueError(str(error)) from None
        if getattr(error, "errno", None) in FULL:
            raise
        raise ValueError(f"{path} cannot be unpacked ({type(error).__name__})") from None
    return result


class TooMuch(ValueError):
    """More than a class can have sent."""


def _kept(entries, result):
    """Yield the entries that are wanted, of each folder only so many."""
    seen = Counter()
    for entry in entries:
        name = entry.filename
        if name.endswith("/") or len(name) > LONGEST or not _is_wanted(name):
            continue
        folder = "/".join(_parts(name)[:-1][:2])
        seen[folder] += 1
        if folder and seen[folder] > OF_ONE:
            result.dropped[folder] += 1
        else:
            yield entry


def _parts(name):
    """Return the parts of a name in a zip, without those that lead elsewhere."""
    return [p for p in re.split(r"[\\/]", name[:LONGEST]) if p not in ("", ".", "..")]


def _is_wanted(name):
    name = name.lower()
    return name.endswith(WANTED) or PurePosixPath(name).name in ALSO


def _write(file, entry, result):
    """Write one entry; what is too large is cut, and refused when it is read."""
    parts = _parts(entry.filename)
    target = result.folder.joinpath(*map(_safe, parts[:1] + parts[1:][-6:]))
    largest = NESTED if target.suffix.lower() == ".zip" else LARGEST
    data = _data(file, entry, largest)
    result.size += len(data)
    if result.size > TOTAL:
        raise TooMuch(f"it holds more than {TOTAL >> 20} MiB of files")
    target = _free(target, result)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    if data is DAMAGED:
        result.damaged.add(target)
    if entry.date_time[0] > 1980:
        try:
            when = datetime.datetime(*entry.date_time)
        except (ValueError, TypeError, OverflowError):
            return
        result.times[target] = when.isoformat(sep=" ")


def _data(file, entry, largest):
    """Return the bytes of an entry, not many more than `largest`; DAMAGED if it is broken."""
    pieces, size = [], 0
    try:
        with file.open(entry) as source:
            plain = entry.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
            source.MIN_READ_SIZE = source.MIN_READ_SIZE if plain else SIP
            while size < largest and (piece := source.read1(1 << 16 if plain else SIP)):
                pieces.append(piece)
                size += len(piece)
    except NO_ZIP:  # encrypted, an unknown method, a broken stream: the others are read
        return DAMAGED
    return b"".join(pieces)


def _free(target, result):
    """Return a path where nothing is yet, nor a file in the place of one of its folders."""
    parts = target.relative_to(result.folder).parts
    at = result.folder
    for part in parts[:-1]:
        at = at / part
        if at.is_file():  # a file and a folder of one name
            at = at.with_name(f"{part}~")
    # Two entries of one name, or of names that differ by a bad character or by capitals.
    at = at / parts[-1]
    key = str(at).lower()
    number = result.names[key]
    result.names[key] += 1
    while number or at.exists():
        at = at.with_name(f"{target.stem}~{number or ''}{target.suffix}")
        if not at.exists():
            break
        number += 1
    return at


def _safe(part):
    """Return a part of a path that stays where it is put."""
    part = re.sub(r"[^\w .,@()'+=-]", "_", part)
    stem, dot, suffix = part.rpartition(".")
    part = f"{stem[:90]}{dot}{suffix[:8]}" if dot else part[:90]
    while len(os.fsencode(part)) > 200:
        part = part[:50] + part[-20:] if len(part) > 80 else part[1:]
    return part.strip(" ").lstrip(".") or "_"
