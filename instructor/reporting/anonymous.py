"""Leave names out: labels for students, and code and messages without a word of their own.

What is shown of a file may hold only words that the lab itself uses. A name in an identifier, a
comment, a string, a message of an exception: all of that is replaced, not searched for.
"""

import builtins
import functools
import hashlib
import io
import keyword
import re
import tokenize
from collections.abc import Iterable, Iterator

from lab15_run import counted
from tests.labfile import ROOT, TASKS

from .load import Record

WORD = re.compile(r"[^\W\d]\w*")
LONG_NUMBER = re.compile(r"\d{6,}")
BLANK = "___"
MAX_LINES, MAX_COLUMNS = 40, 100
LONGEST = 20_000  # characters of a function that are read
UNREADABLE = (SyntaxError, tokenize.TokenError, ValueError, RecursionError, MemoryError)
SKIPPED = (tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT)


def labels(records: Iterable[Record]) -> dict[str, str]:
    """Return a label for every student, such as S017; the same results give the same labels.

    Their order reveals nothing: it is drawn from the results, so that a list of the class
    is not enough to get back from a label to a name.
    """
    records = list(records)
    salt = hashlib.sha256()
    for r in sorted(records, key=lambda r: r.student):
        salt.update(f"{r.student}\0{r.file_hash}\0{r.score}\0{r.seconds}\0".encode())
        salt.update("".join(t.public for t in r.tasks.values()).encode())

    def order(record: Record) -> bytes:
        return hashlib.sha256(salt.digest() + record.student.encode()).digest()

    width = max(3, len(str(len(records))))
    return {r.student: f"S{i:0{width}}" for i, r in enumerate(sorted(records, key=order), 1)}


# ---------------------------------------------------------------- the words of the lab


def _given(names: Iterable[str]) -> str:
    return "\n".join((ROOT / name).read_text(encoding="utf-8") for name in names)


@functools.cache
def identifiers() -> frozenset[str]:
    """Return the names of Python, torch, numpy and the lab's given files."""
    import math
    import random

    import numpy
    import torch

    modules = (builtins, torch, torch.Tensor, torch.nn, torch.nn.functional, math, random, numpy)
    found = {name for module in modules for name in dir(module)}
    found |= set(keyword.kwlist) | set(keyword.softkwlist)
    found |= set("numpy np math random itertools functools nn F utils".split())
    given = re.sub(r"#.*", "", _given(["lab15_grpo.py", "lab15_run.py", "tinylm.py"]))
    return frozenset(found | set(WORD.findall(given)))


@functools.cache
def vocabulary() -> frozenset[str]:
    """Return the words that a page may show: those, and the words of the tests and chapter."""
    tests = [p.relative_to(ROOT) for p in sorted((ROOT / "tests").rglob("*.py"))]
    words = WORD.findall(_given(["chapter.md", *map(str, tests)]))
    return identifiers() | frozenset(words)


def _own(student: str, kept: frozenset[str]) -> set[str]:
    """Return the parts of a student's name that are no word of the lab's code, in lower case."""
    parts = {part.lower() for part in re.findall(r"[^\W_]{3,}", student)}
    return parts - {word.lower() for word in kept}


def message(public: str, student: str) -> str:
    """Return a public test's message with every word blanked that is not the lab's own."""
    own = _own(student, identifiers())
    known = vocabulary()

    def word(match: re.Match) -> str:
        found = match[0]
        pieces = {piece.lower() for piece in found.split("_")} | {found.lower()}
        return found if found in known and not pieces & own else BLANK

    lines = [LONG_NUMBER.sub("#", WORD.sub(word, line)) for line in public.splitlines()]
    return "\n".join(line[:MAX_COLUMNS] for line in lines[:12]).strip("\n")


# ---------------------------------------------------------------- the code of a function


