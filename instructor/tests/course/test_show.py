"""What formgrader shows of a student's notebook: text, formulas, pixels, and nothing active."""

import builtins
import html.parser
import re

import pytest

pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")

from jinja2 import Environment
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from instructor.course.lab15_nbgrader import collect, formulas, show
from instructor.tests.course import hostile


class Seen(html.parser.HTMLParser):
    """Collects the elements of a page, and the text of its links."""

    def __init__(self, page):
        super().__init__()
        self.elements, self.links, self.text, self.open = [], [], "", None
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):  # noqa: D102
        self.elements.append((tag, dict(attrs)))
        if tag == "a":
            self.open = [dict(attrs), ""]
            self.links.append(self.open)

    def handle_endtag(self, tag):  # noqa: D102
        self.open = None if tag == "a" else self.open

    def handle_data(self, data):  # noqa: D102
        self.text += data
        if self.open:
            self.open[1] += data


def check(page):
    """Fail if anything in a page is active, is loaded, or hides where it leads."""
    head, tail = show.BOX.split("{}")
    assert page.startswith(head) and page.endswith(tail)
    inner = page[len(head) : -len(tail)]
    seen = Seen(inner)
    for tag, attrs in seen.elements:
        assert tag in show.TEXT | show.MATH | {"em"}, tag
        for name, value in attrs.items():
            assert name in {"href", "target", "rel", "src", "alt", "start", "style"} | (
                show.MATH_ATTRIBUTES), (tag, name)
            if name == "src":
                assert tag == "img"
                assert re.fullmatch(r"data:image/(png|jpeg);base64,[\w+/=]*", value)
            if name == "style":
                assert not re.search(r"url|[(\\@]|position|expression", value or "")
    for attrs, text in seen.links:
        if "href" not in attrs:
            continue
        assert re.match(r"(https?://|mailto:.)", attrs["href"], re.I)
        assert attrs["target"] == "_blank"
        assert set(attrs["rel"].split()) >= {"noopener", "noreferrer"}
        assert text == attrs["href"]
    return seen


@pytest.fixture(autouse=True)
def nh3():
    """Skip the tests of this file where nh3 is missing."""
    return pytest.importorskip("nh3", reason="pip install -r instructor/requirements.txt")


