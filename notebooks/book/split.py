"""Cut the chapter into pages, one a section, and know where each of its anchors ends up.

chapter.md stays one file, for readers on GitHub and for the tests; the book has a page for what
stands before section 1 and one for every `## n. Title`.
"""

import re
from typing import NamedTuple

FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_SECTION = re.compile(r'^(?:<a +(?:id|name)=["\'][\w-]+["\']> *</a> *\n+)*## (\d+)\. ', re.M)
_HEADING = re.compile(r"^(#+) +(.+?)\s*$", re.M)
_ANCHOR = re.compile(r"<a +(?:id|name)=[\"']([\w-]+)[\"']")


class Part(NamedTuple):
    """A page: its name without .md, and its Markdown."""

    name: str
    text: str


def outside(pattern, text):
    """Return the matches of a pattern that are not inside fenced code."""
    fences = [match.span() for match in FENCE.finditer(text)]
    return [m for m in pattern.finditer(text)
            if not any(start <= m.start() < end for start, end in fences)]


def raised(text):
    """Return a text in which each heading is one level higher: ## becomes #."""
    last, parts = 0, []
    for match in outside(_HEADING, text):
        parts += [text[last:match.start()], match[0][1:] if len(match[1]) > 1 else match[0]]
        last = match.end()
    return "".join([*parts, text[last:]])


def split(text, first, title):
    """Return the parts of a chapter.

    Args:
        text: of the chapter, which starts with a heading of level 1.
        first: the name of the page with what stands before section 1.
        title: of that page, in the place of the chapter's own.
    """
    starts = outside(_SECTION, text)
    cuts = [m.start() for m in starts] + [len(text)]
    head = re.sub(r"\A\s*# .+", f"# {title}", text[:cuts[0]])
    numbers = [m[1] for m in starts]
    if len(set(numbers)) != len(numbers):
        raise ValueError(f"two sections of the chapter have the same number: {numbers}")
    return [Part(first, head)] + [
        Part(f"section-{number}", raised(text[a:b]))
        for number, a, b in zip(numbers, cuts, cuts[1:])]


def slug(title):
    """Return the anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-")


def anchors(text):
    """Return the anchors of a Markdown text."""
    return {*(slug(m[2]) for m in outside(_HEADING, text)),
            *(m[1] for m in outside(_ANCHOR, text))}


def page_of(parts, anchor):
    """Return the name of the part that has an anchor, or None."""
    return next((part.name for part in parts if anchor in anchors(part.text)), None)
