"""Right and wrong variants of the solution, one task changed in each.

wheats/taskN_name.py holds a right way to write Task N; it takes the function's place.
chaffs.toml holds wrong ones: one small edit each of the function's body. Besides, every task is
wrapped in functions that spoil its result in the plainest ways.
"""

import ast
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tests.labfile import ROOT, TASKS

WHEATS = ROOT / "instructor" / "variants" / "wheats"
CHAFFS = ROOT / "instructor" / "variants" / "chaffs.toml"
SOLUTION = ROOT / "solutions" / "lab15_grpo.py"
FIELDS = {"id", "task", "mistake", "also", "says", "cause", "find", "replace"}


class Variant(NamedTuple):
    """A lab file with one task changed, and what the tests of that task should say."""

    id: str
    kind: str  # "wheat", "chaff", "trivial" or "mutant"
    task: int
    text: str  # of the whole file
    mistake: str = ""  # the id that a message must carry; "": no known mistake may be named
    also: tuple[str, ...] = ()  # ids that are true as well
    says: tuple[str, ...] = ()  # words that a message must contain
    cause: str = ""


@cache
def solution() -> str:
    """Return the text of the solution."""
    return SOLUTION.read_text(encoding="utf-8")


@cache
def cut_at(task: int) -> tuple[str, str, str, str, str]:
    """Return the text before a task's function, its def, its docstring, its body, and the rest."""
    lines = solution().splitlines(keepends=True)
    functions = [n for n in ast.parse(solution()).body if isinstance(n, ast.FunctionDef)]
    found = next(f for f in functions if f.name == TASKS[task].name)
    first = found.body[0]
    at = [0, found.lineno - 1, first.lineno - 1, first.end_lineno, found.end_lineno, len(lines)]
    before, head, doc, body, after = ("".join(lines[i:j]) for i, j in zip(at, at[1:]))
    return before, head, doc, body, after


def with_body(task: int, body: str, head: str | None = None) -> str:
    """Return the solution with another body (and def line) of one task.

    Args:
        task: its number.
        body: lines, indented.
        head: the def line; None: the solution's own.
    """
    before, own_head, doc, _, after = cut_at(task)
    return before + (head or own_head) + doc + body + after


# ---------------------------------------------------------------- wheats


def wheats(folder: Path = WHEATS) -> Iterator[Variant]:
    """Yield the right variants: the solution for every task, and the files of the folder."""
    for task in TASKS:
        yield Variant(f"task{task}_solution", "wheat", task, solution())
        yield Variant(f"task{task}_wrapped", "wheat", task, _wrapped(task, "return result"))
    for path in sorted(folder.glob("task[1-5]_*.py")):
        task = int(path.name[4])
        before, after = cut_at(task)[0], cut_at(task)[-1]
        text = before + path.read_text(encoding="utf-8") + after
        yield Variant(path.stem, "wheat", task, text)


# ---------------------------------------------------------------- chaffs


def chaffs(path: Path = CHAFFS) -> Iterator[Variant]:
    """Yield the wrong variants of a TOML file.

    Raises:
        ValueError: an entry that is no edit of the solution, in words that name it.
    """
    seen: set[str] = set()
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["chaff"]:
        name = entry.get("id")
        if problem := _problem(entry, seen):
            raise ValueError(f"{path.name}: {name}: {problem}")
        seen.add(name)
        _, head, _, body, _ = cut_at(entry["task"])
        head, body = (part.replace(entry["find"], entry["replace"]) for part in (head, body))
        text = with_body(entry["task"], body, head)
        try:
            compile(text, name, "exec")
        except SyntaxError as error:
            raise ValueError(f"{path.name}: {name}: no Python: {error}") from None
        yield Variant(
            name,
            "chaff",
            entry["task"],
            text,
            entry["mistake"],
            tuple(entry.get("also", ())),
            tuple(entry.get("says", ())),
            entry["cause"],
        )


def _problem(entry: dict, seen: set) -> str:
    """Return what is wrong with an entry of chaffs.toml, or an empty string."""
    missing = FIELDS - {"also", "says"} - set(entry)
    if missing or set(entry) - FIELDS:
        return f"missing fields {sorted(missing)}, unknown {sorted(set(entry) - FIELDS)}"
    if entry["id"] in seen:
        return "this id stands there twice"
    if entry["task"] not in TASKS:
        return f"there is no task {entry['task']}"
    _, head, _, body, _ = cut_at(entry["task"])
    times = head.count(entry["find"]) + body.count(entry["find"])
    return "" if times == 1 else f"`find` occurs {times} times in the function, not once"


# ---------------------------------------------------------------- spoiled results

_WRAPPER = """

_right = {name}


def {name}(*args, **kwargs):
    given = (*args, *kwargs.values())
    result = _right(*args, **kwargs)
    {line}
"""

# How each part of a result is multiplied by a number {k}.
_SCALED = {
    1: {"": 'return {{**result, "rewards": {k} * result["rewards"]}}'},
    2: {"": "return {k} * result"},
    3: {"": "return {k} * result"},
    4: {
        "loss": "return {k} * result[0], result[1]",
        **{
            key: f'return result[0], {{{{**result[1], "{key}": {{k}} * result[1]["{key}"]}}}}'
            for key in ("kl", "clip_frac", "ratio_max")
        },
    },
    5: {
        key: f'return {{{{**result, "{key}": {{k}} * result["{key}"]}}}}'
        for key in ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")
    },
}
_FACTORS = {"zeros": "0.0", "doubled": "2.0", "halved": "0.5", "negated": "-1.0"}


def _wrapped(task: int, line: str) -> str:
    """Return the solution with a function around that of the task; `line` ends it."""
    wrapper = _WRAPPER.format(name=TASKS[task].name, line=line)
    return with_body(task, cut_at(task)[3] + wrapper)


def trivial() -> Iterator[Variant]:
    """Yield variants that a tolerance must not swallow.

    They return the right result times 0, 2, 1/2 or -1, one of the arguments, or None.
    """
    for task, lines in _SCALED.items():
        spoiled = {
            f"{part}_{name}".strip("_"): line.format(k=factor)
            for part, line in lines.items()
            for name, factor in _FACTORS.items()
        }
        names = TASKS[task].signature.strip("()").split(", ")
        spoiled |= {
            f"returns_{name}": f"return given[{i}] if len(given) > {i} else None"
            for i, name in enumerate(n.split("=")[0] for n in names)
        }
        spoiled["returns_none"] = "return None"
        for name, line in spoiled.items():
            yield Variant(f"task{task}_{name}", "trivial", task, _wrapped(task, line))
