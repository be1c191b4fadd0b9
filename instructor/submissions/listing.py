"""List a class's folder or zip: every name in it, and where its bytes are.

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
# Why something is not looked at: (what it is, what sets it apart).
BEYOND = ("file", f"beyond the first {MOST}")
DEEP = ("folder", f"more than {DEPTH} deep")


class Item(NamedTuple):
    """A file or a folder of a class.

    parts: its name and those of its folders, from the class's folder down.
    path: where its bytes are; None if they were not unpacked.
    kind: "file", "folder", "link", "odd" (a pipe, a device), "closed": it cannot be read, or
        "cut": it is not looked at.
    why: for what is not looked at, or not unpacked: (what it is, what sets it apart), else ().
    """

    parts: tuple[str, ...]
    path: Path | None
    kind: str = "file"
    why: tuple[str, ...] = ()


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
            items += [i._replace(kind="cut", why=i.why or BEYOND) for i in below[MOST:]
                      if i.kind != "folder"]
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
        kind = "folder" if entry.is_folder else "file"
        items.append(Item(entry.parts, entry.path, kind, entry.why))
    return items


def _kind(path: Path) -> str:
    try:
        mode = path.lstat().st_mode
    except OSError:
        return "closed"
    kinds = ((stat.S_ISLNK, "link"), (stat.S_ISDIR, "folder"), (stat.S_ISREG, "file"))
    return next((kind for test, kind in kinds if test(mode)), "odd")


def _below(folder: Path, parts: tuple[str, ...]) -> Iterator[Item]:
    """Yield everything below a folder; yield as "closed" what cannot be listed."""
    closed: list[str] = []

    def note(error: OSError) -> None:
        closed.append(str(error.filename or folder))

    for at, folders, files in os.walk(folder, onerror=note):
        here = parts + Path(at).relative_to(folder).parts
        names = {*folders, *files}
        deep = len(here) > DEPTH
        for name in sorted(folders):
            kind = _kind(Path(at, name))
            cut = deep and kind == "folder" and not exports.is_litter(name, names)
            yield Item((*here, name), Path(at, name), "cut" if cut else kind, DEEP if cut else ())
        for name in sorted(files):
            yield Item((*here, name), Path(at, name), _kind(Path(at, name)))
        folders[:] = sorted(f for f in folders if not deep and not exports.is_litter(f, names))
    for path in closed:
        yield Item(parts + Path(path).relative_to(folder).parts, Path(path), "closed")


def below(items: Iterable[Item], name: str) -> list[Item]:
    """Return the items in a folder, as if that were the class's."""
    return [i._replace(parts=i.parts[1:]) for i in items if i.parts[0] == name and i.parts[1:]]
