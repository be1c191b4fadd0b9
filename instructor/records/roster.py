"""The list of everyone who could have handed in, matched with the submissions.

A roster is a table as a course system exports it: Canvas's gradebook, Moodle's participants,
grades or grading worksheet, Blackboard's grade center, Gradescope's roster, or one of your own.
Its columns are known by their names.
"""

import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from lab15_run import counted

from ..submissions.exports import Ids
from ..submissions.intake import NOTHING, Submission, unique
from . import tables

COLUMNS = {
    "name": r"student|name|full ?name|student name|display name|vollst\u00e4ndiger name",
    "first": r"first ?names?|given names?|vorname|prenom|pr\u00e9nom|nombre",
    "last": r"last ?names?|surname|family names?|nachname|nom|apellidos?",
    "id": r"id|identifier|user ?id|canvas id|participant( id| number)?|teilnehmer",
    "sis_id": r"sis user id|sis id|sid|student (id|number|no)|id ?number|matr\w+( (number|no|nr))?",
    "login": r"user ?names?|sis login id|login( id)?|net ?id|anmeldename|account",
    "email": r"e ?mail( add?ress\w?)?|mail",
    "extra": r"extra days?|extra time( days)?|extension( days)?|extra days? of time",
    "role": r"roles?|rolle",
}
OWN = re.compile(r"sis (user|login) id|integration id|identifier|user ?id|canvas id|participant.*"
                 r"|teilnehmer")
# The first column of Moodle's grading worksheet: "Participant 123".
PARTICIPANT = re.compile(r"(?:partici\w+|teilnehmer\S*?|deelnemer|deltag\w+)\s*(\d+)", re.I)
STUDENT_ROLE = re.compile(r"student|learner|teilnehmer|participant", re.I)
# Rows of a Canvas export that are no students.
NO_STUDENT = re.compile(r"(points possible|student, test|test student)\b.*", re.I)


class Member(NamedTuple):
    """One line of a roster. `line`: its number in the file."""

    name: str
    first: str
    last: str
    ids: Ids
    extra: float
    line: int

    @property
    def label(self) -> str:
        """The name for a student who has handed in nothing."""
        both = f"{self.first} {self.last}".strip()
        return both or self.name or self.ids.login or self.ids.email or self.ids.sis_id


class Roster(NamedTuple):
    """A roster: its members, the table it came from, lines for the instructor.

    own: whether its column of numbers is the course system's; in a table of one's own "id" may
    be any number, also one that the system has given to somebody else.
    """

    members: list[Member]
    table: tables.Table
    warnings: list[str]
    own: bool = False


class Matched(NamedTuple):
    """A class with its roster.

    submissions: with the ids that the roster knows, and one for everybody else on it.
    extra: {student: extra days}.
    absent: students who handed in nothing.
    strangers: students who are not on the roster.
    lines: {student: number of the roster's row}.
    """

    submissions: list[Submission]
    extra: dict[str, float]
    absent: list[str]
    strangers: list[str]
    lines: dict[str, int]


