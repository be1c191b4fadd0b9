"""The public tests' messages about a file: text for the student, no points.

They run in a sandbox of their own after all hidden tests have been judged, and they come to it
only then (see box/public_tests.py). Their messages come from a process that runs student
code: whoever forges them changes only his or her own page.
"""

import re
import textwrap
from functools import cache

import torch

from lab15_run import counted
from tests.labfile import ROOT, TASKS
from tests.messages import explain

# Tests and tools of the lab that no test of a task needs.
UNUSED = ("install", "notebook", "reset", "watch", "test_given_tinylm", "test_training")
LINES, COLUMNS, FAILURES, MISTAKES, SHOWN = 14, 110, 12, 8, 4
LONGEST = 4000  # characters of a text that are looked at


@cache
def files():
    """Return {name: bytes as a tensor} of what the public tests need."""
    paths = [p for p in sorted((ROOT / "tests").rglob("*.py")) if p.stem not in UNUSED]
    data = {p.relative_to(ROOT).as_posix(): p.read_bytes() for p in paths}
    for name in ("tinylm.py", "lab15_run.py"):
        data[name] = (ROOT / name).read_bytes()
    return {name: _tensor(content) for name, content in data.items()}


def _tensor(content):
    return torch.frombuffer(bytearray(content or b"\n"), dtype=torch.uint8)


def tests_of(number):
    """Return the name of the file with the public tests of a task."""
    return f"tests/test_task{number}_{TASKS[number].name}.py"


def plain(text, lines=LINES, columns=COLUMNS):
    """Return text from the sandbox, free of anything that a terminal or browser might act on.

    Args:
        text: of the sandbox.
        lines: at most.
        columns: of a line at most.
    """
    rows = [line[: 2 * columns].expandtabs(4) for line in text[:LONGEST].split("\n")[: lines + 1]]
    rows = [re.sub("[^ -~]", _escape, row[: 2 * columns]).rstrip() for row in rows]
    kept = [r if len(r) <= columns else f"{r[: columns - 3]}..." for r in rows]
    return "\n".join(kept[:lines] + ["..."] * (len(kept) > lines)).strip("\n")


def _escape(match):
    return ascii(match[0])[1:-1]


def read(reply, number=None):
    """Return (text for the student, ids of the mistakes that it names) of one task's reply.

    A mistake counts only if it is one of this task, and a public test of it has named it.

    Args:
        reply: what came out of the sandbox.
        number: of the task; None: whichever.
    """
    rows = reply.get("failures") if isinstance(reply, dict) else None
    rows = rows[:FAILURES] if isinstance(rows, list) else [None]
    failures = [_failure(row, number) for row in rows]
    if not failures:
        return "All public tests of this task pass; the hidden ones use other numbers.", []
    if None in failures:
        return "What came back of the public tests was no answer.", []
    # As on the student's own screen (tests/messages/screen.py): one message for each mistake that
    # is named, or else the first one; the other tests by their names.
    named_rows: dict = {}
    for row in failures:
        if row[2]:
            named_rows.setdefault(row[2], row)
    shown = list(named_rows.values())[:SHOWN] or failures[:1]
    lines = "\n\n".join(f"{test}:\n{text}" for test, text, _ in shown).split("\n")
    others = [row for row in failures if row not in shown]
    names = dict.fromkeys(name.split("[")[0] for name, *_ in others)
    if names:
        lines += ["", *textwrap.wrap(f"Not passed as well: {', '.join(names)}", 100)]
    more = reply.get("more")
    if type(more) is int and 0 < more < 1000:
        lines += ["", f"and {counted(more, 'more failure')}"]
    mistakes = dict.fromkeys(mistake for *_, mistake in failures if mistake)
    return "\n".join(lines), list(mistakes)[:MISTAKES]


def _failure(row, number):
    """Return (test, text, mistake or "") of a row, or None if it is none."""
    if not (isinstance(row, list) and len(row) == 3 and all(type(x) is str for x in row)):
        return None
    test, mistake, text = row
    known = number is None or test[:LONGEST].split("[")[0] in _tests(number)
    known = known and named(mistake, text, number)
    return plain(test, 1, 80) or "a test", plain(text), mistake if known else ""


@cache
def _tests(number):
    """Return the names of a task's public tests."""
    source = (ROOT / tests_of(number)).read_text(encoding="utf-8")
    return frozenset(re.findall(r"^def (test_\w+)", source, re.M))


def named(mistake, text, number=None):
    """Return whether this is the id of one or two mistakes in this task that the text explains.

    Args:
        mistake: what the sandbox gave as an id.
        text: the message that came with it.
        number: of the task.
    """
    parts = mistake[:LONGEST].split("+")
    here = ("task" if number is None else f"task{number}.", "any.")
    if len(parts) > 2 or not all(p in explain.MISTAKES and p.startswith(here) for p in parts):
        return False
    wanted = " ".join(explain.likely(mistake).split())[:60]
    return wanted in " ".join(text[:LONGEST].split())
