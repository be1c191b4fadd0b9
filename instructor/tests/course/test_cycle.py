"""The nbgrader course: real nbgrader commands on a class of 18, half of it damaged or hostile."""

import contextlib
import csv
import getpass
import html.parser
import io
import os
import re
import subprocess
import sys

import nbformat
import pytest

pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")
pytest.importorskip("jupytext", reason="pip install -r instructor/requirements.txt")

from nbgrader.api import Gradebook

from instructor.builders import course as builder
from instructor.course import cycle
from instructor.course.lab15_nbgrader import repair
from instructor.tests.course import course_class as people
from tests.labfile import ROOT, TASKS

NAMES = ["warmup", *(f"task{n}" for n in TASKS), "essay"]


@pytest.fixture(scope="module")
def graded(base):
    """Give (course folder, what the cycle printed) after one cycle over the whole class."""
    course, place = base / "course", base / "handed in"
    place.mkdir()
    builder.build(course, base / "sft.pt")
    assert cycle.nbgrader(course, "generate_assignment", "lab15") == 0
    released = nbformat.read(course / "release/lab15/lab15.ipynb", as_version=4)
    people.hand_in(place, released, course)
    out = io.StringIO()
    with contextlib.redirect_stdout(out):
        assert cycle.run(people.flags(course, place), people.results) == 0
    return course, out.getvalue()


def table(course):
    """Return grades.csv as {student: row}."""
    with open(course / "grades.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def outputs(course, student):
    """Return a student's autograded notebook and the text of all outputs."""
    book = nbformat.read(course / f"autograded/{student}/lab15/lab15.ipynb", as_version=4)
    return book, "\n".join(str(c.get("outputs", "")) for c in book.cells)


WARMUP_LOST = {"bea-unwritten", "gus-no-notebook", "hal-unreadable", "ivy-broken-zip",
               "jon-odd-json", "ned-exits", "oda-kills", "rex-tampers"}
ESSAY_LOST = {"bea-unwritten", "dan-deleted", "gus-no-notebook", "hal-unreadable",
              "ivy-broken-zip", "jon-odd-json"}


def test_everybody_gets_what_is_deserved(graded):
    rows = table(graded[0])
    assert list(rows["ada"])[2:9] == NAMES
    for student, row in rows.items():
        wanted = people.POINTS.get(student, people.FULL)
        assert [float(row[f"task{n}"]) for n in TASKS] == list(wanted.values()), student
        if student != "leo-shadows":  # who may have the warm-up's point: see README.md
            assert float(row["warmup"]) == float(student not in WARMUP_LOST), student
        assert float(row["total"]) == sum(wanted.values()) + float(row["warmup"])
        assert row["max"] == "14" and row["note"] == ""
        without = student in ESSAY_LOST
        assert row["to_grade"] == ("" if without else "essay"), student
    assert len(rows) == 18


def test_damage_is_repaired_and_reported(graded):
    course, printed = graded
    for line in (
        "dan-deleted: setup was missing; warmup was missing; task3 was missing; essay was missing",
        "eve-doubled: a copy of essay does not count; a copy of task5 does not count",
        "gus-no-notebook: the notebook was replaced: there is none",
        "hal-unreadable: the notebook was replaced: it cannot be read (RecursionError)",
        "ivy-broken-zip: 'handed_in.txt' set aside; the notebook was replaced: there is none",
        "jon-odd-json: 1 cells that are none, left out; setup was missing",
        "sue-plants: 'other.ipynb' set aside; 'page.html' set aside",
    ):
        assert f"    {line}" in printed
    assert "ada:" not in printed and "fay-stripped:" not in printed
    for student in ("eve-doubled", "fay-stripped", "hal-unreadable"):
        kept = course / "as_submitted" / student / "lab15.ipynb"
        now = course / "submitted" / student / "lab15" / "lab15.ipynb"
        assert kept.is_file() and kept.read_bytes() != now.read_bytes()
    assert (course / "set_aside/sue-plants/page.html").is_file()
    assert repair.repair_all(course) == {}


def test_student_cells_see_nothing_and_write_nothing(graded):
    course = graded[0]
    _, text = outputs(course, "kim-snoops")
    assert "SNOOPING" in text and "no: unable to open database file" in text
    assert "Read-only file system" in text and "GOT" not in text
    _, text = outputs(course, "oda-kills")
    assert "Operation not permitted" in text or "No such process" in text
    _, text = outputs(course, "max-prints")
    assert "the notebook's output is too long" in text and len(text) < 50_000
    _, text = outputs(course, "ned-exits")
    assert "NotRun: the notebook was stopped before this cell ended" in text
    _, text = outputs(course, "sue-plants")  # the given files stand in for hers
    # As a number of its own: a process's number or a size may have a 99 in it.
    assert "'text/plain': '0.0'" in text and not re.search(r"\b99\b", text)
    assert not list(course.rglob("planted"))


class Active(html.parser.HTMLParser):
    """Collects what a browser would run."""

    def __init__(self):
        super().__init__()
        self.found, self.script = [], False

    def handle_starttag(self, tag, attrs):
        """Look at a tag."""
        self.script = tag == "script"
        bad = [(k, v) for k, v in attrs if k.startswith("on") or "javascript:" in (v or "")]
        self.found += bad if "owned" in str(bad) else []

    def handle_data(self, data):
        """Look at what stands in a script."""
        self.found += [data] if self.script and "owned" in data else []
        self.script = False


def test_the_teachers_browser_runs_nothing(graded):
    course = graded[0]
    book, text = outputs(course, "pam-browser")
    kinds = {k for c in book.cells for o in c.get("outputs", []) for k in o.get("data", {})}
    assert kinds <= {"text/plain", "image/png", "image/jpeg"}
    reader = Active()
    reader.feed((course / "feedback/pam-browser/lab15/lab15.html").read_text(encoding="utf-8"))
    assert reader.found == []


def test_feedback_shows_the_verdict_and_gives_nothing_away(graded):
    course = graded[0]
    for student in table(course):
        folder = course / "feedback" / student / "lab15"
        assert [p.name for p in folder.rglob("*")] == ["lab15.html"], student
    page = (course / "feedback/cyd-partly/lab15/lab15.html").read_text(encoding="utf-8")
    for text in ("the verdict on task 4 &lt;b&gt;&amp;", "0.25", "0.9"):
        assert text in page
    for text in ("HIDDEN TESTS", "BEGIN SOLUTION", "the verdict on task 4 <b>"):
        assert text not in page


def test_nothing_is_released_that_gives_the_answer(graded):
    course = graded[0]
    solution = (ROOT / "solutions/lab15_grpo.py").read_text(encoding="utf-8").splitlines()
    lines = {s.strip() for s in solution if s.strip() not in people.STUB and len(s.strip()) > 25}
    assert len(lines) > 10
    for folder in (course / "source", course / "release", course / "exchange"):
        paths = [p for p in folder.rglob("*") if p.suffix in (".py", ".ipynb", ".txt", ".toml")]
        assert len(paths) > 20
        for path in paths:
            text = path.read_text(encoding="utf-8")
            assert not [line for line in lines if line in text], path
            assert "instructor" not in path.relative_to(course).parts
    released = (course / "release/lab15/lab15.ipynb").read_text(encoding="utf-8")
    assert "SOLUTION" not in released and "range(0, len(rewards), G)" not in released
    assert (course / "release/lab15/lab15_grpo.py").read_text(encoding="utf-8") == people.STUB


def test_again_gives_the_same_grades_and_keeps_manual_points(graded, base):
    course = graded[0]
    first = (course / "grades.csv").read_bytes()
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "lab15") as gradebook:
        grade = gradebook.find_grade("essay", "lab15", "lab15", "ada")
        grade.manual_score, grade.needs_manual_grade = 2.5, False
        gradebook.db.commit()
    with contextlib.redirect_stdout(io.StringIO()):
        assert cycle.run(people.flags(course, base / "handed in"), people.results) == 0
    rows = table(course)
    assert (rows["ada"]["essay"], rows["ada"]["total"]) == ("2.5", "13.5")
    again = (course / "grades.csv").read_bytes()
    assert again == first.replace(b"2,0,11,14,0,essay,", b"2,2.5,13.5,14,0,essay,", 1)


