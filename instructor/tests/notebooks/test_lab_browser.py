"""JupyterLab as a student and an instructor see it, in a real browser. Slow: LAB15_SLOW=1 runs it.

The commands are those of the two READMEs; the lab is a copy in a folder with an awkward name.
"""

import json
import os
import re
import shutil
import sys
import time
from pathlib import Path

import pytest

from instructor.builders import bundle
from instructor.tests import browser
from notebooks import execute

pytestmark = [
    pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it"),
    pytest.mark.skipif(browser.missing() is not None, reason=str(browser.missing())),
]

TOP = Path(__file__).resolve().parents[3]
COURSE_WORDS = re.compile(r"nbgrader|formgrader|assignment|course|validate", re.I)
LINK = re.compile(r"(!?)\[[^\]]*\]\(([^)\s]+)\)")


def command(readme, pattern):
    """Return a command of a README as a list that starts with this Python."""
    words = re.search(pattern, (TOP / readme).read_text(encoding="utf-8"))[1].split()
    starts = {"python": [sys.executable], "jupyter": [sys.executable, "-m", "jupyter"]}
    # The flag lets a test ask JupyterLab for its commands; a student sees nothing of it.
    return [*starts[words[0]], *words[1:], "--LabApp.expose_app_in_browser=True"]


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    """Return a copy of the lab in a folder whose name has blanks, brackets and an umlaut."""
    top = tmp_path_factory.mktemp("home") / "\u00dcbung, lab [2]"
    for name in bundle.listed():
        if bundle.belongs(name, graded=False):
            (top / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(TOP / name, top / name)
    return top


@pytest.fixture(scope="module")
def served(lab, tmp_path_factory):
    """Run the README's command in the lab's folder; yield what the server says of itself."""
    home = tmp_path_factory.mktemp("user")
    student = command("README.md", r"In JupyterLab \(`([^`]+)`\)")
    with browser.jupyter(student, lab, home, PYTHONDONTWRITEBYTECODE="1") as server:
        yield server


@pytest.fixture
def page():
    """Return a page that collects in `page.refused` what the server did not have."""
    with browser.page() as opened:
        opened.refused = []
        opened.on("response", lambda r: opened.refused.append(f"{r.status} {r.url}")
                  if r.status >= 400 and ("/files/" in r.url or "/api/contents" in r.url) else None)
        yield opened


def open_at(page, server, place=""):
    """Open an address of the server, and wait for JupyterLab.

    A named place opens alone: what was open there before is closed.
    """
    reset = "&reset" if place else ""
    page.goto(f"{server['url']}{place}?token={server['token']}{reset}")
    page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-MarkdownCell h1").first.wait_for()
    page.locator(".jp-NotebookPanel-toolbar").first.wait_for()


def current(page, name):
    """Wait until the tab of this name is the one that is looked at; return its content."""
    label = ".lm-TabBar-tab.jp-mod-current .lm-TabBar-tabLabel"
    page.locator(label, has_text=name).wait_for()
    return page.locator(".lm-DockPanel-widget:visible")


def links(name):
    """Return the targets of a notebook's links, in the order in which they stand."""
    book = json.loads((TOP / "notebooks" / f"{name}.ipynb").read_text(encoding="utf-8"))
    text = "\n".join("".join(cell["source"]) for cell in book["cells"]
                     if cell["cell_type"] == "markdown")
    return [target for picture, target in LINK.findall(text) if not picture]


def title(path):
    """Return words that stand at the top of a file: of a notebook, a text, or code."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".ipynb":
        text = "".join(json.loads(text)["cells"][0]["source"])
    return re.sub(r"^[#\"]+ *|`", "", text.strip().splitlines()[0])


def heading(path, anchor):
    """Return the words of the heading behind an anchor of a text."""
    text = path.read_text(encoding="utf-8")
    return re.search(rf'<a id="{anchor}"></a>\n## (.+)', text)[1].replace("`", "")


# ---------------------------------------------------------------- the student


def test_the_command_opens_the_notebook_with_the_lab_file_beside_it(lab, served, page):
    assert Path(served["root_dir"]).samefile(lab)
    open_at(page, served)
    page.locator(".jp-FileEditor .cm-content", has_text="Lab 15").wait_for()
    tabs = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tabLabel:visible")
    assert {"1_by_hand.ipynb", "lab15_grpo.py"} <= set(tabs.all_inner_texts())
    left = page.locator(".jp-NotebookPanel:visible").bounding_box()
    editor = page.locator(".jp-FileEditor:visible")
    assert left["x"] + left["width"] <= editor.bounding_box()["x"]

    settled(page)
    words, wanted = "# written in the browser", (TOP / "lab15_grpo.py").read_text(encoding="utf-8")
    content = editor.locator(".cm-content")
    content.press("Control+End")
    content.press_sequentially(words)
    content.press("Control+s")
    end = time.monotonic() + browser.PATIENCE
    while (lab / "lab15_grpo.py").read_text(encoding="utf-8") == wanted and time.monotonic() < end:
        page.wait_for_timeout(200)
    assert (lab / "lab15_grpo.py").read_text(encoding="utf-8") == wanted + words


def settled(page):
    """Wait for the kernel: until it is there, JupyterLab moves the focus and redraws."""
    page.locator("#jp-main-statusbar", has_text="Idle").wait_for()


def run_first_cell(page):
    """Run the first code cell of the notebook; return what it printed."""
    settled(page)
    cell = page.locator(".jp-NotebookPanel:visible .jp-CodeCell").first
    cell.locator(".cm-content").first.click()
    page.keyboard.press("Shift+Enter")
    output = cell.locator(".jp-OutputArea-output").first
    output.wait_for()
    cell.locator(".jp-InputPrompt", has_text="[1]").wait_for()
    return output.inner_text()


def test_the_first_cell_is_ready_and_has_nothing_to_say_of_links(served, page):
    open_at(page, served)
    said = run_first_cell(page)
    assert said.startswith("Lab file: lab15_grpo.py. torch") and "Ready." in said
    assert "started in" not in said and "Warning" not in said


@pytest.mark.parametrize("name", execute.NAMES)
def test_every_link_opens(name, served, page):
    targets = links(name)
    place = f"lab/workspaces/{name}/tree/notebooks/{name}.ipynb"
    open_at(page, served, place)
    shown = page.locator(".jp-RenderedMarkdown a[target=_blank]")
    if targets:  # cells out of sight are drawn later
        shown.nth(len(targets) - 1).wait_for(state="attached")
    assert shown.count() == len(targets), "a link that is not drawn as one"
    for picture in page.locator(".jp-RenderedMarkdown img").all():
        assert picture.evaluate("img => img.complete && img.naturalWidth > 0")
    for number, target in enumerate(targets):
        open_at(page, served, place)
        settled(page)
        shown.nth(number).click()
        words, _, anchor = target.partition("#")
        path = (TOP / "notebooks" / words).resolve()
        content = current(page, path.name)
        content.get_by_text(title(path)).locator("visible=true").first.wait_for()
        if anchor:
            page.wait_for_function(
                """words => {
                    const heads = [...document.querySelectorAll(".jp-MarkdownViewer h2")];
                    const top = heads.find(h => h.textContent.startsWith(words))
                        ?.getBoundingClientRect().top;
                    return top > -5 && top < window.innerHeight / 2;
                }""", arg=heading(path, anchor))
        assert page.locator(".jp-Dialog").count() == 0
        assert page.refused == [], f"{name}: {target}"


def words_of_jupyterlab(page, server):
    """Return what JupyterLab itself offers: menus, side bars, tool bars, commands, launcher."""
    settled(page)
    said = page.locator(".lm-MenuBar, .jp-Toolbar").all_inner_texts()
    for tab in page.locator(".jp-SideBar .lm-TabBar-tab").all():
        said += [tab.get_attribute("title") or "", tab.inner_text()]
    said += page.evaluate("""async () => {
        await window.jupyterapp.restored;
        return window.jupyterapp.commands.listCommands();
    }""")
    # A workspace in which nothing is open shows the launcher.
    page.goto(f"{server['url']}lab/workspaces/empty?token={server['token']}&reset")
    page.locator(".jp-LauncherCard:visible").first.wait_for()
    said += page.locator(".jp-LauncherCard").all_inner_texts()
    return " | ".join(said)


def test_a_student_sees_nothing_of_courses(served, page):
    open_at(page, served, "lab/workspaces/words/tree/notebooks/1_by_hand.ipynb")
    said = words_of_jupyterlab(page, served)
    assert "File" in said and "Notebook" in said and "notebook:run-all-cells" in said
    assert not COURSE_WORDS.findall(said)
    for place in ("formgrader", "assignments", "courses"):
        answer = page.request.get(f"{served['url']}{place}?token={served['token']}")
        assert answer.status == 404, place


def test_nothing_of_the_users_settings_is_changed(lab, served):
    home = served["log"].parent
    settings = [p for p in (home / ".jupyter").rglob("*") if p.suffix in (".json", ".py")]
    assert settings == []
    assert list((lab / ".jupyter").glob("lab15*.jupyterlab-workspace"))


# ---------------------------------------------------------------- other ways to start it


def test_jupyter_lab_in_the_notebooks_folder_says_what_is_better(lab, tmp_path, page):
    start = [sys.executable, "-m", "jupyter", "lab"]
    with browser.jupyter(start, lab / "notebooks", tmp_path) as server:
        open_at(page, server, "lab/tree/4_play.ipynb")
        said = run_first_cell(page)
    assert "started in notebooks/" in said and "run: python -m notebooks.lab" in said


def test_the_instructors_command_shows_the_menus(tmp_path, page):
    course, home = tmp_path / "course", tmp_path / "home"
    course.mkdir()
    home.mkdir()
    shutil.copyfile(TOP / "notebooks" / "4_play.ipynb", course / "x.ipynb")
    (course / "nbgrader_config.py").write_text(
        f"c = get_config()\nc.CourseDirectory.root = {str(course)!r}\n", encoding="utf-8")
    instructor = command("instructor/README.md", r"cd ~/lab15-course && (jupyter lab) ")
    with browser.jupyter(instructor, course, home) as server:
        open_at(page, server, "lab/tree/x.ipynb")
        said = words_of_jupyterlab(page, server)
    assert "Nbgrader" in said and "nbgrader:open-formgrader" in said and "Create Assignment" in said
