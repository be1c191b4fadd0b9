"""The grader's output: points as CSV, and a folder with three files for every student.

OUT/scores.csv                points, changes by hand, and the course system's ids
OUT/STUDENT/results.json      in Gradescope's format, with more under extra_data
OUT/STUDENT/feedback.html     a page to hand back
OUT/STUDENT/lab15_grpo.py     the file that was graded
"""

import contextlib
import copy
import hashlib
import json
import re
import threading
from pathlib import Path
from typing import NamedTuple

from lab15_run import counted
from tests.labfile import TASKS, ascii_line

from ..submissions.intake import Submission
from . import feedback, lateness, overrides, tables
from .edited import Ledger
from .files import write

SCHEMA = 1
CLASS = ".class.json"  # the names of a class, beside its results
NOTES = 3  # of a file in the table; its page has all of them
COLUMNS = ("student", *(f"task{n}" for n in TASKS), "total", "submitted", "late", "note")
# Newer columns come last: the course system's ids, and how the total was reached.
COLUMNS += (*Submission("", None).ids._fields, "computed", "penalty", "override")
POINTS = ("computed", "penalty", *COLUMNS[1 : len(TASKS) + 2])  # the columns that are numbers
# Names already taken by our own files or by Windows.
TAKEN = re.compile(
    r"(scores[\w.-]*\.csv|overrides\.csv|seed\.txt|lock|con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.I
)


class ByHand(NamedTuple):
    """Information from the instructor and the course system about the submitted files.

    submissions: {student: Submission}.
    overrides: {student: [Override]}.
    due: when it was due, and what being late costs.
    """

    submissions: dict = {}
    overrides: dict = {}
    due: lateness.Due = lateness.Due(None, None, {})


def file_name(student, others=()):
    """Return a folder's name for a student; two students never share one.

    Args:
        student: as in scores.csv.
        others: all students; if two differ only in capitals, both names get a tag.
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
            "handed_in": result.get("handed_in", []),
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
    extra |= {"given": task.get("given", {}), "simple": task.get("simple", "")}
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
    """Return {task: result} of a results.json, as judging.judge_task makes them.

    The points are those from the tests, without changes by hand.

    Raises:
        ValueError: a task's points are not a number.
    """
    tasks = {}
    for test in document["tests"]:
        extra, score = test["extra_data"], computed(test)
        most = TASKS[int(test["number"])].points
        if type(score) not in (int, float) or not 0 <= score <= most:
            raise ValueError("no points")
        names = ("messages", "hints", "state", "public", "mistakes")
        tasks[int(test["number"])] = {
            "points": float(score), "tests": dict(extra["hidden"]), **{k: extra[k] for k in names}
        }
        # Not there in the result of an earlier version.
        tasks[int(test["number"])] |= {"given": dict(extra.get("given") or {}),
                                       "simple": str(extra.get("simple") or "")}
    return tasks


def computed(test):
    """Return the points that the hidden tests gave for a task."""
    return test["extra_data"].get("computed", test["score"])


def finished(document, by_hand):
    """Return (a results.json with the changes by hand, the overrides that leave the range).

    Args:
        document: a results.json; changes by hand from an earlier run are undone first.
        by_hand: a ByHand.
    """
    found = copy.deepcopy(document)
    extra = found["extra_data"]
    student = extra["student"]
    mine, told, refused = by_hand.overrides.get(student, []), [], []
    for test in found["tests"]:
        number, before = int(test["number"]), float(computed(test))
        points, held, left = overrides.apply(mine, number, before)
        more = test["extra_data"]
        more.pop("computed", None)
        more.pop("by_hand", None)
        if held:
            more |= {"computed": before, "by_hand": _told(held, before)}
            told += more["by_hand"]
        test["score"] = points
        test["status"] = "passed" if points >= test["max_score"] else "failed"
        test["output"] = feedback.text(number, more | {"tests": more["hidden"]})
        refused += left
    _from_system(extra, by_hand.submissions.get(student))
    subtotal = round(sum(test["score"] for test in found["tests"]), 2)
    verdict = lateness.judge(by_hand.due, student, extra["submitted"], extra["late"], subtotal)
    before = round(subtotal - verdict.off, 2)
    total, held, left = overrides.apply(mine, overrides.TOTAL, before)
    told += _told(held, before)
    extra |= {"late": verdict.late, "penalty": verdict.off, "why_late": verdict.why}
    extra |= {"computed": round(sum(map(computed, found["tests"])), 2), "by_hand": told}
    words = [verdict.why] if verdict.why else []
    words += [f"by hand: {overrides.words(entry)}" for entry in told]
    found["score"] = total
    found["output"] = "\n".join([f"{total:g} of {feedback.MOST} points", *words, *extra["notes"]])
    return found, refused + left


def _told(held, before):
    told = []
    for one in held:
        told.append(overrides.told(one, before, one.of(before)))
        before = one.of(before)
    return told


def _from_system(extra, sub):
    """Update what the course system reports of a student; it needs no new verdict."""
    if sub is None:
        return
    extra |= {"submitted": sub.submitted, "late": sub.late, "ids": sub.ids._asdict()}
    if sub.path is None:
        return  # then the note is the reason why there are no points
    old, new = extra.get("about_file", ""), clean(sub.note)
    same = (old, new, sub.note, clean(sub.note, 160))  # as other versions wrote it, too
    notes = [note for note in extra["notes"] if note not in same]
    extra |= {"about_file": new, "notes": [new, *notes] if new else notes}


def clean(text, limit=400):
    """Return text with a student's file names in it as one harmless line, as judging.clean does."""
    return re.sub(r"[^ -~]|[`<>|\[\]\\]", "'", ascii_line(text, limit))


