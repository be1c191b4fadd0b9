"""The zip for Gradescope, called on the paths that it will see (below another folder)."""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace

import pytest

from instructor import build
from instructor.builders import gradescope
from instructor.gradescope import run
from tests.labfile import ROOT, TASKS

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Gradescope's containers run Linux")
HERE = ROOT / "instructor" / "gradescope"
# This machine may have a user lab15, who could not read a folder of these tests.
NO_USER = """
import pwd

def getpwnam(name, real=pwd.getpwnam):
    if name == "lab15":
        raise KeyError(name)
    return real(name)

pwd.getpwnam = getpwnam
"""


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """The zip."""
    folder = tmp_path_factory.mktemp("gradescope")
    (folder / "seed").write_text("a seed\n", encoding="utf-8")
    out = folder / "autograder.zip"
    flags = ["gradescope", "--seed-file", str(folder / "seed"), "--out", str(out)]
    assert build.main(flags) == 0
    return out


@pytest.fixture
def autograder(built, tmp_path):
    """The folder /autograder as Gradescope makes it, with a Python as setup.sh leaves it.

    The user that setup.sh makes is not there, whatever this machine has.
    """
    top = tmp_path / "auto grader"
    for name in ("source", "submission", "results", "venv/bin"):
        (top / name).mkdir(parents=True)
    with zipfile.ZipFile(built) as archive:
        archive.extractall(top / "source")
    shutil.copyfile(top / "source" / "run_autograder", top / "run_autograder")
    python = top / "venv" / "bin" / "python"
    (top / "no user").mkdir()
    (top / "no user" / "sitecustomize.py").write_text(NO_USER, encoding="utf-8")
    python.write_text(f'#!/bin/sh\nPYTHONPATH="{top}/no user" exec "{sys.executable}" "$@"\n',
                      encoding="utf-8")
    for path in (python, top / "run_autograder"):
        path.chmod(0o755)
    return top


def call(top):
    """Call run_autograder; return (exit code, output, results.json or None)."""
    done = subprocess.run([str(top / "run_autograder")], env=os.environ | {
        "LAB15_AUTOGRADER": str(top)}, capture_output=True, encoding="utf-8", timeout=500)
    path = top / "results" / "results.json"
    result = json.loads(path.read_text(encoding="utf-8")) if path.exists() else None
    return done.returncode, done.stdout + done.stderr, result


def in_process(top, monkeypatch, *codes, written=None):
    """Run the program with a grader that ends with these codes; return (exit code, commands)."""
    left, seen = list(codes), []

    def grade(command, **_):
        seen.append(command)
        if written is not None:
            folder = Path(command[command.index("--out") + 1]) / "submission"
            folder.mkdir(parents=True)
            (folder / "results.json").write_text(written, encoding="utf-8")
        return subprocess.CompletedProcess(command, left.pop(0), b"no sandbox\n")

    monkeypatch.setattr(run.subprocess, "run", grade)
    monkeypatch.setattr(run.os, "geteuid", lambda: 1000)
    return run.main([str(top)]), seen


@pytest.fixture
def as_user(monkeypatch):
    """Return a function that makes this process look like root or not, with a user lab15 or not."""
    def look(root, there):
        def entry(name):
            if there:
                return SimpleNamespace(pw_name=name, pw_uid=999)
            raise KeyError(name)

        monkeypatch.setattr(run.os, "geteuid", lambda: 0 if root else 1000)
        monkeypatch.setattr("pwd.getpwnam", entry)

    return look


def good(score=10.0):
    """Return a result as the grader writes it."""
    tests = [{"score": float(t.points), "max_score": float(t.points)} for t in TASKS.values()]
    return json.dumps({"score": score, "tests": tests})


