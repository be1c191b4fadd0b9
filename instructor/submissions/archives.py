"""Unpack the zip of a class or a student: only possible lab files, never outside the folder.

Nothing in them is trusted: neither names nor sizes nor the zip's own table of contents. An
entry that cannot be read is lost alone: the others are unpacked.
"""

import errno
import re
import zipfile
from collections import Counter
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from .exports import METADATA, METADATA_BYTES, recognized

MOST, LARGEST, TOTAL = 200_000, 2 << 20, 1 << 30  # entries of a zip; bytes of a file, and of all
# Limits per student, so that there is room for the others: entries of a folder, bytes.
OF_ONE, BYTES_OF_ONE = 500, 32 << 20
LONGEST = 1000  # characters of a name that are looked at
# Why a file that is wanted is not unpacked: (what it is, what sets it apart).
MANY = ("file", f"beyond the first {OF_ONE} of a folder in the zip")
LARGE = ("file", f"beyond the first {BYTES_OF_ONE >> 20} MiB of one student in the zip")
FULL_UP = ("file", f"beyond the first {TOTAL >> 20} MiB of the zip")
NAMED = ("file", f"with a name of more than {LONGEST} characters")
WANTED = (".py", ".zip")
ALSO = ("timestamp.txt", METADATA)
INFO = re.compile(r"_attempt_[\d-]{10,}\.txt$", re.I)  # Blackboard's notes on an attempt
NESTED = 8 << 20  # bytes of a zip in a zip
LARGEST_OF = {".zip": NESTED, ".yml": METADATA_BYTES}
# Compressed bytes that are unpacked at a time: a block of bzip2, 40 bytes, may become 46 MiB, and
# the library does not stop at what was asked for.
SIP = 16
# What zipfile and the libraries below it raise: BadZipFile, NotImplementedError, RuntimeError
# (encrypted), zlib.error, LZMAError, struct.error, OverflowError, EOFError, MemoryError ...
NO_ZIP = (Exception,)
FULL = (errno.ENOSPC, errno.EDQUOT)  # that is no student's fault
DAMAGED = b"\0this entry of the zip cannot be read\0"


class Entry(NamedTuple):
    """One entry of a zip: its name's parts, and where its bytes were unpacked to, if they were.

    why: MANY, LARGE, FULL_UP or NAMED if it was wanted and not unpacked all the same, else ().
    """

    parts: tuple[str, ...]
    path: Path | None
    is_folder: bool
    why: tuple[str, ...] = ()


class Unpacked:
    """The unpacked files of a zip, and in `entries` everything that is in it.

    The zip's own times are not kept: whoever makes a zip can write any time into it.

    damaged: paths of entries that could not be read.
    seen: folder in the zip -> number of its entries that were wanted.
    sizes: student -> bytes that were unpacked.
    """

    def __init__(self, folder):
        self.folder, self.entries = Path(folder), []
        self.damaged, self.seen, self.sizes = set(), Counter(), Counter()


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
            names = [_parts(_name(entry)) for entry in entries]
            for entry, parts, owner in zip(entries, names, _owners(names), strict=True):
                wanted = not entry.is_dir() and _is_wanted(entry.filename[-LONGEST:])
                why = _why_not(entry, parts, owner, result) if wanted else ()
                at = _write(file, entry, owner, result) if wanted and not why else None
                if parts:
                    result.entries.append(Entry(parts, at, entry.is_dir(), why))
    except NO_ZIP as error:
        if isinstance(error, TooMuch):
            raise ValueError(str(error)) from None
        if getattr(error, "errno", None) in FULL:
            raise
        raise ValueError(f"{path} cannot be unpacked ({type(error).__name__})") from None
    return result


class TooMuch(ValueError):
    """A zip holds more than a class could have handed in."""


def _owners(names):
    """Return for each of a zip's names, as parts, a word for the student whose entry it is.

    That is the folder at the top, or below the only one at the top; of files beside each other
    it is what the course system writes into the name, else the name.
    """
    depth = 1 if len({parts[:1] for parts in names}) > 1 else 2
    flat = [parts[-1] for parts in names if len(parts) == depth]
    named = {name: found.student for name, found in recognized(flat)[1].items()}
    return [parts[:depth] if len(parts) > depth else named.get("".join(parts[-1:]), parts)
            for parts in names]


def _why_not(entry, parts, owner, result):
    """Return why a wanted entry is not unpacked, or ()."""
    if len(entry.filename) > LONGEST:
        return NAMED
    folder = "/".join(parts[:-1][:2])
    result.seen[folder] += 1
    if folder and result.seen[folder] > OF_ONE:
        return MANY
    if result.sizes[owner] >= BYTES_OF_ONE:
        return LARGE
    return FULL_UP if result.sizes.total() >= TOTAL else ()


def _name(entry):
    """Return an entry's name; many programs write UTF-8 without its flag."""
    if not entry.flag_bits & 0x800:
        try:
            return entry.filename.encode("cp437").decode("utf-8")
        except UnicodeError:
            pass
    return entry.filename


def _parts(name):
    """Return the parts of a name in a zip, without those that lead elsewhere."""
    return tuple(p for p in re.split(r"[\\/]", name) if p not in ("", ".", ".."))


def _is_wanted(name):
    name = name.lower()
    return name.endswith(WANTED) or PurePosixPath(name).name in ALSO or bool(INFO.search(name))


def _write(file, entry, owner, result):
    """Write one entry and return its path; one that is too large is cut, then refused when read.

    The file has a number for a name: names in a zip may be of any length, occur twice, or
    be both a file's and a folder's.
    """
    suffix = PurePosixPath(entry.filename.lower()).suffix
    target = result.folder / f"{len(result.entries)}{suffix}"
    data = _data(file, entry, LARGEST_OF.get(suffix, LARGEST))
    result.sizes[owner] += len(data)
    result.folder.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)
    if data is DAMAGED:
        result.damaged.add(target)
    return target


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
