"""How course systems name what they export: Moodle, Canvas, Blackboard, Gradescope, nbgrader.

A name here is that of a file or folder at the top of a class's folder or zip: the course system
has made it, and a student can choose no more of it than the end of a file's name.
"""

import os
import re
from typing import NamedTuple

LAB = re.compile(r"lab[ _-]?15", re.I)
# The part that a student chooses comes last, so the first match from the left is the system's.
# Ann Lee_123_assignsubmission_file_/..., or without folders ..._assignsubmission_file_lab.py
MOODLE = re.compile(r"(?P<student>.+?)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<name>.*)", re.S)
# leeann_LATE_11_102_lab.py: user 11, file 102. Typed text: leeann_11_text.html.
CANVAS = re.compile(
    r"(?P<student>.+?)(?P<late>_LATE)?_(?P<user>\d+)"
    r"_((?P<file>\d+)_(?P<name>.+)|(text|link)\.html)",
    re.S,
)
ANONYMOUS = re.compile(
    r"(?P<late>LATE_)?(?P<student>anon_(?P<user>[0-9A-Za-z]+))"
    r"_((?P<file>\d+)_(?P<name>.+)|(text|link)\.html)",
    re.S,
)
# lab15_annlee_attempt_2026-11-29-12-00-00_lab15_grpo.py, and a .txt without a file's name
ATTEMPT = re.compile(
    r"(?P<head>.+?)_attempt_(?P<time>\d{4}(?:-\d\d){2,5})(?:_(?P<name>.*)|\.(?P<kind>\w+))", re.S
)
LONGEST = 500  # characters of a name that a course system writes
METADATA = "submission_metadata.yml"
METADATA_BYTES = 4 << 20  # of it that are read; 2,000 students take 0.3 MiB
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?[A-Z+:\d-]{1,9})?")
# What operating systems leave in folders; a file ._x belongs to a file x beside it.
LITTER = {
    "__macosx", ".ds_store", "thumbs.db", "desktop.ini", "ehthumbs.db", "$recycle.bin",
    "system volume information", ".spotlight-v100", ".trashes", ".fseventsd", ".temporaryitems",
    ".directory", "lost+found", ".git", ".ipynb_checkpoints", "__pycache__",
}


class Ids(NamedTuple):
    """A course system's ids of a student: its own number, the university's, and so on."""

    id: str = ""
    sis_id: str = ""
    login: str = ""
    email: str = ""


class Named(NamedTuple):
    """The parts of a name at the top of a class's folder."""

    student: str
    ids: Ids = Ids()
    name: str = ""  # of the student's own file; "" for a folder
    order: int = 0  # a number that rises with every upload, where the system gives one
    attempt: str = ""  # when this attempt was handed in
    late: bool | None = None


def is_litter(name, beside):
    """Return whether an operating system made this file, rather than a student.

    Args:
        name: its name.
        beside: the names in the same folder.
    """
    return name.lower() in LITTER or (name.startswith("._") and name[2:] in beside)


def recognized(files, folders=(), usernames=None):
    """Return (system, {name: Named}) of the names at the top of a class's folder.

    The system is "moodle", "canvas", "attempts" (Blackboard, or zips that nbgrader collects), or
    "" if no system has named them. A class comes from one system: a name in another's form is a
    student's, who must not get at another's row with it.

    Args:
        files: their names.
        folders: theirs.
        usernames: {name of a Blackboard .txt file: the user name that it gives}.
    """
    files, folders = ([n for n in some if len(n) <= LONGEST] for some in (files, folders))
    moodle = {n: m for n in (*files, *folders) if (m := MOODLE.fullmatch(n))}
    attempts = {n: m for n in files if (m := ATTEMPT.fullmatch(n))}
    users = _users({m["head"] for m in attempts.values()},
                   {attempts[n]["head"]: u for n, u in (usernames or {}).items() if n in attempts})
    found = {
        "moodle": {n: _moodle(m) for n, m in moodle.items()},
        "attempts": {n: _attempt(m, users) for n, m in attempts.items()},
        "canvas": _canvas(list(files)),
    }
    system = max(found, key=lambda name: len(found[name]))
    return (system, found[system]) if found[system] else ("", {})


def is_info(name):
    """Return whether Blackboard itself has written a .txt file: a student's has one more name."""
    found = ATTEMPT.fullmatch(name)
    return bool(found and found["name"] is None and found["kind"].lower() == "txt")


def is_ones_own(name):
    """Return whether a zip's name is that of one student's file, and not of a class's zip."""
    forms = (MOODLE, ATTEMPT, CANVAS, ANONYMOUS)
    return not name.startswith("gradebook_") and any(form.fullmatch(name) for form in forms)


