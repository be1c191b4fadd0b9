"""An invented class of forty, as each of seven places hands it over: a generator for tests."""

import csv
import io
import zipfile
from pathlib import Path
from typing import NamedTuple

FORMS = ("folder", "zip", "canvas", "moodle", "blackboard", "gradescope", "nbgrader")
NAME = "lab15_grpo.py"
STUB_LINE = '    raise NotImplementedError("Task {}: x")\n'
STUB = "".join(f"def f{n}():\n{STUB_LINE.format(n)}" for n in range(1, 6))


class Student(NamedTuple):
    """One of the class. `files` is what was handed in last, {name: text}; `before` the time before.

    graded: the text that must be graded, or None if there is none.
    """

    first: str
    last: str
    number: int
    login: str
    files: dict[str, str]
    graded: str | None
    before: dict[str, str] | None = None
    late: bool = False

    @property
    def name(self) -> str:
        """First and last name."""
        return f"{self.first} {self.last}"

    @property
    def email(self) -> str:
        """An address."""
        return f"{self.login}@example.edu"


def work(number: int) -> str:
    """Return a lab file that is this student's."""
    functions = "sample_group group_advantages k3_kl grpo_loss grpo_step".split()
    bodies = "".join(f"def {f}(*a):\n    return {number}\n" for f in functions)
    return f"# student {number}\n{bodies}"


NAMES = [
    ("Conan", "O'Brien"), ("J\u00f6rg", "M\u00fcller"), ("Zo\u00eb", "Stra\u00dfe"),
    ("Ann", "Lee"), ("Ann", "Lee"), ("Maria del Carmen", "Garc\u00eda L\u00f3pez"),
    ("Bartholomew" * 6, "Featherstonehaugh" * 2),
    ("Bartholomew" * 6, "Featherstonehaugh" * 2 + "x"),
    (".dot", "First"), ("__under", "Score"), ("\u674e", "\u660e"), ("Jean-Luc", "Picard"),
    ("A", "B"), ("AB", "C"), ("=SUM(1)", "Cell"), ("-rf", "Dash"), ("Ada", "ada"), ("ADA", "Ada"),
]


def everybody(count: int = 40) -> list[Student]:
    """Return the class: names of all kinds, and of every kind of hand-in at least one."""
    kinds = [
        lambda w: ({NAME: w}, w), lambda w: ({"lab15_grpo-1.py": w}, w),
        lambda w: ({"lab15_grpo (2).py": w, "helper.py": "x = 1\n"}, w),
        lambda w: ({NAME: w, "helper.py": "x = 1\n", "conftest.py": "", "lab15_plots.py": "y"}, w),
        lambda w: ({"my_solution.py": w, "_util.py": "z = 1\n"}, w),
        lambda w: ({"lab15_grpo (1).py": w, NAME: STUB}, w),
        lambda w: ({"lab15.ipynb": "{}"}, None), lambda w: ({f"{NAME}.txt": w}, None),
        lambda w: ({"work.rar": "Rar!"}, None), lambda w: ({"report.pdf": "%PDF"}, None),
        lambda w: ({"a.py": "1", "b.py": "2"}, None), lambda w: ({"essay.docx": "PK", NAME: w}, w),
    ]
    found = []
    for n in range(count):
        first, last = NAMES[n] if n < len(NAMES) else (f"Student{n}", f"Of Class {n % 3}")
        files, graded = kinds[n % len(kinds)](work(n))
        before = {NAME: work(1000 + n)} if n % 7 == 3 and graded else None
        found.append(Student(first, last, 500 + n, f"u{n:03}x", files, graded, before, n % 5 == 1))
    return found


# ---------------------------------------------------------------- the seven forms


def in_form(form: str, students: list[Student]) -> dict[str, str]:
    """Return {path: text} of a class as a place hands it over, with an empty folder's path + "/".

    Only what an operating system leaves there is added.
    """
    litter = {".DS_Store": "x", "Thumbs.db": "x", "__MACOSX/._a": "x"}
    return MAKERS[form](students) | litter


def _folders(students):
    names = [s.name for s in students]
    found = {}
    for s in students:
        top = s.name if names.count(s.name) == 1 else f"{s.name} {s.number}"
        found |= {f"{top}/{name}": text for name, text in s.files.items()}
    return found


def _canvas(students):
    found = {}
    for s in students:
        who = "".join(c for c in (s.last + s.first).lower() if c.isalnum() or c == "_")
        late = "_LATE" * s.late
        for i, (name, text) in enumerate(s.files.items()):
            # The handed-out file, if it is there at all, was uploaded first.
            found[f"{who}{late}_{s.number}_{9000 + 10 * s.number + i}_{name}"] = text
    return found


