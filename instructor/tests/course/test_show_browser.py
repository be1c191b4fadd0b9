"""Formgrader's own page of a hostile notebook, in a real browser: LAB15_SLOW=1 runs it.

Everything that can be clicked is clicked. No request may leave for another server, and no file
may appear: what runs in that page has the instructor's login.
"""

import os
import sys

import nbformat
import pytest

if "LAB15_SLOW" not in os.environ:
    pytest.skip("slow: runs with LAB15_SLOW=1", allow_module_level=True)
pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")
pytest.importorskip("jupytext", reason="pip install -r instructor/requirements.txt")
pytest.importorskip("nh3", reason="pip install -r instructor/requirements.txt")

from instructor.builders import course as builder
from instructor.course import cycle
from instructor.tests import browser
from instructor.tests.course import course_class as people
from instructor.tests.course import hostile

# Every element of a student's; the rest of the page is nbgrader's own.
CLICKABLE = ".text_cell_render *, .output *, .input_area *, .rendered_html *"
CLICK_ALL = """selector => {
    const found = [...document.querySelectorAll(selector)];
    for (const e of found)
        for (const type of ["mouseover", "mousedown", "focus", "mouseup", "click", "dblclick"])
            e.dispatchEvent(new MouseEvent(type, {bubbles: true, cancelable: true, view: window}));
    return found.length;
}"""


@pytest.fixture(scope="module")
def course(base):
    """Give a course with one honest and one hostile student, after a whole cycle."""
    if lacking := browser.missing():
        pytest.skip(lacking)
    folder, place = base / "course", base / "handed in"
    builder.build(folder, base / "sft.pt")
    assert cycle.nbgrader(folder, "generate_assignment", "lab15") == 0
    released = nbformat.read(folder / "release/lab15/lab15.ipynb", as_version=4)
    for student, book in {
        "ada": people.book(released, essay=hostile.HONEST),
        "mal": hostile.book(released),
        "<img src=x onerror=alert(1)>": people.book(released),
    }.items():
        (place / student).mkdir(parents=True)
        nbformat.write(book, place / student / "lab15.ipynb")
        (place / student / "lab15_grpo.py").write_text(people.STUB, encoding="utf-8")
    assert cycle.run(people.flags(folder, place), people.results) == 0
    return folder


@pytest.fixture(scope="module")
def server(course, tmp_path_factory):
    """Give the running Jupyter server of the course."""
    home = tmp_path_factory.mktemp("home")
    command = [sys.executable, "-m", "jupyterlab"]
    with browser.jupyter(command, course, home, PATH=os.environ["PATH"]) as about:
        yield about


@pytest.fixture
def visit(server):
    """Return a function: opens a page of formgrader; gives (page, requests to other servers)."""
    with browser.page() as page:
        asked, origin = [], server["url"].rstrip("/")
        page.context.on("request", lambda r: asked.append(r.url))
        page.context.route("**/*", lambda route: route.continue_()
                           if route.request.url.startswith((origin, "data:")) else route.abort())
        page.on("dialog", lambda dialog: (asked.append("a dialog"), dialog.dismiss()))
        page.goto(f"{origin}/lab?token={server['token']}", wait_until="domcontentloaded")

        def go(path):
            asked.clear()
            page.goto(f"{origin}/{path}", wait_until="networkidle")
            return page, lambda: [u for u in asked if not u.startswith((origin, "data:"))]

        yield go


def submission(course, student):
    """Return the address of a student's page."""
    from nbgrader.api import Gradebook

    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "lab15") as gradebook:
        found = gradebook.find_submission_notebook("lab15", "lab15", student)
        return f"formgrader/submissions/{found.id}/"


def files(course):
    """Return the files of the course's folder without the server's own notes."""
    return {p.relative_to(course).as_posix() for p in course.rglob("*")
            if ".ipynb_checkpoints" not in p.parts and ".db" not in p.name}


