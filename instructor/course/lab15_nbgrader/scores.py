"""Points of the tasks come from the grader's results.json, never from a student's kernel.

nbgrader gives full points to a test cell without output, with a text, with a negative number. So
every test cell's outputs are replaced here, and whatever is not known to be right counts nothing.
"""

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any, NamedTuple

from nbformat.notebooknode import NotebookNode
from nbformat.v4 import new_output
from nbgrader.preprocessors import NbGraderPreprocessor, SaveAutoGrades
from traitlets import Unicode

from .execute import RAN

TASK = re.compile(r"task([1-9]\d*)")
LAB_FILE = "lab15_grpo.py"
LARGEST = 4 << 20  # bytes of a results.json
HASHED = (256 << 10) + 1  # bytes of a file that the grader's hash covers
NOT_GRADED = "NOT GRADED: "


class Verdict(NamedTuple):
    """The grader's verdict on one task."""

    points: float
    text: str


class NoVerdict(ValueError):
    """No trustworthy result exists; the message gives the reason."""


def find(results: Path, student: str) -> Path:
    """Return the folder of a student's result.

    Raises:
        NoVerdict: there is none.
    """
    names = {student, f"'{student}"}  # the grader quotes what a spreadsheet takes for a formula
    folders = [results / student] if (results / student / "results.json").is_file() else []
    folders += sorted(p.parent for p in results.glob("*/results.json") if p.parent not in folders)
    for folder in folders:
        try:
            if _read(folder)["extra_data"]["student"] in names:
                return folder
        except (NoVerdict, KeyError, TypeError) as error:
            if folder.name == student:
                raise NoVerdict(f"its results.json cannot be read ({error})") from None
    raise NoVerdict("there is no results.json; run the grader first")


def _read(folder: Path) -> Any:
    path = folder / "results.json"
    try:
        if path.stat().st_size > LARGEST:
            raise NoVerdict("it is too large")
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise NoVerdict(type(error).__name__) from None


def load(results: Path, student: str) -> dict[str, Verdict]:
    """Return {"task1": verdict, ...} of a student.

    Raises:
        NoVerdict: something is missing or makes no sense; then nothing of it counts.
    """
    found = {}
    try:
        for test in _read(find(results, student))["tests"]:
            points, most = float(test["score"]), float(test["max_score"])
            if not (math.isfinite(points) and 0 <= points <= most):
                raise NoVerdict(f"{points} of {most} points make no sense")
            found[f"task{int(test['number'])}"] = Verdict(points, str(test.get("output", "")))
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        if isinstance(error, NoVerdict):
            raise
        raise NoVerdict(f"its results.json is not complete ({type(error).__name__})") from None
    return found


def same_file(results: Path, student: str, submission: Path) -> bool:
    """Return whether the graded file is one of the submission, as it is now.

    The grader may have read it as another encoding, found it unreadable, or chosen a file of
    another name; so it has written down hashes of what it saw.

    Args:
        results: the grader's folder.
        student: as in the results.
        submission: the folder that nbgrader grades.
    """
    graded = find(results, student) / LAB_FILE
    seen = _read(graded.parent)["extra_data"].get("handed_in")
    if isinstance(seen, list) and seen:
        now = {p.name: _hash(p) for p in submission.glob("*.py")}
        return seen[0] in now.values() and now.get(LAB_FILE, seen[0]) in seen
    try:
        old = graded.read_bytes() if graded.is_file() else None
        paths = [submission / LAB_FILE, *sorted(submission.glob("*.py"))]
        new = [p.read_bytes() for p in paths if p.is_file() and not p.is_symlink()]
    except OSError:
        return False
    if (submission / LAB_FILE).is_file():
        return old == new[0]
    return old is None or old in new


def _hash(path: Path) -> str:
    """Return what instructor.submissions.intake.raw_hash returns."""
    try:
        if path.is_symlink() or not path.is_file():
            return ""
        with open(path, "rb") as file:
            return hashlib.sha256(file.read(HASHED)).hexdigest()[:16]
    except OSError:
        return ""