def read(path: Path) -> Roster:
    """Read a roster.

    Raises:
        OSError: it cannot be read.
        ValueError: it is no table, or no column names the students.
    """
    table, shown = tables.read(path), tables.shown(path)
    at = {what: table.column(re.compile(pattern)) for what, pattern in COLUMNS.items()}
    known = [what for what in ("name", "first", "last", "id", "sis_id", "login", "email")
             if at[what] is not None]
    if not known:
        raise ValueError(
            f"{shown}: no column is called Student, Name, First name, ID, Username or E-mail; "
            f"there is: {', '.join(table.header[:8])}"
        )
    members, warnings, others, empty = [], [], 0, 0
    own = any(OWN.fullmatch(tables.plain(h)) for h in table.header)
    if table.encoding == "cp1252":
        warnings.append(f"{shown} is not UTF-8; it was read as Windows-1252")
    for row, line in zip(table.rows, table.numbers, strict=True):
        cell = {what: row[i].lstrip("'") if i is not None else "" for what, i in at.items()}
        if _is_no_student(cell):
            others += 1
        elif not any(cell[what] for what in known):
            empty += 1
        else:
            extra, problem = _extra_days(cell["extra"])
            warnings += [f"{shown}, line {line}: {problem}"] * bool(problem)
            members.append(_member(cell, extra, line))
            own = own or bool(PARTICIPANT.fullmatch(cell["id"]))
    if not members:
        raise ValueError(f"{shown} names no student")
    if empty:
        warnings.append(f"{shown}: left out, without a name or an id: {empty}")
    if surplus := table.surplus():
        warnings.append(f"{shown}: in {counted(len(surplus), 'line')} the cells beyond the "
                        "header's were not read (a comma without quotes?); the first is line "
                        f"{surplus[0]}")
    if others:
        warnings.append(f"{shown}: left out, as no students: {others} (points possible, staff, "
                        "Canvas's test student)")
    return Roster(members, table, warnings, own)


def _is_no_student(cell: dict[str, str]) -> bool:
    """Return whether a row is Canvas's line of points, its test student, or staff."""
    if NO_STUDENT.fullmatch(cell["name"]):
        return True
    return bool(cell["role"]) and not STUDENT_ROLE.search(cell["role"])


def _extra_days(text: str) -> tuple[float, str]:
    """Return the extra days that a cell gives, and what is wrong with it, or ""."""
    extra = tables.number(text) if text else 0.0
    if extra is None or not 0 <= extra <= 1000:
        return 0.0, f"extra days \"{text}\" is no number from 0 to 1000; none are given"
    return extra, ""


def _member(cell: dict[str, str], extra: float, line: int) -> Member:
    """Return the Member of a row."""
    number = PARTICIPANT.fullmatch(cell["id"])
    ids = Ids(number[1] if number else cell["id"], cell["sis_id"], cell["login"], cell["email"])
    return Member(cell["name"], cell["first"], cell["last"], ids, extra, line)


# ---------------------------------------------------------------- who is who


def key(text: str) -> str:
    """Return a name without capitals, spaces and signs, as Canvas writes it."""
    return re.sub(r"[\W_]", "", unicodedata.normalize("NFC", text).casefold())


def _exact(text: str) -> str:
    return " ".join(unicodedata.normalize("NFC", text).split())


def _bare(text: str) -> str:
    """Return a key without accents."""
    text = unicodedata.normalize("NFKD", text)
    return key("".join(c for c in text if not unicodedata.combining(c)))


def names_of(member: Member, form: Callable[[str], str] = key) -> set[str]:
    """Return the keys under which a member may be found by name."""
    full = member.name
    first, last = member.first, member.last
    if not (first and last) and "," in full:
        last, _, first = full.partition(",")
    texts = [full, f"{first} {last}", f"{last} {first}"]
    words = full.split()
    if len(words) > 1 and "," not in full:
        texts += [" ".join([words[-1], *words[:-1]]), " ".join([*words[1:], words[0]])]
    return {form(t) for t in texts if form(t)}


def _tokens(member: Member) -> set[str]:
    """Return everything that a folder may be named after besides the student's name."""
    ids = member.ids
    found = {ids.id, ids.sis_id, ids.login, ids.email, ids.email.partition("@")[0],
             ids.login.partition("@")[0]}
    return {t.casefold() for t in found if t}


def raw(student: str) -> str:
    """Return a student's name as it was before it was made harmless and different."""
    return re.sub(r" \(\w+\)$", "", student).removeprefix("'")