def function_tokens(source: str, number: int) -> list[tokenize.TokenInfo]:
    """Return the tokens of the last function with a task's name, or [].

    Only up to the end of the function is read, so that an error below it does no harm. The file
    is untrusted: a tokenizer does not recurse, as a parser does.
    """
    lines = source.split("\n")
    start = re.compile(rf"(async\s+)?def\s+{TASKS[number].name}\s*\(")
    first = [i for i, line in enumerate(lines) if start.match(line)]
    if not first:
        return []
    rest = io.StringIO("\n".join(lines[first[-1] : first[-1] + 400])[:LONGEST] + "\n")
    found: list[tokenize.TokenInfo] = []
    depth = 0
    try:
        for token in tokenize.generate_tokens(rest.readline):
            depth += (token.type == tokenize.INDENT) - (token.type == tokenize.DEDENT)
            if token.type == tokenize.DEDENT and depth == 0:
                return found
            found.append(token)
            if token.type == tokenize.NEWLINE and depth == 0 and len(_before(found)) > 1:
                return found  # def f(x): return 1
    except UNREADABLE:
        return []
    return found


def _before(found: list[tokenize.TokenInfo]) -> list[tokenize.TokenInfo]:
    """Return what follows the colon of a def line, with that colon; [] in any other line."""
    depth = 0
    for i, token in enumerate(found):
        depth += (token.string in "([{") - (token.string in ")]}") if token.string else 0
        if token.string == ":" and token.type == tokenize.OP and depth == 0:
            return [t for t in found[i:] if t.type not in (*SKIPPED, tokenize.NEWLINE)]
    return []


def _statements(tokens: list[tokenize.TokenInfo]) -> Iterator[list[tokenize.TokenInfo]]:
    """Yield the tokens of each logical line without comments, docstrings and lone strings."""
    line: list[tokenize.TokenInfo] = []
    for token in tokens:
        if token.type == tokenize.NEWLINE:
            if not _is_text(line):
                yield line
            line = []
        elif token.type not in SKIPPED and token.type != tokenize.ENDMARKER:
            line.append(token)
    if line and not _is_text(line):
        yield line


def _is_text(line: list[tokenize.TokenInfo]) -> bool:
    return all(token.type == tokenize.STRING or "FSTRING" in _kind(token) for token in line)


def _kind(token: tokenize.TokenInfo) -> str:
    return tokenize.tok_name[token.type]


def code(source: str, number: int, student: str) -> str:
    """Return a task's function without comments, strings and names of the student's own.

    Args:
        source: text of a lab file.
        number: of the task.
        student: whose name must not appear.
    """
    known = vocabulary()
    new: dict[str, str] = {}
    own = _own(student, identifiers())

    def shown(token: tokenize.TokenInfo) -> str:
        string = token.string
        if token.type == tokenize.STRING:
            inside = string.strip("\"'")
            return string if inside in known and not {inside.lower()} & own else '"..."'
        if token.type == tokenize.NUMBER:
            return LONG_NUMBER.sub("#", string)
        if token.type != tokenize.NAME:
            return string if string.isascii() else "?"
        pieces = {piece.lower() for piece in string.split("_")} | {string.lower()}
        plain = string in known or (len(string) == 1 and string.isascii())
        return string if plain and not pieces & own else new.setdefault(string, f"v{len(new) + 1}")

    lines = []
    for line in _statements(function_tokens(source, number)):
        lines += _layout(line, shown)
    if len(lines) > MAX_LINES:
        lines = [*lines[:MAX_LINES], f"(and {counted(len(lines) - MAX_LINES, 'more line')})"]
    return "\n".join(line[:MAX_COLUMNS] for line in lines)


def _layout(line: list[tokenize.TokenInfo], shown) -> list[str]:
    """Return a logical line as the lines it stood on, with their indentation and gaps."""
    lines, at, inside = [], None, 0
    for token in line:
        kind = _kind(token)
        inside += (kind == "FSTRING_START") - (kind == "FSTRING_END")
        if kind == "FSTRING_START" and inside == 1:
            string = '"..."'
        elif inside or kind == "FSTRING_END":
            at = token.end
            continue
        else:
            string = shown(token)
        if at is None or token.start[0] != at[0]:
            lines.append(" " * min(token.start[1], 40) + string)
        else:
            lines[-1] += " " * (token.start[1] > at[1]) + string
        at = token.end
    return lines
