"""A made-up class: results as the grader writes them, for files made of the known variants."""

import json
import random
from functools import cache
from pathlib import Path

from instructor.variants import catalog
from tests.labfile import TASKS
from tests.messages.explain import MISTAKES

FIRST = "ada ben cy dora emil fay gus hana ida jan kim lea mia noa ole pia rui sol tom uma".split()


@cache
def chaffs() -> list[catalog.Variant]:
    """Return all wrong variants; reading them takes a second."""
    return list(catalog.chaffs())


@cache
def choices(task: int) -> tuple[list[tuple[str, str]], list[str]]:
    """Return a task's wrong functions as (text, mistake), and its right ones."""
    before, *own, after = catalog.cut_at(task)
    wrong = [(v.text[len(before): len(v.text) - len(after)], v.mistake)
             for v in chaffs() if v.task == task]
    right = [p.read_text(encoding="utf-8")
             for p in sorted(catalog.WHEATS.glob(f"task{task}_*.py"))]
    return wrong, ["".join(own), *right]


def lab_file(functions: list[str]) -> str:
    """Return the solution with these five functions."""
    text = catalog.solution()
    for task, function in zip(TASKS, functions, strict=True):
        _, *own, _ = catalog.cut_at(task)
        text = text.replace("".join(own), function.rstrip("\n") + "\n", 1)
    return text


def entry(task: int, mistake: str = "", state: str = "written", public: str = "") -> dict:
    """Return one of the five tests of a results.json.

    Args:
        task: its number.
        mistake: id, or none.
        state: of the task.
        public: text of the public tests; empty: one that names the mistake.
    """
    most, good = TASKS[task].points, not mistake and state == "written"
    if mistake in MISTAKES and not public:
        public = f"test_task{task}:\nyours     1\nlikely    {MISTAKES[mistake].text}"
    hidden = {"shape": state == "written", "values": good, "impossible": False}
    return {
        "name": f"Task {task}: {TASKS[task].name}", "number": str(task), "visibility": "visible",
        "score": float(most if good else 0), "max_score": float(most), "output": "",
        "status": "passed" if good else "failed", "tags": [f"task{task}"],
        "extra_data": {"hidden": hidden, "mistakes": [mistake] if mistake else [],
                       "public": public, "state": state},
    }


def result(student: str, tests: list[dict], **more) -> dict:
    """Return a results.json."""
    about = {"schema": 1, "student": student, "lab_version": "1.0", "file_lab_version": "1.0",
             "hidden_hash": {str(n): "f00d" for n in TASKS}, "file_hash": "beef",
             "submitted": None, "late": None, "seconds": 2.0, "notes": []}
    score = sum(t["score"] for t in tests)
    return {"score": score, "execution_time": 2.0, "output": "", "tests": tests,
            "visibility": "visible", "stdout_visibility": "hidden", "extra_data": about | more}


def write(folder: Path, student: str, tests: list[dict], lab: str | None = "", **more) -> Path:
    """Write one student's folder and return it; lab=None: nothing was handed in.

    Args:
        folder: of the class.
        student: name of the new folder in it.
        tests: five entries.
        lab: text of the file; empty: the solution; None: nothing was handed in.
        more: for extra_data.
    """
    folder = folder / student
    folder.mkdir(parents=True)
    text = json.dumps(result(student, tests, **more))
    (folder / "results.json").write_text(text, encoding="utf-8")
    if lab is not None:
        text = lab or catalog.solution()
        (folder / "lab15_grpo.py").write_text(text, encoding="utf-8", newline="\n")
    return folder


def whole_class(folder: Path, n: int, seed: int = 0, twins: int = 0) -> list[str]:
    """Write the results of n students, the last of them with twins; return their names.

    Args:
        folder: of the class.
        n: students.
        seed: of the draw.
        twins: how many hand in another student's file.
    """
    draw, files, names = random.Random(seed), [], []
    for i in range(n):
        functions, tests = [], []
        for task in TASKS:
            wrong, right = choices(task)
            text, mistake = "", ""
            if draw.random() < 0.25:  # some mistakes are made far more often than others
                text, mistake = wrong[min(int(draw.expovariate(0.2)), len(wrong) - 1)]
            functions.append(text or draw.choice([right[0]] * 4 + right))
            tests.append(entry(task, mistake if mistake in MISTAKES else ""))
        if i >= n - twins:
            functions = files[i - twins]
        files.append(functions)
        names.append(f"{draw.choice(FIRST)} {i:03}")
        absent = draw.random() < 0.04 and i < n - 2 * twins
        if absent:
            tests = [entry(t, state="missing") for t in TASKS]
        write(folder, names[-1], tests, None if absent else lab_file(functions),
              seconds=round(draw.expovariate(0.4) + 1, 2), late="yes" if i % 17 == 3 else None)
    return names
