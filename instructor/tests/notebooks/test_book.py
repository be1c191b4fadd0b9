"""The book: formulas, links and pictures of its pages, and that they need no network."""

import html
import re
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote

import pytest

pytest.importorskip("sphinx", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("myst_nb", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("math_core", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("sphinx_copybutton", reason="pip install -r instructor/requirements.txt")

from notebooks.book import __main__ as book
from notebooks.book import build, extras, mathml, parts, split

TOP = Path(__file__).resolve().parents[3]
TEXT = (TOP / "chapter.md").read_text(encoding="utf-8")

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


@pytest.mark.parametrize("latex, wanted", [
    (r"clip(\rho, 1, 2)", r"\operatorname{clip}(\rho, 1, 2)"),
    (r"\pi_{old} + KL(\pi)", r"\pi_{\text{old}} + \operatorname{KL}(\pi)"),
    (r"\operatorname{clip}(x) \text{old logp} \texttt{ab} \mathrm{KL}", None),
    (r"\begin{aligned} a &= b \end{aligned}", None),
    (r"\min(\rho A, x y) - \log \pi", None),
    (r"{\color[HTML]{0072B2} A}", None),
])
def test_words_in_formulas_are_upright(latex, wanted):
    assert mathml.with_words(latex) == (wanted or latex)
    mathml.convert(latex)


@pytest.mark.parametrize("latex", [r"\nosuchcommand x", r"\frac{1}{", r"\left( x"])
def test_a_wrong_formula_is_an_error_that_names_it(latex):
    with pytest.raises(ValueError, match=re.escape(latex)):
        mathml.convert(latex)


# ---------------------------------------------------------------- links


CHAPTER = """# Title

Intro with [x](#symbols) and [1](#section-1).

## Symbols

<!-- check: 1 = 1 -->
<a id="section-1"></a>
## 1. One

```
## 2. no heading
```

### Deeper

<a id="section-2"></a>
## 2. Two

See [a](#deeper) and [b](chapter.md#section-1).
"""


def test_chapter_is_cut_into_pages():
    parts = split.split(CHAPTER, "chapter", "First")
    assert [p.name for p in parts] == ["chapter", "section-1", "section-2"]
    assert parts[0].text.startswith("# First\n") and "## Symbols" in parts[0].text
    assert "\n# 1. One" in parts[1].text and "\n## Deeper" in parts[1].text
    assert "\n## 2. no heading" in parts[1].text  # code stays as it is
    assert split.page_of(parts, "deeper") == "section-1"
    assert split.page_of(parts, "section-2") == "section-2"
    assert split.page_of(parts, "nowhere") is None


def test_nothing_of_the_chapter_is_lost():
    whole = "".join(part.text for part in split.split(TEXT, "chapter", "First"))
    assert [line.lstrip("#") for line in whole.splitlines()[1:]] == [
        line.lstrip("#") for line in TEXT.splitlines()[1:]]


def test_sections_with_the_same_number_are_refused():
    with pytest.raises(ValueError, match="same number"):
        split.split("# T\n\n## 1. A\n\n## 1. B\n", "chapter", "First")


def test_links_lead_into_the_book():
    links = build.Links(["beyond/README.md"], split.split(CHAPTER, "chapter", "First"))
    text = ("[a](chapter.md#section-2) [b](#section-1) [c](instructor/README.md) [d](tinylm.py) "
            "[e](https://x.org/y.md) ![f](none.png) [g](beyond/README.md) [h [i]](tests/) "
            "[j](chapter.md) [k](#symbols) [l](chapter.md#deeper) [m](beyond/)\n"
            "```\n[c](instructor/README.md)\n```\n<!-- check:\n[x](y.md) -->\n"
            "<a id=\"section-2\"></a>\n## 2. X\n")
    assert links.relinked(text, "chapter.md") == (
        "[a](section-2.md) [b](section-1.md) c [d](tinylm.py) "
        "[e](https://x.org/y.md) ![f](none.png) [g](beyond/README.md) h [i] "
        "[j](chapter.md) [k](chapter.md#symbols) [l](section-1.md#deeper) [m](beyond/README.md)\n"
        "```\n[c](instructor/README.md)\n```\n(section-2)=\n## 2. X\n")
    assert links.copied == {"tinylm.py"}
    assert links.relinked("[a](../chapter.md#section-2) [b](../chapter.md#deeper)",
                          "beyond/README.md") == "[a](../section-2.md) [b](../section-1.md#deeper)"


def test_pictures_are_the_vector_graphics():
    links = build.Links([])
    assert links.relinked("![a\nb](../notebooks/figures/beta.png)", "beyond/README.md") == (
        "![a b](../notebooks/figures/beta.svg)")
    assert links.copied == {"notebooks/figures/beta.svg"}


def test_notebooks_are_shown_without_what_belongs_to_one_machine():
    data = {"application/vnd.jupyter.widget-view+json": {}, "text/html": "<img>"}
    bar = "SFT:   4%|#     | 50/1200 [00:01<00:20]\rSFT: 100%|######| 1200/1200 [00:15]\n"
    cells = [
        {"source": ['importlib.import_module("notebooks.first_cell").start()'], "metadata": {},
         "outputs": [{"output_type": "stream", "name": "stdout", "text": "Ready.\n"}]},
        {"source": ["x"], "metadata": {}, "outputs": [
            {"output_type": "display_data", "data": data},
            {"output_type": "stream", "name": "stdout", "text": [bar, "kept\n"]},
            {"output_type": "stream", "name": "stderr", "text": "UserWarning: x\n  warn()\n"}]},
        {"source": ["text"], "metadata": {}}]
    made, dropped = build.as_page({"metadata": {"widgets": {}}, "cells": cells})
    assert made["metadata"] == {} and data == {"text/html": "<img>"} and dropped == 4
    assert made["cells"][0]["metadata"]["tags"] == ["remove-cell"]
    assert [o.get("text") for o in made["cells"][1]["outputs"]] == [None, "kept\n"]


@pytest.mark.parametrize("text, wanted", [
    ("PPO (1707.06347): ratio", ["1707.06347"]),
    ("(2503.20783); GSPO 2507.18071.", ["2503.20783", "2507.18071"]),
    ("the loss 1234.5678, 3.14159, 0.12345, 2599.1234 and arxiv.org/abs/2402.03300", []),
    ("2402.03300v2 of 2024", ["2402.03300"]),
])
def test_papers_are_found_by_their_numbers(text, wanted):
    found = list(parts.linked(text))
    assert [n["refuri"] for n in found if "refuri" in n.__dict__.get("attributes", {})] == [
        f"https://arxiv.org/abs/{number}" for number in wanted]
    assert "".join(n.astext() for n in found) == text


def test_finished_pages_come_along(tmp_path):
    page = tmp_path / "slides.html"
    page.write_text("<title>The &amp; slides</title>", encoding="utf-8")
    assert extras.found([page])["slides.html"][0] == "The & slides"
    with pytest.raises(ValueError, match="already"):
        extras.found([page, page])
    with pytest.raises(OSError, match="none"):
        extras.found([tmp_path / "none.html"])


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
    return {p: Page(p) for p in out.rglob("*.html")
            if "_static" not in p.parts and p.name not in extras.MADE}


def sections(pages):
    """Return the pages of the chapter's sections, {number: Page}."""
    return {int(p.stem.partition("-")[2]): page for p, page in pages.items()
            if re.fullmatch(r"section-\d+", p.stem)}


def test_every_file_and_every_section_has_its_page(pages):
    names = {p.stem for p in pages}
    assert {"index", "chapter", "1_by_hand", "4_play", "README", "notes", "genindex"} <= names
    numbers = [int(n) for n in re.findall(r"^## (\d+)\. ", TEXT, re.M)]
    assert sorted(sections(pages)) == numbers
    for number, page in sections(pages).items():
        assert f"section-{number}" in page.ids
    folders = {p.parent.name for p in pages}
    assert {"beyond", "launch", "notebooks", "solutions"} <= folders


def test_sections_lead_to_the_scene_that_shows_them(pages):
    for number, page in sections(pages).items():
        scene = build.SCENES.get(number)
        found = [link for link in page.links if link.startswith(build.EXPLORE)]
        assert found == ([f"{build.EXPLORE}#scene={scene}"] if scene else []), number
    index = next(page for p, page in pages.items() if p.name == "index.html")
    assert build.EXPLORE in index.links


def test_a_section_without_a_scene_stays_as_it_is():
    text = "(section-9)=\n# 9. X\n\nwords\n"
    assert build.with_scene(text, "section-9") == build.with_scene(text, "chapter") == text
    made = build.with_scene(text.replace("9", "2"), "section-2")
    assert made.index("# 2. X") < made.index("#scene=1") < made.index("words")


def test_pages_follow_one_another(pages):
    chapter = sections(pages)
    for number in range(2, len(chapter)):
        for word, other in (("next", number + 1), ("prev", number - 1)):
            assert re.search(rf'class="{word}-page" href="section-{other}\.html"',
                             chapter[number].text), (number, word)


def test_a_book_for_students_has_no_answers(tmp_path, monkeypatch):
    groups = {"For teachers": ["instructor/README.md"], "The repository": ["README.md",
              "solutions/notes.md"]}
    monkeypatch.setattr(build, "GROUPS", groups)
    whole, some = tmp_path / "all", tmp_path / "some"
    for folder, students in ((whole, False), (some, True)):
        folder.mkdir()
        build.gather(folder, TOP / "notebooks", students=students)
    assert (whole / "instructor" / "README.md").exists()
    left = {path.relative_to(some).as_posix() for path in some.rglob("*.md")}
    assert "README.md" in left and not [n for n in left if n.startswith(("instructor", "sol"))]


def test_figures_are_numbered_and_have_captions(pages):
    for number, page in sections(pages).items():
        found = re.findall(r'<span class="figure-number">Figure (\d+)\.(\d+)\. </span>', page.text)
        shown = page.text.count('src="_images/')
        assert found == [(str(number), str(i)) for i in range(1, len(found) + 1)]
        assert len(found) == page.text.count("<figcaption") == shown, number
        assert not re.search(r'src="_images/[^"]+\.png', page.text)
    assert sum(page.text.count("<figcaption") for page in sections(pages).values()) >= 12


def test_alternative_texts_keep_their_spaces(pages):
    text = " ".join(TEXT.split())
    for page in sections(pages).values():
        for words in re.findall(r'<img alt="([^"]+)" src="_images', page.text):
            assert f"![{html.unescape(words)}](" in text


def test_formulas_that_stand_alone_have_numbers(pages):
    for number, page in sections(pages).items():
        found = re.findall(r'<span class="number">\((\d+)\.(\d+)\)</span>', page.text)
        assert len(found) == page.text.count('<div class="formula">')
        assert found == [(str(number), str(i)) for i in range(1, len(found) + 1)]


def test_papers_are_links(pages):
    papers = set(parts.ARXIV.findall(TEXT))
    linked = {link.rpartition("/")[2] for page in sections(pages).values() for link in page.links
              if link.startswith("https://arxiv.org/abs/")}
    assert len(papers) > 15 and papers <= linked


def test_code_can_be_copied(pages):
    page = next(page for p, page in pages.items() if p.name == "section-2.html")
    assert any("copybutton" in name for name in page.loaded)


def test_index_leads_to_sections(pages):
    index = next(page for p, page in pages.items() if p.name == "genindex.html")
    for name in ("grpo_loss (function)", "clip_eps (setting)"):
        assert name in index.text
    assert sum("section-" in link for link in index.links) > 20


def test_the_cell_that_finds_the_lab_is_not_shown(pages):
    for path, page in pages.items():
        assert "JPY_SESSION_NAME" not in page.text, f"{path.name} shows how it finds the lab"


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
    text = re.sub(r"^(```(?!math)|~~~).*?^\1|`[^`\n]+`", "", TEXT, flags=re.M | re.S)
    display = re.findall(r"\$\$.+?\$\$", text, re.S)
    inline = re.findall(r"\$[^$]+?\$", re.sub(r"\$\$.+?\$\$", "", text, flags=re.S))
    chapter = [page.text for p, page in pages.items() if re.match("chapter|section-", p.name)]
    assert sum(t.count("<math") for t in chapter) >= len(display) + len(inline) > 0
    for page in chapter:
        body = re.sub(r"<(pre|code|script)\b.*?</\1>", "", page, flags=re.S)
        left = re.findall(r"[^\s<>]*\$[^\s<>]*", html.unescape(re.sub(r"<[^>]+>", " ", body)))
        assert not left, f"not drawn: {left[:5]}"


def test_hints_stay_fold_outs(pages):
    chapter = [page.text for p, page in pages.items() if re.match("chapter|section-", p.name)]
    assert sum(t.count("<details") for t in chapter) == TEXT.count("<details") >= 15
    assert sum(t.count("</details>") for t in chapter) == TEXT.count("<details")


# ---------------------------------------------------------------- in a browser


@pytest.fixture(scope="module")
def tab(pages):
    """Yield a browser's page, and the address of the book on disk."""
    from instructor.tests import browser

    top = next(p for p in pages if p.name == "index.html").parent
    with browser.page() as page:
        yield page, top


@pytest.mark.parametrize("query, wanted", [
    ("clip", "section-5"), ("zero-signal", "section-7"), ("population", "section-3"),
    ("population std", "section-3"), ("grpo_loss", "section-5"), ("unbiased", "section-8"),
])
def test_search_finds_sections_with_an_excerpt(tab, query, wanted):
    page, top = tab
    page.goto((top / "search.html").as_uri() + f"?q={query}")
    page.wait_for_selector("#lab15-found li")
    found = page.eval_on_selector_all("#lab15-found li", """items => items.map(item => ({
        at: item.querySelector("a").getAttribute("href"), text: item.innerText,
        marks: item.querySelectorAll("mark").length}))""")
    assert any(wanted in hit["at"] for hit in found[:6]), [hit["at"] for hit in found]
    assert all(hit["marks"] for hit in found[:6])
    for hit in found:
        name, _, anchor = hit["at"].partition("#")
        assert (top / name).is_file()
        assert not anchor or f'id="{anchor}"' in (top / name).read_text(encoding="utf-8")


def test_search_says_when_it_finds_nothing(tab):
    page, top = tab
    page.goto((top / "search.html").as_uri() + "?q=xyzzyx")
    page.wait_for_function("document.getElementById('lab15-count').innerText.includes('Nothing')")
    assert page.locator("#lab15-found li").count() == 0


@pytest.mark.parametrize("width", [390, 1400])
def test_no_page_is_wider_than_the_window(tab, pages, width):
    page, _ = tab
    page.set_viewport_size({"width": width, "height": 900})
    wide = []
    for path in pages:
        page.goto(path.as_uri())
        if page.evaluate("document.documentElement.scrollWidth") > width:
            wide.append(path.name)
    assert not wide


def test_hints_print_open_and_the_skip_link_does_not_print(tab):
    page, top = tab
    page.goto((top / "section-2.html").as_uri())
    page.evaluate("window.dispatchEvent(new Event('beforeprint'))")
    assert page.locator("details:not([open])").count() == 0
    page.evaluate("window.dispatchEvent(new Event('afterprint'))")
    assert page.locator("details[open]").count() == 0
    page.emulate_media(media="print")
    assert not page.locator(".skip-to-content").is_visible()
    page.emulate_media(media="screen")


def test_pages_load_nothing_and_report_no_error(tab, pages):
    page, _ = tab
    said, asked = [], []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("console", lambda line: line.type == "error" and said.append(line.text))
    page.on("request", lambda request: asked.append(request.url))
    for path in [p for p in pages if p.name in ("index.html", "section-1.html", "search.html")]:
        page.goto(path.as_uri())
    assert not said
    assert asked and all(url.startswith(("file:", "data:")) for url in asked)


# ---------------------------------------------------------------- builds that fail


def test_a_dead_link_fails_the_build_and_leaves_the_old_book(tmp_path, monkeypatch, capfd):
    out = tmp_path / "pages"
    out.mkdir()
    (out / ".buildinfo").write_text("old", encoding="utf-8")
    (tmp_path / "chapter.md").write_text(
        "# X\n\n[a](#section-99) ![b](none.png) $\\nosuch$\n", encoding="utf-8")
    monkeypatch.setattr(build, "TOP", tmp_path)
    monkeypatch.setattr(build, "GROUPS", {})
    assert book.main(["--executed", str(tmp_path), "--out", str(out)]) != 0
    said = capfd.readouterr().err
    assert all(words in said for words in ("section-99", "none.png", "nosuch")), said
    assert (out / ".buildinfo").read_text(encoding="utf-8") == "old"
    assert book.main(["--out", str(tmp_path)]) == 2  # a folder that is no book is not replaced
