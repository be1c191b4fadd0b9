"""The first lines of README.md: two commands, the plain lines behind them, the student's first."""

import re
import shlex
import shutil
import subprocess

import pytest

from instructor.builders import pages
from instructor.tests.repo_files import TOP, files, text

FIRST = 25  # lines: one screen


def blocks():
    """Return the indented blocks of the first screen as lists of commands without comments."""
    first = "".join(text("README.md").splitlines(keepends=True)[:FIRST])
    found = re.findall(r"(?:^ {4}\S.*\n)+", first, re.M)
    return [[re.sub(r" +#.*", "", line).strip() for line in b.splitlines()] for b in found]


def test_the_two_commands_stand_first():
    assert blocks()[0] == ["make train", "make test"]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_the_plain_lines_are_what_make_runs():
    done = subprocess.run(["make", "help"], cwd=TOP, capture_output=True, encoding="utf-8")
    shown = [line.strip() for line in done.stdout.splitlines()]
    after = {line.split()[1]: following for line, following in zip(shown, shown[1:])
             if line.startswith("make ")}
    assert blocks()[1] == [after["setup"], after["train"], after["test"]]


@pytest.mark.skipif(shutil.which("make") is None, reason="no make")
def test_every_line_of_every_target_can_be_read_by_a_shell():
    targets = re.search(r"^\.PHONY: (.*)$", text("Makefile"), re.M)[1].split()
    for target in targets:
        command = ["make", "-n", "--no-print-directory", target]  # quiet also within a make
        done = subprocess.run(command, cwd=TOP, capture_output=True, encoding="utf-8")
        lines = [shlex.split(line) for line in done.stdout.splitlines()]
        assert done.returncode == 0 and lines, f"{target}: {done.stderr}"
        if target == "test":
            assert lines[-1][0] == "echo" and lines[-1][1].endswith("make test-all")


def test_the_student_and_windows_are_on_the_first_screen_and_teachers_are_not():
    first = "\n".join(text("README.md").splitlines()[:FIRST])
    assert "`python -m pytest -q -k task1`" in first and ".venv\\Scripts\\python" in first
    assert "teacher" not in first and "instructor/README" not in first
    assert first.index("make train") < first.index("![")


def test_a_bundle_offers_the_commands_that_work_in_it():
    graded = {n for n in files() if n.split("/")[0] in ("README.md", "tests", "Makefile")}
    full = graded | {n for n in files() if n.startswith("solutions/")}
    made = pages.readme(text("README.md"), full)
    assert "    make train" in made and "lab15_grpo.py tests\n" in made
    assert "solutions.lab15_grpo" not in pages.readme(text("README.md"), graded)
