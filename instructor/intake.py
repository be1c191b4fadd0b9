"""Find the submissions in a folder and read them, trusting nothing about them."""

import os
import re
import stat
from pathlib import Path
from typing import NamedTuple

from . import archives

NAME = "lab15_grpo.py"
LARGEST = 1 << 20  # bytes of a file
DEPTH = 3  # folders below a student's own
NOT_A_LAB = re.compile(r"(conftest|setup|tinylm|sitecustomize|pytest|test_.*|.*_test)\.py")


class Submission(NamedTuple):
    """One student's file. `path` is None where there is none; `note` says why, or what is odd."""

    student: str
    path: Path | None
    note: str = ""


def find(source, unpacked=None):
    """Return the submissions of a file, or of a folder of files and student folders.

    Args:
        source: a .py file, a folder, or a course system's zip.
        unpacked: an empty folder, needed for a zip.

    Raises:
        FileNotFoundError: there is nothing to grade.
    """
    source = Path(source)
    if source.suffix == ".zip" and source.is_file():
        notes = archives.unpack(source, unpacked)
        found = find(unpacked) if any(Path(unpacked).iterdir()) else []
        return [s._replace(note=notes.get(s.student, s.note)) for s in found]
    if source.is_file():
        return [Submission(_student(source.stem), source)]
    if not source.is_dir():
        raise FileNotFoundError(f"there is no {source}")
    found = []
    for path in sorted(source.iterdir()):
        if path.name.startswith((".", "__")):
            continue
        if path.is_dir() and not path.is_symlink():
            found.append(_in_folder(path))
        elif path.suffix == ".py":
            found.append(Submission(_student(path.stem), path))
    if not found:
        raise FileNotFoundError(f"there is no .py file and no student's folder in {source}")
    return _unique(found)


def _student(name):
    """Return a name that no spreadsheet takes for a formula."""
    name = "".join(c if c.isprintable() else "?" for c in name)
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _unique(found):
    seen, result = {}, []
    for sub in found:
        seen[sub.student] = seen.get(sub.student, 0) + 1
        n = seen[sub.student]
        result.append(sub._replace(student=f"{sub.student} ({n})") if n > 1 else sub)
    return result


def _in_folder(folder):
    """Return the submission in a student's folder."""
    student, files = _student(folder.name), []
    for at, folders, names in os.walk(folder):
        depth = len(Path(at).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if depth < DEPTH and not f.startswith((".", "__")))
        files += [Path(at, name) for name in sorted(names) if name.endswith(".py")][:100]
        if len(files) > 1000:
            break
    named = [f for f in files if f.name == NAME]
    if named:
        best = min(named, key=lambda f: len(f.parts))
        note = "" if len(named) == 1 else f"there are {len(named)} files {NAME}; one was graded"
        return Submission(student, best, note)
    others = [f for f in files if not NOT_A_LAB.fullmatch(f.name)]
    if len(others) == 1:
        return Submission(student, others[0], f"the file is called {others[0].name}, not {NAME}")
    return Submission(student, None, f"there is no file {NAME}")


def read(path):
    """Return (bytes, "") of a submitted file, or (None, what is wrong with it)."""
    try:
        # Neither a link to another file nor a pipe that never ends is followed.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        fd = os.open(path, flags | getattr(os, "O_BINARY", 0))
        with os.fdopen(fd, "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None, "it is no ordinary file"
            data = file.read(LARGEST + 1)
    except OSError as error:
        return None, f"it cannot be read ({type(error).__name__})"
    if len(data) > LARGEST:
        return None, f"it is larger than {LARGEST >> 20} MiB"
    if not data.strip():
        return None, "it is empty"
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        text, data = _from_utf16(data)
        return (data, "") if text else (None, "it is in UTF-16; save it as UTF-8")
    if b"\0" in data:
        return None, "it holds zero bytes, as no text does; save it as UTF-8"
    return data, ""


def _from_utf16(data):
    try:
        text = data.decode("utf-16")
        return text, text.encode("utf-8")
    except UnicodeError:
        return "", data
