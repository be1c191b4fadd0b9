"""Make every submission gradable: run it after collecting, before autograde.

    python -m lab15_nbgrader.repair        in the course's folder

nbgrader gives up a whole submission over a duplicated or missing cell, and skips a student
without a notebook in silence. Here a notebook is written anew from the released one and the text
of the student's cells. What was handed in stays in as_submitted/, what is no part of the
assignment goes to set_aside/. Running it twice changes nothing.
"""

import copy
import json
import os
import re
import shutil
import stat
import sys
from pathlib import Path
from typing import Any

import nbformat
from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

ASSIGNMENT = "lab15"
LARGEST = 20 << 20  # bytes of a notebook
MOST_CELLS, MOST_SOURCE = 500, 200_000  # cells; characters of one
KEEP = re.compile(rf"{ASSIGNMENT}\.ipynb|timestamp\.txt|submission_secret\.txt|[^/]*\.py")
NEW = {"code": new_code_cell, "markdown": new_markdown_cell, "raw": new_raw_cell}


def grade_id(cell: Any) -> str | None:
    """Return nbgrader's name of a cell, or None."""
    about: Any = cell
    for key in ("metadata", "nbgrader"):
        about = about.get(key) if isinstance(about, dict) else None
    name = about.get("grade_id") if isinstance(about, dict) else None
    return name if isinstance(name, str) else None


def rebuild(released: NotebookNode, submitted: Any) -> tuple[NotebookNode, list[str]]:
    """Return (a sound notebook, what had to be done) from a student's cells."""
    wanted = {grade_id(c): c for c in released.cells if grade_id(c)}
    names = {c["id"]: grade_id(c) for c in released.cells if grade_id(c)}
    cells, notes, seen = [], [], set()
    given = submitted.get("cells")
    if not isinstance(given, list):
        raise ValueError("it has no cells")
    if len(given) > MOST_CELLS:
        notes.append(f"{len(given)} cells, {MOST_CELLS} kept")
    sound = [c for c in given[:MOST_CELLS] if isinstance(c, dict)]
    notes += _cut(given[:MOST_CELLS], sound)
    # Backwards: of several copies the last one counts, as in nbgrader.
    for old in reversed(sound):
        name = grade_id(old)
        if name not in wanted:
            key = old.get("id")
            name = names.get(key) if isinstance(key, str) else None
        if name in seen:
            notes.append(f"a copy of {name} does not count")
        cells.append(_cell(old, wanted.get(name) if name not in seen else None))
        seen |= {name} - {None}
    cells.reverse()
    notes += _put_back(released, cells, seen)
    return _notebook(released, cells), notes


def _cut(given: list[Any], sound: list[dict]) -> list[str]:
    """Return notes on what of the cells is not in the mended notebook, with how many."""
    long = sum(len(_whole(c)) > MOST_SOURCE for c in sound)
    pictures = sum(_pictures(c)[1] for c in sound)
    counts = (
        (len(given) - len(sound), "cells that are none, left out"),
        (long, f"texts of more than {MOST_SOURCE} characters, cut"),
        (pictures, "pasted files that are no PNG or JPEG pictures, left out"),
    )
    return [f"{n} {what}" for n, what in counts if n]


def _pictures(cell: Any) -> tuple[dict[str, dict[str, str]], int]:
    """Return (the pictures in a text cell, how many other things are pasted there)."""
    if cell.get("cell_type") != "markdown":
        return {}, 0
    pasted = cell.get("attachments")
    found = _images(pasted)
    return found, len(pasted) - len(found) if isinstance(pasted, dict) else 0


def _source(cell: Any) -> str:
    return _whole(cell)[:MOST_SOURCE]


def _whole(cell: Any) -> str:
    source = cell.get("source", "")
    if isinstance(source, list):
        source = "".join(s for s in source if isinstance(s, str))
    text = source if isinstance(source, str) else ""
    return text.encode("utf-8", "replace").decode("utf-8")


def _cell(old: Any, model: NotebookNode | None) -> NotebookNode:
    """Return a new cell with the student's text, without outputs and foreign metadata."""
    if model is None:
        kind = old.get("cell_type")
        cell = NEW.get(kind if isinstance(kind, str) else "", new_raw_cell)(_source(old))
    else:
        cell = copy.deepcopy(model)
        if not model.metadata.nbgrader.get("locked"):
            cell.source = _source(old)
    if cell.cell_type == "markdown" and (images := _images(old.get("attachments"))):
        cell["attachments"] = images
    return cell


def _images(attachments: Any) -> dict[str, dict[str, str]]:
    """Return the pictures that a student has put into a text cell."""
    found = {}
    for name, data in (attachments.items() if isinstance(attachments, dict) else ()):
        for kind, value in (data.items() if isinstance(data, dict) else ()):
            plain = isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9+/=\s]+", value)
            if kind in ("image/png", "image/jpeg") and plain and '"' not in name:
                found[name] = {kind: value}
    return found


