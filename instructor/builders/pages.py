"""Change the Markdown of the bundle so that nothing in it leads to what is not there."""

import re
from collections.abc import Collection, Iterator, Mapping
from posixpath import dirname, join, normpath

# Sections of README.md for other readers; NOTE replaces them.
LEFT_OUT = ("For teachers", "Beyond the five tasks")
# This one runs the solutions: without them it would be wrong.
WITH_SOLUTIONS = "Two commands"
NOTE = """## Not in this bundle

{rooms} are part of the full repository only.
Where the chapter or a notebook speaks of them, read on.

"""
LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
HTML = re.compile(r"<(?:img|a)\b[^>]*?(?:src|href)=[\"']([^\"']+)")
COMMAND = re.compile(r"`python -m (?:pytest [^`]*?(?=beyond/))?"
                     r"((?:beyond|instructor|notebooks)[\w./]*)[^`]*`")
FENCE = re.compile(r"^(?:```|~~~)", re.M)
MADE_LATER = ("runs/", ".venv/", "wheels/")


def here(path: str, present: Collection[str]) -> bool:
    """Return whether a file, or a folder with files, is in the bundle."""
    path = path.rstrip("/")
    return path in present or any(name.startswith(path + "/") for name in present)


def target_of(name: str, link: str) -> tuple[str, str] | None:
    """Return (path in the bundle, anchor) of a link in a file; None if it leads to the web."""
    if re.match(r"[a-z]+:", link):
        return None
    path, _, anchor = link.partition("#")
    return (normpath(join(dirname(name), path)) if path else name), anchor


def prose(text: str) -> Iterator[tuple[bool, str]]:
    """Yield (is prose, part) of a text; the other parts are fenced code."""
    inside, part = False, ""
    for line in text.splitlines(keepends=True):
        fence = bool(FENCE.match(line))
        if fence and not inside:
            yield True, part
            part = ""
        part += line
        if fence and inside:
            yield False, part
            part = ""
        inside ^= fence
    yield not inside, part


def quoted(words: str, link: str) -> str:
    """Return a link's words as they stand without it: a title needs quotes, a path does not."""
    title = " " in " ".join(words.split()) and words[0] not in "`\"'" and words != link
    return f'"{words}"' if title else words


def without_dead_links(name: str, text: str, present: Collection[str]) -> str:
    """Return a file's text in which a link to what is not in the bundle is plain text.

    Args:
        name: of the file in the bundle.
        text: its text.
        present: the names of all files in the bundle.
    """

    def change(match: re.Match) -> str:
        target = target_of(name, match[3])
        if target is None or here(target[0], present):
            return match[0]
        words = match[2] if match[1] else quoted(match[2], match[3])
        return f"{words} (not in this bundle)"

    return "".join(LINK.sub(change, part) if is_prose else part for is_prose, part in prose(text))


def without_dead_commands(text: str, present: Collection[str]) -> str:
    """Return a text in which commands of missing modules are marked as such."""

    def change(match: re.Match) -> str:
        path = match[1].replace(".", "/")
        files = (f"{path}.py", f"{path}/__main__.py") if "/tests/" not in path else (path,)
        there = any(here(file, present) for file in files)
        return match[0] if there else f"{match[0]} (not in this bundle)"

    return COMMAND.sub(change, text)


def anchors(text: str) -> set[str]:
    """Return the places in a Markdown text that a link can point to."""
    plain = "".join(part for is_prose, part in prose(text) if is_prose)
    titles = re.findall(r"^#+ +(.+?)\s*$", plain, re.M)
    slugs = [re.sub(r"[^\w\- ]", "", t.lower()).replace(" ", "-") for t in titles]
    return {*slugs, *re.findall(r"<a +(?:id|name)=[\"']([^\"']+)", plain)}


def dead_links(
    name: str, text: str, present: Collection[str], texts: Mapping[str, str]
) -> list[str]:
    """Return the links of a file that lead nowhere in the bundle.

    Args:
        name: of the file in the bundle.
        text: its text.
        present: the names of all files in the bundle.
        texts: {name: text} of the Markdown files, for anchors.
    """
    found = []
    plain = "".join(part for is_prose, part in prose(text) if is_prose)
    for link in [*(m[2] for m in LINK.findall(plain)), *HTML.findall(plain)]:
        target = target_of(name, link)
        if target is None:
            continue
        path, anchor = target
        wrong = anchor and path.endswith(".md") and anchor not in anchors(texts.get(path, ""))
        if not here(path, present) or wrong:
            found.append(link)
    return found


def makefile(text: str, targets: Collection[str]) -> str:
    """Return a Makefile without these targets and their lines in `make help`."""
    for name in targets:
        text = re.sub(rf'^\t@echo "make {name} .*\n(?:\t@echo " {{16}}.*\n)*', "", text, flags=re.M)
        text = re.sub(rf"^{name}:.*\n(?:\t.*\n)+\n?", "", text, flags=re.M)
        text = re.sub(rf"^(\.PHONY:(?:.*\\\n)*.*)[ \t]{name}\b", r"\1", text, flags=re.M)
    return text


# ---------------------------------------------------------------- README.md


def without_sections(text: str, titles: Collection[str]) -> str:
    """Return a text without the level-2 sections of these titles."""
    parts = re.split(r"^(?=## )", text, flags=re.M)
    return "".join(p for p in parts if p.partition("\n")[0].removeprefix("## ") not in titles)


def _row(line: str, present: Collection[str], gone: set[str]) -> str | None:
    """Return a line of the map of rooms without the rooms that are not there."""
    several = re.fullmatch(r"    ((?:[\w./]+, )+[\w./]+):(.*)", line)
    if several:
        names = several[1].split(", ")
        kept = [n for n in names if here(n, present)]
        gone.update(n for n in names if n not in kept)
        return f"    {', '.join(kept)}:{several[2]}" if kept else None
    cells = re.findall(r"([\w.]+(?:/|\.\w+))( {2,})(\S.*?)(?= {4,}|$)", line)
    absent = [cell for cell in cells if not here(cell[0], present) and cell[0] not in MADE_LATER]
    for name, gap, words in absent:
        gone.add(name)
        line = re.sub(re.escape(name + gap + words) + " *", "", line)
    return line.rstrip() if line.strip() else None


def readme(text: str, present: Collection[str]) -> str:
    """Return README.md for the bundle."""
    solved = here("solutions/", present)
    text = without_sections(text, LEFT_OUT if solved else (*LEFT_OUT, WITH_SOLUTIONS))
    if not here("instructor/", present):
        text = text.replace(" tests instructor/tests\n", " tests\n")
    parts = re.split(r"^(?=## )", text, flags=re.M)
    gone: set[str] = set()
    for i, part in enumerate(parts):
        if part.startswith("## What is where"):
            rows = [_row(r, present, gone) if r.startswith("    ") else r
                    for r in part.splitlines()]
            parts[i] = "\n".join(r for r in rows if r is not None).rstrip("\n") + "\n\n"
    rooms = [f"`{n}`" for n in sorted(gone) if n.endswith("/")]
    if rooms:
        at = next((i for i, p in enumerate(parts) if p.startswith("## Changes")), len(parts))
        parts.insert(at, NOTE.format(rooms=" and ".join([", ".join(rooms[:-1]), rooms[-1]])
                                     if rooms[1:] else rooms[0]))
    return "".join(parts)
