"""What lies in a class's folder or zip: every name in it, and where its bytes are.

A folder and a zip become the same list, so that a student is found in both alike.
"""

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from . import exports

DEPTH = 6  # folders below a student's own
MOST = 2000  # files of one student that are looked at


class Item(NamedTuple):
    """A file or a folder of a class.

    parts: its name and those of the folders it lies in, from the class's folder down.
    path: where its bytes are; None if they were not unpacked.
    kind: "file", "folder", "link", "odd" (a pipe, a device), or "closed": it cannot be read.
    """

    parts: tuple[str, ...]
    path: Path | None
    kind: str = "file"


def of_folder(folder: Path) -> list[Item]:
    """Return the items of a folder, student by student.

    Raises:
        OSError: the folder itself cannot be read.
    """
    items = []
    for name in sorted(os.listdir(folder)):
        path = folder / name
        kind = _kind(path)
        items.append(Item((name,), path, kind))
        if kind == "folder":
            below = list(_below(path, (name,)))
            items += below[:MOST]
    return items


def of_zip(entries: Iterable) -> list[Item]:
    """Return the items of an unpacked zip's entries; see archives.py."""
    items, seen = [], set()
    for entry in entries:
        # Most zips do not list their folders. In a zip, these can be thousands deep.
        for end in range(1, min(len(entry.parts), DEPTH + 2)):
            if entry.parts[:end] not in seen:
                seen.add(entry.parts[:end])
                items.append(Item(entry.parts[:end], None, "folder"))
        if entry.is_folder and entry.parts in seen:
            continue
        seen.add(entry.parts)
        items.append(Item(entry.parts, entry.path, "folder" if entry.is_folder else "file"))
    return items


def _kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "closed"
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"))
    return next((kind for test, kind in kinds if test(mode)), "odd")


def _below(folder: Path, parts: tuple[str, ...]) -> Iterator[Item]:
    """Yield what lies below a folder; what cannot be listed is yielded as closed."""
    closed: list[str] = []

    def note(error: OSError) -> None:
        closed.append(str(error.filename or folder))

    for at, folders, files in os.walk(folder, onerror=note):
        here = parts + Path(at).relative_to(folder).parts
        names = {*folders, *files}
        folders[:] = sorted(f for f in folders if not exports.is_litter(f, names))
        for name in folders:
            kind = _kind(Path(at, name))
            yield Item((*here, name), Path(at, name), kind)
        for name in sorted(files):
            yield Item((*here, name), Path(at, name), _kind(Path(at, name)))
        if len(here) > DEPTH:
            folders.clear()
    for path in closed:
        yield Item(parts + Path(path).relative_to(folder).parts, Path(path), "closed")


def below(items: Iterable[Item], name: str) -> list[Item]:
    """Return the items in a folder, as if that were the class's."""
    return [i._replace(parts=i.parts[1:]) for i in items if i.parts[0] == name and i.parts[1:]]


def size(items: Iterable[Item]) -> int:
    """Return how many files these are."""
    return sum(item.kind != "folder" for item in items)
