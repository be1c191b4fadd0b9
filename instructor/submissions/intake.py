"""Find who handed in what, in a folder or a course system's zip, trusting nothing about it.

Everyone who handed in anything is found, even just a notebook, an archive that is not opened, or
an empty folder. Only litter of operating systems is left out, and it is listed.
"""

import contextlib
import errno
import hashlib
import os
import re
import stat
import zipfile
from collections import Counter
from pathlib import Path
from typing import NamedTuple

from . import archives, exports, listing, skipped
from .choice import NAME, Piece, choose
from .exports import Ids

LARGEST, LINES = 256 << 10, 10_000  # bytes and lines of a file; the solution has 17 KiB and 410
SQUEEZED = 20  # times its own size that a zip's files may have, beyond ROOM; code has 4 to 8
ROOM = 16 << 20  # bytes
BESIDE = 100  # files beside a student's that are hashed
LONGEST = 255  # characters of a student's name; a name in a zip can have 65,535
ZIPS = 5  # of one student that are opened
# What is counted instead of looked at: (what it is, what sets it apart).
MORE_ZIPS = ("zip", f"beyond the first {ZIPS}")
INNER = ("zip", "in a zip that cannot be unpacked")
DAMAGED = ("file", "damaged in the zip")
LINK = "it is a link; links are not followed"
NOTHING = "nothing was handed in"
BROKEN = "it is damaged in the zip"
# Errors that say nothing about what is there: no right to look, a disk or a server that fails.
BLIND: tuple[int, ...] = (errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE, errno.ETIMEDOUT)
BLIND += (errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOENT)
ENDING = re.compile(r"(.+?)(\.py\.txt|\.tar\.\w{1,4}|\.\w{1,6})", re.I | re.S)


class Submission(NamedTuple):
    """One student's file. `path` is None where there is none; `note`: the reason, or what is odd.

    submitted, late: as the course system has it, never from a student's own file.
    ids: what the course system knows the student by.
    unseen: whether the grader could not read it (see the note): that is no 0.
    entries: the names at the top of the class's folder or zip that belong to it.
    skipped: how many files, folders and zips were not looked at; the note names them.
    """

    student: str
    path: Path | None
    note: str = ""
    submitted: str | None = None
    late: bool | str | None = None
    ids: Ids = Ids()
    unseen: bool = False
    entries: tuple[str, ...] = ()
    skipped: int = 0

    def read(self):
        """Return (bytes, "") of the file, or (None, what is wrong).

        Raises:
            Unseen: this account may not read it, or the disk fails.
        """
        return read(self.path) if self.path is not None else (None, self.note)


class Unseen(OSError):
    """A submission that the grader could not read; the message gives the reason."""


class Found(NamedTuple):
    """A class.

    system: "moodle", "canvas", "attempts", "gradescope", "nbgrader", or "" for plain folders.
    left_out: names at the top that belong to no student, with how many files they hold.
    warnings: lines for the instructor.
    """

    submissions: list[Submission]
    system: str = ""
    left_out: dict[str, int] = {}
    warnings: list[str] = []


def survey(source, unpacked=None, ours=()):
    """Return the Found of a file, or of a folder of files and student folders.

    Args:
        source: a .py file, a folder, or a course system's zip.
        unpacked: an empty folder for the contents of zips; without it none is opened.
        ours: paths of the instructor's own files, which are no submissions.

    Raises:
        FileNotFoundError: there is nothing to grade.
        ValueError: the zip is none.
    """
    source, zips = Path(source), _Zips(unpacked)
    if source.suffix.lower() == ".zip" and source.is_file():
        items, at = listing.of_zip(zips.unpack(source)), None
    elif source.is_file():
        return Found([Submission(_student(source.stem), source)])
    elif source.is_dir():
        items, at = listing.of_folder(source), source
        if zipped := _class_zip(zips, _tops(items)):
            items, at = zipped, None
    else:
        raise FileNotFoundError(f"there is no {source}")
    items, at = _inner(items, at)
    mine = {os.path.realpath(path) for path in ours}
    tops = [i for i in items if len(i.parts) == 1 and i.path and i.kind == "file"]
    left = {i.parts[0]: 1 for i in tops if os.path.realpath(i.path) in mine}
    found = _Class([i for i in items if i.parts[0] not in left], zips, at).found()
    found = found._replace(left_out=left | found.left_out)
    if not found.submissions:
        raise FileNotFoundError(f"there is no file and no student's folder in {source}")
    return found