@pytest.mark.parametrize("text", [*hostile.texts(), *hostile.URLS, *hostile.HTML, *hostile.TEX])
def test_hostile_markdown_becomes_text(text, nh3):
    page = show.rendered(text, hostile.ATTACHMENTS)
    check(page)
    text = text[: show.LONGEST // 10]
    check(show.rendered("\n\n".join([
        f"[x]({text})", f"[x](<{text}>)", f"![x]({text})", f"<{text}>", f"${text}$", f"`{text}`",
        f"[r]\n\n[r]: {text}", f"- {text}", f"```{text}\nx\n```",
    ])))


def test_what_is_shown_is_what_nh3_would_show_again():
    for text in (*hostile.texts(), hostile.HONEST):
        made = show._draw(show.visible(text)[: show.LONGEST], hostile.ATTACHMENTS)
        once = show.harmless(made)
        assert show.harmless(once) == once


def test_any_mix_of_pieces_is_harmless():
    hypothesis = pytest.importorskip("hypothesis",
                                     reason="pip install -r instructor/requirements.txt")
    from hypothesis import strategies

    marks = [*"[)<>`$\n|!\"'&\\*#:", "](", "$$", "\n\n", "    ", "javascript:", "data:text/html,",
             "https://a.org", "http:", "mailto:"]
    pieces = strategies.sampled_from([*hostile.HTML, *hostile.URLS, *hostile.TEX[:11], *marks])
    text = strategies.lists(pieces | strategies.text(max_size=5), max_size=12).map("".join)

    @hypothesis.settings(max_examples=150, deadline=None, derandomize=True, database=None)
    @hypothesis.given(text)
    def run(source):
        # Formulas take a process each time; the browser's test and the one above have them.
        page = show.rendered(source.replace("$", "") if source.count("$") > 1 else source)
        check(page)

    run()


def test_an_honest_essay_is_drawn(nh3):
    pytest.importorskip("math_core", reason="pip install -r instructor/requirements.txt")
    page = show.rendered(hostile.HONEST + "![c](attachment:curves.png)", hostile.ATTACHMENTS)
    seen = check(page)
    tags = [tag for tag, _ in seen.elements]
    assert tags.count("math") == 2 and "mfrac" in tags and "table" in tags and "strong" in tags
    assert "img" in tags and "code" in tags and "$" not in seen.text
    assert [text for _, text in seen.links] == ["https://example.org/grpo", "https://a.org"]
    assert "the paper (https://example.org/grpo)" in seen.text


@pytest.mark.parametrize("text, shown", [
    ("[curves](javascript:x)", "curves (javascript:x)"),
    ("![c](attachment:none.png)", "[the picture is missing: c none.png]"),
    ("![c](http://a.org/b.png)", "[a picture from elsewhere is not loaded: c http://a.org/b.png]"),
    ("![c](runs/curves.png)", "[a picture from elsewhere is not loaded: c runs/curves.png]"),
    ("a <b>c</b>", "a <b>c</b>"),
    ("- [x] done", "[x] done"),
    (r"$\href{javascript:x}{y}$", r"$\href{javascript:x}{y}$"),
    ("abc\u202edef\x00", "abc\N{REPLACEMENT CHARACTER}def\N{REPLACEMENT CHARACTER}"),
])
def test_what_cannot_be_shown_is_named(text, shown):
    assert check(show.rendered(text, {})).text.strip() == shown


def test_formulas_that_never_end_or_crash_are_shown_as_typed(monkeypatch):
    pytest.importorskip("math_core", reason="pip install -r instructor/requirements.txt")
    monkeypatch.setattr(formulas, "SECONDS", 1.5)
    asked = (("a^2", False), (r"\left(" * 160, True), (r"\middle|[" * 55, True), ("b", True))
    found = formulas.convert.__wrapped__(asked)
    assert len(found) == 4 and found[0].startswith("<math>") and found[2] == ""


@pytest.mark.parametrize("text", [
    "> " * 3000, "[" * 9000, "*a " * 3000, "\\\\(" * 3000, "- " * 4000, "`" * 9999, "$" * 9999,
    "[a](" * 2000, "x" * (show.LONGEST + 1), "<" * 9999, "| a " * 2000, "\ud800",
])
def test_odd_text_is_drawn_or_shown_as_it_is(text):
    check(show.rendered(text))


@pytest.mark.parametrize("attachments", [
    None, [], {}, [1], {3: {"x": "y"}}, {"c": None}, {"c": []}, {"c": {}}, {"c": {"image/png": 3}},
    {"c": {"image/png": '"'}},
])
def test_odd_attachments_are_missing_pictures(attachments):
    """The text goes through the filter, as in a template."""
    environment = Environment()
    environment.filters["draw"] = show.markdown2html
    page = environment.from_string("{{ text | draw }}").render(
        text="before ![x](attachment:c) after", cell={"attachments": attachments})
    text = check(page).text
    assert all(word in text for word in ("before", "is missing", "c", "after"))


def test_without_nh3_nothing_but_letters_is_shown(monkeypatch):
    real = builtins.__import__

    def without(name, *args, **kwargs):
        if name == "nh3":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    page = show.rendered("[a](https://b.org) <b>x</b> ![c](attachment:c)", {})
    assert check(page).text.startswith("The package nh3 is missing (pip install -r")
    assert {tag for tag, _ in Seen(page).elements} == {"div", "p", "em", "pre"}


def test_a_notebook_keeps_what_the_pages_need_and_no_more():
    bad = hostile.HTML[2]
    outputs = [new_output("display_data", data={"text/html": bad, "image/svg+xml": bad,
                                                "application/javascript": bad},
                          metadata={"image/png": {"width": bad}}),
               new_output("stream", name="stderr", text=bad)]
    marks = {"grade_id": "essay", "grade": True, "solution": True, "points": 3}
    cells = [new_code_cell("1", outputs=outputs, metadata={"tags": ["<b>"], "name": bad}),
             new_markdown_cell("x", metadata={"nbgrader": marks, "x": bad}),
             new_markdown_cell("y", metadata={"nbgrader": {**marks, "grade_id": bad}})]
    cells[0]["id"] = "a"
    metadata = {"widgets": {"x": bad}, "language_info": {"name": bad}}
    book = new_notebook(cells=cells, metadata=metadata)
    book, _ = show.Harmless().preprocess(book, {})
    assert book.metadata == {} and book.cells[0].metadata == {} and book.cells[2].metadata == {}
    assert book.cells[1].metadata == {"nbgrader": marks}
    assert [o.output_type for o in book.cells[0].outputs] == ["stream"]


def test_names_of_folders_carry_no_html(tmp_path):
    for name in ("<img src=x onerror=alert(1)>", "O'Neil, Ada", 'a"b', "J\u00fcrgen"):
        (tmp_path / "in" / name).mkdir(parents=True)
        (tmp_path / "in" / name / "lab15_grpo.py").touch()
    notes = collect.from_folder(tmp_path / "in", tmp_path / "out")
    found = sorted(p.name for p in (tmp_path / "out").iterdir())
    assert len(found) == 4 and {"O'Neil, Ada", "J\u00fcrgen"} < set(found)
    assert not [c for name in found for c in name if c in '<>"&'] and len(notes) == 2
