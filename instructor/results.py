"""What the grader leaves behind: points as CSV, everything as JSON, a page for every student."""

import contextlib
import csv
import hashlib
import io
import json
import os
import re
import threading

from tests.labfile import TASKS

SCHEMA = 1


def write(path, text):
    """Write a file by way of a temporary name: nobody reads half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)


def file_name(student):
    """Return a file name for a student; two students never share one."""
    safe = re.sub(r"[^A-Za-z0-9._@ -]", "_", student)[:80].strip(". ") or "_"
    tag = hashlib.sha256(student.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return safe if safe == student else f"{safe}-{tag}"


def feedback(result):
    """Return a student's page."""
    most = sum(t["max"] for t in result["tasks"].values())
    lines = ["# Lab 15: your result", "", f"{result['total']:g} of {most} points", ""]
    lines += [f"- Note: `{note}`" for note in result["notes"]]
    for number, task in result["tasks"].items():
        name = TASKS[int(number)].name
        good = sum(task["tests"].values())
        lines += ["", f"## Task {number}: {name}, {task['points']:g} of {task['max']} points", ""]
        lines += [f"{good} of {len(task['tests'])} hidden tests passed."]
        lines += [f"- `{message}`" for message in task["messages"]]
        if good < len(task["tests"]):
            lines += [
                f"- Read: chapter.md section {TASKS[int(number)].section}; run: "
                f"python -m pytest -q -k task{number}"
            ]
    return "\n".join(lines) + "\n"


def scores_csv(results):
    """Return the table of points."""
    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    table.writerow(["student", *(f"task{n}" for n in TASKS), "total"])
    for r in results:
        row = [f"{r['tasks'][str(n)]['points']:g}" for n in TASKS]
        table.writerow([r["student"], *row, f"{r['total']:g}"])
    return out.getvalue()


class Results:
    """The folder OUT; everything is written as it comes."""

    def __init__(self, out, course, order):
        self.out, self.course, self.order = out, course, order
        self.done, self.lock = {}, threading.Lock()

    def path(self, student):
        """Return where a student's result is kept."""
        return self.out / "results" / f"{file_name(student)}.json"

    def known(self, submission, key):
        """Return the result of an earlier run if it still holds, else None."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            result = json.loads(self.path(submission.student).read_text(encoding="utf-8"))
            if result["key"] == key and result["student"] == submission.student:
                scores_csv([result]), feedback(result)
                return result
        return None

    def add(self, result, save=True):
        """Keep a result."""
        with self.lock:
            self.done[result["student"]] = result
            if save:
                text = json.dumps(result, indent=1)
                write(self.path(result["student"]), text + "\n")
            page = self.out / "feedback" / f"{file_name(result['student'])}.md"
            write(page, feedback(result))
            write(self.out / "scores.csv", scores_csv(self.sorted()))

    def sorted(self):
        """Return the results in the order of the submissions."""
        return [self.done[s] for s in self.order if s in self.done]

    def finish(self):
        """Write the file with everything."""
        head = {"schema": SCHEMA, "lab_version": self.course.version, "tests": self.course.hash}
        head["points"] = {str(n): t.points for n, t in TASKS.items()}
        head["students"] = self.sorted()
        write(self.out / "results.json", json.dumps(head, indent=1) + "\n")