def _tops(items):
    """Return the items at the top, litter left out."""
    names = {i.parts[0] for i in items}
    return [i for i in items if len(i.parts) == 1 and not exports.is_litter(i.parts[0], names)]


def _class_zip(zips, tops):
    """Return the items of a course system's zip, if it is the only thing in the folder.

    Only there: a student's zip beside others must not be able to bring in other students.
    """
    if len(tops) != 1 or tops[0].kind != "file" or tops[0].path.suffix.lower() != ".zip":
        return None
    if exports.is_ones_own(tops[0].parts[0]):
        return None
    try:
        items = listing.of_zip(zips.unpack(tops[0].path))
    except ValueError:
        return None
    return items if _from_system(_inner(items, None)[0]) else None


def _from_system(items):
    """Return whether a course system has named these."""
    tops = _tops(items)
    files = [i.parts[0] for i in tops if i.kind != "folder"]
    folders = [i.parts[0] for i in tops if i.kind == "folder"]
    return exports.METADATA in files or bool(exports.recognized(files, folders)[0])


def _inner(items, at):
    """Return the items of the one folder in a folder if that holds the class, else these.

    Args:
        items: what the folder or zip holds.
        at: the folder, or None for a zip.
    """
    tops = _tops(items)
    if len(tops) != 1 or tops[0].kind != "folder":
        return items, at
    name = tops[0].parts[0]
    inside = listing.below(items, name)
    below = _tops(inside)
    several = sum(i.kind == "folder" for i in below) > 1
    lab = any(i.parts[0] == NAME for i in below)
    if _from_system(inside) or (at is None and several and not lab):
        return inside, at and at / name
    return items, at


def _student(name):
    """Return a name that no spreadsheet takes for a formula."""
    name = "".join(c if c.isprintable() else "?" for c in name)
    name = name if len(name) <= LONGEST else f"{name[:LONGEST]}..."
    return f"'{name}" if name.startswith(("=", "+", "-", "@")) else name


