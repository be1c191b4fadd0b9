"""Gather the pages of the book in one folder, as Sphinx wants them."""

import json
import posixpath
import re
import shutil
from pathlib import Path

from notebooks import execute
from notebooks.first_cell import TOP

HERE = Path(__file__).resolve().parent
CHAPTER, BEYOND, NOTES = "chapter.md", "beyond/README.md", "solutions/notes.md"
PAGES = [CHAPTER, *(f"notebooks/{name}.ipynb" for name in execute.NAMES), BEYOND, NOTES]
# Never part of the book, whoever links to them.
CLOSED = ("instructor", "solutions/lab15_grpo.py", ".ci", ".github")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.M | re.S)
_ANCHOR = re.compile(r'^<a +(?:id|name)=["\']([\w-]+)["\']> *</a> *\n+(?=#)', re.M)


def relinked(text, name, pages, copied):
    """Return Markdown whose links lead to pages and files of the book.

    A link to a page becomes one to the page or to its anchor; a file of the repository is added
    to the set copied and becomes a download; what is not in the book keeps its text only.
    """
    folder = posixpath.dirname(name)

    def changed(match):
        picture, words, target, title = match.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target) or (not path and anchor.startswith("section-")):
            return match[0]
        place = posixpath.normpath(posixpath.join(folder, path)) if path else name
        if place in pages:
            there = f"#{anchor}" if anchor.startswith("section-") else target
            return f"{picture}[{words}]({there}{title})"
        if place.startswith(CLOSED) or (TOP / place).is_dir() or place.endswith(".md"):
            return words
        if (TOP / place).is_file():
            copied.add(place)
        return match[0]  # Sphinx complains of what is not there

    parts, last = [], 0
    for fence in _FENCE.finditer(text):
        parts += [_LINK.sub(changed, text[last:fence.start()]), fence[0]]
        last = fence.end()
    text = "".join([*parts, _LINK.sub(changed, text[last:])])
    return _ANCHOR.sub(r"(\1)=\n", text)  # a label, which links can be checked against


def with_stills(book):
    """Return a notebook in which a widget is the still picture that came with it."""
    book["metadata"].pop("widgets", None)
    for cell in book["cells"]:
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(execute.WIDGET, None)
    return book


def contents(pages):
    """Return the table of contents for the end of index.md."""
    groups = {"The chapter": [CHAPTER], "The notebooks": [p for p in pages if p[-1] == "b"],
              "Afterwards": [p for p in (BEYOND, NOTES) if p in pages]}
    lines = []
    for title, names in groups.items():
        lines += ["", "```{toctree}", f":caption: {title}", ":maxdepth: 2", ""]
        lines += [posixpath.splitext(n)[0] for n in names] + ["```"]
    return "\n".join(lines) + "\n"


def gather(folder, executed):
    """Write the sources of the book into an empty folder.

    Args:
        folder: where to.
        executed: the folder with the notebooks that have outputs.
    """
    pages = [p for p in PAGES if p.endswith(".ipynb") or (TOP / p).is_file()]
    copied = set()
    for name in pages:
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            text = (TOP / name).read_text(encoding="utf-8")
            place.write_text(relinked(text, name, pages, copied), encoding="utf-8")
            copied |= {posixpath.normpath(posixpath.join(posixpath.dirname(name), source))
                       for source in re.findall(r'<img\b[^>]*?src=["\']([^"\':]+)', text)}
        else:
            source = Path(executed) / posixpath.basename(name)
            book = with_stills(json.loads(source.read_text(encoding="utf-8")))
            for cell in book["cells"]:
                if cell["cell_type"] == "markdown":
                    words = "".join(cell["source"])
                    cell["source"] = relinked(words, name, pages, copied)
            place.write_text(json.dumps(book), encoding="utf-8")
    for name in sorted(n for n in copied if (TOP / n).is_file()):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TOP / name, place)
    index = (HERE / "index.md").read_text(encoding="utf-8") + contents(pages)
    (folder / "index.md").write_text(index, encoding="utf-8")
    shutil.copyfile(HERE / "conf.py", folder / "conf.py")
    shutil.copytree(HERE / "static", folder / "static")
