"""Gather the pages of the book in one folder, as Sphinx wants them."""

import html
import json
import posixpath
import re
import shutil
from pathlib import Path

from notebooks import execute
from notebooks.book import split
from notebooks.first_cell import TOP

HERE = Path(__file__).resolve().parent
CHAPTER, NOTES = "chapter.md", "solutions/notes.md"
PATH_LENGTH = 8  # sections that are the lab's path; the others look further
# Files that become pages, in the order of the book: {title of the group: files or patterns}.
# A pattern takes what is there; SLIDES are another kind of file.
GROUPS = {
    "The notebooks": [f"notebooks/{name}.ipynb" for name in execute.NAMES],
    "Research": ["beyond/comparison.md", "beyond/many_machines.md", "beyond/README.md",
                 "beyond/launch/README.md"],
    "The repository": ["README.md", "solutions/README.md", NOTES],
    "For teachers": ["instructor/teaching/README.md", "instructor/teaching/*.md",
                     "instructor/README.md"],
}
SLIDES = ("instructor/teaching/slides.md",)
FOR_TEACHERS = "For teachers"
# Titles that would otherwise be those of the whole book, or say nothing outside their folder.
TITLES = {"README.md": "Set up and start", NOTES: "Notes and answers",
          "solutions/README.md": "The solutions", "beyond/README.md": "Beyond the lab",
          "beyond/launch/README.md": "Many processes, many machines"}
