"""What the grader leaves behind: points as CSV, and a folder with three files for every student.

OUT/scores.csv
OUT/STUDENT/results.json      in Gradescope's format, with more under extra_data
OUT/STUDENT/feedback.html     a page to hand back
OUT/STUDENT/lab15_grpo.py     the file that was graded
"""

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import threading
from pathlib import Path

from tests.labfile import TASKS

from . import feedback

SCHEMA = 1
COLUMNS = ("student", *(f"task{n}" for n in TASKS), "total", "submitted", "late", "note")
# The last four are as wide as a Chinese character; Excel takes them for the first four.
FORMULA = ("=", "+", "@", "-", "\uff1d", "\uff0b", "\uff20", "\uff0d")
# Names that a file of ours, or of Windows, already has.
TAKEN = re.compile(r"(scores\.csv|seed\.txt|lock|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I)


def write(path, data):
    """Write a file by way of a temporary name: nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    data = data.encode("utf-8") if isinstance(data, str) else data
    try:
        temporary.write_bytes(data)
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


def file_name(student, others=()):
    """Return a folder's name for a student; two students never share one.

    Args:
        student: as in scores.csv.
        others: all students; where two differ by capitals alone, both names get a tag.
    """
    safe = re.sub(r"[^A-Za-z0-9._@ -]", "_", student)[:80].strip(". ") or "_"
    tag = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    meets = any(o != student and o.lower() == student.lower() for o in others)
    plain = safe == student and not meets and not TAKEN.fullmatch(safe)
    return safe if plain and not safe.startswith("-") else f"{safe}-{tag}"


# ---------------------------------------------------------------- one student


def document(result):
    """Return the results.json of what judging.judge returned."""
    tasks = {int(n): task for n, task in result["tasks"].items()}
    total = round(sum(task["points"] for task in tasks.values()), 2)
    notes = result["notes"]
    return {
        "score": total,
        "execution_time": result["seconds"],
        "output": "\n".join([f"{total:g} of {feedback.MOST} points", *notes]),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "tests": [_test(n, task) for n, task in sorted(tasks.items())],
        "extra_data": {
            "schema": SCHEMA,
            "student": result["student"],
            "lab_version": result["lab_version"],
            "file_lab_version": result["version"],
            "hidden_hash": {str(n): h for n, h in result["hashes"].items()},
            "file_hash": result["file"],
            "submitted": result["submitted"],
            "late": result["late"],
            "seconds": result["seconds"],
            "notes": notes,
        },
    }


def _test(number, task):
    full = task["points"] >= TASKS[number].points
    extra = {"hidden": task["tests"], "mistakes": task["mistakes"], "public": task["public"]}
    extra |= {"state": task["state"], "messages": task["messages"], "hints": task["hints"]}
    return {
        "name": f"Task {number}: {TASKS[number].name}",
        "number": str(number),
        "score": task["points"],
        "max_score": float(TASKS[number].points),
        "status": "passed" if full else "failed",
        "output": feedback.text(number, task),
        "visibility": "visible",
        "tags": [f"task{number}"],
        "extra_data": extra,
    }


def tasks_of(document):
    """Return {task: result} of a results.json, as judging.judge_task makes them."""
    tasks = {}
    for test in document["tests"]:
        extra, score = test["extra_data"], test["score"]
        most = TASKS[int(test["number"])].points
        if type(score) not in (int, float) or not 0 <= score <= most:
            raise ValueError("no points")
        names = ("messages", "hints", "state", "public", "mistakes")
        tasks[int(test["number"])] = {
            "points": float(score), "tests": dict(extra["hidden"]), **{k: extra[k] for k in names}
        }
    return tasks


def row_of(document):
    """Return a student's row of scores.csv."""
    extra = document["extra_data"]
    points = {test["number"]: f"{test['score']:g}" for test in document["tests"]}
    late = {None: "", False: "", True: "late"}.get(extra["late"], extra["late"])
    row = [extra["student"], *(points[str(n)] for n in TASKS), f"{document['score']:g}"]
    return [*row, extra["submitted"] or "", late, "; ".join(extra["notes"][:3])]


# ---------------------------------------------------------------- the folder


class Results:
    """The folder OUT; everything is written as it comes.

    Args:
        out: its path.
        course: a Course.
        students: all of them, in the order of the table.
    """

    def __init__(self, out, course, students):
        self.out, self.course, self.students = Path(out), course, list(students)
        lower = {}
        for student in students:
            lower.setdefault(student.lower(), []).append(student)
        self.names = {s: file_name(s, lower[s.lower()]) for s in students}
        self.rows, self.lock = {}, threading.Lock()

    def folder(self, student):
        """Return a student's folder."""
        return self.out / self.names[student]

    def read(self, student):
        """Return a student's results.json if there is one that makes sense, else None."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError, AttributeError):
            path = self.folder(student) / "results.json"
            found = json.loads(path.read_text(encoding="utf-8"))
            tasks_of(found), row_of(found)
            if found["extra_data"]["schema"] == SCHEMA:
                return found if found["extra_data"]["student"] == student else None
        return None

    def known(self, student, file_hash):
        """Return {task: result} of what an earlier run has found that still holds."""
        found = self.read(student)
        if found is None or found["extra_data"]["file_hash"] != file_hash:
            return {}
        old, now = found["extra_data"]["hidden_hash"], self.course.hashes
        return {n: t for n, t in tasks_of(found).items() if old.get(str(n)) == now[n]}

    def add(self, result, data):
        """Keep a result: the student's files, and the row in the table."""
        found, folder = document(result), self.folder(result["student"])
        if data is not None:
            write(folder / "lab15_grpo.py", data)
        write(folder / "feedback.html", feedback.page(found))
        write(folder / "results.json", json.dumps(found, indent=1) + "\n")  # last: it is complete
        with self.lock:
            self.rows[result["student"]] = row_of(found)

    def keep(self, student, submission=None):
        """Take a student's row from an earlier run; return whether there is one."""
        found = self.read(student)
        if found is not None:
            self.rows[student] = row_of(found)
        return found is not None

    def failed(self, student, why):
        """Note that the grader itself has failed: no points, and no zero either."""
        if not self.keep(student):
            self.rows[student] = [student, *[""] * (len(COLUMNS) - 2), f"NOT GRADED: {why}"]

    def strangers(self):
        """Return the names of earlier results whose students are not in the class any more."""
        names, found = set(self.names.values()), []
        for path in sorted(self.out.glob("*/results.json")):
            if path.parent.name not in names:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError, RecursionError):
                    extra = json.loads(path.read_text(encoding="utf-8"))["extra_data"]
                    found.append(str(extra["student"]))
        return found

    def table(self):
        """Write scores.csv, in the order of the students."""
        out = io.StringIO()
        with self.lock:
            rows = [self.rows[s] for s in self.students if s in self.rows]
        csv.writer(out, lineterminator="\n").writerows([COLUMNS, *map(_harmless, rows)])
        write(self.out / "scores.csv", out.getvalue())


def _harmless(row):
    """Return a row of which no spreadsheet takes a cell for a formula.

    Nor a part of a cell, where the spreadsheet's language has a semicolon for a comma.
    """
    cells = [re.sub(r"([;\t]\s*)(?=[=+@-])", r"\1'", str(cell)) for cell in row]
    return [f"'{cell}" if cell.startswith(FORMULA) else cell for cell in cells]
