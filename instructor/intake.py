"""Find the submissions in a folder and read them, trusting nothing about them."""

import contextlib
import errno
import os
import re
import stat
import zipfile
from pathlib import Path
from typing import NamedTuple

from . import archives, exports

NAME = "lab15_grpo.py"
LARGEST, LINES = 256 << 10, 10_000  # bytes and lines of a file; the solution has 17 KiB and 410
DEPTH = 4  # folders below a student's own
NOT_A_LAB = re.compile(r"(conftest|setup|tinylm|sitecustomize|pytest|test_.*|.*_test)\.py", re.I)
LIKELY = re.compile(r"(.*[_ -])?lab[ _-]?15.*\.py", re.I)
SQUEEZED = 20  # times its own size that a zip's files may have, beyond ROOM; code has 4 to 8
ROOM = 16 << 20  # bytes
NO_PYTHON = (".ipynb", ".pyc", ".rar", ".7z", ".gz", ".tgz", ".tar", ".docx", ".pdf")
LINK = "it is a link; links are not followed"
BROKEN = "it is damaged in the zip"
# Errors that say nothing about what is there: no right to look, a disk or a server that fails.
BLIND = {errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.ENOMEM}
BLIND |= {errno.EMFILE, errno.ENFILE}


class Submission(NamedTuple):
    """One student's file. `path` is None where there is none; `note` says why, or what is odd."""

    student: str
    path: Path | None
    note: str = ""
    submitted: str | None = None  # a time, as the course system gave it
    late: bool | str | None = None
    unseen: bool = False  # the grader could not look: that is no 0

    def read(self):
        """Return (bytes, "") of the file, or (None, what is wrong).

        Raises:
            Unseen: this account may not read it, or the disk fails.
        """
        return read(self.path) if self.path is not None else (None, self.note)


class Unseen(OSError):
    """A submission that the grader could not look at; the text says why."""


def find(source, unpacked=None):
    """Return the submissions of a file, or of a folder of files and student folders.

    Args:
        source: a .py file, a folder, or a course system's zip.
        unpacked: an empty folder, for what comes out of zips; without it none is opened.

    Raises:
        FileNotFoundError: there is nothing to grade.
        ValueError: the zip is none.
    """
    source, finder = Path(source), _Finder(unpacked)
    if source.suffix.lower() == ".zip" and source.is_file():
        source = _inner(finder.unpack(source), zipped=True)
    elif source.is_file():
        return [Submission(_student(source.stem), source)]
    if not source.is_dir():
        raise FileNotFoundError(f"there is no {source}")
    found = finder.folder(_inner(source))
    if not found:
        raise FileNotFoundError(f"there is no .py file and no student's folder in {source}")
    return _unique(found)


def _inner(folder, zipped=False):
    """Return the one folder in a folder if that holds the class, else the folder."""
    entries = [p for p in folder.iterdir() if not p.name.startswith((".", "__"))]
    if len(entries) != 1 or not entries[0].is_dir() or entries[0].is_symlink():
        return folder
    several = zipped and sum(p.is_dir() for p in entries[0].iterdir()) > 1
    export = several or (entries[0] / "submission_metadata.yml").is_file()
    return entries[0] if export else folder


def _student(name):
    """Return a name that no spreadsheet takes for a formula."""
    name = "".join(c if c.isprintable() else "?" for c in name)
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def _unique(found):
    """Return the submissions of (Submission, number) with a name of its own for each."""
    numbers = {}
    for sub, number in found:
        numbers.setdefault(sub.student, set()).add(number)
    subs = [
        s._replace(student=f"{s.student} ({n})") if n and len(numbers[s.student]) > 1 else s
        for s, n in found
    ]
    names, seen, result = {s.student for s in subs}, set(), []
    for sub in subs:
        name, n = sub.student, 1
        while name in seen or (n > 1 and name in names):
            n += 1
            name = f"{sub.student} ({n})"
        seen.add(name)
        result.append(sub._replace(student=name))
    return result


