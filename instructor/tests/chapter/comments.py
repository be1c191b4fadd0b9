"""Read chapter.md, its pages and solutions/notes.md: numbers, and the comments that check them.

After a paragraph, list or table stands a comment that a reader does not see:

    <!-- check: given 0.2; 1.7317 = adv([1, 0, 0, 0])[0]; 45% = recipe("wrong") -->

It holds for the text since the comment or heading before it. Each number in it must stand in
that text and equal its expression to the last digit shown; `given` lists numbers that the text
chooses freely. Every number with a decimal point (or an exponent) must be listed, as often as it
stands there (`0.25 x2 = 1/4` counts twice), so no number can be changed without a test that fails.
"""

import re
from collections import Counter
from typing import NamedTuple

from tests.labfile import ROOT, read_source

CHAPTER, NOTES = "chapter.md", "solutions/notes.md"
PAGES = ["beyond/comparison.md", "beyond/many_machines.md"]  # research that was in the chapter
# A minus sign belongs to a number unless something that it is subtracted from stands before it.
NUMBER = r"(?<![\w.])(?:(?<![\w.)\]])-)?\d+(?:\.\d+(?:e-?\d+)?|e-?\d+)(?!\w|\.\d)%?"
ARXIV = r"\b\d{4}\.\d{5}\b"
ALWAYS = {"1.0", "0.0"}  # the two rewards


class Check(NamedTuple):
    """A number as it is shown, and the expression that it must equal (None: it is given)."""

    shown: str
    expression: str | None


class Scope(NamedTuple):
    """A piece of text, the line it starts on, and the checks that follow it."""

    line: int
    prose: str
    checks: tuple[Check, ...]


def read(name: str) -> str:
    """Return a document's text with LF line ends."""
    return read_source(ROOT / name)[0].replace("\r\n", "\n")


def checked_part(name: str) -> str:
    """Return the part of a document whose numbers are checked: all, or the answers in the notes.

    The table of recipes in the notes is generated, and compared as a whole in test_figures.py.
    """
    text = read(name)
    start = text.index("\n## Answers") if name == NOTES else 0
    return "\n" * text.count("\n", 0, start) + text[start:]


def blank(pattern: str, text: str) -> str:
    """Return text of the same length with blanks in the place of all matches."""
    return re.sub(pattern, lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)


def without_fences(text: str) -> str:
    """Return text without fenced code."""
    return blank(r"^```.*?^```$", text)


def visible(text: str) -> str:
    """Return what a reader sees, without hints and alternative texts (they have own tests)."""
    text = blank(r"!\[[^\]]*\]\([^)\s]*\)|<details><summary>Hint.*?</details>|<!--.*?-->", text)
    return blank(r"</?[a-z]+[^>\n]*>|(?<=\])\([^)\s]*\)", text)


def checks_of(comment: str) -> tuple[Check, ...]:
    """Return the checks that a comment holds."""
    found = []
    for item in filter(None, (part.strip() for part in comment.split(";"))):
        if item.startswith("given "):
            found += [Check(number, None) for number in item.split()[1:]]
        else:
            shown, expression = re.split(r"\s=\s", item, maxsplit=1)
            shown, _, times = shown.strip().partition(" x")
            found += [Check(shown, expression)] * int(times or 1)
    return tuple(found)


def scopes(text: str) -> list[Scope]:
    """Return the pieces of a document, each with the checks that follow it (perhaps none)."""
    # What beyond/ measured stands there as its own command prints it, and is compared with that.
    text = blank(r"<!-- compare:start -->.*?<!-- compare:end -->", without_fences(text))
    found, start = [], 0
    for match in re.finditer(r"<!-- check:(.*?)-->|^(?=##+ )", text, re.M | re.S):
        line = text.count("\n", 0, start) + 1
        prose = visible(text[start : match.start()])
        found.append(Scope(line, prose, checks_of(match[1] or "")))
        start = match.end()
    return [*found, Scope(text.count("\n", 0, start) + 1, visible(text[start:]), ())]


def shows(prose: str, number: str) -> bool:
    """Return whether a number stands in the text, not as a part of another one."""
    if re.fullmatch(NUMBER, number):
        return number in [m[0] for m in numbers(prose)]
    return re.search(rf"(?<![\w.,]){re.escape(number)}(?![\w%]|[.,]\d)", prose) is not None


def numbers(prose: str) -> list[re.Match]:
    """Return the numbers that must be checked, as matches."""
    papers = [m.span() for m in re.finditer(ARXIV, prose)]
    return [m for m in re.finditer(NUMBER, prose) if m.span() not in papers]


def uncovered(scope: Scope) -> list[str]:
    """Return what is wrong between a text and the list of its numbers; no value is computed."""
    given = {check.shown for check in scope.checks if check.expression is None} | ALWAYS
    listed = Counter(check.shown for check in scope.checks)
    found = Counter(m[0] for m in numbers(scope.prose))
    wrong = [f"near line {scope.line}: {number} stands {n} times, {listed[number]} are checked"
             for number, n in found.items() if number not in given and n > listed[number]]
    return wrong + [f"near line {scope.line}: {number} is checked, but not in the text"
                    for number in listed if not shows(scope.prose, number)]


def is_equal(shown: str, value: float) -> bool:
    """Return whether a value, rounded to the digits of a number, is the number as it is shown."""
    number = shown.replace(",", "")
    if number.endswith("%"):
        decimals = len(number[:-1].partition(".")[2])
        return f"{100 * value:.{decimals}f}%" == number
    digits, _, exponent = number.partition("e")
    decimals = len(digits.partition(".")[2])
    if exponent:
        return float(f"{value:.{decimals}e}") == float(number)
    if not decimals:  # exact: where it is a rounded one, its expression says round(...)
        return abs(float(number) - value) < 1e-9
    return f"{value:.{decimals}f}" in (number, f"-{number}" if float(number) == 0 else number)


def wrong_values(scope: Scope, names: dict) -> list[str]:
    """Return the checks of a scope whose expression gives another value than the text shows."""
    wrong = []
    for shown, expression in scope.checks:
        if expression is None:
            continue
        try:
            value = float(eval(" ".join(expression.split()), dict(names)))
        except Exception as error:
            wrong.append(f"near line {scope.line}: {expression}: {error!r}")
            continue
        if not is_equal(shown, value):
            wrong.append(f"near line {scope.line}: {shown} is shown, {expression} = {value:.6g}")
    return wrong
