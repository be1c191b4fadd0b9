"""Count the words and the decimals of the chapter's prose, section by section.

    python -m instructor.tests.chapter.words

Prose is what is read from start to end: no tables, no code, no formulas, no alternative texts,
no hints and no quiz. A decimal is a number with a decimal point, a percentage, or one with an
exponent; the numbers of papers are not counted.
"""

import re
from typing import NamedTuple

from instructor.tests.chapter import comments
from lab15_run import piped

PATH = range(1, 9)  # the sections that the lab needs, whatever else is read
MOST_WORDS = 7000  # in these sections together
MOST_DECIMALS = 76  # a third of the 230 that the chapter once had
_OUT = (
    r"<details>.*?</details>",
    r"^\*\*Quiz\.\*\*.*?(?=^\*\*In short\.\*\*)",
    r"\$\$.*?\$\$",
    r"^ {4,}\S[^\n]*$",
    r"^\|[^\n]*$",
)
_DECIMAL = r"(?<![\w.])-?\d+(?:\.\d+(?:e-?\d+)?%?|e-?\d+|%)(?!\w)"


class Count(NamedTuple):
    """One section: its number (0 before the first), its title, and what stands in it."""

    number: int
    title: str
    words: int
    decimals: int


def prose(text: str) -> str:
    """Return the text without what is not prose."""
    text = comments.without_fences(text)
    for pattern in _OUT:
        text = comments.blank(pattern, text)
    return re.sub(comments.ARXIV, "", comments.visible(text))


def counted(text: str) -> list[Count]:
    """Return the counts of every section of a document."""
    found = []
    for part in re.split(r"^(?=## )", text, flags=re.M):
        title = re.match(r"## (?:(\d+)\. )?(.+)", part)
        own = prose(part)
        words = [word for word in own.split() if re.search(r"\w", word)]
        number = int(title[1] or 0) if title else 0
        decimals = len(re.findall(_DECIMAL, own))
        found.append(Count(number, title[2] if title else "", len(words), decimals))
    return found


def main() -> None:
    """Print the table."""
    rows = counted(comments.read(comments.CHAPTER))
    for number, title, words, decimals in rows:
        print(f"{number:2}  {words:6,} words {decimals:4} decimals  {title}")
    path = [row for row in rows if row.number in PATH]
    longest = max(path, key=lambda row: row.words)
    print(f"sections 1 to {PATH[-1]}: {sum(row.words for row in path):,} words "
          f"(at most {MOST_WORDS:,}), {sum(row.decimals for row in path)} decimals; "
          f"the longest is {longest.number}, {longest.words:,} words")
    print(f"all: {sum(row.words for row in rows):,} words, "
          f"{sum(row.decimals for row in rows)} decimals (at most {MOST_DECIMALS})")


if __name__ == "__main__":
    piped(main)