def unique(found):
    """Return the submissions under unique names: with their number, or counted."""
    numbers = {}
    for sub in found:
        numbers.setdefault(sub.student, set()).add(sub.ids.id)
    several = {student for student, some in numbers.items() if len(some) > 1}
    subs = [
        s._replace(student=f"{s.student} ({s.ids.id})") if s.ids.id and s.student in several else s
        for s in found
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


class _Zips:
    """Unpack zips.

    Args:
        room: an empty folder for their contents, or None.
    """

    def __init__(self, room):
        self.room, self.count = room and Path(room), 0
        self.damaged = set()  # entries of a zip that could not be read

    def unpack(self, path):
        """Unpack a zip and return its entries.

        Raises:
            ValueError: it is no zip.
            OSError: the disk is full; that is no student's fault.
        """
        if self.room is None:
            raise ValueError("a zip is not opened here")
        self.count += 1
        folder = self.room / str(self.count)
        folder.mkdir(parents=True)
        unpacked = archives.unpack(path, folder)
        self.damaged |= unpacked.damaged
        return unpacked.entries

    def unpack_small(self, path):
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
        return self.unpack(path)


class _Person:
    """Collect what one student has handed in."""

    def __init__(self, named):
        self.named, self.items, self.entries, self.late, self.closed = named, [], [], None, ""
        self.link, self.is_folder, self.typed = "", False, False
        self.inside = []  # pieces in this student's own zips
        self.skipped, self.why = Counter(), {}  # how many of each kind; of a piece: why

    def add(self, name, named, items):
        """Take an entry at the top of the class's folder, with everything in it.

        Args:
            name: of the entry.
            named: its name's parts.
            items: everything in it.
        """
        self.entries.append(name)
        self.late = self.late or named.late
        self.skipped.update(item.why for item in items if item.why)
        for item in items:
            inner = "/".join(item.parts[1:])
            piece = Piece(inner or named.name or name, item.path, named.order, named.attempt)
            if item.kind == "closed":
                self.closed = self.closed or "/".join(item.parts)
            elif len(item.parts) == 1 and item.kind == "link":
                self.link = LINK
            elif item.kind == "folder":
                self.is_folder = True
            elif item.kind != "cut":
                self.items.append(piece)
                self.why |= {piece: item.why} if item.why else {}


class _Class:
    """Sort the items of a class by student.

    Args:
        items: what the class's folder or zip holds.
        zips: a _Zips.
        at: the folder, or None for a zip.
    """

    def __init__(self, items, zips, at):
        names = {i.parts[0] for i in items}
        self.zips, self.at, self.left_out, self.warnings = zips, at, {}, []
        self.tops = {}  # name: items of it
        items, self.litter = skipped.without_litter(items)
        for item in items:
            name = item.parts[0]
            if exports.is_litter(name, names):
                self.left_out.setdefault(name, 0)
                self.left_out[name] += item.kind != "folder"
            else:
                self.tops.setdefault(name, []).append(item)

    def found(self):
        """Return the Found."""
        metadata = self.tops.pop(exports.METADATA, None)
        if metadata and (path := metadata[0].path):
            self.left_out[exports.METADATA] = 1
            groups, odd = exports.gradescope(path)
            if odd or not groups:
                self.warnings.append(f"{exports.METADATA} {odd or 'names no students'}: there the "
                                     "folders' names stand in the table")
        else:
            groups = {}
        system, people = self._people()
        if groups:
            subs = self._groups(groups, people)
            self.warnings += skipped.told(self.litter)
            return Found(unique(subs), "gradescope", self.left_out, self.warnings)
        times = self._timestamps() if not system else {}
        subs = [self._submission(p) for p in people.values()]
        subs = [s._replace(submitted=times.get(s.entries[0], s.submitted)) for s in subs]
        self.warnings += skipped.told(self.litter)
        if times:
            system = "nbgrader"
            subs = [s._replace(ids=s.ids._replace(login=s.student)) for s in subs]
        return Found(unique(subs), system, self.left_out, self.warnings)

    def _people(self):
        """Return (system, {key: _Person})."""
        files = {n: None for n, items in self.tops.items() if items[0].kind != "folder"}
        folders = [n for n in self.tops if n not in files]
        said = {n: self._info(n) for n in files if exports.is_info(n)}
        said = {name: user for name, user in said.items() if user}
        system, named = exports.recognized(files, folders, said)
        people = {}
        for name, items in self.tops.items():
            if name in named:
                who = named[name]
                key = who.student, who.ids
            else:
                who = exports.Named(_stem(name) if name in files else name)
                key = name
            person = people.setdefault(key, _Person(who))
            if exports.is_info(name) and system == "attempts":
                person.entries.append(name)  # the system's own words
                person.typed = True
            else:
                person.add(name, who, items)
        return system, people

    def _info(self, name):
        path = self.tops[name][0].path
        try:
            data, _ = read(path) if path else (None, "")
        except OSError:
            data = None
        return exports.info(data.decode("utf-8", "replace")) if data else ""

    def _groups(self, groups, people):
        """Return the submissions of a Gradescope export: one for each member of a group."""
        subs = []
        by_folder = {p.entries[0]: p for p in people.values()}
        for folder, members in groups.items():
            person = by_folder.pop(folder, None)
            if person is None:
                note = f"{exports.METADATA} names {folder}, but it is not here"
                sub = Submission("", None, note)
            else:
                sub = self._submission(person)
            for name, ids, when in members:
                subs.append(sub._replace(student=_student(name), ids=ids, submitted=when))
        return subs + [self._submission(person) for person in by_folder.values()]

    def _timestamps(self):
        """Return {student: time} of nbgrader's tree, STUDENT/lab15/timestamp.txt.

        A file of that name anywhere else, or in a tree that is not nbgrader's, is a student's.
        """
        def in_tree(items):
            inside = {i.parts[1] for i in items if len(i.parts) > 1}
            return len(inside) == 1 and not any(len(i.parts) == 2 and i.kind != "folder"
                                                for i in items)

        trees = {name: items for name, items in self.tops.items() if in_tree(items)}
        stamps = {
            name: item.path
            for name, items in trees.items()
            for item in items
            if len(item.parts) == 3 and item.parts[2] == "timestamp.txt" and item.kind == "file"
        }
        at = self.at
        course = at and (at.name == "submitted" or (at.parent / "nbgrader_config.py").is_file())
        everybody = len(stamps) == len(self.tops) > 1
        if len(trees) < len(self.tops) or not (course or everybody):
            return {}
        times = {}
        for name, path in stamps.items():
            data = None
            with contextlib.suppress(OSError):
                data, _ = read(path) if path else (None, "")
            times[name] = data and exports.time_of(data[:100].decode("utf-8", "replace"))
        return times if course or stamps else {}

    def _submission(self, person):
        """Return the submission of one student."""
        named, pieces = person.named, person.items
        choice, problem = choose(pieces), ""
        if not choice.sure:
            choice, problem = self._look_into_zips(person, choice)
        piece, note, unseen = choice.piece, choice.note, False
        if piece is None and person.link:
            note = person.link
        elif piece is None and not pieces:
            note = f"there is no file {NAME}; {_empty(person)}"
        if problem and piece is None:
            note, unseen = f"there is no .py file, and {problem}", True
        elif problem:
            note = "; ".join(filter(None, [note, problem]))
        if person.closed and not (choice.sure and piece):
            note, unseen, piece = f"it cannot be read on this machine: {person.closed}", True, None
        broken = {p for p in (*pieces, *person.inside) if p.path in self.zips.damaged}
        if piece in broken:
            broken, note, unseen, piece = broken - {piece}, BROKEN, True, None
        elif piece and piece.path is None:
            why = " ".join(person.why.get(piece, ()))
            note, unseen, piece = f"it was not unpacked: it is a {why}", True, None
        person.skipped.update([DAMAGED] * len(broken))
        note = "; ".join(filter(None, [note, skipped.words(person.skipped)]))
        sub = Submission(
            _student(named.student), piece and piece.path, note, None, person.late, named.ids,
            unseen, tuple(person.entries), person.skipped.total(),
        )
        attempts = sorted({p.attempt for p in pieces if p.attempt} | {named.attempt})
        return sub._replace(submitted=(piece.attempt if piece else attempts[-1]) or None)

    def _look_into_zips(self, person, choice):
        """Return (a Choice with the files in a student's zips, what is wrong with one)."""
        pieces = person.items
        zips = [p for p in pieces if p.base.lower().endswith(".zip") and p.path is not None]
        zips.sort(key=lambda p: (p.attempt, p.order), reverse=True)
        more, problem = [], ""
        person.skipped.update([MORE_ZIPS] * len(zips[ZIPS:]))
        for outer in zips[:ZIPS]:
            if not outer.path.is_file() or outer.path.is_symlink():
                problem = problem or "the zip is no ordinary file"
                continue
            try:
                more += self._inside(person, outer, self.zips.unpack_small(outer.path))
            except ValueError as error:
                reason = "cannot be unpacked" if "unpacked" in str(error) else "holds too much"
                problem = problem or f"the zip {outer.base} {reason}"
        if more:
            choice = choose([p for p in pieces if p not in zips] + more)
        return choice, problem

    def _inside(self, person, outer, entries, deeper=True):
        """Return the pieces in a zip, and in a zip that holds nothing but zips."""
        items, litter = skipped.without_litter(listing.of_zip(entries), 0)
        self.litter.update(litter)
        person.skipped.update(i.why for i in items if i.why)
        pieces = []
        for item in (i for i in items if i.kind != "folder"):
            name = "/".join((outer.name, *item.parts))
            pieces.append(Piece(name, item.path, outer.order, outer.attempt))
            person.why |= {pieces[-1]: item.why} if item.why else {}
        python = [p for p in pieces if p.base.lower().endswith(".py")]
        nested = [p for p in pieces if p.base.lower().endswith(".zip") and p.path is not None]
        person.inside += pieces
        if deeper and nested and not python:
            person.skipped.update([MORE_ZIPS] * len(nested[ZIPS:]))
            for inner in nested[:ZIPS]:
                try:
                    entries = self.zips.unpack_small(inner.path)
                except ValueError:
                    person.skipped[INNER] += 1
                else:
                    pieces += self._inside(person, inner, entries, False)
        return pieces


def _stem(name):
    """Return the name of a file in the class's folder without its ending."""
    found = ENDING.fullmatch(name)
    return found[1] if found else name


def _empty(person):
    """Return what the student has instead of a file, in words."""
    if person.typed:
        return "nothing but typed text was handed in"
    return "the folder is empty" if person.is_folder else "nothing else either"


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
    return _checked(data)


def _checked(data):
    """Return (bytes, "") of what may be a lab file, or (None, what is wrong with it)."""
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
    if data.lstrip().startswith(b"{") and b'"nbformat"' in data:
        return None, "it is a notebook under the name of a .py file; export it as Python"
    return data, ""


def handed_in(path):
    """Return hashes of a file's bytes as they were handed in, and of the .py files beside it.

    Args:
        path: of the file that is graded, or None.
    """
    if path is None:
        return []
    path = Path(path)
    beside = sorted(p for p in path.parent.glob("*.py") if p != path)[:BESIDE]
    return [raw_hash(p) for p in (path, *beside)]


def raw_hash(path):
    """Return a hash of the first bytes of an ordinary file, or "" if there is none to read."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(LARGEST + 1)).hexdigest()[:16]
    except OSError:
        return ""


def _from_utf16(data):
    try:
        text = data.decode("utf-16")
        return text, text.encode("utf-8")
    except UnicodeError:
        return "", data
