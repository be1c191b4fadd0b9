"""The book: formulas, links and pictures of its pages, and that they need no network."""

import html
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("sphinx", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("myst_nb", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("math_core", reason="pip install -r instructor/requirements.txt")

from notebooks.book import __main__ as book
from notebooks.book import build, mathml

TOP = Path(__file__).resolve().parents[3]

# ---------------------------------------------------------------- formulas


@pytest.mark.parametrize("latex, wanted", [
    (r"\rho = \exp(\texttt{logp} - \texttt{old\_logp})", "old_logp"),
    (r"\textcolor{#0072B2}{A_i} + 1", '<mrow style="color:#0072B2;"><msub>'),
    (r"{\color{#d55e00} \rho} A", '<mrow style="color:#D55E00;"><mi>'),
    (r"\begin{aligned} a &= b \\ c &= d \end{aligned}", "<mtable"),
    (r"\mathbb E_{y \sim \pi}[r] \le \frac{1}{B} \sum_{i=1}^{B} \big( x \big)", "<mfrac>"),
])
def test_formulas_become_mathml(latex, wanted):
    code = mathml.convert(latex)
    assert code.startswith("<math") and wanted in code and "\\" not in code
    assert 'display="block"' in mathml.convert(latex, block=True)


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\frac{1}{", r"\left( x"])
def test_a_wrong_formula_is_an_error_that_names_it(latex):
    with pytest.raises(ValueError, match=re.escape(latex)):
        mathml.convert(latex)


# ---------------------------------------------------------------- links


def test_links_lead_into_the_book():
    copied, pages = set(), ["chapter.md", "beyond/README.md"]
    text = ("[a](chapter.md#section-2) [b](#section-3) [c](instructor/README.md) [d](tinylm.py) "
            "[e](https://x.org/y.md) ![f](none.png) [g](beyond/README.md) [h [i]](tests/)\n"
            "```\n[c](instructor/README.md)\n```\n<a id=\"section-2\"></a>\n## 2. X\n")
    assert build.relinked(text, "chapter.md", pages, copied) == (
        "[a](#section-2) [b](#section-3) c [d](tinylm.py) "
        "[e](https://x.org/y.md) ![f](none.png) [g](beyond/README.md) h [i]\n"
        "```\n[c](instructor/README.md)\n```\n(section-2)=\n## 2. X\n")
    assert copied == {"tinylm.py"}
    assert build.relinked("[a](../chapter.md#section-2)", "beyond/README.md", pages, copied) == (
        "[a](#section-2)")


def test_a_widget_becomes_its_still_picture():
    data = {"application/vnd.jupyter.widget-view+json": {}, "text/html": "<img>"}
    made = build.with_stills({"metadata": {"widgets": {}}, "cells": [{"outputs": [
        {"data": data}]}, {"source": "text"}]})
    assert made["metadata"] == {} and data == {"text/html": "<img>"}


# ---------------------------------------------------------------- the whole book


class Page(HTMLParser):
    """What a page links to, shows, and offers as anchors."""

    def __init__(self, path):
        super().__init__()
        self.loaded, self.links, self.ids, self.bare = [], [], set(), []
        self.text = path.read_text(encoding="utf-8")
        self.feed(self.text)

    def handle_starttag(self, tag, attrs):
        """Note the addresses and names of one element."""
        attrs = dict(attrs)
        self.ids |= {attrs[k] for k in ("id", "name") if attrs.get(k)}
        if tag == "a" and "href" in attrs:
            self.links.append(attrs["href"])
        elif "src" in attrs or (tag == "link" and "href" in attrs):
            self.loaded.append(attrs.get("src") or attrs["href"])
        if tag == "img" and not attrs.get("alt"):
            self.bare.append(attrs.get("src", "")[:60])


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Build the book, its notebooks without outputs; return dict from a path to a Page."""
    out = tmp_path_factory.mktemp("my book") / "pages"
    assert book.main(["--executed", str(TOP / "notebooks"), "--out", str(out)]) == 0
    return {p: Page(p) for p in out.rglob("*.html") if "_static" not in p.parts}


def test_every_room_has_its_page(pages):
    names = {p.stem for p in pages}
    assert {"index", "chapter", "1_by_hand", "4_play", "README", "notes"} <= names
    chapter = next(page for p, page in pages.items() if p.name == "chapter.html")
    assert {f"section-{n}" for n in range(1, 8)} <= chapter.ids
    assert "instructor" not in {p.parent.name for p in pages}


def test_nothing_is_loaded_from_elsewhere(pages):
    for path, page in pages.items():
        outside = [x for x in page.loaded if re.match(r"(https?:)?//", x)]
        assert not outside, f"{path.name} loads {outside}"
    static = next(p for p in pages if p.name == "index.html").parent / "_static"
    for sheet in static.rglob("*.css"):
        assert not re.search(r"(url\(|@import)\s*[\"']?(https?:)?//",
                             sheet.read_text(encoding="utf-8")), sheet.name


def test_links_and_pictures_of_the_pages_resolve(pages):
    dead = []
    for path, page in pages.items():
        for target in [*page.links, *page.loaded]:
            if re.match(r"[a-z]+:", target) or target in ("", "#"):
                continue
            name, _, anchor = unquote(target).partition("#")
            place = (path.parent / name.partition("?")[0]).resolve() if name else path
            known = pages[place].ids if place in pages else ()
            if not place.exists() or (anchor and place in pages and anchor not in known):
                dead.append(f"{path.name}: {target}")
    assert not dead, dead
    assert not {p.name: page.bare for p, page in pages.items() if page.bare}


def test_every_formula_of_the_chapter_is_drawn(pages):
    text = (TOP / "chapter.md").read_text(encoding="utf-8")
    text = re.sub(r"^(```(?!math)|~~~).*?^\1|`[^`\n]+`", "", text, flags=re.M | re.S)
    display = re.findall(r"\$\$.+?\$\$", text, re.S)
    inline = re.findall(r"\$[^$]+?\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.S))
    page = next(page for p, page in pages.items() if p.name == "chapter.html").text
    assert page.count("<math") >= len(display) + len(inline) > 0
    body = re.sub(r"<(pre|code|script)\b.*?</\1>", "", page, flags=re.S)
    left = re.findall(r"[^\s<>]*\$[^\s<>]*", html.unescape(re.sub(r"<[^>]+>", " ", body)))
    assert not left, f"not drawn: {left[:5]}"


def test_hints_stay_fold_outs(pages):
    text = (TOP / "chapter.md").read_text(encoding="utf-8")
    page = next(page for p, page in pages.items() if p.name == "chapter.html").text
    assert page.count("<details") == page.count("</details>") == text.count("<details") >= 15


def test_a_dead_link_fails_the_build_and_leaves_the_old_book(tmp_path, monkeypatch, capfd):
    out = tmp_path / "pages"
    out.mkdir()
    (out / ".buildinfo").write_text("old", encoding="utf-8")
    (tmp_path / "chapter.md").write_text(
        "# X\n\n[a](#section-99) ![b](none.png) $\\nosuch$\n", encoding="utf-8")
    shutil.copytree(TOP / "notebooks" / "book" / "static", tmp_path / "static")
    monkeypatch.setattr(build, "TOP", tmp_path)
    monkeypatch.setattr(build, "PAGES", ["chapter.md"])
    assert book.main(["--executed", str(tmp_path), "--out", str(out)]) != 0
    said = capfd.readouterr().err
    assert all(words in said for words in ("section-99", "none.png", "nosuch")), said
    assert (out / ".buildinfo").read_text(encoding="utf-8") == "old"
    assert book.main(["--out", str(tmp_path)]) == 2  # a folder that is no book is not replaced
