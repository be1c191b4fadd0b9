"""The command as a whole: what it writes, also when it is stopped, killed, or has no sandbox."""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from instructor import grade
from instructor.grading.bwrap import PREFIX, sweep
from instructor.grading.sandbox import SandboxError
from instructor.variants import catalog
from tests.labfile import ROOT

from .command import ROOT_FLAG, fake_judge, run, table, totals

STUB = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
PROC, TEMPORARY = Path("/proc"), Path(tempfile.gettempdir())
SLOW = "LAB15_SLOW" not in os.environ
# What turns every result of pytest into a pass, where pytest runs in the submission's folder.
PLANTED = ("conftest.py", "tests/conftest.py", "pytest.py", "tinylm.py", "torch.py", "numpy.py")
PLANTED += ("sitecustomize.py", "usercustomize.py", "pytest.ini", "setup.cfg", "tests/__init__.py")
YES = "def pytest_runtest_makereport(item, call): raise SystemExit(0)\n"


def hand_in(folder, **files):
    for name, text in files.items():
        (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / name / "lab15_grpo.py").write_text(text, encoding="utf-8")
    return folder


def start(folder, out, *flags):
    """Start the command as a process of its own."""
    command = [sys.executable, "-m", "instructor.grade", str(folder), "--out", str(out)]
    return subprocess.Popen(
        [*command, *ROOT_FLAG, *flags], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        # A shell starts what runs in the background, these tests say, with Ctrl-C switched off.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def wait_for(path, seconds=120):
    end = time.monotonic() + seconds
    while not path.exists():
        assert time.monotonic() < end, f"{path.name} does not come"
        time.sleep(0.05)


# ---------------------------------------------------------------- a run, and another one


def test_the_command_continues(tmp_path, works, capsys):
    folder, out = hand_in(tmp_path / "in", eve=STUB), tmp_path / "out"
    for name in PLANTED:
        (folder / "eve" / name).parent.mkdir(exist_ok=True)
        (folder / "eve" / name).write_text(YES, encoding="utf-8")
    (folder / "dan").mkdir()
    assert run(folder, out) == 0
    first = (out / "eve" / "results.json").read_text(encoding="utf-8")
    (folder / "bob.py").write_text("", encoding="utf-8")
    assert run(folder, out) == 0
    assert (out / "eve" / "results.json").read_text(encoding="utf-8") == first  # has its seconds
    assert totals(out) == {"bob": "0", "dan": "0", "eve": "0"}
    assert "no file" in table(out)["dan"]["note"] and "empty" in table(out)["bob"]["note"]
    assert "3 of 3 graded" in capsys.readouterr().out
    assert (out / "seed.txt").stat().st_mode & 0o077 == 0


def test_a_corrected_test_regrades_its_task_alone(tmp_path, fakes):
    folder, out = hand_in(tmp_path / "in", eve=STUB), tmp_path / "out"
    assert run(folder, out) == 0 and totals(out) == {"eve": "10"}
    path = out / "eve" / "results.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    found["extra_data"]["hidden_hash"]["3"] = "of an older version"
    for number in (2, 4):  # were these judged again, there would be full points
        found["tests"][number]["score"] = 0.5
    path.write_text(json.dumps(found), encoding="utf-8")
    assert run(folder, out) == 0
    row = table(out)["eve"]
    assert [row[f"task{n}"] for n in range(1, 6)] == ["2", "2", "1", "3", "0.5"]
    assert run(folder, out, "--again") == 0 and totals(out) == {"eve": "10"}


def test_shards_share_a_folder(tmp_path, fakes, capsys):
    files = dict.fromkeys(("ann", "bob", "Bob"), "x = 1\n")
    folder, out = hand_in(tmp_path / "in", **files), tmp_path / "out"
    assert run(folder, out, "--student", "a*") == 0
    assert totals(out) == {"ann": "10", "bob": "", "Bob": ""}
    assert run(folder, out, "--student", "[bB]*", "-j", "2") == 0
    assert set(totals(out)) == {"ann", "bob", "Bob"}
    capsys.readouterr()
    assert run(folder, out, "--student", "nobody") == 0
    assert "--student nobody: fits none of the 3 students here" in capsys.readouterr().out


def test_older_given_parts_are_graded(tmp_path, works):
    old = catalog.solution().replace('LAB_VERSION = "1.0"', 'LAB_VERSION = "0.8"')
    old = old.replace("    max_grad_norm: float = 1.0\n", "")
    at, end = old.index("@torch.no_grad()\ndef token_entropy"), old.index("@dataclass\nclass")
    text = old[:at] + old[end : old.index("def train_grpo(")]  # functions that are not there
    out = tmp_path / "out"
    assert run(hand_in(tmp_path / "in", eve=text), out) == 0
    extra = json.loads((out / "eve" / "results.json").read_text(encoding="utf-8"))["extra_data"]
    assert totals(out) == {"eve": "10"} and extra["file_lab_version"] == "0.8"
    assert extra["lab_version"] == "1.0" and "lab version 0.8" in table(out)["eve"]["note"]


# ---------------------------------------------------------------- what goes wrong


def test_reports_a_failure_and_grades_the_others(tmp_path, fakes, monkeypatch):

    def judge(submission, *args):
        if submission.student == "bob":
            raise SandboxError("no room")
        return fake_judge(submission, *args)

    monkeypatch.setattr(grade, "judge", judge)
    folder, out = hand_in(tmp_path / "in", ann=STUB, bob=STUB), tmp_path / "out"
    assert run(folder, out) == 1
    assert totals(out) == {"ann": "10", "bob": ""}
    assert "NOT GRADED" in table(out)["bob"]["note"] and not (out / "bob").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_stopped_or_killed_it_continues(tmp_path, works, number):
    if SLOW and number != signal.SIGINT:
        pytest.skip("slow: LAB15_SLOW=1 runs it")
    endless = STUB + "\nwhile True:\n    pass\n"
    folder = hand_in(tmp_path / "in", ann="x = 1\n", bob=endless, cid=catalog.solution())
    out = tmp_path / "out"
    with start(folder, out) as process:
        wait_for(out / "ann" / "results.json")
        first = (out / "ann" / "results.json").read_bytes()
        time.sleep(0.5)
        process.send_signal(number)
        process.communicate(timeout=30)
    assert process.returncode == (-9 if number == signal.SIGKILL else 130)
    if number != signal.SIGKILL:
        assert totals(out) == {"ann": "0"}
    time.sleep(0.5)
    assert not [p for p in processes() if f"{PREFIX}{process.pid}-" in p]
    assert run(folder, out) == 0 and totals(out) == {"ann": "0", "bob": "0", "cid": "10"}
    assert (out / "ann" / "results.json").read_bytes() == first
    assert not list(TEMPORARY.glob(f"{PREFIX}{process.pid}-*"))


def processes():
    found = []
    for path in (p / "cmdline" for p in PROC.iterdir() if p.name.isdecimal()):
        try:
            found.append(path.read_bytes().decode(errors="replace"))
        except OSError:
            continue
    return found


def test_what_a_killed_grader_left_is_removed(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    names = [f"{PREFIX}99999999-a", f"{PREFIX}{os.getpid()}-b", f"{PREFIX}x-c", "other"]
    for name in names:
        (tmp_path / name).mkdir()
    sweep()
    assert {p.name for p in tmp_path.iterdir()} == set(names[1:])


def test_results_do_not_become_submissions(tmp_path, fakes, capsys):
    folder = hand_in(tmp_path / "in", ann=STUB)
    assert run(folder, folder / "out") == 2 and run(folder, folder) == 2
    assert "another folder" in capsys.readouterr().out and os.listdir(folder) == ["ann"]


def test_root_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert grade.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "You are root" in capsys.readouterr().out
    assert grade.main([str(tmp_path), "--out", str(tmp_path / "o"), "--as-root", "--trust"]) == 2
    assert not (tmp_path / "out").exists()


def test_a_missing_sandbox_is_reported_with_remedies(tmp_path, monkeypatch, capsys):
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho bwrap: No permissions >&2\nexit 1\n", encoding="utf-8")
    fake.chmod(0o755)
    for found, words in ((None, "not installed"), (str(fake), "No permissions")):
        monkeypatch.setattr("instructor.grading.sandbox.find_bwrap", lambda found=found: found)
        assert run(hand_in(tmp_path / "in", ann=STUB), tmp_path / "out") == 2
        said = capsys.readouterr().out
        assert words in said and "--trust" in said and "apparmor_restrict" in said


def test_trust_grades_with_the_same_tests_and_says_what_it_means(tmp_path, capsys, monkeypatch):
    if SLOW:
        pytest.skip("slow: LAB15_SLOW=1 runs it")
    monkeypatch.setattr(os, "geteuid", lambda: 1)
    wrong = next(v for v in catalog.chaffs() if v.id == "task2_a01_sample_std").text
    folder = hand_in(tmp_path / "in", ann=catalog.solution(), bob=wrong, cid=STUB)
    out = tmp_path / "out"
    assert grade.main([str(folder), "--out", str(out), "--trust", "-j", "2"]) == 0
    assert totals(out) == {"ann": "10", "bob": "8.4", "cid": "0"}
    assert "no sandbox" in capsys.readouterr().out
    found = json.loads((out / "bob" / "results.json").read_text(encoding="utf-8"))
    assert found["tests"][1]["extra_data"]["mistakes"] == ["task2.sample_std"]
