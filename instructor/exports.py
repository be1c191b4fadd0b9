"""How course systems name what they export: Moodle, Canvas, Gradescope, nbgrader."""

import re
from pathlib import Path

MOODLE = re.compile(r"(?P<student>.+)_(?P<id>\d+)_assignsubmission_[a-z]+_?(?P<name>.*)")
CANVAS = re.compile(
    r"(?P<student>[^_/]+)(?P<late>_LATE)?_(?P<user>\d+)_(?P<file>\d+)_"
    r"(?P<name>.+?)(-(?P<attempt>\d+))?\.(py|zip)",
    re.I,
)
ATTEMPT = re.compile(r"(?P<student>.+)_attempt_(?P<time>[\d-]{10,})_.*\.(py|zip)", re.I)
TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d(:\d\d)?(\.\d+)?( ?[A-Z+:\d-]{1,9})?")


def moodle(name):
    """Return (student, number) of a folder or file that Moodle has named, else (name, "")."""
    found = MOODLE.fullmatch(name)
    return (found["student"], found["id"]) if found else (name, "")


def canvas(names):
    """Return {file name: (student, number, late)} if Canvas has named all of these, else {}.

    Of several attempts only the last is in it. The same for zips that nbgrader's users collect,
    ada_attempt_2026-11-29-12-00-00_lab15.zip.
    """
    attempts = [ATTEMPT.fullmatch(name) for name in names]
    if names and None not in attempts:
        last = {a["student"]: a[0] for a in sorted(attempts, key=lambda a: (a["time"], a[0]))}
        return {name: (student, "", None) for student, name in last.items()}
    found = {name: CANVAS.fullmatch(name) for name in names}
    if not found or None in found.values():
        return {}
    if 2 * sum("lab15" in parts["name"].lower() for parts in found.values()) < len(found):
        return {}  # other files that happen to have two numbers in their names
    best = {}
    for name, parts in found.items():
        who = parts["student"], parts["user"]
        order = (int(parts["attempt"] or 0), int(parts["file"]), name)
        if who not in best or order > best[who][0]:
            best[who] = order, name, bool(parts["late"])
    return {name: (*who, late or None) for who, (_, name, late) in best.items()}


def gradescope(path):
    """Return {folder: [(student, time)]} of Gradescope's submission_metadata.yml, or {}."""
    path = Path(path)
    if not path.is_file() or path.is_symlink():
        return {}
    try:
        import yaml  # comes with JupyterLab

        content = yaml.load(path.read_text(encoding="utf-8"), Loader=_loader(yaml))
        return {str(k): _people(v) for k, v in content.items() if _people(v)}
    except Exception:  # without it the folders' names will do
        return {}


def _loader(yaml):
    """Return a loader that makes text of times, and nothing but plain data of the rest."""

    class Loader(yaml.SafeLoader):
        pass

    kept = yaml.SafeLoader.yaml_implicit_resolvers.items()
    stamp = "tag:yaml.org,2002:timestamp"
    Loader.yaml_implicit_resolvers = {k: [x for x in v if x[0] != stamp] for k, v in kept}
    return Loader


def _people(entry):
    """Return [(student, time)] of one submission; a group has more than one."""
    when = entry.get(":created_at")
    people = [p for p in entry.get(":submitters") or [] if isinstance(p, dict)]
    names = [p.get(":name") or p.get(":email") or p.get(":sid") for p in people]
    return [(str(name), time_of(str(when))) for name in names if name]


def time_of(text):
    """Return the time that a text begins with, or None."""
    found = TIMESTAMP.match(text.strip())
    return found and found[0].strip()
