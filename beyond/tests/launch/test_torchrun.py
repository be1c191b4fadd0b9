"""torchrun starts beyond.launch.tiny: a killed rank, a restart, an error, Ctrl-C.

All but one are slow: LAB15_SLOW=1 python -m pytest beyond/tests/launch/test_torchrun.py
"""

import os
import re
import signal
import sys
import time

import pytest
import torch
from torch.distributed.checkpoint.format_utils import dcp_to_torch_save

from beyond.launch import tiny
from beyond.parallel.ranks import World
from beyond.saving import checkpoints
from beyond.tests.processes import TORCHRUN, finished, started, torchrun

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="torchrun with gloo: Linux")
slow = pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
RUN = ["--iters", "6", "--eval-every", "2", "--eval-n", "20"]
# Rank 1 fails in the third step of its life: in iteration 3, and after a restart in iteration 5.
FAILS = """

import os as _os

_given, _calls = grpo_step, []


def grpo_step(policy, ref, opt, prompts, answers, cfg):
    _calls.append(0)
    if len(_calls) == 3 and _os.environ["RANK"] == "1":
        {}
    return _given(policy, ref, opt, prompts, answers, cfg)
"""
KILL = "_os.kill(_os.getpid(), 9)"
ONCE = f'_os.environ["TORCHELASTIC_RESTART_COUNT"] == "0" and {KILL}'
THEN_RAISE = f'{ONCE}\n        raise RuntimeError("a mistake of rank 1")'


def lab_that(path, what):
    """Write the lab file with a step that does this; return its path."""
    text = tiny.default_path().read_text(encoding="utf-8")
    path.write_text(text + FAILS.format(what), encoding="utf-8")
    return path


def content(checkpoint, tmp_path):
    """Return name -> tensor of a checkpoint, and the history beside it."""
    dcp_to_torch_save(checkpoint / "shards", tmp_path / "one.pt")
    found = {f"/random{path.stem[4:]}/torch": torch.load(path)["random"]["torch"]
             for path in checkpoint.glob("rank*.pt")}

    def walk(thing, name):
        for key, value in thing.items() if isinstance(thing, dict) else ():
            walk(value, f"{name}/{key}")
        if isinstance(thing, torch.Tensor):
            found[name] = thing

    walk(torch.load(tmp_path / "one.pt", weights_only=False), "")
    return found, checkpoints.load_state(checkpoint)["history"]


def assert_equal(one, other, tmp_path):
    """Fail unless two checkpoints hold the same: weights, Adam's and random numbers, history."""
    (a, history_a), (b, history_b) = content(one, tmp_path), content(other, tmp_path)
    assert a.keys() == b.keys() and {"/random0/torch", "/random1/torch"} <= a.keys()
    assert not [name for name in a if not torch.equal(a[name], b[name])]
    assert history_a == history_b


def alone(out, iters):
    """Return a Run of one process that resumes from a folder."""
    return tiny.Run(tiny.parse(None, [*RUN, "--out", str(out), "--resume",
                                         "--iters", str(iters)]), World())


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """Return the folder of a run of two ranks that nothing has happened to."""
    out = tmp_path_factory.mktemp("undisturbed")
    code, said = torchrun(2, *RUN, "--out", out)
    assert code == 0, said[-3000:]
    return out


def test_a_killed_rank_is_started_again_and_an_error_ends_the_job(tmp_path):
    """Killed in iteration 3, begun again at 2, an exception in 5."""
    lab, out = lab_that(tmp_path / "lab.py", THEN_RAISE), tmp_path / "out"
    code, said = torchrun(2, *RUN, "--lab", lab, "--out", out, restarts=1)
    assert code == 1
    assert "exitcode: -9" in said  # what torchrun says of the first end
    named = r"your grpo_step \(Task 5\) raised RuntimeError at line \d+: a mistake of rank 1"
    assert re.search(r"\[rank1\]: .*LabError: " + named, said)
    root = said.split("Root Cause")[1]
    assert "rank      : 1" in root and re.search(named, root)
    assert [p.name for p in checkpoints.found(out)] == ["checkpoint-2", "checkpoint-4"]
    assert not list(out.glob(".checkpoint*"))
    run = alone(out, 5)
    assert len(run.hist["loss"]) == 4
    run.step(5)


@slow
def test_killed_once_a_run_ends_as_if_it_had_not_been(tmp_path, undisturbed):
    lab, out = lab_that(tmp_path / "lab.py", ONCE), tmp_path / "out"
    code, said = torchrun(2, *RUN, "--lab", lab, "--out", out, restarts=1)
    assert code == 0 and "exitcode: -9" in said
    for it in (4, 6):
        name = f"checkpoint-{it}"
        assert_equal(out / name, undisturbed / name, tmp_path)
    a, b = (torch.load(folder / "policy.pt") for folder in (out, undisturbed))
    assert all(torch.equal(a[name], b[name]) for name in a)


@slow
def test_ctrl_c_ends_two_ranks_together(tmp_path, undisturbed):
    out = tmp_path / "out"
    args = [*RUN, "--out", str(out), "--iters", "2000"]
    process = started([*TORCHRUN, "--nproc-per-node", "2", "-m", "beyond.launch.tiny", *args])
    until = time.monotonic() + 120
    while not checkpoints.found(out) and process.poll() is None and time.monotonic() < until:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, said = finished(process, 60)  # torchrun itself ends with a traceback of its own
    assert "(stopped after " in said
    last = checkpoints.found(out)[-1]
    done = len(content(last, tmp_path)[1]["loss"])
    assert last.name == f"checkpoint-{done}" and f"(stopped after {done} iterations" in said
    alone(out, done + 1).step(done + 1)


@slow
def test_what_is_wrong_on_all_ranks_is_said_once(tmp_path):
    code, said = torchrun(4, *RUN, "--out", tmp_path, "--prompts-per-iter", "3")
    assert code == 1 and said.count("cannot be split over 4 processes") == 1
    assert "Traceback" not in said.split("cannot be split")[0]


@slow
def test_three_hundred_iterations_on_two_ranks_reach_the_band(tmp_path):
    code, said = torchrun(2, "--out", tmp_path, "--eval-every", "50", seconds=400)
    assert code == 0 and "as it should be" in said, said[-3000:]