def test_feedback_is_harmless_too(course):
    with browser.page() as page:
        asked = []
        page.on("request", lambda r: asked.append(r.url))
        page.goto((course / "feedback/mal/lab15/lab15.html").as_uri())
        assert page.evaluate(CLICK_ALL, CLICKABLE) > 100
        page.wait_for_timeout(500)
        links = ("https://example.org/grpo", "https://a.org", "mailto:", hostile.OUTSIDE)
        assert [u for u in asked if not u.startswith(("file:", "data:", *links))] == []


def test_a_hostile_notebook_does_nothing(course, visit):
    before = files(course)
    page, outside = visit(submission(course, "mal"))
    assert outside() == []
    assert page.locator(".text_cell_render").count() > 20
    assert page.evaluate(CLICK_ALL, CLICKABLE) > 100
    opened = page.context.pages[1:]
    page.wait_for_timeout(1500)
    # Links that a student may set do open, in a page of their own without a way back.
    allowed = ("https://example.org/grpo", "https://a.org", "mailto:")
    assert [u for u in outside() if not u.startswith((*allowed, hostile.OUTSIDE))] == []
    assert not [u for u in outside() if "owned" in u]
    assert all(p.evaluate("window.opener") is None for p in opened)
    assert page.url.endswith(submission(course, "mal"))
    assert files(course) - before == set() and not list(course.rglob(hostile.OWNED))


def test_it_holds_no_frame_no_form_and_no_script_of_a_student(course, visit):
    page, _ = visit(submission(course, "mal"))
    tags = "iframe form object embed input button video audio svg style script [onclick]".split()
    selector = ", ".join(f".text_cell_render {tag}" for tag in tags)
    assert page.locator(selector).count() == 0
    assert page.evaluate("frames.length") == 0
    sources = page.evaluate("[...document.images].map(i => i.src)")
    assert sources and all(s.startswith("data:image/png;base64,") for s in sources)
    for link in page.locator(".text_cell_render a").all():
        address = link.get_attribute("href")
        assert link.inner_text() == address and link.get_attribute("target") == "_blank"
        assert {"noopener", "noreferrer"} <= set(link.get_attribute("rel").split())


def test_mathjax_in_the_page_would_find_nothing(course, visit):
    """A page without our template loads it: then formulas must be no formulas for it."""
    page, _ = visit(submission(course, "mal"))
    selector = ".text_cell_render > :not(.tex2jax_ignore)"
    assert page.locator(selector).count() == 0
    assert page.evaluate("typeof MathJax") == "undefined"


@pytest.mark.parametrize("width", [390, 1280])
def test_an_honest_essay_is_drawn_and_fits(course, visit, width):
    page, outside = visit(submission(course, "ada"))
    page.set_viewport_size({"width": width, "height": 900})
    assert outside() == []
    essay = page.locator(".text_cell_render", has_text="All advantages are 0")
    assert essay.locator("math").count() == 2 and essay.locator("table").count() == 1
    assert essay.locator("math").first.bounding_box()["width"] > 5
    box = essay.bounding_box()
    assert box["width"] <= width and box["height"] > 100
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    if folder := os.environ.get("LAB15_SCREENSHOTS"):
        page.screenshot(path=f"{folder}/formgrader-{width}.png", full_page=True)


def test_points_can_still_be_given(course, visit):
    page, _ = visit(submission(course, "ada"))
    page.locator("input.score#essay").fill("2.5")
    page.locator("input.score#essay").press("Tab")
    page.wait_for_timeout(1500)
    page.reload(wait_until="networkidle")
    page.wait_for_timeout(1000)
    assert page.locator("input.score#essay").input_value() == "2.5"


@pytest.mark.parametrize("path", [
    "formgrader/manage_assignments", "formgrader/manage_submissions/lab15",
    "formgrader/gradebook/lab15/lab15", "formgrader/manage_students",
])
def test_names_and_lists_run_nothing(course, visit, path):
    page, outside = visit(path)
    page.wait_for_timeout(1000)
    assert "a dialog" not in outside()
