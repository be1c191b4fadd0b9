"""A class for the tests of the nbgrader course: sound, damaged and hostile submissions."""

import argparse
import copy
import json
import os
import zipfile
from pathlib import Path

import nbformat
from nbformat.v4 import new_code_cell, new_markdown_cell, new_raw_cell

from tests.labfile import ROOT, TASKS

STUB = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
FULL = {n: float(t.points) for n, t in TASKS.items()}
NOTHING = dict.fromkeys(TASKS, 0.0)
PARTLY = {1: 2.0, 2: 0.25, 3: 1.0, 4: 0.9, 5: 0.0}
WARMUP = "def group_means(r, G):\n    return [sum(r[i:i + G]) / G for i in range(0, len(r), G)]\n"
ESSAY = "All advantages are 0 when $r < 1$ for all; see `a < b`."
# What a cell may find or do is printed as GOT; nothing of it may appear.
SNOOP = """
import glob, os, pathlib, socket, sqlite3, sys
print("SNOOPING", sorted(os.listdir(".")))
course = {course!r}
places = [course, course + "/gradebook.db", course + "/results", course + "/submitted"]
places += [{repository!r} + "/solutions/lab15_grpo.py", "/lab/../gradebook.db", "/etc/passwd"]
print(["GOT " + p for p in places if os.path.exists(p)])
for db in (course + "/gradebook.db", "gradebook.db", "../../../gradebook.db"):
    try:
        rows = sqlite3.connect(f"file:{{db}}?mode=rw", uri=True).execute("select * from grade")
        print("GOT", len(list(rows)), "grades")
    except sqlite3.Error as error:
        print("no:", error)
for path in ("/lab/planted", "/planted", course + "/planted", "/usr/planted", "/ipc/../planted"):
    try:
        pathlib.Path(path).write_text("x")
        print("GOT", path)
    except OSError as error:
        print("no:", error)
for address in (("127.0.0.1", 22), ("10.0.0.1", 80)):
    try:
        socket.create_connection(address, 1)
        print("GOT", address)
    except OSError as error:
        print("no:", error)
others = [p for p in glob.glob("/proc/[0-9]*/cmdline") if b"nbgrader" in open(p, "rb").read()]
print("GOT" if others else "no", others)
print([f"GOT {{k}}" for k in os.environ if "TOKEN" in k or "LAB15" in k])
"""
SHADOW = """
class Most(float):
    __eq__ = lambda self, other: True
    __repr__ = lambda self: "99"
import builtins, os, sys, types
check = task_points = lambda *_: Most(99)
builtins.float = Most
sys.modules["nbcheck"] = types.SimpleNamespace(check=check)
os.environ["NBGRADER_EXECUTION"] = "validate"
get_ipython().display_formatter.formatters["text/plain"].for_type(float, lambda *a: a[1].text("2"))
def great(*_):
    print("great")
    return "great"
get_ipython().events.register("pre_run_cell", lambda info: setattr(info, "raw_cell", "2.0"))
get_ipython().input_transformers_cleanup.append(lambda lines: ["99.0\\n"])
"""
KILLS = """
import os, signal
for pid in (os.getppid(), 1, -1):
    try:
        os.kill(pid, signal.SIGKILL)
    except OSError as error:
        print(error)
"""
BROWSER = """
from IPython.display import HTML, SVG, Javascript, Markdown, display
display(HTML("<script>owned()</script>"), Javascript("owned()"))
display(SVG("<svg xmlns='http://www.w3.org/2000/svg' onload='owned()'><circle r='1'/></svg>"))
display(Markdown("<img src=x onerror='owned()'>"))
raise type("<script>owned()</script>", (Exception,), {})("<script>owned()</script>")
"""
SCRIPT = "<script>owned()</script><img src=x onerror='owned()'>[x](javascript:owned())"


def book(released, answer=WARMUP, essay=ESSAY, extra=(), where=0):
    """Return a student's notebook: the released one, filled in; extra cells at an index.

    Args:
        released: the notebook that students get.
        answer: of the warm-up.
        essay: its text.
        extra: more cells, or their code.
        where: index of the first of them.
    """
    made = copy.deepcopy(released)
    for cell in made.cells:
        if cell["id"] == "warmup-answer" and answer:
            cell.source = answer
        if cell["id"] == "essay" and essay:
            cell.source = essay
    made.cells[where:where] = [new_code_cell(c) if isinstance(c, str) else c for c in extra]
    return made


def without(made, *names):
    """Remove cells."""
    made.cells = [c for c in made.cells if c["id"] not in names]
    return made


def doubled(made):
    """Repeat each graded cell, the first copy with another text."""
    cells = []
    for cell in made.cells:
        if "nbgrader" in cell.metadata:
            first = copy.deepcopy(cell)
            first["id"] += "-copy"
            first.source = "'great'" if cell.cell_type == "code" else "an older text"
            cells.append(first)
        cells.append(cell)
    made.cells = cells
    return made


def stripped(made):
    """Remove all of nbgrader's metadata, as some editors do."""
    for cell in made.cells:
        cell.metadata = {}
    return made


