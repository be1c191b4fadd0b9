r"""Finding the final answer in a text, and reading it as a number.

Understood: thousands (1,234 and 1{,}234), fractions (1/2 and \frac{1}{2}), percent, money, units,
\boxed{...}, the minus sign U+2212, and the digits of every script.
"""

import re
import unicodedata
from fractions import Fraction

# A minus behind a digit or a letter is a subtraction or a dash, not a sign: 10-3, x-3.
NUMBER = (
    r"(?:(?<![0-9A-Za-z)\]}])[-+])?"
    r"(?:(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|(?<![0-9])\.[0-9]+)"
    r"(?:[eE][-+]?[0-9]+|\s*/\s*[0-9]+)?"
)
# More than a number: a power, LaTeX, a sum or product. Its first number is no answer.
EXPRESSION = r"[\\^{}]|\*\*|[0-9a-z)]\s*[*+]\s*[0-9a-z(]"


def plain(text: str) -> str:
    """Return a text with numbers in one notation: ASCII digits, a/b, no currency before them."""
    text = "".join(
        str(unicodedata.decimal(c)) if c.isdecimal() else "-" if c == "\u2212" else c for c in text
    )
    text = text.replace("{,}", ",").replace(r"\%", "%").replace(r"\$", "$")
    text = re.sub(r"(?<=[0-9])\\[,!;: ](?=[0-9])", "", text)
    text = re.sub(r"\\(?:text|mathrm|textbf|mathbf)\s*\{([^{}]*)\}", r" \1", text)
    fraction = r"\\[dt]?frac\s*(?:\{\s*([0-9]+)\s*\}\s*\{\s*([0-9]+)\s*\}|([0-9])([0-9]))"
    text = re.sub(r"(?<=[0-9])(?=\\[dt]?frac)", " ", text)  # 3\frac12 is not 31/2
    text = re.sub(fraction, lambda m: f"{m[1] or m[3]}/{m[2] or m[4]}", text)
    return re.sub(r"[$\u20ac\u00a3]\s*(?=[-+.0-9])", "", text)


def clean_number(text: str) -> str | None:
    """Return the last number in a text as digits: "$1,234.50 a day" gives "1234.50"."""
    found = re.findall(NUMBER, plain(text))
    return re.sub(r"[,\s]", "", found[-1]).removeprefix("+") if found else None


def boxed(text: str) -> str | None:
    r"""Return what is in the last \boxed{...} that is closed, or None."""
    for start in reversed([m.end() for m in re.finditer(r"\\boxed\s*\{", text)][-20:]):
        depth = 1
        for at in range(start, len(text)):
            depth += {"{": 1, "}": -1}.get(text[at], 0)
            if depth == 0:
                return text[start:at]
    return None


def stated(text: str) -> str | None:
    r"""Return what a text states as its answer, in plain notation, or None.

    That is what follows the last "Answer:" on its line, else what is in the last \boxed{...}.
    """
    lines = re.findall(r"\banswer[*_ \t]*(?:is\b|:|=)[*_: \t]*([^\n]*)", text, re.I)
    for found in (lines[-1] if lines else None, boxed(text)):
        inner = boxed(found or "") or found or ""
        inner = re.sub(r"^\\[(\[]|\\[)\]]\s*\.?$", "", inner.strip())
        if inner := plain(inner).strip(" \t*_`'\"$").removesuffix("."):
            return inner.strip(" \t*_`'\"$")
    return None


def extract_answer(text: str) -> str | None:
    r"""Return the final answer of a solution, or None if there is none.

    In this order: what follows the last "Answer:" on its line; the last \boxed{...}; the last
    number of the text. Of the first two the number as plain digits if there is one, else the words
    or the formula.
    """
    answer = stated(text)
    if not answer:
        return clean_number(text)
    first = re.search(NUMBER, answer)
    return clean_number(first[0]) if first and not re.search(EXPRESSION, answer) else answer


def value(number: str | None) -> Fraction | None:
    """Return the value of what clean_number returned, exactly; None for 1/0 and what is no number.

    >>> value("1/4")
    Fraction(1, 4)
    """
    if number is None or not re.fullmatch(NUMBER, number) or len(number) > 100:
        return None
    mantissa, _, exponent = number.lower().partition("e")
    try:
        return None if abs(int(exponent or 0)) > 100 else Fraction(number)
    except (ValueError, ZeroDivisionError):
        return None


def _with_percent(found: re.Match[str]) -> list[Fraction]:
    """Return the values of a number found in a text: 50% may mean 50 or 1/2."""
    number = value(clean_number(found[0]))
    if number is None:
        return []
    percent = found.string[found.end() :].lstrip().startswith("%")
    return [number, number / 100] if percent else [number]


def values(text: str) -> list[Fraction]:
    """Return the values of a text that is one number, perhaps with a unit; else an empty list."""
    text = plain(text).strip()
    found = list(re.finditer(NUMBER, text))
    return _with_percent(found[0]) if len(found) == 1 and not re.search(EXPRESSION, text) else []


def answer_values(text: str) -> list[Fraction]:
    """Return the values of the number that extract_answer finds; an empty list if it is none."""
    answer = stated(text)
    if answer and re.search(EXPRESSION, answer):
        return []
    found = list(re.finditer(NUMBER, answer or plain(text)))
    return _with_percent(found[0 if answer else -1]) if found else []


def same_value(a: list[Fraction], b: list[Fraction]) -> bool:
    """Return whether two texts' values agree; 1/3 agrees with six digits of it."""
    def decimal(x: Fraction) -> bool:
        return 10**60 % x.denominator == 0

    return any(x == y or (not (decimal(x) and decimal(y)) and abs(x - y) < Fraction(1, 10**6))
               for x in a for y in b)
