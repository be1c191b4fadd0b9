"""Whatever a student's code does to Python, the other tasks get verdicts and the run ends well."""

import os
import signal
import subprocess
import sys
import time

import pytest

from instructor.tests.lab_texts import RIGHT, at, edit
from instructor.tests.processes import progress_lines, run
from tests import labfile
from tests.loader import limits, surroundings
from tests.loader.surroundings import EndsPython, tamed
from tests.runner import guard

LINE = "    d = ref_logp - logp\n"
PYTHON = {"PYTHONUTF8": "0"}  # run() starts a new Python where it is given an environment
SPAWN = PYTHON | {guard.BY_SPAWN: "1"}
BOTH = pytest.mark.parametrize("env", [PYTHON, SPAWN], ids=["fork", "spawn"])
if not hasattr(os, "fork"):
    BOTH = pytest.mark.parametrize("env", [SPAWN], ids=["spawn"])


def pytest_of(room, text, env, *options):
    """Run the small copy of the lab on a file; return (exit code, output, progress lines)."""
    code, shown = run(room, "-q", "--ignore=tests/test_bad_x.py", *options, text=text, env=env)
    return code, shown, progress_lines(shown)


@BOTH
@pytest.mark.parametrize("option", ["--lab=nope.py", "--limit=-3", "nowhere.py"])
def test_what_is_refused_is_no_success(room, env, option):
    code, shown = run(room, "-q", option, env=env)
    assert code == 4 and "ERROR" in shown, shown


STEP = "    groups = sample_group(policy,"


def with_line(code):
    """Return the solution with a line more in k3_kl."""
    return edit(RIGHT, (LINE, f"    {code}\n{LINE}"))


def in_step(code):
    """Return the solution with a line more in grpo_step, which no other small test calls."""
    return edit(RIGHT, (STEP, f"    {code}\n{STEP}"))


@BOTH
def test_a_crash_costs_one_task(room, env):
    text = in_step("import ctypes; ctypes.string_at(0)")
    code, shown, lines = pytest_of(room, text, env)
    where = at(text, "import ctypes")
    assert code == 1 and [line[:6] for line in lines] == ["passed"] * 4 + ["broken"], shown
    assert lines[4] == f"broken: {where}: it crashed Python (segmentation fault in C code)"
    assert f"broken: Task 5, grpo_step (lab.py {where}: " in shown and "Fatal Python" not in shown
    assert "starting again without it" in shown


def test_two_crashes_and_one_while_the_file_is_loaded(room):
    text = edit(
        in_step("import ctypes; ctypes.string_at(0)"),
        ("    groups = rewards.view(", "    import ctypes; ctypes.string_at(1)\n"
         "    groups = rewards.view("),
        ("def k3_kl(", "import ctypes\nctypes.string_at(2)\n\n\ndef k3_kl("),
    )
    code, shown, lines = pytest_of(room, text, PYTHON)
    assert code == 1 and [line[:6] for line in lines] == [
        "passed", "broken", "passed", "passed", "broken"]
    where = at(text, "ctypes.string_at(2)")
    assert f"when loaded: lab.py {where}: this statement crashed Python" in shown


@BOTH
def test_a_loop_in_c_costs_one_task(room, env):
    text = in_step("import itertools; sum(itertools.repeat(1))")
    code, shown, lines = pytest_of(room, text, env, "--limit=0.5")
    assert code == 1 and lines[4].startswith(f"broken: {at(text, 'itertools')}: it did not end")
    assert lines[2].startswith("passed") and "Timeout (" not in shown


