"""Put new measured numbers into chapter.md, its pages and solutions/notes.md.

    python -m instructor.tests.chapter.update           after make experiments and make figures
    python -m instructor.tests.chapter.update --check   write nothing, print what would change

Only numbers whose check comment reads a file of results (fig, run, trial, curve, ...) change:
the number in the text and the one in the comment, with as many digits as before. A sentence that
is no longer true with its new number is for a person to find: the changes are printed.
"""

import argparse
import re
import sys

from instructor.tests.chapter import comments, facts
from instructor.tests.chapter.comments import CHAPTER, NOTES, PAGES, Check, Scope, numbers
from lab15_run import piped
from tests.labfile import ROOT

_READERS = r"fig|run|run_at|bug|trial|curve|tail|bench|compared|refill_\w+"
MEASURED = re.compile(rf"\b({_READERS})\(|\bSTORY\[")


def as_shown(check: Check, value: float) -> str:
    """Return a value with the digits (and the percent sign, the commas) of a number."""
    if check.shown.endswith("%"):
        decimals = len(check.shown[:-1].partition(".")[2])
        return f"{100 * value:.{decimals}f}%"
    decimals = len(check.shown.partition(".")[2])
    return f"{value:,.{decimals}f}" if "," in check.shown else f"{value:.{decimals}f}"


def changes(scope: Scope, names: dict) -> list[tuple[str, str, int, str]]:
    """Return (number, expression, which of the equal numbers in the text, new number)."""
    found = []
    seen: dict[str, int] = {}
    for check in scope.checks:
        at = seen[check.shown] = seen.get(check.shown, -1) + 1
        if check.expression and MEASURED.search(check.expression):
            new = as_shown(check, float(eval(check.expression, dict(names))))
            if new != check.shown:
                found.append((check.shown, check.expression, at, new))
    return found


def places(text: str, number: str) -> list[tuple[int, int]]:
    """Return where a number stands in a text."""
    spans = [m.span() for m in numbers(text) if m[0] == number]
    plain = rf"(?<![\w.,-]){re.escape(number)}(?![\w%]|[.,]\d)"
    return spans or [m.span() for m in re.finditer(plain, text)]


def renew(piece: str, comment: str, scope: Scope, names: dict) -> tuple[str, str, list[str]]:
    """Return text and comment with new numbers, and what was changed, a line each."""
    edits, said = [], []
    shown_text = comments.visible(comments.without_fences(piece))
    for shown, expression, at, new in changes(scope, names):
        spans = places(shown_text, shown)
        edits.append((*spans[min(at, len(spans) - 1)], new))
        old = rf"(?<![\w.]){re.escape(shown)}(?=\s=\s+{re.escape(expression)})"
        comment = re.sub(old, new, comment, count=1)
        said.append(f"{shown} -> {new}  ({' '.join(expression.split())})")
    for start, end, new in sorted(edits, reverse=True):
        piece = piece[:start] + new + piece[end:]
    return piece, comment, said


def renewed(text: str, names: dict) -> tuple[str, list[str]]:
    """Return a document with new numbers, and what was changed, a line each."""
    out, start, said = [], 0, []
    for match in re.finditer(r"<!-- check:(.*?)-->|^(?=##+ )", text, re.M | re.S):
        piece, comment = text[start : match.start()], match[0]
        scope = Scope(text.count("\n", 0, start) + 1, piece, comments.checks_of(match[1] or ""))
        piece, comment, lines = renew(piece, comment, scope, names)
        out += [piece, comment]
        said += [f"line {scope.line}: {line}" for line in lines]
        start = match.end()
    return "".join([*out, text[start:]]), said


def main(args: list[str] | None = None) -> int:
    """Renew all documents; return 1 if --check found something to change."""
    parser = argparse.ArgumentParser(prog="python -m instructor.tests.chapter.update",
                                     description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing")
    check = parser.parse_args(args).check
    names, found = facts.names(), 0
    for name in (CHAPTER, NOTES, *PAGES):
        text, said = renewed(comments.read(name), names)
        found += len(said)
        print("\n".join(f"{name} {line}" for line in said) or f"{name}: nothing to change")
        if said and not check:
            (ROOT / name).write_text(text, encoding="utf-8", newline="\n")
    return int(check and found > 0)


if __name__ == "__main__":
    sys.exit(piped(main))