def _moodle(match):
    return Named(match["student"], Ids(id=match["id"]), match["name"])


def _canvas(names):
    """Return {name: Named}, or {} if these have other reasons to hold two numbers each."""
    found = {n: m for n in names if (m := ANONYMOUS.fullmatch(n) or CANVAS.fullmatch(n))}
    people = {(m["student"], m["user"]) for m in found.values()}
    lab = {(m["student"], m["user"]) for m in found.values() if LAB.search(m["name"] or "lab15")}
    if 2 * len(found) < len(names) or 2 * len(lab) < len(people):
        return {}
    named = {}
    for name, m in found.items():
        anonymous = m.re is ANONYMOUS
        ids = Ids() if anonymous else Ids(id=m["user"])
        order, late = int((m["file"] or "0")[:18]), bool(m["late"]) or None
        named[name] = Named(m["student"], ids, m["name"] or name, order, "", late)
    return named


def _attempt(match, users):
    user = users[match["head"]]
    return Named(user, Ids(login=user), match["name"] or "", 0, time_of_name(match["time"]))


def _users(heads, known):
    """Return {head: user name}; a head is ASSIGNMENT_USER, or USER alone.

    Args:
        heads: the parts of the names before _attempt_.
        known: {head: user name} as Blackboard's .txt files say it.
    """
    users = {h: u for h, u in known.items() if h == u or h.endswith(f"_{u}")}
    before = {h[: len(h) - len(u)] for h, u in users.items()}
    if not before and len(heads) > 1:
        common = os.path.commonprefix(sorted(heads))
        before.add(common[: common.rfind("_") + 1])
    for head in heads - set(users):
        lab = re.match(rf".*?{LAB.pattern}([ _-]grpo)?_", head, re.I | re.S)
        starts = [b for b in before if b and head.startswith(b)]
        start = max(starts, key=len, default=lab[0] if lab and len(heads) == 1 else "")
        users[head] = head[len(start):] or head
    return users


def info(text):
    """Return the user name in the .txt file that Blackboard writes for an attempt, or ""."""
    found = re.match(r"\s*Name:[^\n]*\((?P<user>[^()\n]+)\)\s*\n", text)
    return found["user"].strip() if found else ""


def time_of_name(text):
    """Return 2026-11-29-12-00-00 as 2026-11-29 12:00:00."""
    parts = text.split("-")
    return "-".join(parts[:3]) + (" " + ":".join(parts[3:]) if len(parts) > 4 else "")


def time_of(text):
    """Return the time that a text begins with, or None."""
    found = TIMESTAMP.match(text.strip())
    return found and found[0].strip()


# ---------------------------------------------------------------- Gradescope


def gradescope(path):
    """Return ({folder: [(student, Ids, time)]} of submission_metadata.yml, what is odd about it).

    Where a folder or a name is missing, the folders' own names have to do.
    """
    try:
        import yaml  # comes with JupyterLab

        with open(path, "rb") as file:
            data = file.read(METADATA_BYTES)
        if len(data) == METADATA_BYTES:
            return {}, f"is larger than {METADATA_BYTES >> 20} MiB and was not read"
        content = yaml.load(data.decode("utf-8"), Loader=_loader(yaml))
        entries = {str(k): v if isinstance(v, dict) else {} for k, v in content.items()}
    except Exception as error:
        return {}, f"cannot be read ({type(error).__name__})"
    found = {k: people for k, v in entries.items() if (people := _people(k, v))}
    without = len(entries) - len(found)
    return found, f"names no student for {without} of {len(entries)} folders" if without else ""


def _loader(yaml):
    """Return a loader that makes text of times, and nothing but plain data of the rest."""

    # libyaml, where it is built in, takes half the time and refuses what is nested too deep.
    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):
        pass

    kept = yaml.SafeLoader.yaml_implicit_resolvers.items()
    stamp = "tag:yaml.org,2002:timestamp"
    Loader.yaml_implicit_resolvers = {k: [x for x in v if x[0] != stamp] for k, v in kept}
    return Loader


def _plain(value):
    """Return a name or number as text; lists of lists can be longer than any memory as text."""
    return str(value) if isinstance(value, str | int | float) and value else ""


def _people(folder, entry):
    """Return [(student, Ids, time)] of one submission; a group has more than one."""
    when = entry.get(":created_at")
    people = entry.get(":submitters")
    found = []
    for person in people if isinstance(people, list) else []:
        if not isinstance(person, dict):
            continue
        name, sid, email = (_plain(person.get(k)) for k in (":name", ":sid", ":email"))
        number = folder.removeprefix("submission_")
        ids = Ids(number if number.isdecimal() else "", sid, "", email)
        if name or email or sid:
            found.append((name or email or sid, ids, time_of(_plain(when))))
    return found