def test_fetch_submit_and_collect(graded, base):
    course, student = graded[0], base / "a student"
    student.mkdir()
    root = f"--Exchange.root={course / 'exchange'}"
    cache = f"--Exchange.cache={student / 'cache'}"
    for command in ("fetch_assignment", "submit"):
        code = cycle.nbgrader(student, command, "lab15", "--course", "lab15", root, cache)
        assert code == 0, (student / "log" / f"{command}.txt").read_text(encoding="utf-8")
        assert (student / "lab15" / "tests" / "notebook.py").is_file()
    cycle.from_exchange(course)
    collected = course / "submitted" / getpass.getuser() / "lab15"
    assert {p.name for p in collected.iterdir()} >= {"lab15.ipynb", "lab15_grpo.py"}


def test_one_command_from_an_empty_folder(base):
    place = base / "two"
    for name, source in (("ada", "solutions/lab15_grpo.py"), ("ben", "lab15_grpo.py")):
        (place / name).mkdir(parents=True)
        (place / name / "lab15_grpo.py").write_bytes((ROOT / source).read_bytes())
    command = [sys.executable, "-m", "instructor.course.cycle", str(base / "new course")]
    command += ["--submissions", str(place), "--checkpoint", str(base / "sft.pt")]
    command += ["--as-root"] if os.geteuid() == 0 else []
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0, done.stdout + done.stderr
    rows = table(base / "new course")
    assert [row["total"] for row in rows.values()] == ["10", "0"]
    assert rows["ada"]["note"] == "" and len(rows) == 2
