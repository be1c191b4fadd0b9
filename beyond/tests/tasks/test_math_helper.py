"""The process that compares formulas: right, exact, in time from anywhere, and gone at the end."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

pytest.importorskip("math_verify", reason="pip install -r beyond/requirements.txt")

from beyond.tasks import math_helper
from beyond.tasks.rewards import NumericReward
from lab15_run import TOP


@pytest.mark.parametrize("gold, given, right", [
    ("2x+3", "3+2x", True), ("5", "5x", False),
    (r"\frac{1}{\sqrt{2}}", r"\frac{\sqrt{2}}{2}", True),
    ("1.414214", r"\sqrt{2}", True), ("1.41", r"\sqrt{2}", False), (r"\pi", "3.14", False),
    (r"\sqrt{2}+10^{-30}", r"\sqrt{2}", False),
    (r"\frac{\pi}{2^{98}}", r"\frac{\pi}{2^{99}}", False),
    ("2^{-98}x", "2^{-99}x", False), ("(1,2]", "(1,2]", True), ("(1,2]", "[1,2)", False),
    ("(x+1)^2", "x^2+2x+1", True), (r"\frac{1}{3}\pi", r"0.333333\pi", False),
])
def test_formulas_are_compared_exactly(gold, given, right):
    assert math_helper.same(gold, given, 60) is right


def test_what_never_ends_is_ended_and_the_next_question_is_answered():
    assert math_helper.same(r"\Gamma(99999999)", "5", 1) is None
    assert math_helper.same("x+x", "2x", 60) is True


def in_a_thread(found):
    found.append(math_helper.same("x+x", "2x", 60))


def in_a_loop(found):
    async def ask():
        return math_helper.same("x+x", "2x", 60)

    found.append(asyncio.run(ask()))


@pytest.mark.parametrize("place", [in_a_thread, in_a_loop])
def test_it_answers_in_any_thread_and_the_process_is_used_again(place):
    math_helper.same("x+x", "2x", 60)
    process, found = math_helper._HELPER.process, []
    workers = [threading.Thread(target=place, args=(found,)) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert found == [True] * 3 and math_helper._HELPER.process is process


def test_a_reward_with_formulas_gives_none_and_one_warning_for_what_takes_too_long():
    reward = NumericReward(seconds=1)
    with pytest.warns(UserWarning, match="1 of 2 answers cannot be read") as said:
        out = reward(["p"] * 2, [r"\boxed{\Gamma(99999999)}", r"\boxed{5}"], references=["5", "5"])
    assert out.scores == [None, 1.0] and len(said) == 1


@pytest.mark.skipif(os.name != "posix", reason="asks the system for a process by kill(pid, 0)")
def test_the_process_ends_with_its_parent_even_in_the_middle_of_a_question(tmp_path):
    code = (
        "import threading, sys, time; from beyond.tasks import math_helper as m\n"
        "m.same('x', '2x', 60); print(m._HELPER.process.pid, flush=True)\n"
        "m.same(r'\\Gamma(99999999)', '5', 5)\n")
    parent = subprocess.Popen([sys.executable, "-c", code], cwd=TOP, stdout=subprocess.PIPE)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.5)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    for _ in range(600):
        try:
            os.kill(pid, 0)
            state = Path(f"/proc/{pid}/stat")
            if state.exists() and state.read_text(encoding="ascii").split(") ")[1][0] == "Z":
                break  # ended; whoever took it over has not asked yet
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("the helper outlived its parent")


def test_the_process_sees_no_gpu_and_does_not_import_torch():
    source = Path(math_helper.__file__).read_text(encoding="utf-8")
    assert '"CUDA_VISIBLE_DEVICES": ""' in source and "import torch" not in source


def test_without_math_verify_one_line_says_so(monkeypatch):
    monkeypatch.setattr(math_helper.importlib.util, "find_spec", lambda name: None)
    helper = math_helper.Helper()
    with pytest.warns(UserWarning, match="math-verify is not installed: pip install -r"):
        assert helper.ask({"gold": "x", "given": "x"}, 1) is None
    assert helper.broken and helper.ask({"gold": "x", "given": "x"}, 1) is None