def _passes(own: bool) -> list[tuple[Callable, Callable]]:
    """Return (keys of a member, keys of a submission), the surest first.

    Args:
        own: see Roster.
    """
    sure = [f for f in ("email", "id", "login", "sis_id") if own or f != "id"]
    one = [
        (lambda m, f=f: {getattr(m.ids, f).casefold()} - {""},
         lambda s, f=f: {getattr(s.ids, f).casefold()} - {""})
        for f in sure
    ]
    return one + [
        (_tokens, lambda s: {x.casefold() for x in (*s.ids[1:], raw(s.student)) if x}),
        (lambda m: names_of(m, _exact), lambda s: {_exact(raw(s.student))} - {""}),
        (names_of, lambda s: {key(raw(s.student))} - {""}),
        (lambda m: names_of(m, _bare), lambda s: {_bare(raw(s.student))} - {""}),
    ]


def _pairs(roster: Roster, subs: Sequence[Submission]) -> dict[int, int]:
    """Return {number of a submission: number of its member}; only pairs that are beyond doubt."""
    found: dict[int, int] = {}
    for keys_of_member, keys_of_sub in _passes(roster.own):
        taken = set(found.values())  # members that have been found
        left = {i: keys_of_member(m) for i, m in enumerate(roster.members) if i not in taken}
        open_ = {i: keys_of_sub(s) for i, s in enumerate(subs) if i not in found}
        by_member, by_sub = _by_key(left), _by_key(open_)
        for name, who in by_sub.items():
            owners = by_member.get(name, [])
            if len(who) == len(owners) == 1 and who[0] not in found and owners[0] not in taken:
                found[who[0]] = owners[0]
                taken.add(owners[0])
    return found


def _by_key(keys: dict[int, set[str]]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for number, some in keys.items():
        for one in some:
            found.setdefault(one, []).append(number)
    return found


def match(roster: Roster, subs: Sequence[Submission], system: str) -> Matched:
    """Return a class with the ids of its roster and with everybody who handed in nothing.

    Args:
        roster: a Roster.
        subs: what was handed in.
        system: who named it; see intake.Found.
    """
    members, pairs = roster.members, _pairs(roster, subs)
    whole, who = [], []
    for i, sub in enumerate(subs):
        member = members[pairs[i]] if i in pairs else None
        ids = sub.ids
        if member:
            ids = Ids(*(mine or theirs for mine, theirs in zip(ids, member.ids, strict=True)))
        whole.append(sub._replace(ids=ids))
        who.append(member)
    by_login = sum(key(s.student) == key(s.ids.login) for s in whole if s.ids.login)
    style = system if system else "nbgrader" if 2 * by_login > len(whole) else ""
    there = set(pairs.values())
    for i, member in enumerate(members):
        if i not in there:
            whole.append(Submission(_label(member, style), None, NOTHING, ids=member.ids))
            who.append(member)
    whole = unique(whole)
    students = [s.student for s in whole]
    return Matched(
        whole,
        {s: m.extra for s, m in zip(students, who, strict=True) if m and m.extra},
        students[len(subs):],
        [s for s, m in zip(students, who, strict=True) if m is None],
        {s: m.line for s, m in zip(students, who, strict=True) if m},
    )


def _label(member: Member, style: str) -> str:
    """Return the name that a student would have with a submission."""
    label = member.label
    if style == "canvas":
        label = key(member.name or f"{member.last} {member.first}") or label
    elif style in ("attempts", "nbgrader"):
        label = member.ids.login or label
    label = "".join(c if c.isprintable() else "?" for c in label)
    return f"'{label}" if label.startswith(tables.FORMULA[:4]) else label


def find(text: str, subs: Iterable[Submission]) -> list[Submission]:
    """Return the students that a text may refer to: by the name in scores.csv, else by any id."""
    wanted, subs = text.strip().removeprefix("'").casefold(), list(subs)
    for keys in (lambda s: (s.student.removeprefix("'"),), lambda s: (*s.ids, raw(s.student))):
        found = [s for s in subs if wanted and wanted in {k.casefold() for k in keys(s)}]
        if found:
            return found
    return []