def _put_back(released: NotebookNode, cells: list[NotebookNode], seen: set[Any]) -> list[str]:
    """Insert the cells that are missing behind the ones that they follow."""
    notes, before = [], None
    for model in released.cells:
        name = grade_id(model)
        if name and name not in seen:
            places = [i + 1 for i, c in enumerate(cells) if grade_id(c) == before]
            cells.insert(places[0] if before and places else 0, copy.deepcopy(model))
            seen.add(name)
            notes.append(f"{name} was missing")
        before = name or before
    return notes


def _notebook(released: NotebookNode, cells: list[NotebookNode]) -> NotebookNode:
    book = nbformat.v4.new_notebook(cells=cells, metadata=copy.deepcopy(released.metadata))
    for number, cell in enumerate(cells):
        cell["id"] = grade_id(cell) or f"student-{number}"
    book.nbformat, book.nbformat_minor = released.nbformat, released.nbformat_minor
    nbformat.validate(book)
    return book


# ---------------------------------------------------------------- files


def _ordinary(path: Path) -> bool:
    try:
        return stat.S_ISREG(path.lstat().st_mode)
    except OSError:
        return False


def _read(path: Path) -> Any:
    """Return what a notebook holds, in nbformat 4.

    Raises:
        ValueError: it is no notebook.
    """
    if not _ordinary(path):
        raise ValueError("there is none")
    if path.stat().st_size > LARGEST:
        raise ValueError(f"it is larger than {LARGEST >> 20} MiB")
    try:
        # Not nbformat.read: it stumbles over what is to be mended here.
        data = json.loads(path.read_bytes().decode("utf-8-sig", "replace"))
        if isinstance(data, dict) and isinstance(data.get("nbformat"), int):
            if data["nbformat"] < 4:
                data = nbformat.convert(nbformat.from_dict(data), 4)
    except Exception as error:  # a hostile file can make a parser fail in any way
        raise ValueError(f"it cannot be read ({type(error).__name__})") from None
    if not isinstance(data, dict):
        raise ValueError("it is no notebook")
    return data


def _aside(path: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    target, number = folder / path.name, 1
    while target.is_symlink() or target.exists():
        target, number = folder / f"{path.name}.{number}", number + 1
    shutil.move(path, target)  # a link is moved, not followed


def _keep(path: Path, folder: Path) -> None:
    """Copy a file to a folder, unless the same bytes are there."""
    folder.mkdir(parents=True, exist_ok=True)
    data = path.read_bytes()
    old = sorted(folder.glob(f"{path.name}*"))
    if data not in [p.read_bytes() for p in old]:
        name = f"{path.name}.{len(old)}" if old else path.name
        (folder / name).write_bytes(data)


def repair_one(course: Path, student: str) -> list[str]:
    """Repair one student's submission, a folder in submitted/; return what had to be done."""
    folder = course / "submitted" / student / ASSIGNMENT
    book = folder / f"{ASSIGNMENT}.ipynb"
    original = course / "release" / ASSIGNMENT / book.name
    released = nbformat.read(original, as_version=4)
    notes = []
    for path in sorted(folder.iterdir()):
        if not (_ordinary(path) and KEEP.fullmatch(path.name)):
            # Given files come back from the exchange; autograde puts its own in their place.
            if path.is_symlink() or not (original.parent / path.name).exists():
                notes.append(f"{path.name!a} set aside")
            _aside(path, course / "set_aside" / student)
    try:
        mended, more = rebuild(released, _read(book))
    except Exception as error:  # hostile input again; the released notebook stands in
        what = str(error) if type(error) is ValueError else type(error).__name__
        more = [f"the notebook was replaced: {what}"[:200]]
        mended = rebuild(released, released)[0]
    text = nbformat.writes(mended) + "\n"
    if not (_ordinary(book) and book.read_bytes() == text.encode("utf-8")):
        if _ordinary(book):
            _keep(book, course / "as_submitted" / student)
        temporary = book.with_name(f"{book.name}.tmp")
        temporary.write_text(text, encoding="utf-8", newline="\n")
        os.replace(temporary, book)
    return notes + more


def repair_all(course: Path) -> dict[str, list[str]]:
    """Repair all submissions; return {student: what had to be done}."""
    done = {}
    for folder in sorted((course / "submitted").glob("*")):
        if folder.is_symlink() or not folder.is_dir() or folder.name.startswith("."):
            continue
        (folder / ASSIGNMENT).mkdir(exist_ok=True)
        if notes := repair_one(course, folder.name):
            done[folder.name] = notes
    return done


def main() -> int:
    """Repair the course in the current folder."""
    course = Path.cwd()
    if not (course / "release" / ASSIGNMENT).is_dir():
        print(f"there is no release/{ASSIGNMENT} here; go to the course's folder, and run")
        print(f"nbgrader generate_assignment {ASSIGNMENT} first")
        return 2
    for student, notes in repair_all(course).items():
        print(f"{ascii(student)[1:-1]}: {'; '.join(notes)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
