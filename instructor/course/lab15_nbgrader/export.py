"""nbgrader export --to grades.csv: a column for each graded cell; nbgrader's own has totals."""

import csv
import io
import os
from pathlib import Path
from typing import Any

from nbgrader.api import Gradebook
from nbgrader.plugins import ExportPlugin
from traitlets import Unicode

from .scores import NoVerdict, left_out, load


class TaskColumns(ExportPlugin):
    """One row a student, in the order of their names; the same grades give the same bytes."""

    results = Unicode("results", help="the grader's folder, for the notes").tag(config=True)

    def export(self, gradebook: Gradebook) -> None:
        """Write the table."""
        out = io.StringIO()
        writer = csv.writer(out, lineterminator="\n")
        for assignment in gradebook.assignments:
            if not self.assignment or assignment.name in self.assignment:
                self._write(gradebook, assignment, writer)
        path = Path(self.to or "grades.csv")
        temporary = path.with_name(f"{path.name}.tmp")
        temporary.write_text(out.getvalue(), encoding="utf-8", newline="")
        os.replace(temporary, path)
        self.log.info("Grades are in %s", path)

    def _write(self, gradebook: Gradebook, assignment: Any, writer: Any) -> None:
        cells = [c.name for n in assignment.notebooks for c in n.grade_cells]
        cells.sort(key=lambda name: (name == "essay", name != "warmup", name))
        most = assignment.max_score
        writer.writerow(
            ["assignment", "student", *cells, "total", "max", "late_seconds", "to_grade", "note"]
        )
        handed_in = {s.student.id: s for s in assignment.submissions}
        for student in sorted({s.id for s in gradebook.students} | set(handed_in)):
            if self.student and student not in self.student:
                continue
            row = self._row(handed_in.get(student), cells, most)
            writer.writerow([assignment.name, _cell(student), *row, self._note(student, handed_in)])

    def _row(self, submission: Any, cells: list[str], most: float) -> list[str]:
        if submission is None:
            return ["" for _ in cells] + ["0", f"{most:g}", "", ""]
        grades = {g.name: g for n in submission.notebooks for g in n.grades}
        points = [f"{grades[c].score:g}" if c in grades else "" for c in cells]
        # nbgrader's own late penalty, if the course has one.
        total = max(0.0, submission.score - (submission.late_submission_penalty or 0))
        waiting = " ".join(c for c in cells if c in grades and grades[c].needs_manual_grade)
        late = f"{submission.total_seconds_late:g}"
        return [*points, f"{total:g}", f"{most:g}", late, waiting]

    def _note(self, student: str, handed_in: dict[str, Any]) -> str:
        if student not in handed_in:
            return "nothing handed in"
        try:
            load(Path(self.results), student)
        except NoVerdict as error:
            return f"tasks not graded: {error}"
        more = left_out(Path(self.results), student)
        return f"not in this total: {more}" if more else ""


def _cell(text: str) -> str:
    """Return a name that no spreadsheet takes for a formula."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