def left_out(results: Path, student: str) -> str:
    """Return what was done to a student's total that is not in nbgrader's grades, or ""."""
    try:
        extra = _read(find(results, student))["extra_data"]
        by_hand = [e for e in extra.get("by_hand") or [] if e["task"] == "total"]
        words = [f"total {e['after'] - e['before']:+g} by hand" for e in by_hand]
        if penalty := float(extra.get("penalty") or 0):
            words.append(f"-{penalty:g} for being late")
    except (NoVerdict, KeyError, TypeError, ValueError, AttributeError):
        return ""
    return ", ".join(words)


class ExternalScores(NbGraderPreprocessor):
    """Replaces the outputs of all test cells; runs after SafeExecute, before SaveAutoGrades."""

    results = Unicode("results", help="the grader's folder").tag(config=True)

    def preprocess(self, nb: NotebookNode, resources: Any) -> Any:
        """Look the student up, then go through the cells."""
        student, results = resources["nbgrader"]["student"], Path(self.results)
        self.verdicts: dict[str, Verdict] = {}
        self.reason, self.ran = "", resources.get(RAN, set())
        try:
            self.verdicts = load(results, student)
            folder = Path(resources.get("metadata", {}).get("path") or ".")
            if not same_file(results, student, folder):
                raise NoVerdict("the file has changed since; run the grader again")
        except NoVerdict as error:
            self.verdicts, self.reason = {}, str(error)
        return super().preprocess(nb, resources)

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Any:
        """Replace the outputs of a test cell."""
        about = cell.metadata.get("nbgrader", {})
        if cell.cell_type == "code" and about.get("grade") and not about.get("solution"):
            name, most = about["grade_id"], float(about["points"])
            if TASK.fullmatch(name):
                cell.outputs = self._task(name, most)
            else:
                cell.outputs = self._own(name, most, cell.outputs)
        return cell, resources

    def _task(self, name: str, most: float) -> list[NotebookNode]:
        verdict = self.verdicts.get(name)
        if verdict is None or verdict.points > most:
            why = self.reason or f"the results have no points for {name}"
            return [_error("NotGraded", NOT_GRADED + why)]
        text = verdict.text.rstrip()[:20_000] + "\n"
        points = new_output("execute_result", data={"text/plain": repr(verdict.points)})
        return [new_output("stream", name="stdout", text=text), points]

    def _own(self, name: str, most: float, outputs: list[NotebookNode]) -> list[NotebookNode]:
        """Return the outputs of a cell of asserts: all points or none."""
        keep = [o for o in outputs if o.output_type in ("stream", "error")]
        if any(o.output_type == "error" for o in keep):
            return keep
        if name not in self.ran:
            return [*keep, _error("NotRun", "the notebook was stopped before this cell ended")]
        return [*keep, new_output("execute_result", data={"text/plain": repr(most)})]


def _error(name: str, text: str) -> NotebookNode:
    return new_output("error", ename=name, evalue=text, traceback=[f"{name}: {text}"])


class SaveScores(SaveAutoGrades):
    """nbgrader's SaveAutoGrades; a cell without a verdict is left to the teacher, with 0 points."""

    def _add_score(self, cell: NotebookNode, resources: Any) -> None:
        super()._add_score(cell, resources)
        if any(o.get("ename") == "NotGraded" for o in cell.get("outputs", [])):
            name = cell.metadata["nbgrader"]["grade_id"]
            where = (self.notebook_id, self.assignment_id, self.student_id)
            grade = self.gradebook.find_grade(name, *where)
            grade.needs_manual_grade = True
            self.gradebook.db.commit()


class HideHiddenTests(NbGraderPreprocessor):
    """For feedback: remove a teacher's hidden tests and what their failures reveal.

    nbgrader shows them. This course's own notebook has none: its hidden tests are the grader's.
    """

    def preprocess_cell(self, cell: NotebookNode, resources: Any, cell_index: int) -> Any:
        """Cut the marked lines out of a cell."""
        if "BEGIN HIDDEN TESTS" in cell.source:
            cell.source = re.sub(
                r"(?ms)^[^\n]*BEGIN HIDDEN TESTS.*?(END HIDDEN TESTS[^\n]*|\Z)",
                "# (hidden tests)",
                cell.source,
            )
            for output in cell.get("outputs", []):
                if output.output_type == "error":
                    output.evalue, output.traceback = "", [f"{output.ename} in a hidden test"]
        return cell, resources
