"""Endless loops end: the time limit alone, while a file is loaded, and in runs of pytest."""

import signal
import sys
import time

import pytest

from instructor.tests.lab_texts import RIGHT, at, edit, kinds
from instructor.tests.processes import progress_lines, run
from tests.labfile import ROOT, TASKS, task_state
from tests.loader import limits
from tests.loader.limits import OutOfTime, TimeLimit

FILE = "/no/such/lab15_grpo.py"
BOTH = pytest.mark.parametrize("by_thread", [False, True], ids=["signal", "thread"])
if not hasattr(signal, "setitimer"):
    BOTH = pytest.mark.parametrize("by_thread", [True], ids=["thread"])


def student(code):
    """Return the function f of some student code in FILE."""
    names = {"time": time}
    exec(compile(code, FILE, "exec"), names)
    return names["f"]


LOOPS = {  # code; the function and line to be named
    "plain": ("def f():\n    while True:\n        pass\n", "f", (2, 3)),
    "inner": ("def g():\n    while 1: len('')\ndef f():\n    g()\n", "g", (2,)),
    "genexpr": ("def f():\n    for x in iter(int, 1):\n        sum(i for i in [1])\n", "f", (2, 3)),
    "swallowed": ("def f():\n  try:\n    while 1: 0\n  except: 0\n  return 3\n", "f", (3,)),
    "changed": ("def f():\n  try:\n    while 1: 0\n  except: raise OSError\n", "f", (3,)),
    "exception": (
        "def f():\n  while 1:\n    try: len('')\n    except Exception: 0\n", "f", (2, 3)),
    "bare": ("def f():\n  while 1:\n    try:\n      len('')\n    except: pass\n", "f", range(9)),
    "finally": (
        "def f():\n  while 1:\n    try:\n      len('')\n    finally:\n      continue\n", "f",
        range(9)),
    "asleep": (
        "def f():\n  while 1:\n    try:\n      time.sleep(0.002)\n    except:\n      pass\n", "f",
        range(9)),
    "generator": (
        "def f():\n  while 1:\n    try:\n      sum(i for i in range(300))\n    except:\n"
        "      pass\n", "f", range(9)),
}


@BOTH
@pytest.mark.parametrize("name", LOOPS)
def test_loop_ends_and_its_line_is_named(monkeypatch, name, by_thread):
    if by_thread and sys.version_info < (3, 12) and name == "asleep":
        pytest.skip("without signals Python 3.11 finds no moment outside of the try")
    monkeypatch.setattr(limits, "AGAIN", 0.1)
    code, function, lines = LOOPS[name]
    with pytest.raises(OutOfTime) as caught:
        with TimeLimit(0.2, FILE, by_thread):
            student(code)()
    assert caught.value.name == function and caught.value.line in lines
    assert not isinstance(caught.value, Exception)
    time.sleep(0.3)  # nothing strikes afterwards


@BOTH
def test_only_student_code_is_struck(by_thread):
    quick = student("def f(): return 3")
    with TimeLimit(0.1, FILE, by_thread) as limit:
        time.sleep(0.4)  # the tests' own work takes as long as it takes
        assert quick() == 3
    assert limit.where is None
    with pytest.raises(KeyboardInterrupt):
        with TimeLimit(1, FILE, by_thread):
            raise KeyboardInterrupt


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no alarm signal")
def test_alarms_of_others_are_put_back():
    rings = []
    old = signal.signal(signal.SIGALRM, lambda *args: rings.append(1))
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.3)
        with pytest.raises(OutOfTime):
            with TimeLimit(0.1, FILE, by_thread=False):
                student(LOOPS["plain"][0])()
        time.sleep(0.5)
        assert rings == [1]
    finally:
        signal.signal(signal.SIGALRM, old)


# ============================================================== while the file is loaded


def test_loops_at_the_top_level_are_noted_and_the_rest_runs(load):
    loop = "while True:\n    pass\n"
    text = edit(RIGHT, ("import random\n", "import random\n" + loop),
                ("LAB_VERSION = ", f"{loop}{loop}LAB_VERSION = "))
    lab = load(text, limit=0.5)
    assert kinds(lab) == "wwwww" and lab.LAB_VERSION
    assert ["did not end within" in p.text for p in lab.__problems__] == [True] * 3
    lines = [lab.__problems__[0].line + i for i in (0, -1)]  # while, or pass below it
    assert at(text, "while True") in [f"line {line}" for line in lines]


LEANING = [  # a line of the file, the words that name it ("": fine)
    ("from solutions.lab15_grpo import k3_kl", "imports solutions.lab15_grpo"),
    ("import tests.spec.oracle as o", "imports tests.spec.oracle"),
    ("def helper():\n    from instructor import runner", "imports instructor"),
    ("import importlib; m = importlib.import_module('solutions.lab15_grpo')", "imports solutions"),
    ("m = __import__('tests.spec.oracle')", "imports tests.spec.oracle"),
    ("exec(open('solutions/lab15_grpo.py', encoding='utf-8').read())", "imports solutions"),
    ("import json, math", ""),
    ("TEXT = 'see solutions/ later'; print('tests/solutions')", ""),
]


@pytest.mark.parametrize("line, words", LEANING)
def test_file_must_stand_on_its_own(load, line, words):
    lab = load(edit(RIGHT, ("import random\n", f"import random\n{line}\n")))
    assert kinds(lab) == ("bbbbb" if words else "wwwww")
    for n in TASKS:
        text = task_state(lab, n).text
        assert words in text and ("must stand on its own" in text) == bool(words)


# ============================================================== runs of pytest

ENDLESS = edit(
    RIGHT,
    ("    d = ref_logp - logp\n", "    d = ref_logp - logp\n    while d is not None: pass\n"),
    ("    groups = rewards.view(", "    import sys; sys.exit(0)\n    groups = rewards.view("),
    ("    rho = torch.exp(", "    rho = (torch.exp("),
    ("import random\n", "import random\nimport no_such_package\n"),
)


@BOTH
def test_other_tasks_are_judged(monkeypatch, tmp_path, by_thread):
    if by_thread:
        monkeypatch.setenv(limits.FORCE_THREAD, "1")
    (tmp_path / "lab.py").write_text(ENDLESS, "utf-8")
    options = ["-q", "-p", "no:cacheprovider", "--limit=1", f"--lab={tmp_path / 'lab.py'}"]
    code, text = run(ROOT, *options, str(ROOT / "tests"))
    where = at(ENDLESS, "while d is not")
    assert code == 1
    said = " ".join(text.split())  # in short: Task 2 fails as well, and comes first
    assert f"k3_kl did not end within 1 s; it was at lab.py {where}" in said
    lines = progress_lines(text)
    assert lines[0].startswith("passed (") and lines[4].startswith("passed (")
    assert "tests fail" in lines[1] and lines[3].startswith("broken: line ")
    assert lines[2].startswith(f"does not end: stopped at {where}; 1 of ")
    assert "group_advantages raised SystemExit" in text and "no_such_package" in text


def test_debugger_stops_the_clock():
    from types import SimpleNamespace

    from tests import conftest

    clock = TimeLimit(0.1, FILE)
    with clock:
        conftest.pytest_enter_pdb(SimpleNamespace(stash={conftest.CLOCK: clock}))
        student("def f():\n    time.sleep(0.3)\n")()
    assert clock.where is None