def row_of(document):
    """Return a student's row of scores.csv."""
    extra = document["extra_data"]
    points = {test["number"]: f"{test['score']:g}" for test in document["tests"]}
    late = {None: "", False: "", True: "late"}.get(extra["late"], extra["late"])
    row = [extra["student"], *(points[str(n)] for n in TASKS), f"{document['score']:g}"]
    notes = [*([extra["why_late"]] if extra.get("why_late") else []), *extra["notes"][:NOTES]]
    if (more := len(extra["notes"]) - NOTES) > 0:
        notes.append(f"and {counted(more, 'more note')} in feedback.html")
    row += [extra["submitted"] or "", late, "; ".join(notes)]
    sum_of = extra.get("computed", document["score"])
    by_hand = "; ".join(map(overrides.words, extra.get("by_hand", [])))
    ids = extra.get("ids", {})
    row += [ids.get(name, "") for name in Submission("", None).ids._fields]
    return [*row, f"{sum_of:g}", f"{extra.get('penalty') or 0:g}", by_hand]


# ---------------------------------------------------------------- the folder


class Results:
    """The folder OUT; results are written as they arrive.

    Args:
        out: its path.
        course: a Course.
        students: all of them, in the order of the table.
        by_hand: a ByHand.
    """

    def __init__(self, out, course, students, by_hand=None):
        self.out, self.course, self.students = Path(out), course, list(students)
        self.by_hand, self.refused, self.forgotten = by_hand or ByHand(), {}, set()
        self.ledger = Ledger(self.out / "scores.csv", POINTS)
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
        """Return the {task: result} of an earlier run that are still valid."""
        found = self.read(student)
        if found is None or found["extra_data"]["file_hash"] != file_hash:
            return {}
        old, now = found["extra_data"]["hidden_hash"], self.course.hashes
        return {n: t for n, t in tasks_of(found).items() if old.get(str(n)) == now[n]}

    def add(self, result, data):
        """Store a result: the student's files, and the row in the table."""
        found, folder = document(result), self.folder(result["student"])
        if data is not None:
            write(folder / "lab15_grpo.py", data)
        else:  # there may be one of an earlier hand-in
            (folder / "lab15_grpo.py").unlink(missing_ok=True)
        found = self._finish(found)
        self._write(folder, found)
        with self.lock:
            self.rows[result["student"]] = row_of(found)

    def _finish(self, found):
        if found["extra_data"].get("penalty") and self.by_hand.due.time is None:
            self.forgotten.add(found["extra_data"]["student"])
        found, refused = finished(found, self.by_hand)
        self.refused |= {one.line: one for one in refused}
        return found

    def _write(self, folder, found):
        write(folder / "feedback.html", feedback.page(found))
        write(folder / "results.json", json.dumps(found, indent=1) + "\n")  # last: it is complete

    def keep(self, student, ours=True):
        """Take a student's row from an earlier run; return whether there is one.

        Args:
            student: as in the table.
            ours: whether this run grades the student; if not, another may be writing the files.
        """
        old = self.read(student)
        if old is not None:
            found = self._finish(old)
            if ours and found != old:
                self._write(self.folder(student), found)
            self.rows[student] = row_of(found)
        return old is not None

    def ungraded(self, student):
        """Add a row for a student without a result whom this run does not grade."""
        sub = self.by_hand.submissions.get(student)
        why = f": {clean(sub.note)}" if sub is not None and sub.unseen else " yet"
        self.rows[student] = self._without_points(student, f"NOT GRADED{why}")

    def failed(self, student, why):
        """Note that the grader itself failed: the student gets neither points nor a zero."""
        if not self.keep(student):
            self.rows[student] = self._without_points(student, f"NOT GRADED: {why}")

    def _without_points(self, student, note):
        """Return the row of a student without a result; points by hand hold there too."""
        row = dict.fromkeys(COLUMNS, "") | {"student": student, "note": note}
        sub, told = self.by_hand.submissions.get(student), []
        if sub is not None:
            row |= sub.ids._asdict() | {"submitted": sub.submitted or ""}
            row["late"] = "late" if sub.late else ""
        for one in self.by_hand.overrides.get(student, []):
            if one.points is not None:  # there is nothing that could be changed
                row["total" if one.task == overrides.TOTAL else f"task{one.task}"] = one.points
                told.append(f"{'total' if one.task == overrides.TOTAL else f'task {one.task}'} "
                            f"{one.points:g}: {one.reason}")
        row["override"] = "; ".join(told)
        return [f"{v:g}" if isinstance(v, float) else v for v in row.values()]

    def total(self, student):
        """Return a student's points as text, with all changes by hand."""
        return self.rows[student][COLUMNS.index("total")]

    def as_rows(self):
        """Return the table's rows as {column: cell}, in the order of the students."""
        return [dict(zip(COLUMNS, map(str, self.rows[s]), strict=True))
                for s in self.students if s in self.rows]

    def problems(self):
        """Return lines for overrides that would leave their range, and for a forgotten --due."""
        lost = len(self.forgotten)
        return [f"points taken off for being late are given back: {lost}; the run before had a "
                "--due and --late, this one has none"] * bool(lost) + [
            f"overrides.csv, line {one.line}: {one.student}'s change of {one.change:+g} would "
            f"leave the range of 0 to {overrides.most(one.task):g} points; this line is left out"
            for _, one in sorted(self.refused.items())
        ]

    def note_class(self):
        """Record who is in the class: the report counts only them."""
        write(self.out / CLASS, json.dumps({"students": self.students}, indent=0) + "\n")

    def strays(self):
        """Return the result folders of students who are no longer in the class."""
        known = set(self.names.values())
        return sorted(p.parent.name for p in self.out.glob("*/results.json")
                      if p.parent.name not in known)

    def table(self):
        """Write scores.csv, in the order of the students."""
        with self.lock:
            rows = [self.rows[s] for s in self.students if s in self.rows]
            self.ledger.write(tables.written([COLUMNS, *rows]))