class _Finder:
    """Looks through a class's folder.

    Args:
        room: an empty folder for what comes out of zips, or None.
    """

    def __init__(self, room):
        self.room, self.zips, self.times = room and Path(room), 0, {}
        self.damaged = set()  # what a zip has, but could not be read

    def unpack(self, path):
        """Unpack a zip and return the folder.

        Raises:
            ValueError: it is no zip.
        """
        if self.room is None:
            raise ValueError("a zip is not opened here")
        self.zips += 1
        folder = self.room / str(self.zips)
        folder.mkdir(parents=True)
        unpacked = archives.unpack(path, folder)
        self.times |= unpacked.times
        self.damaged |= unpacked.damaged
        return folder

    def one_unpacked(self, path):
        """Unpack the zip of one student, who must not be able to fill the disk for all others.

        Raises:
            ValueError: it is no zip, or grows too much.
            OSError: the disk is full; that is no student's fault.
        """
        size = 0
        with contextlib.suppress(*archives.NO_ZIP), zipfile.ZipFile(path) as file:
            wanted = [e for e in file.infolist() if e.filename.lower().endswith(archives.WANTED)]
            size = sum(entry.file_size for entry in wanted)
        if size > ROOM + SQUEEZED * path.stat().st_size:
            raise ValueError(f"{path} holds too much")
        try:
            return self.unpack(path)
        except ValueError as error:
            if getattr(error.__context__, "errno", None) in (errno.ENOSPC, errno.EDQUOT):
                raise error.__context__ from None
            raise

    def folder(self, source):
        """Return [(Submission, the course system's number or "")] of a folder."""
        entries = [p for p in sorted(source.iterdir()) if not p.name.startswith((".", "__"))]
        loose = [p for p in entries if p.suffix.lower() in (".py", ".zip") and not p.is_dir()]
        renamed = exports.canvas([p.name for p in loose])
        groups = exports.gradescope(source / "submission_metadata.yml")
        found = []
        for path in entries:
            if path in loose:
                if renamed and path.name not in renamed:
                    continue  # an attempt before the last one
                name, number = exports.moodle(path.stem)
                name, number, late = renamed.get(path.name, (name, number, None))
                found.append((self.loose(path, _student(name))._replace(late=late), number))
            elif path.is_symlink():
                found.append((Submission(_student(path.name), None, LINK), ""))
            elif path.suffix.lower() in NO_PYTHON and not path.is_dir():
                note = f"a {path.suffix} file; a .py file is wanted"
                found.append((Submission(_student(path.stem), None, note), ""))
            elif path.is_dir():
                name, number = exports.moodle(path.name)
                sub = self.student(path, _student(name))
                for name, when in groups.get(path.name, [(sub.student, sub.submitted)]):
                    sub = sub._replace(student=_student(name), submitted=when)
                    found.append((sub, number))
        return found

    def loose(self, path, student):
        """Return the submission in a file that lies in the class's folder itself."""
        if path in self.damaged:
            return Submission(student, None, BROKEN, self.times.get(path), unseen=True)
        if path.suffix.lower() == ".py" or path.is_symlink():
            return Submission(student, path, "", self.times.get(path))
        if not path.is_file():
            return Submission(student, None, "it is no ordinary file")
        try:
            sub = self.student(self.one_unpacked(path), student)
        except ValueError as error:
            return Submission(student, None, f"the zip {_reason(error)}", unseen=True)
        return sub._replace(submitted=self.times.get(path, sub.submitted))

    def student(self, folder, student):
        """Return the submission in a student's folder."""
        try:
            files, zips = _walk(folder)
        except OSError as error:
            note = f"the folder cannot be read ({error.strerror or type(error).__name__})"
            return Submission(student, None, note, unseen=True)
        if not files and zips:
            zipped = []
            for path in zips[:5]:
                try:
                    zipped += _walk(self.one_unpacked(path))[0]
                except ValueError as error:
                    note = f"there is no .py file, and the zip {_reason(error)}"
                    return Submission(student, None, note, unseen=True)
            files = zipped
        path, note = _best(files)
        if path in self.damaged:
            return Submission(student, None, BROKEN, unseen=True)
        when = path and (_timestamp(path, folder) or self.times.get(path))
        return Submission(student, path, note, when)


def _reason(error):
    return "cannot be unpacked" if "unpacked" in str(error) else "holds too much"


def _walk(folder):
    """Return (.py files, zips) in a student's folder, links left out.

    Raises:
        OSError: a part of it cannot be read.
    """

    def stop(error):
        raise error

    files, zips = [], []
    for at, folders, names in os.walk(folder, onerror=stop):
        depth = len(Path(at).relative_to(folder).parts)
        folders[:] = sorted(f for f in folders if depth < DEPTH and not f.startswith((".", "__")))
        names = [name for name in sorted(names) if not name.startswith("._")][:1000]
        files += [Path(at, name) for name in names if name.lower().endswith(".py")][:100]
        zips += [Path(at, name) for name in names if name.lower().endswith(".zip")][:5]
        if len(files) > 1000:
            break
    return files, [z for z in zips if z.is_file() and not z.is_symlink()]


def _best(files):
    """Return (the file to grade or None, a note)."""
    named = [f for f in files if f.name == NAME]
    if named:
        best = min(named, key=lambda f: (len(f.parts), f))
        note = "" if len(named) == 1 else f"there are {len(named)} files {NAME}; one was graded"
        return best, note
    others = [f for f in files if not NOT_A_LAB.fullmatch(f.name)]
    likely = [f for f in others if LIKELY.fullmatch(f.name)]
    for some in (others, likely):
        if len(some) == 1:
            return some[0], f"the file is called {some[0].name}, not {NAME}"
    if len(files) > 1:
        return None, f"there is no file {NAME}, and several other .py files"
    return None, f"there is no file {NAME}"


def _timestamp(path, folder):
    """Return the time in nbgrader's timestamp.txt beside a file or above it, or None."""
    for at in (path.parent, *path.parent.parents):
        data, _ = read(at / "timestamp.txt")
        if data is not None:
            return exports.time_of(data[:100].decode("utf-8", "replace"))
        if at == folder:
            break
    return None


def read(path):
    """Return (bytes, "") of a submitted file, or (None, what is wrong with it).

    Raises:
        Unseen: this account may not read it, or the disk fails.
    """
    try:
        # Neither a link to another file nor a pipe that never ends is followed.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
        if os.path.islink(path):
            return None, LINK
        fd = os.open(path, flags | getattr(os, "O_BINARY", 0))
        with os.fdopen(fd, "rb") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                return None, "it is no ordinary file"
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as error:
        why = f"it cannot be read ({type(error).__name__})"
        if getattr(error, "errno", None) in BLIND:
            raise Unseen(why) from None
        return None, why
    if len(data) > LARGEST:
        return None, f"it is larger than {LARGEST >> 10} KiB"
    if data.count(b"\n") + data.count(b"\r") > LINES:
        return None, f"it has more than {LINES} lines"
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