def bwrap_works():
    args = ["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]
    return shutil.which("bwrap") and subprocess.run(args, capture_output=True).returncode == 0


# ---------------------------------------------------------------- the zip


def test_zip_has_its_two_files_at_the_root_and_what_grading_needs(built):
    with zipfile.ZipFile(built) as archive:
        names = set(archive.namelist())
        assert archive.getinfo("run_autograder").external_attr >> 16 & 0o111
        assert archive.read("seed.txt") == b"a seed\n"
        pins = archive.read("requirements.txt").decode().splitlines()
    assert {"setup.sh", "run_autograder", "lab/tinylm.py", "lab/solutions/lab15_grpo.py"} <= names
    assert {p.split("==")[0] for p in pins} == set(gradescope.PACKAGES)
    assert not [n for n in names if "chaffs" in n or "wheats" in n or n.startswith("lab/instr"
                "uctor/tests")] and "trust.txt" not in names


@pytest.mark.parametrize("name", ["setup.sh", "run_autograder"])
def test_scripts_are_right_for_bash(name):
    assert subprocess.run(["bash", "-n", str(HERE / name)]).returncode == 0
    assert b"\r" not in (HERE / name).read_bytes()


def test_setup_installs_the_pins_and_makes_the_user(autograder, tmp_path):
    fakes, log = tmp_path / "fakes", tmp_path / "log"
    fakes.mkdir()
    for name in ("apt-get", "useradd", "runuser", "id", "python3.13", "python3.12"):
        # No such Python in this image but 3.13; no user lab15 yet; venv and pip are noted alone.
        ends = {"apt-get": 'case "$*" in *python3.12*) exit 100;; esac', "id": "exit 1"}
        body = f'#!/bin/sh\necho "{name} $*" >>"{log}"\n{ends.get(name, "")}\n'
        (fakes / name).write_text(body, encoding="utf-8")
        (fakes / name).chmod(0o755)
    pip = autograder / "venv" / "bin" / "python"
    pip.write_text(f'#!/bin/sh\necho "venv $*" >>"{log}"\n', encoding="utf-8")
    env = {"PATH": f"{fakes}:/usr/bin:/bin", "LAB15_AUTOGRADER": str(autograder)}
    done = subprocess.run(["bash", str(autograder / "source" / "setup.sh")], env=env,
                          capture_output=True, encoding="utf-8")
    said = log.read_text(encoding="utf-8")
    assert done.returncode == 0, done.stderr
    assert "install -y --no-install-recommends bubblewrap" in said and "useradd" in said
    assert "python3.13 -m venv" in said and "-r " in said
    assert (autograder / "source" / "seed.txt").stat().st_mode & 0o777 == 0o600


# ---------------------------------------------------------------- a submission


@pytest.mark.skipif(not bwrap_works(), reason="no sandbox here")
def test_a_submission_is_graded_on_the_paths_of_gradescope(autograder):
    text = (ROOT / "solutions" / "lab15_grpo.py").read_text(encoding="utf-8")
    wrong = text.replace("return torch.exp(d) - d - 1", "return d")
    (autograder / "submission" / "lab15_grpo.py").write_text(wrong, encoding="utf-8")
    (autograder / "submission" / "helper.py").write_text("x = 1\n", encoding="utf-8")
    code, said, result = call(autograder)
    assert code == 0 and result, said
    points = [t["score"] for t in result["tests"]]
    assert points[0:2] + points[4:] == [2, 2, 2] and points[2] == 0 and result["score"] < 10
    assert [t["max_score"] for t in result["tests"]] == [2, 2, 1, 3, 2]
    assert result["stdout_visibility"] == "hidden" and said.strip() == (
        f"graded: {result['score']:g} points")
    shown = json.dumps([t["output"] for t in result["tests"]])
    hidden = (ROOT / "instructor" / "hidden" / "task3.py").read_text(encoding="utf-8")
    body = [line.strip() for line in hidden.splitlines() if len(line.strip()) > 30]
    assert "a seed" not in shown and not [s for s in body if s in shown]


def test_an_empty_seed_gives_no_points(autograder):
    (autograder / "source" / "seed.txt").write_text("\n", encoding="utf-8")
    (autograder / "results" / "results.json").write_text('{"score": 3}', encoding="utf-8")
    code, said, result = call(autograder)
    assert code == 1 and result is None and "NOT GRADED, and no points given" in said


# ---------------------------------------------------------------- when the grader fails


def test_without_a_sandbox_nothing_is_graded(autograder, monkeypatch, capsys):
    code, seen = in_process(autograder, monkeypatch, run.NO_SANDBOX)
    assert code == 1 and len(seen) == 1 and "--trust" not in seen[0]
    assert not list((autograder / "results").iterdir())
    assert "NOT GRADED" in capsys.readouterr().out


def test_trust_is_used_only_if_built_in(autograder, monkeypatch):
    (autograder / "source" / "trust.txt").write_text("x", encoding="utf-8")
    code, seen = in_process(autograder, monkeypatch, run.NO_SANDBOX, 1)
    assert code == 1 and ["--trust" in c for c in seen] == [False, True]


@pytest.mark.parametrize("root, there, as_root, begins", [
    (True, True, False, ["runuser", "-u", "lab15", "--"]),  # as setup.sh leaves it
    (True, False, True, [sys.executable]),
    (False, True, False, [sys.executable]),  # nobody but root can become another user
    (False, False, False, [sys.executable]),
])
def test_who_grades(root, there, as_root, begins, as_user):
    """With the user of setup.sh it never grades as root, whatever this machine has."""
    as_user(root, there)
    for trust in (False, True):
        command = run.command(Path("w"), trust)
        assert command[: len(begins)] == begins
        assert ("--as-root" in command) == (as_root and not trust)


@pytest.mark.parametrize("written", [
    "", "{}", "[]", '{"score": 10, "tests": []}', good(9.0), good().replace("3.0", "4.0"),
    good().replace('"score": 2.0', '"score": 2.5'), good().replace("2.0", '"2"'),
])
def test_a_result_that_does_not_fit_is_none(written, autograder, monkeypatch):
    code, _ = in_process(autograder, monkeypatch, 0, written=written)
    assert code == 1 and not list((autograder / "results").iterdir())


def test_a_result_that_fits_is_written(autograder, monkeypatch):
    code, _ = in_process(autograder, monkeypatch, 0, written=good())
    path = autograder / "results" / "results.json"
    assert code == 0 and json.loads(path.read_text(encoding="utf-8"))["score"] == 10


def test_of_other_files_than_python_only_the_names_are_taken(tmp_path):
    source = tmp_path / "in"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "lab15_grpo.py").write_text("x", encoding="utf-8")
    (source / "link.py").symlink_to("/etc/passwd")
    (source / "notes.txt").write_text("x", encoding="utf-8")
    (source / "huge.py").write_bytes(b" " * (run.BYTES + 1))
    assert run.copy(source, tmp_path / "out") == 2  # the link and the huge one
    found = [p for p in (tmp_path / "out").rglob("*") if p.is_file()]
    assert {p.name: p.read_bytes() for p in found} == {"lab15_grpo.py": b"x", "notes.txt": b""}


def test_limits_fit_into_gradescope_s_ten_minutes(as_user):
    from instructor import grade

    as_user(root=False, there=False)
    flags = grade.arguments(run.command(Path("w"), False)[3:])
    assert flags.submission_seconds * 2 < run.SECONDS < 600
