"""Choose which of a student's files is graded, and describe the others.

A file can be the lab file if it has the lab's name, with what course systems and browsers add to
it (-1, (2), Copy), or if it holds most of the five functions. Of several, in this order:

1. one with work in it, before the untouched file that was handed out;
2. the newest, if the course system records which that is;
3. the lab's exact name, before a name with an addition, before any other name;
4. the one in the fewest folders.

Without any, a single .py file, or a single one with the lab in its name, is graded. Files are read
here as bytes; they are not parsed, imported or run.
"""

import re
from pathlib import Path
from typing import NamedTuple

from tests.labfile import TASKS

NAME = "lab15_grpo.py"
LARGEST = 1 << 20  # bytes of a file that is looked into
MOST = 100  # files that are looked into
LONGEST = 255  # characters of a name: no file system takes more, but a zip does
# What browsers, operating systems and course systems add to a name.
ADDED = re.compile(
    r"([ _-]*\(\d+\)|[ _-]+\d{1,3}|~|[ _-]+(copy|kopie|copi[ae]|final)([ _-]*\d+)?)$", re.I
)
NOT_A_LAB = re.compile(
    r"(conftest|setup|tinylm|labfile|sitecustomize|pytest|test_.*|.*_test)\.py", re.I
)
LIKELY = re.compile(r"(.*[_ -])?lab[ _-]?15.*\.py", re.I)
HANDED_OUT = {"tests", "solutions", "beyond", "notebooks", "instructor"}  # folders of the lab
NOT_NEWS = re.compile(
    r"(readme|chapter|license|makefile|requirements)(\..*)?|timestamp\.txt|lab15\.ipynb"
    r"|tinylm_sft\.pt|(conftest|tinylm|test_.*)\.py|.*\.(pyc|toml|cff|yml|svg|png)|\..*",
    re.I,
)
FUNCTIONS = re.compile(
    rb"^(?:async[ \t]+)?(?:def[ \t]+)?("
    + "|".join(t.name for t in TASKS.values()).encode()
    + rb")[ \t]*[(:=]",
    re.M,
)
UNWRITTEN = re.compile(rb"^ {4}raise NotImplementedError\(.Task \d: \w+.\)", re.M)


class Piece(NamedTuple):
    """One file of a student's.

    name: the file's, with its folders, as the student has it.
    path: where its bytes are, or None.
    order: a number that rises with every upload, if the course system gives one, else 0.
    attempt: when its attempt was handed in, or "".
    """

    name: str
    path: Path | None
    order: int = 0
    attempt: str = ""

    @property
    def base(self) -> str:
        """Return the name without folders."""
        return self.name.rpartition("/")[2]

    @property
    def folders(self) -> set[str]:
        """Return the names of its folders."""
        return set(self.name.lower().split("/")[:-1])


class Choice(NamedTuple):
    """The chosen file. `piece` is None if none can be graded; `note`: the reason, or what is odd.

    sure: whether it is the lab file by its name or content, and not only the one .py file.
    """

    piece: Piece | None
    note: str
    sure: bool = True


class _Candidate(NamedTuple):
    piece: Piece
    untouched: bool
    rank: int  # 0: the lab's name, 1: with an addition, 2: any other
    data: bytes

    @property
    def key(self) -> tuple:
        piece = self.piece
        handed_out = bool(piece.folders & HANDED_OUT)
        return (self.untouched, handed_out, -piece.order, self.rank, piece.name.count("/"),
                piece.name)


def rank(name: str) -> int:
    """Return 0 for the lab's name, 1 for it with an addition, 2 for any other."""
    if name == NAME:
        return 0
    if len(name) > LONGEST:
        return 2
    stem, _, suffix = name.rpartition(".")
    before = ""
    while stem != before:
        before, stem = stem, ADDED.sub("", stem.strip())
    plain = re.sub(r"[ -]", "_", stem.lower()).replace("lab_15", "lab15")
    return 1 if suffix.lower() == "py" and plain == "lab15_grpo" else 2


def _looked_into(piece: Piece) -> _Candidate:
    """Return what a .py file looks like from outside."""
    data = b""
    if piece.path is not None and piece.path.is_file() and not piece.path.is_symlink():
        try:
            with open(piece.path, "rb") as file:
                data = file.read(LARGEST).replace(b"\r", b"").replace(b"\0", b"")
        except OSError:
            pass  # read again, and reported, if it is the one to be graded
    untouched = len(UNWRITTEN.findall(data)) == len(TASKS)
    return _Candidate(piece, untouched, rank(piece.base), data)