CALLS = ["os._exit(0)", "os.abort()", "os.kill(os.getpid(), 9)", "sys.exit(0)", "quit()",
         "signal.raise_signal(signal.SIGKILL)", "os.execv('/bin/true', ['true'])"]


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.skipif(sys.platform == "win32", reason="os.kill and os.execv are others there")
def test_calls_that_end_python_are_named(load, call):
    from tests.messages.describe import describe

    lab = load(with_line(f"import os, sys, signal; {call}"))
    with pytest.raises(SystemExit) as caught, tamed():
        lab.k3_kl(1, 2)
    text = describe(caught.value, lab, 3)
    assert text.startswith("k3_kl raised SystemExit at lab15_grpo.py line ")
    assert text.endswith("This call ends Python: remove it.") and call in text
    assert os._exit.__name__ == "_exit" and not hasattr(os._exit, "__wrapped__")
    lab = load(edit(RIGHT, ("import random\n", f"import random, os, sys, signal\n{call}\n")))
    assert "was called while the file was loaded; remove it" in lab.__problems__[0].text
    assert callable(lab.train_grpo)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_process_of_the_students_own_may_end():
    with tamed():
        pid = os.fork()
        if pid == 0:
            os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7
    assert issubclass(EndsPython, SystemExit)


def test_threads_that_are_left_do_not_hold_the_run(room):
    text = with_line("import threading, time; threading.Thread(target=time.sleep, args=(900,))"
                     ".start()")
    code, shown, lines = pytest_of(room, text, PYTHON)
    assert code == 0 and lines[2] == "passed (2 of 2)" and "still ran at the end" in shown


COMPILED = {  # the first call of the decorator, and what stands above the function
    "plain": "@torch.compile\n",
    "options": "@torch.compile(fullgraph=True, dynamic=True)\n",
    "under its own name": "from torch import compile as fast\n@fast\n",
    "with a star": "from torch import *\n@compile\n",
    "at the first call": (
        "def later(function):\n    def call(*args):\n        return torch.compile(function)(*args)"
        "\n    return call\n\n\n@later\n"
    ),
    "script": "@torch.jit.script\n",
}


@pytest.mark.parametrize("name", COMPILED)
def test_a_compiled_function_is_judged_as_it_is_written(load, monkeypatch, name):
    import torch

    def real(*args, **options):
        raise AssertionError("compiled")

    monkeypatch.setattr(torch, "compile", real)
    for text in (RIGHT, edit(RIGHT, (LINE, "    d = logp - ref_logp\n"))):
        lab = load(edit(text, ("def k3_kl(", f"{COMPILED[name]}def k3_kl(")))
        assert not lab.__problems__
        with tamed():
            value = lab.k3_kl(torch.zeros(1), torch.ones(1)).item()
        assert abs(value - (0.71828 if text is RIGHT else 0.36788)) < 1e-4
    assert torch.compile is real


def test_outside_the_tests_it_is_compiled(load, monkeypatch):
    import torch

    seen = []
    monkeypatch.setattr(torch, "compile", lambda function, **options: seen.append(options)
                        or function)
    lab = load(edit(RIGHT, ("def k3_kl(", "@torch.compile(dynamic=True)\ndef k3_kl(")))
    assert seen == [] and lab.k3_kl.__name__ == "k3_kl"
    for _ in range(2):
        lab.k3_kl(torch.zeros(1), torch.ones(1))
    assert seen == [{"dynamic": True}] and surroundings._depth == 0


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
@pytest.mark.skipif(any(map(os.path.exists, limits.GPUS)), reason="a GPU's driver needs more")
def test_memory_runs_out_with_an_exception():
    with limits.memory_limit(1 << 28), pytest.raises(MemoryError):
        bytearray(1 << 29)
    bytearray(1 << 29)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_a_signal_reaches_the_second_process(room):
    started = room / "started"
    text = with_line(f"open({str(started)!r}, 'w').close(); import time; time.sleep(60)")
    (room / "lab.py").write_text(text, "utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "--lab=lab.py", "-k", "task3",
               "--ignore=tests/test_bad_x.py", "--limit=0"]
    process = subprocess.Popen(command, cwd=room, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    while process.poll() is None and not started.exists():
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    shown, _ = process.communicate(timeout=60)
    assert process.returncode == 2 and b"KeyboardInterrupt" in shown
    assert b"task3 k3_kl" in shown


def test_what_a_program_runs_is_left_alone():
    """check(), the watch, a debugger: PyTorch is loaded already, or plugins were passed."""
    import torch  # noqa: F401

    class Params:
        plugins, args = None, []

    class Config:
        invocation_params, option = Params, object()

    assert not guard.wanted(Config) and labfile.DEADLY == {}
