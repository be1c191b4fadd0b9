"""Search what is handed out for lines that only instructors should have.

A line is secret if it is in a function of the solution, in a hidden test or in a wrong variant
(what is new in it), and if it is more than anybody's line: 26 characters or more without comment
and with single spaces, no import, and nowhere in the student's own file or tinylm.py, whose
docstrings give some lines away on purpose. It is found anywhere inside a text.
"""

import io
import json
import re
import tokenize
import tomllib
from functools import cache
from typing import NamedTuple

from tests.labfile import ROOT

SHORTEST = 26  # below that even the tests and the hidden tests share lines by chance
GIVEN = ("lab15_grpo.py", "lab15_run.py", "tinylm.py")
# Files that show some of these lines on purpose, and why. With --graded nothing is.
MEANT = {
    "notebooks/experiments.py": "wrong lines that the chapter's experiments train with",
    "notebooks/trials.py": "wrong lines whose effect the chapter tells",
    "notebooks/detective.py": "the game: which of six wrong lines made which curve",
}
# Anybody writes these: they build what tinylm.sample returns.
COMMON = {'out = {"ids": ids, "prompt_len": ids.shape[1] - T, "mask": mask}'}
LEFT_OUT = '"(left out in this bundle)"'


class Secret(NamedTuple):
    """A line and where it comes from: "solution", "hidden test" or "wrong variant"."""

    line: str
    kind: str


def plain(line: str) -> str:
    """Return a line without its comment and with single spaces."""
    return " ".join(re.sub(r"(^|\s)#.*$", "", line).split())


def flat(name: str, text: str) -> str:
    """Return a text as one line: of a notebook its cells and outputs, of a text its lines."""
    if name.endswith(".ipynb"):
        parts = []
        for cell in json.loads(text)["cells"]:
            parts += ["".join(cell["source"]), json.dumps(cell.get("outputs", []))]
        text = "\n".join(parts)
    return " ".join(filter(None, map(plain, text.split("\n"))))


def _lines(text: str) -> set[str]:
    return {plain(line) for line in text.split("\n")}


def _read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


@cache
def secrets() -> tuple[Secret, ...]:
    """Return all secret lines; a line found in two places has the first kind."""
    solution = _lines(_read("solutions/lab15_grpo.py"))
    hidden = sorted((ROOT / "instructor" / "hidden").glob("task*.py"))
    hidden.append(ROOT / "instructor" / "hidden" / "common.py")
    chaffs = tomllib.loads(_read("instructor/variants/chaffs.toml"))["chaff"]
    found: dict[str, str] = {}
    for kind, lines in (
        ("solution", solution),
        ("hidden test", set().union(*(_lines(p.read_text(encoding="utf-8")) for p in hidden))),
        ("wrong variant", set().union(*(
            _lines(c["replace"]) - _lines(c["find"]) - solution for c in chaffs))),
    ):
        for line in sorted(lines):
            found.setdefault(line, kind)
    given = " ".join(flat(name, _read(name)) for name in GIVEN)
    return tuple(Secret(line, kind) for line, kind in found.items() if _counts(line, given))


def _counts(line: str, given: str) -> bool:
    return (len(line) >= SHORTEST and line not in given and line not in COMMON
            and not line.startswith(("import ", "from ", '"""')))


def find(name: str, text: str, graded: bool) -> list[str]:
    """Return what a file of the bundle gives away, one line each.

    Args:
        name: of the file in the bundle.
        text: its text.
        graded: whether it is the bundle for a graded lab, without solutions.
    """
    text = flat(name, text)
    allowed = name in MEANT and not graded
    return [
        f"{name}: {s.kind}: {s.line}" for s in secrets()
        if s.line in text and not allowed and (graded or s.kind != "solution")
        and not name.startswith("solutions/")
    ]


def _told(content: str) -> bool:
    """Return whether a string holds a secret line, or is a good part of one."""
    content = plain(content)
    whole = any(s.line in content for s in secrets())
    part = len(content) >= 16 and any(content in s.line for s in secrets())
    return whole or (part and not any(content in _read(name) for name in GIVEN))


def without_strings(text: str) -> str:
    """Return Python text in which every string with a secret line is replaced."""
    lines = text.splitlines(keepends=True)
    for token in reversed(list(tokenize.generate_tokens(io.StringIO(text).readline))):
        if token.type == tokenize.STRING and _told(token.string.strip("\"'")):
            (first, start), (last, end) = token.start, token.end
            joined = lines[first - 1][:start] + LEFT_OUT + lines[last - 1][end:]
            lines[first - 1:last] = [joined]
    return "".join(lines)