EXPLORE = "explore.html"  # the finished page with the scenes (notebooks.explore)
SCENES = {2: 1, 3: 2, 4: 3, 5: 4, 6: 5, 7: 7}  # section of the chapter: scene that shows it
EXTRAS = "(finished pages)"  # marks in index.md where the list of them goes
FIRST = "Before you start"  # the page with the text before section 1
# Never copied into the book, whoever links to them.
CLOSED = ("instructor", "solutions/lab15_grpo.py", ".ci", ".github")
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)((?:\s+\"[^\"]*\")?)\)")
_ANCHOR = re.compile(r'^<a +(?:id|name)=["\']([\w-]+)["\']> *</a> *\n+(?=#)', re.M)
_COMMENT = re.compile(r"^<!--.*?-->[ \t]*\n?", re.M | re.S)


def pages(groups=None):
    """Return the files that become pages, those that are there: {group: names}."""
    found, seen = {}, set()
    for title, patterns in (GROUPS if groups is None else groups).items():
        names = []
        for pattern in patterns:
            for path in sorted(TOP.glob(pattern)):
                name = path.relative_to(TOP).as_posix()
                if name not in seen and name not in SLIDES:
                    seen.add(name)
                    names.append(name)
        if names:
            found[title] = names
    return found


class Links:
    """Where the links of the book's pages lead.

    Args:
        names: the files that become pages.
        parts: of the chapter (see split), in the place of its one file.
    """

    def __init__(self, names, parts=()):
        self.names, self.parts = set(names), list(parts)
        self.copied = set()  # files of the repository that the pages show or offer

    def target(self, place, anchor, folder):
        """Return what a link to a page becomes, seen from a folder."""
        if place == CHAPTER and self.parts:
            name = split.page_of(self.parts, anchor) if anchor else self.parts[0].name
            if name is None:
                return f"#{anchor}"  # it is nowhere: a warning of Sphinx
            place = f"{name}.md"
            anchor = "" if anchor == name else anchor
        path = posixpath.relpath(place, folder or ".")
        return path + (f"#{anchor}" if anchor else "")

    def _changed(self, match, name):
        """Return what a link becomes on the page of a file; see relinked."""
        folder = posixpath.dirname(name)
        picture, words, target, title = match.groups()
        path, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:", target):
            return match[0]
        if picture:  # a line break in an alternative text would join two words
            words = " ".join(words.split())
        place = posixpath.normpath(posixpath.join(folder, path)) if path else name
        if f"{place}/README.md" in self.names:
            place += "/README.md"
        if place in self.names or (place == CHAPTER and self.parts):
            if place == name and place != CHAPTER and not path:
                return match[0]
            return f"{picture}[{words}]({self.target(place, anchor, folder)}{title})"
        vector = posixpath.splitext(place)[0] + ".svg"
        if picture and (TOP / vector).is_file():
            place = vector
            target = posixpath.relpath(place, folder or ".")
        elif place.startswith(CLOSED) or (TOP / place).is_dir() or place.endswith(".md"):
            return words
        if (TOP / place).is_file():
            self.copied.add(place)
        return f"{picture}[{words}]({target}{title})"  # Sphinx complains of what is not there

    def relinked(self, text, name):
        """Return Markdown whose links lead to pages and files of the book.

        A link to a page becomes one to the page or to its anchor; a file of the repository is
        added to copied and becomes a download; a folder with a README.md that is a page leads
        there; what is not in the book keeps its text only. A picture is the SVG if there is one.
        """
        def changed(match):
            return self._changed(match, name)

        parts, last = [], 0
        for fence in split.FENCE.finditer(text):
            parts += [_LINK.sub(changed, _COMMENT.sub("", text[last:fence.start()])), fence[0]]
            last = fence.end()
        text = "".join([*parts, _LINK.sub(changed, _COMMENT.sub("", text[last:]))])
        return _ANCHOR.sub(r"(\1)=\n", text)  # a label, which links can be checked against


def retitled(text, name):
    """Return a page's text with the title that it has in the book."""
    return re.sub(r"\A\s*# .+", f"# {TITLES[name]}", text) if name in TITLES else text


# ============================================================== notebooks

_PROGRESS = re.compile(r"\d+%\|.*\||\d+it \[")


def as_page(book):
    """Return (a notebook as the book shows it, how many lines of its output are left out).

    Left out: the first code cell, which only finds the lab; widgets, for the still pictures that
    came with them; progress bars and warnings, which are lines of one machine at one time.
    """
    book["metadata"].pop("widgets", None)
    left_out = 0
    for cell in book["cells"]:
        if "first_cell\").start()" in "".join(cell["source"]):
            cell["metadata"] = cell["metadata"] | {"tags": ["remove-cell"]}
        kept = []
        for output in cell.get("outputs", []):
            output.get("data", {}).pop(execute.WIDGET, None)
            if output.get("output_type") == "stream":
                lines = "".join(output["text"]).replace("\r", "\n").splitlines(keepends=True)
                good = [line for line in lines if line.strip() and not _PROGRESS.search(line)]
                good = [] if output["name"] == "stderr" else good
                left_out += sum(bool(line.strip()) for line in lines) - len(good)
                if not good:
                    continue
                output["text"] = "".join(good)
            kept.append(output)
        if "outputs" in cell:
            cell["outputs"] = kept
    return book, left_out


# ============================================================== all pages


def contents(groups):
    """Return the table of contents for the end of index.md.

    Args:
        groups: {title: names of pages without their endings}.
    """
    lines = []
    for title, names in groups.items():
        lines += ["", "```{toctree}", ":hidden:", f":caption: {title}", ":maxdepth: 1", ""]
        lines += [*names, "```"]
    return "\n".join(lines) + "\n"


def with_scene(text, name):
    """Return a section's text with a link to its scene of EXPLORE below the title.

    Args:
        text: of the section, which starts with its title (and labels above it).
        name: of its page, such as "section-2".
    """
    scene = SCENES.get(int(name.partition("-")[2] or 0))
    if scene is None:
        return text
    link = (f'<p class="scene"><a class="reference" href="{EXPLORE}#scene={scene}">See it happen: '
            f"scene {scene} of the page in which the model samples and learns</a></p>")
    return re.sub(r"^# .+\n", lambda title: f"{title[0]}\n{link}\n\n", text, count=1, flags=re.M)


def front(text, groups, extras):
    """Return index.md: its text, the finished pages, then every page by group.

    Args:
        text: of index.md, its links already those of the book.
        groups: {title: names of pages without their endings}.
        extras: {file name: (title, words)} of finished pages in the book.
    """
    lines = [f'- <a href="{name}"><strong>{html.escape(title)}</strong></a>'
             f"{': ' + html.escape(words) if words else ''}"
             for name, (title, words) in extras.items()]
    text = text.replace(EXTRAS, "\n".join(["Also in this book:", "", *lines]) if lines else "")
    for title, names in groups.items():
        text += f"\n## {title}\n\n" + "\n".join(f"- {{doc}}`/{name}`" for name in names) + "\n"
    return text + contents(groups | {"Look up": ["genindex"]})


def gather(folder, executed, extras=None, students=False):
    """Write the sources of the book into an empty folder.

    Args:
        folder: where to.
        executed: the folder with the notebooks that have outputs.
        extras: {file name: (title, words)} of finished pages that will lie beside index.html.
        students: leave out what is for teachers, and the answers.

    Returns:
        {notebook: lines of its output that are left out}, only those with any.
    """
    found = pages()
    if students:
        found = {title: [n for n in names if not n.startswith("solutions")]
                 for title, names in found.items() if title != FOR_TEACHERS}
    text = (TOP / CHAPTER).read_text(encoding="utf-8")
    parts = split.split(text, posixpath.splitext(CHAPTER)[0], FIRST)
    links = Links([name for names in found.values() for name in names], parts)
    for part in parts:
        path = folder / f"{part.name}.md"
        page = links.relinked(part.text, CHAPTER)
        page = with_scene(page, part.name) if EXPLORE in (extras or {}) else page
        path.write_text(page, encoding="utf-8")
        links.copied |= pictures(part.text, CHAPTER)
    dropped = {}
    for name in (name for names in found.values() for name in names):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".md"):
            text = (TOP / name).read_text(encoding="utf-8")
            links.copied |= pictures(text, name)
            place.write_text(links.relinked(retitled(text, name), name), encoding="utf-8")
        else:
            source = Path(executed) / posixpath.basename(name)
            book, lines = as_page(json.loads(source.read_text(encoding="utf-8")))
            if lines:
                dropped[name] = lines
            for cell in book["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = links.relinked("".join(cell["source"]), name)
            place.write_text(json.dumps(book), encoding="utf-8")
    names = [part.name for part in parts]
    on_path = [n for n in names if int(n.partition("-")[2] or 0) <= PATH_LENGTH]
    groups = {"The lab's path": on_path, "Look further": [n for n in names if n not in on_path]}
    groups |= {title: [posixpath.splitext(n)[0] for n in names] for title, names in found.items()}
    text = links.relinked((HERE / "index.md").read_text(encoding="utf-8"), "index.md")
    index = front(text, {t: n for t, n in groups.items() if n}, extras or {})
    (folder / "index.md").write_text(index, encoding="utf-8")
    for name in sorted(n for n in links.copied if (TOP / n).is_file()):
        place = folder / name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(TOP / name, place)
    shutil.copyfile(HERE / "conf.py", folder / "conf.py")
    for name in ("static", "templates"):
        shutil.copytree(HERE / name, folder / name)
    return dropped


def pictures(text, name):
    """Return the files that a text shows with <img>."""
    return {posixpath.normpath(posixpath.join(posixpath.dirname(name), source))
            for source in re.findall(r'<img\b[^>]*?src=["\']([^"\':]+)', text)}
