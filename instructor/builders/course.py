"""Make the folder of an nbgrader course: configuration, notebook, the files that students get.

    python -m instructor.build course --out FOLDER

Run again it renews what it has made; submissions, grades and results stay.
"""

import argparse
import re
import shutil
from pathlib import Path
from typing import Any

from tests.labfile import ROOT, TASKS

from ..records.files import write

HERE = ROOT / "instructor" / "course"
ASSIGNMENT = "lab15"
GIVEN = ("lab15_grpo.py", "lab15_run.py", "tinylm.py", "chapter.md", "pyproject.toml",
         "requirements.txt")
CHECKPOINT = "tinylm_sft.pt"
ROLES: dict[str, dict[str, bool]] = {
    "given": {"locked": True},
    "answer": {"solution": True},
    "test": {"grade": True, "locked": True},
    "task": {"grade": True, "locked": True},
    "essay": {"grade": True, "solution": True},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags."""
    parser.add_argument("--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help=f"the SFT model that students get (default: {CHECKPOINT}, trained if missing)",
    )


def run(flags: argparse.Namespace) -> int:
    """Build the course; return the exit code."""
    checkpoint = flags.checkpoint or ROOT / CHECKPOINT
    if not checkpoint.is_file():
        if flags.checkpoint:
            print(f"there is no file {checkpoint}")
            return 2
        print(f"{CHECKPOINT} is trained first, about 15 s")
        from tinylm import load_or_train_sft

        load_or_train_sft(str(checkpoint))
    try:
        build(flags.out, checkpoint)
    except ImportError as error:
        print(f"{error}; pip install -r instructor/requirements.txt")
        return 2
    print(f"{flags.out} is ready. Everything in one command:")
    print(f"    python -m instructor.course.cycle {flags.out} --submissions FOLDER")
    return 0


def build(out: Path, checkpoint: Path) -> None:
    """Write the course folder.

    Raises:
        ValueError: out is the repository, or no folder.
    """
    out = out.resolve()
    if out == ROOT or out in ROOT.parents or (out.exists() and not out.is_dir()):
        raise ValueError(f"{out} cannot be the course's folder; name an empty one")
    book = notebook()  # first: it may lack a package
    source = out / "source" / ASSIGNMENT
    source.mkdir(parents=True, exist_ok=True)
    for name in GIVEN:
        shutil.copyfile(ROOT / name, source / name)
    shutil.copyfile(checkpoint, source / CHECKPOINT)
    shutil.copyfile(HERE / "nbcheck.py", source / "nbcheck.py")
    _copy_modules(ROOT / "tests", source / "tests", ("*.py", "*.txt"))
    _copy_modules(HERE / "lab15_nbgrader", out / "lab15_nbgrader", ("*.py",))
    shutil.copytree(HERE / "lab15_nbgrader/templates", out / "lab15_nbgrader/templates")
    write(source / f"{ASSIGNMENT}.ipynb", book)
    config = (HERE / "nbgrader_config.py").read_text(encoding="utf-8")
    write(out / "nbgrader_config.py", config.replace('"@REPOSITORY@"', repr(str(ROOT))))
    _exchange(out / "exchange")


def _copy_modules(source: Path, target: Path, patterns: tuple[str, ...]) -> None:
    """Copy the files of a folder and below it; what is no longer in it goes."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    for pattern in patterns:
        for path in sorted(source.rglob(pattern)):
            copy = target / path.relative_to(source)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)


def _exchange(folder: Path) -> None:
    """Make nbgrader's exchange, which everybody must be able to write to."""
    folder.mkdir(exist_ok=True)
    folder.chmod(0o777)


# ---------------------------------------------------------------- the notebook


def notebook() -> str:
    """Return the assignment's notebook as text; the same source gives the same bytes.

    Raises:
        ValueError: two cells have the same id.
    """
    import jupytext
    import nbformat

    text = (HERE / "assignment.py").read_text(encoding="utf-8")
    text = text[text.index("# %%") :]  # the part above is for its editors
    draft = jupytext.reads(text, fmt="py:percent")
    cells = [_cell(cell) for cell in draft.cells]
    names = [cell["id"] for cell in cells]
    if len(set(names)) < len(names):
        raise ValueError(f"instructor/course/assignment.py: a cell id stands twice in {names}")
    spec = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": spec})
    book.nbformat_minor = 5  # the first with cell ids
    nbformat.validate(book)
    return nbformat.writes(book) + "\n"


def _cell(cell: Any) -> Any:
    """Turn the marks of the text source into what nbgrader wants to see."""
    about = dict(cell.metadata)
    name, role = about.pop("cell", ""), about.pop("role", None)
    if not re.fullmatch(r"[a-z][a-z0-9-]*", name) or (role and role not in ROLES):
        raise ValueError(f"instructor/course/assignment.py: bad marks {dict(cell.metadata)}")
    points = about.get("points")
    cell["id"], cell.metadata = name, type(cell.metadata)()
    if role:
        marks: dict[str, Any] = {"grade_id": name, "schema_version": 3, "task": False}
        marks |= {"grade": False, "locked": False, "solution": False} | ROLES[role]
        if role == "task":
            points = TASKS[int(name.removeprefix("task"))].points
        if marks["grade"]:
            marks["points"] = points
        cell.metadata["nbgrader"] = marks
    return cell