def _moodle(students):
    found = {}
    for s in students:
        top = f"{s.name}_{s.number}_assignsubmission_file"
        found |= {f"{top}/{name}": text for name, text in s.files.items()}
        if s.late:
            found[f"{s.name}_{s.number}_assignsubmission_onlinetext/onlinetext.html"] = "<p>hello"
    return found


def _moodle_flat(students):
    return {f"{s.name}_{s.number}_assignsubmission_file_{name}": text
            for s in students for name, text in s.files.items()}


def _blackboard(students):
    found = {}
    for s in students:
        for day, files in ((28, s.before), (29, s.files)):
            if files is not None:
                head = f"lab15_{s.login}_attempt_2026-11-{day}-12-00-00"
                found[f"{head}.txt"] = f"Name: {s.name} ({s.login})\nAssignment: lab15\n"
                found |= {f"{head}_{name}": text for name, text in files.items()}
    return found


def _gradescope(students):
    found, lines = {}, ["---"]
    for s in students:
        top = f"submission_{s.number}"
        found |= {f"{top}/{name}": text for name, text in s.files.items()}
        name = s.name.replace("'", "''")
        lines += [f"{top}:", "  :submitters:", f"  - :name: '{name}'", f"    :sid: '{s.number}'",
                  f"    :email: {s.email}", "  :created_at: 2026-11-29 10:00:00.000000000 Z"]
    return found | {"submission_metadata.yml": "\n".join(lines) + "\n"}


def _nbgrader(students):
    found = {}
    for s in students:
        top = f"{s.login}/lab15"
        found |= {f"{top}/{name}": text for name, text in s.files.items()}
        found[f"{top}/timestamp.txt"] = "2026-11-29 12:00:00 UTC\n"
    return found


MAKERS = {
    "folder": _folders, "zip": _folders, "canvas": _canvas, "moodle": _moodle,
    "moodle_flat": _moodle_flat, "blackboard": _blackboard, "gradescope": _gradescope,
    "nbgrader": _nbgrader,
}


def as_folder(folder: Path, files: dict[str, str] | dict[str, str | bytes]) -> Path:
    """Write {path: text, or bytes} as a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            path.mkdir(exist_ok=True)
        else:
            path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def as_zip(path: Path, files: dict[str, str]) -> Path:
    """Write {path: text} as a zip."""
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return path


# ---------------------------------------------------------------- rosters


def table(header: str, rows: list[list], separator: str = ",") -> str:
    """Return a table as text.

    Args:
        header: names with commas.
        rows: lists of cells.
        separator: between cells.
    """
    out = io.StringIO()
    writer = csv.writer(out, delimiter=separator, lineterminator="\r\n")
    writer.writerow(header.split(","))
    writer.writerows(rows)
    return out.getvalue()


def roster(form: str, students: list[Student]) -> bytes:
    """Return the roster of a class as each of the places exports it."""
    if form == "canvas":
        head = "Student,ID,SIS User ID,SIS Login ID,Section,Lab 15: GRPO (4711)"
        rows = [["    Points Possible", "", "", "", "", 10]]
        rows += [[f"{s.last}, {s.first}", s.number, f"sis{s.number}", s.login, "A", ""]
                 for s in students]
        rows += [["Student, Test", 9, "", "t", "A", ""]]
        return table(head, rows).encode("utf-8-sig")
    if form.startswith("moodle"):
        head = "Identifier,Full name,Email address,Status,Grade,Maximum Grade,Last modified (grade)"
        rows = [[f"Participant {s.number}", s.name, s.email, "", "", "10.00", "-"]
                for s in students]
        return table(head, rows).encode("utf-8")
    if form == "blackboard":
        head = "Last Name,First Name,Username,Student ID,Lab 15 [Total Pts: 10 Score] |123456"
        rows = [[s.last, s.first, s.login, s.number, ""] for s in students]
        return table(head, rows, "\t").encode("utf-16")
    if form == "gradescope":
        head = "First Name,Last Name,SID,Email,Role"
        rows = [[s.first, s.last, s.number, s.email, "Student"] for s in students]
        rows += [["Pro", "Fessor", "", "pro@example.edu", "Instructor"]]
        return table(head, rows).encode("utf-8")
    head = "Nachname,Vorname,Username,E-Mail,Extra days"
    rows = [[s.last, s.first, s.login, s.email, ""] for s in students]
    return table(head, rows, ";").encode("utf-8")
