"""The grader's command and the table that it writes; a judge that runs no student's code."""

import csv
import os

from instructor import grade
from instructor.grading import judging
from tests.labfile import TASKS

ROOT_FLAG = ["--as-root"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def run(folder, out, *flags):
    """Run the command in this process; return its exit code.

    Args:
        folder: the submissions.
        out: the folder of the results.
        flags: more of the command line.
    """
    return grade.main([str(folder), "--out", str(out), *ROOT_FLAG, *flags])


def table(out):
    """Return scores.csv as {student: row}."""
    with open(out / "scores.csv", encoding="utf-8", newline="") as file:
        return {row["student"]: row for row in csv.DictReader(file)}


def totals(out):
    """Return {student: total} of scores.csv."""
    return {student: row["total"] for student, row in table(out).items()}


class FakeMaker:
    """Takes the place of a Maker where no student's code is to run."""

    processor, peak, nested = 0.0, 0, True

    def __init__(self, *_):
        """Make nothing."""

    stop = close = lambda self: None


def fake_judge(submission, course, maker, old=None):
    """Give full points to every task that has to be judged.

    Args:
        submission: a Submission.
        course: with the hidden tests.
        maker: is not used.
        old: {task: result} that need no new verdict.
    """
    data, problem = submission.read()
    old, tests = old or {}, {n: m.TESTS for n, m in course.modules.items()}
    tasks = {n: judging.blank(n, tests[n], "", "written") for n in TASKS}
    for n, task in tasks.items():
        task |= {"points": float(TASKS[n].points), "tests": dict.fromkeys(task["tests"], True)}
    more = {"student": submission.student, "tasks": tasks | old, "notes": [], "seconds": 0.1}
    more |= {"file": judging.file_hash(data, problem), "version": None, "submitted": None}
    return more | {"late": None, "hashes": course.hashes, "lab_version": "1.0"}, data