def tampered(made):
    """Raise the points in the metadata and rewrite the tests."""
    for cell in made.cells:
        if "points" in cell.metadata.get("nbgrader", {}):
            cell.metadata.nbgrader.points = 99
            if cell.cell_type == "code":
                cell.source = "99.0"
                cell.metadata.nbgrader |= {"locked": False, "solution": True}
    made.metadata["kernelspec"] = {"name": "no such kernel", "display_name": "x"}
    return made


def notebooks(released, course):
    """Return {student: notebook or text or None}; the names say what is the matter."""
    snoop = SNOOP.format(course=str(course), repository=str(ROOT))
    active = [BROWSER, new_markdown_cell(SCRIPT), new_raw_cell(SCRIPT)]
    return {
        "ada": book(released),
        "bea-unwritten": book(released, answer=None, essay=None),
        "cyd-partly": book(released),
        "dan-deleted": without(book(released), "setup", "warmup", "task3", "essay"),
        "eve-doubled": doubled(book(released)),
        "fay-stripped": stripped(book(released)),
        "gus-no-notebook": None,
        "hal-unreadable": '{"cells": [' + "[" * 100_000,
        "ivy-broken-zip": None,
        "jon-odd-json": json.dumps({"cells": [{"cell_type": 7, "source": {}}, 3], "nbformat": 4}),
        "kim-snoops": book(released, extra=[snoop], where=2),
        "leo-shadows": book(released, answer=None, extra=[SHADOW], where=2),
        "max-prints": book(released, extra=["for _ in range(400): print('x' * 100_000)"], where=9),
        "ned-exits": book(released, answer=None, extra=["import os; os._exit(0)"], where=2),
        "oda-kills": book(released, answer=None, extra=[KILLS], where=2),
        "pam-browser": book(released, essay=SCRIPT, extra=active, where=2),
        "rex-tampers": tampered(book(released, answer="0")),
        "sue-plants": book(released, extra=["import nbcheck; nbcheck.check('task1')"], where=3),
    }


POINTS = {
    "bea-unwritten": NOTHING,
    "cyd-partly": PARTLY,
    "ivy-broken-zip": NOTHING,
    "leo-shadows": NOTHING,
    "rex-tampers": NOTHING,
}
PLANTED = {
    "conftest.py": "raise SystemExit",
    "nbcheck.py": "def check(task): return 99.0",
    "tinylm.py": "raise SystemExit",
    "tests/notebook.py": "raise SystemExit",
    "page.html": SCRIPT,
    "other.ipynb": "{}",
}


def hand_in(place, released, course):
    """Write the class's submissions to a folder, most as zips; return the students.

    Args:
        place: the folder.
        released: the notebook that students get.
        course: the course folder, at which some of them aim.
    """
    made = notebooks(released, course)
    for student, content in made.items():
        text = nbformat.writes(content) if isinstance(content, dict) else content
        files = {"lab15_grpo.py": STUB} | ({"lab15.ipynb": text} if text else {})
        if student == "sue-plants":  # handed in as a folder
            folder = place / student
            for name, planted in (files | PLANTED).items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_text(planted, encoding="utf-8")
            (folder / "link.py").symlink_to("/etc/passwd")
            continue
        path = place / f"{student}_attempt_2026-11-29-12-00-00_lab15.zip"
        if student == "ivy-broken-zip":
            path.write_bytes(b"PK\x03\x04 no zip at all")
            continue
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name, data in files.items():
                file.writestr(f"lab15/{name}", data)
            file.writestr("lab15/conftest.py", "raise SystemExit")
    return sorted(made)


def results(course, _flags=None):
    """Write what the grader would: FOLDER/results, for each student in submitted/."""
    for folder in sorted((course / "submitted").iterdir()):
        points = POINTS.get(folder.name, FULL)
        write_result(course / "results", folder.name, points, folder / "lab15")
    return 0


def write_result(results_folder, student, points, submission=None):
    """Write one student's results.json and the graded file.

    Args:
        results_folder: the grader's.
        student: name of a folder in it.
        points: {task: points}.
        submission: folder with the graded file, or None.
    """
    tests = [
        {
            "name": f"Task {n}: {TASKS[n].name}",
            "number": str(n),
            "score": value,
            "max_score": FULL[n],
            "output": f"the verdict on task {n} <b>&",
        }
        for n, value in points.items()
    ]
    folder = Path(results_folder) / student
    folder.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"tests": tests, "extra_data": {"student": student, "notes": []}})
    (folder / "results.json").write_text(text, encoding="utf-8")
    if submission and (submission / "lab15_grpo.py").is_file():
        (folder / "lab15_grpo.py").write_bytes((submission / "lab15_grpo.py").read_bytes())


def flags(folder, place, **more):
    """Return the flags of instructor.course.cycle.

    Args:
        folder: of the course.
        place: where the submissions are.
        more: flags with other values.
    """
    return argparse.Namespace(**{"folder": folder, "submissions": place, "jobs": 1,
        "seed_file": None, "checkpoint": folder.parent / "sft.pt", "trust": False,
        "as_root": os.geteuid() == 0} | more)