def choose(pieces: list[Piece]) -> Choice:
    """Return which of a student's files is graded, of the newest attempt that has one."""
    attempts = sorted({p.attempt for p in pieces}, reverse=True)
    first = None
    for number, attempt in enumerate(attempts):
        found = _choose([p for p in pieces if p.attempt == attempt])
        if found.piece is not None and found.sure:
            if len(attempts) > 1:
                which = "the newest" if number == 0 else f"no. {len(attempts) - number}"
                why = "" if number == 0 else "; newer ones hold no lab file"
                note = f"{which} of {len(attempts)} attempts, of {attempt}{why}"
                found = found._replace(note="; ".join(filter(None, [note, found.note])))
            return found
        first = first or found
    return first or Choice(None, f"there is no file {NAME}; nothing was handed in with it", False)


def _choose(pieces: list[Piece]) -> Choice:
    python = [p for p in pieces if p.base.lower().endswith(".py")]
    looked = [_looked_into(p) for p in sorted(python, key=_promise)[:MOST]]
    beyond = f"{len(python) - MOST} more .py files were not looked into" * (len(python) > MOST)
    mine = [c for c in looked if c.rank < 2 or _has_most(c)]
    if mine:
        best = min(mine, key=lambda c: c.key)
        rivals = [c for c in mine if c is not best and c.data != best.data
                  and not c.piece.folders & HANDED_OUT]
        notes = [_why(best, rivals)] if rivals else []
        if best.rank == 2:
            notes.append(f"the file is called {best.piece.base}, not {NAME}")
        if best.piece.folders & HANDED_OUT:
            notes.append(f"it is {best.piece.name}, in a folder of files that were handed out")
        notes += [beyond, _others(pieces, {best.piece, *(c.piece for c in rivals)})]
        return Choice(best.piece, "; ".join(filter(None, notes)))
    others = [p for p in python if not NOT_A_LAB.fullmatch(p.base)]
    for some in (others, [p for p in others if LIKELY.fullmatch(p.base[-LONGEST:])]):
        if len(some) == 1:
            note = f"the file is called {some[0].base}, not {NAME}"
            more = _others(pieces, {some[0]})
            return Choice(some[0], "; ".join(filter(None, [note, beyond, more])), False)
    note = f"there is no file {NAME}; {_instead(pieces)}"
    return Choice(None, "; ".join(filter(None, [note, beyond])), False)


def _promise(piece: Piece) -> tuple:
    """Return a key that sorts first what is most likely the lab file."""
    return (rank(piece.base), bool(NOT_A_LAB.fullmatch(piece.base)), -piece.order,
            piece.name.count("/"), piece.name)


def _has_most(candidate: _Candidate) -> bool:
    """Return whether a file of another name holds most of the five functions."""
    piece = candidate.piece
    if NOT_A_LAB.fullmatch(piece.base) or piece.folders & HANDED_OUT:
        return False
    return len(set(FUNCTIONS.findall(candidate.data))) > len(TASKS) // 2


def _why(best: _Candidate, rivals: list[_Candidate]) -> str:
    """Return why one of several was taken."""
    names = ", ".join(_shown([c.piece.name for c in rivals]))
    if not best.untouched and all(c.untouched for c in rivals):
        why = "the other is the untouched file that was handed out"
    elif any(c.piece.order for c in rivals) and all(
        c.untouched > best.untouched or c.piece.order < best.piece.order for c in rivals
    ):
        why = "it is the newest upload"
    elif all(c.rank > best.rank or c.untouched > best.untouched for c in rivals):
        why = f"its name is nearest to {NAME}"
    else:
        why = "it is in the fewest folders, or first by name"
    return f"{len(rivals) + 1} files could be the lab file; graded: {best.piece.name}, as {why}" \
           f"; not graded: {names}"


def _others(pieces: list[Piece], known: set[Piece]) -> str:
    """Return a note on what else was handed in, the lab's own files apart."""
    more = [p.name for p in pieces if p not in known and not NOT_NEWS.fullmatch(p.base)
            and not p.folders & HANDED_OUT]
    return f"also handed in, not graded: {', '.join(_shown(more))}" if more else ""


def _instead(pieces: list[Piece]) -> str:
    """Return what is there in the lab file's place."""
    names = [p.name for p in pieces if not p.base.startswith(".")] or [p.name for p in pieces]
    python = [n for n in names if n.lower().endswith(".py")]
    if len(python) > 1:
        return f"there are several other .py files: {', '.join(_shown(python))}"
    return f"there is: {', '.join(_shown(names))}" if names else "nothing else either"


def _shown(names: list[str], most: int = 4) -> list[str]:
    """Return the first names, each cut, and how many more there are."""
    shown = [n if len(n) <= 50 else f"{n[:25]}...{n[-20:]}" for n in names[:most]]
    return shown + ([f"and {len(names) - most} more"] if len(names) > most else [])
