"""The first hour of instructor/README.md, with its commands as they are written there."""

import csv
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from instructor import grade
from instructor.records import lateness, overrides, uploads
from instructor.submissions import intake
from instructor.variants import catalog
from tests.labfile import ROOT

README = (ROOT / "instructor" / "README.md").read_text(encoding="utf-8")
HOUR = README[README.index("## The first hour") : README.index("## How points come about")]
BLOCKS = re.findall(r"^```\n(.*?)^```", HOUR, re.M | re.S)


def commands():
    """Return the command lines but those that install something."""
    lines = [line for block in BLOCKS for line in block.splitlines()]
    return [line for line in lines if not re.search(r"apt-get|pip install|-m venv", line)]


def test_the_first_hour_has_its_four_parts():
    text = "\n".join(commands())
    for words in ("seed.txt", "build bundle --graded", "instructor.grade", "instructor.report"):
        assert words in text
    assert README.isascii()


def test_the_commands_and_tables_of_points_by_hand_are_understood(tmp_path):
    at, end = README.index("## The class, and points by hand"), README.index("## With nbgrader")
    first, example, *_ = re.findall(r"^```\n(.*?)^```", README[at:end], re.M | re.S)
    flags = grade.arguments(shlex.split(first.replace("\\\n", " "))[3:])
    assert flags.system == "canvas" and lateness.due(flags.due, flags.late, {}).rule
    (tmp_path / "overrides.csv").write_text(example, encoding="utf-8")
    class_of_two = [intake.Submission(name, None) for name in ("ada", "ben")]
    found = overrides.read(tmp_path / "overrides.csv", class_of_two)
    assert set(found.by_student) == {"ada", "ben"} and not found.problems
    for system in uploads.SYSTEMS:
        assert f"`--for {system}`" in README[at:end]


def shim_of_python(folder):
    """Write a `python` that is this one, and lets root grade."""
    folder.mkdir()
    root = "--as-root" if os.geteuid() == 0 else ""
    shim = f'#!/bin/sh\ncase "$2" in *.grade) set -- "$@" {root};; esac\n'
    (folder / "python").write_text(f'{shim}exec "{sys.executable}" "$@"\n', encoding="utf-8")
    (folder / "python").chmod(0o755)
    return folder


@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap needs Linux")
def test_the_first_hour_works_as_it_is_written(tmp_path):
    folder, shims = tmp_path / "lab15" / "submissions", shim_of_python(tmp_path / "bin")
    wrong = next(v for v in catalog.chaffs() if v.id == "task2_a01_sample_std").text
    for name, text in (("ada", catalog.solution()), ("ben", wrong)):
        (folder / name).mkdir(parents=True)
        (folder / name / "lab15_grpo.py").write_text(text, encoding="utf-8")
    environ = os.environ | {"HOME": str(tmp_path), "PATH": f"{shims}:{os.environ['PATH']}"}
    said = ""
    for line in commands():
        done = subprocess.run(
            ["bash", "-c", line], cwd=ROOT, env=environ, capture_output=True, encoding="utf-8"
        )
        assert done.returncode == 0, (line, done.stdout, done.stderr)
        said += done.stdout
    assert "lab15_grpo: 10 " in said
    results = tmp_path / "lab15"
    with open(results / "results" / "scores.csv", encoding="utf-8", newline="") as file:
        found = {row["student"]: row["total"] for row in csv.DictReader(file)}
    assert found == {"ada": "10", "ben": "8.4"}
    for name in ("lab15-grpo.zip", "report.html", "results/ada/feedback.html"):
        assert Path(results, name).stat().st_size > 1000
