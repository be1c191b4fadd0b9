"""instructor.check and instructor.mutate: what they say of variants whose verdict is known.

The command runs in a process of its own: it forks, which a process that has trained must not.
"""

import json
import os
import subprocess
import sys

import pytest

from instructor import mutate
from instructor.variants import catalog
from instructor.variants.mutators import mutants
from tests.labfile import ROOT, TASKS

CHAFF = """
[[chaff]]
id = "{0}"
task = 3
mistake = "{1}"
cause = "made for this test"
find = "return torch.exp(d) - d - 1"
replace = "return {2}"
"""
CHAFFS = [
    ("lives", "task3.k1", "torch.expm1(d) - d"),  # right
    ("named", "task3.k2", "d**2 / 2"),
    ("misnamed", "task3.k1", "d**2 / 2"),
    ("unnamed", "", "d.sin()"),
]


def run(*flags, start="pass"):
    """Run instructor.check in a new process, after the line of Python in `start`."""
    code = f"import sys; {start}; from instructor.check import main; sys.exit(main(sys.argv[1:]))"
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", code, "--task=3", *map(str, flags)]
    return subprocess.run(command, env=env, cwd=ROOT, capture_output=True, encoding="utf-8")


@pytest.fixture
def made_up(tmp_path):
    """Return the flags for a folder with a wrong wheat and four chaffs."""
    wheats = tmp_path / "right ones"
    wheats.mkdir()
    wrong = "def k3_kl(logp, ref_logp):\n    return logp - ref_logp\n"
    (wheats / "task3_wrong.py").write_text(wrong, encoding="utf-8")
    text = "".join(CHAFF.format(*entry) for entry in CHAFFS)
    (tmp_path / "chaffs.toml").write_text(text, encoding="utf-8")
    return [f"--wheats={wheats}", f"--chaffs={tmp_path / 'chaffs.toml'}"]


def test_check_tells_right_from_wrong(made_up, tmp_path):
    done = run(*made_up, f"--json={tmp_path / 'verdicts.json'}")
    assert done.returncode == 1, done.stderr
    verdicts = json.loads((tmp_path / "verdicts.json").read_text(encoding="utf-8"))
    words = {v["id"]: v["verdict"] for v in verdicts["variants"] if v["kind"] != "trivial"}
    assert words == {
        "task3_solution": "accepted",
        "task3_wrapped": "accepted",
        "task3_wrong": "rejected",
        "lives": "lived",
        "named": "named",
        "misnamed": "misnamed",
        "unnamed": "unnamed",
    }
    assert verdicts["trivial"] == verdicts["trivial caught"] == 7
    assert "wheats accepted 2 of 3" in done.stdout and "chaffs caught 3 of 4" in done.stdout


@pytest.mark.parametrize("name, code", [("task3_wrong", 1), ("lives", 1), ("named", 0)])
def test_check_fails_for_one_wrong_variant(made_up, name, code):
    done = run(*made_up, f"--only={name}")
    assert done.returncode == code, done.stdout + done.stderr


def test_check_works_without_fork(made_up):
    spawn = "import multiprocessing; multiprocessing.set_start_method('spawn')"
    done = run(*made_up, "--only=named", "-j1", start=spawn)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "chaff named: named" in done.stdout and "likely" in done.stdout


@pytest.mark.parametrize(
    "entry, words",
    [
        (("a", "", "exp(d"), "no Python"),
        (("a", "", 'd"\nwhy = "e'), r"unknown \['why'\]"),
    ],
)
def test_chaffs_that_are_no_edit_are_refused(tmp_path, entry, words):
    path = tmp_path / "chaffs.toml"
    path.write_text(CHAFF.format(*entry), encoding="utf-8")
    with pytest.raises(ValueError, match=words):
        list(catalog.chaffs(path))
    path.write_text(CHAFF.format("a", "", "d").replace("exp", "log"), encoding="utf-8")
    with pytest.raises(ValueError, match="occurs 0 times"):
        list(catalog.chaffs(path))


def test_every_task_has_wheats_and_chaffs():
    wheats, chaffs = list(catalog.wheats()), list(catalog.chaffs())
    for task in TASKS:
        assert sum(v.task == task for v in wheats) >= 2 + 6  # two are made from the solution
        assert sum(v.task == task for v in chaffs) >= 30


def test_chaffs_name_mistakes_that_exist_and_all_mistakes_have_chaffs():
    from tests.messages.explain import MISTAKES

    wanted = {name for v in catalog.chaffs() for name in v.mistake.split("+") if name}
    assert wanted <= set(MISTAKES), f"no such mistakes: {sorted(wanted - set(MISTAKES))}"
    idle = {name for name in MISTAKES if not name.startswith("any.")} - wanted
    idle -= {"task2.device"}  # in a slow test
    assert not idle, f"no chaff shows that these are named: {sorted(idle)}"


def test_mutants_are_many_and_the_explained_ones_exist():
    made = [mutant for task in TASKS for mutant in mutants(task)]
    assert len(made) > 1500
    assert len({mutant.text for mutant in made}) == len(made)
    assert set(mutate.equivalents()) <= set(map(mutate.key, made))
