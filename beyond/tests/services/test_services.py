"""Services on Monarch, in real processes: equal to the plain loop, behind, killed, stopped.

With LAB15_SLOW=1 also: two kills in 100 updates, a process that hangs, a vLLM server, a fake one.
A real model: test_real.py.
"""

import asyncio
import contextlib
import json
import os
import signal
import statistics
import subprocess
import sys
import time
import types
from pathlib import Path

import pytest
import torch

pytest.importorskip("monarch", reason="pip install -r beyond/requirements-monarch.txt")

from monarch.actor import Actor, endpoint

import tinylm
from beyond import services_run, tiny
from beyond.config import GRPOConfig
from beyond.services import processes
from beyond.services.actors import RewardActor
from beyond.services.config import ServicesConfig
from beyond.services.controller import Services
from beyond.services.processes import Dead, Replica, forgive_faults
from beyond.services.vllm import VLLMGenerator
from beyond.student.checks import Fault
from beyond.student.plugins import load_student
from beyond.tests.services.fake_vllm import running
from beyond.tests.solution import SOLUTION as LAB
from beyond.tests.solution import with_text
from lab15_run import TOP

SMALL = {"prompts_per_iter": 4, "G": 4, "eval_every": 100, "eval_n": 20, "save_every": 3}
slow = pytest.mark.skipif(not os.environ.get("LAB15_SLOW"), reason="slow: LAB15_SLOW=1 runs it")


if not sys.platform.startswith("linux"):
    pytest.skip("these tests look into /proc", allow_module_level=True)


def train(out, kills=(), how=signal.SIGKILL, lab=LAB, **settings):
    """Train with services, end some on the way; return (weights, history, process ids).

    Args:
        out: folder.
        kills: pairs (number of updates done, name of a replica), in order.
        how: the signal they get.
        lab: the lab file.
        **settings: of ServicesConfig.
    """
    waiting, seen = list(kills), {}

    async def go():
        async with Services(ServicesConfig(**settings), lab, out) as services:
            seen.update(services.pids)

            def step(version):
                if waiting and waiting[0][0] == version:
                    os.kill(services.pids[waiting.pop(0)[1]][0], how)

            await services.run(step=step, tell=lambda line: None)
            seen["parents"] = {parent(p) for pids in services.pids.values() for p in pids}
            seen["commands"] = {command(p) for pids in services.pids.values() for p in pids}

    asyncio.run(go())
    assert not waiting
    history = json.loads((out / "history.json").read_text(encoding="utf-8"))
    return torch.load(out / "policy.pt", weights_only=True), history, seen


def parent(pid):
    return int(Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[1])


def command(pid):
    return Path(f"/proc/{pid}/cmdline").read_bytes().decode()


def children(pid):
    """Return the processes below one, zombies left out."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            state, above = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if int(above) == pid and state != "Z":
                found.append(int(path.parent.name))
    return found


def plain_loop(**settings):
    """Return the weights and history of the lab's own loop."""
    lab = load_student(LAB, tinylm)
    policy, history = lab.train_grpo(lab.GRPOConfig(**settings), TOP / "tinylm_sft.pt", False)
    return policy.state_dict(), history


def equal(one, two):
    return all(torch.equal(one[name], two[name]) for name in two) and len(one) == len(two)


def test_synchronous_is_the_plain_loop_to_the_bit_even_if_a_generator_is_killed(tmp_path):
    settings = {k: v for k, v in SMALL.items() if k != "save_every"} | {"iters": 6, "seed": 3}
    weights, history, seen = train(tmp_path, [(2, "generator0")], save_every=3, **settings)
    wanted, told = plain_loop(**settings)
    assert equal(weights, wanted)
    for name in ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy", "acc_sampled"):
        assert history[name] == told[name], name
    assert history["staleness"] == [0] * 6 and history["restarts"] == {"generator0": 1}
    # Processes of their own, spawned by Monarch: no two the same, all children of this one.
    pids = {seen[name][0] for name in ("generator0", "reference0", "reward0", "trainer")}
    assert len(pids | {os.getpid()}) == 5 and seen["parents"] == {os.getpid()}
    assert all("monarch._src.actor.bootstrap_main" in line for line in seen["commands"])
    assert not set(children(os.getpid())) & pids  # and gone


def test_an_exact_staleness_is_reproducible_even_if_the_trainer_is_killed(tmp_path):
    settings = SMALL | {"iters": 8, "mode": "async", "staleness": 2, "correction": "tis", "beta": 0}
    weights, history, _ = train(tmp_path / "a", **settings)
    again, told, _ = train(tmp_path / "b", [(5, "trainer")], **settings)
    assert history["weight_version"] == [0, 0, 0, 1, 2, 3, 4, 5]
    assert history["staleness"] == [0, 1, 2, 2, 2, 2, 2, 2]
    assert told["restarts"] == {"trainer": 1}
    assert equal(weights, again) and history["loss"] == told["loss"]
    # At staleness 0 the sampler is the trainer's policy; later it is not, and weights differ.
    assert history["weight_mean"][0] == 1 and history["log_ratio_mean"][0] == 0
    assert all(0 != x for x in history["log_ratio_mean"][2:])


def test_asynchronous_drops_what_is_too_old_and_never_trains_on_it(tmp_path):
    _, history, seen = train(
        tmp_path, **SMALL, iters=12, mode="async", max_staleness=1, sync_interval=2, buffer_size=3,
        inner_steps=8, correction="tis", tis_level="sequence", routing="least_busy",
        generator={"replicas": 2}, beta=0.0)
    assert max(history["staleness"]) == 1 and history["dropped"][-1] > 0
    assert all(v % 2 == 0 for v in history["weight_version"])  # a sync after every second update
    assert len(history["reward"]) == 12 and "reference0" not in seen


def command_line(out, *more, **kwargs):
    """Start the command in a session of its own; Ctrl-C goes to all processes of it."""
    args = [sys.executable, "-m", "beyond.services_run", "--lab", str(LAB), "--out", str(out),
            "--eval-n", "20", "--prompts-per-iter", "4", *more]
    return subprocess.Popen(
        args, cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True, **kwargs)


def stop(process, path, updates, how):
    """Send a signal once there is a history of so many updates; return (children, output)."""
    for _ in range(600):
        with contextlib.suppress(OSError, ValueError):
            if len(json.loads(path.read_text(encoding="utf-8"))["loss"]) >= updates:
                break
        assert process.poll() is None, process.communicate()
        time.sleep(0.1)
    below = children(process.pid)
    if how == signal.SIGINT:  # a terminal sends it to all
        os.killpg(process.pid, how)
    else:
        os.kill(process.pid, how)
    return below, process.communicate(timeout=30)


def test_ctrl_c_is_a_normal_end_and_leaves_no_process(tmp_path):
    process = command_line(tmp_path, "--iters", "100000", "--eval-every", "2", "--beta", "0")
    below, (told, wrong) = stop(process, tmp_path / "history.json", 4, signal.SIGINT)
    assert process.returncode == 0 and "Stopped by Ctrl-C" in told, told + wrong
    assert "Traceback" not in wrong
    assert "checkpoint.pt (--resume continues" in told and "policy.pt" not in told
    assert len(below) == 3 and not any(os.path.exists(f"/proc/{pid}") for pid in below)
    history = json.loads((tmp_path / "history.json").read_text(encoding="utf-8"))
    assert len(history["acc_sampled"]) == len(history["eval_iter"]) > 1


@pytest.mark.parametrize(("more", "words"), [
    (["--lab", "nowhere.py"], "nowhere.py"), (["--model", "nowhere"], "no such folder"),
    (["--vllm", "http://localhost:1"], "--vllm needs --model"), (["--resume"], "no checkpoint"),
    (["--mode", "asynk"], "give sync or async"), (["trainer.device=mps"], "torch finds none"),
    (["--reward", "nowhere.py:f"], "there is no file nowhere.py")])
def test_a_wrong_argument_is_one_line(tmp_path, capsys, more, words):
    assert services_run.main(["--lab", str(LAB), "--out", str(tmp_path), *more]) == 2
    told = capsys.readouterr()
    assert words in told.out and told.out.count("\n") == 1 and told.err == ""


class Sleeper(Actor):
    """Answers, fails or sleeps."""

    @endpoint
    def pid(self):
        """Return (own, parent's)."""
        return os.getpid(), os.getppid()

    @endpoint
    def fail(self):
        """Raise."""
        raise ValueError("on purpose")

    @endpoint
    def sleep(self):
        """Stay silent."""
        time.sleep(60)


def test_a_process_that_fails_hangs_or_dies_is_told_from_one_that_answers():
    async def go():
        replica = Replica("sleeper", 1, Sleeper, (), timeout=1.5, max_restarts=1)
        forgive_faults()
        await replica.start()
        with pytest.raises(ValueError, match="on purpose"):  # and the actor lives on
            await replica.ask("fail")
        with pytest.raises(Dead, match="no answer to sleep within 1.5 s") as silent:
            await replica.ask("sleep")
        (old,) = replica.pids
        await asyncio.gather(*[replica.restart(silent.value) for _ in range(2)])
        assert replica.restarts == 1 and replica.pids != [old] and old not in children(os.getpid())
        await replica.ask("pid")
        assert replica.in_a_row == 1  # pid says nothing about sleep
        os.kill(replica.pids[0], signal.SIGKILL)
        with pytest.raises(Dead, match="gone|failed"):
            await replica.ask("sleep")
        replica.in_a_row = 1
        with pytest.raises(RuntimeError, match="gave up after 1 restart;"):
            await replica.restart(Dead("sleeper: is gone", replica.restarts))
        await replica.stop()

    asyncio.run(go())


def spawned_late(monkeypatch, times):
    """Return a replica whose first starts are late, and what it tells."""
    told, tries = [], []
    replica = Replica("trainer", 1, Sleeper, (), timeout=1.5, max_restarts=2)
    replica.tell = told.append
    mesh = types.SimpleNamespace(spawn=lambda *args: None)
    host = types.SimpleNamespace(spawn_procs=lambda **settings: mesh)
    monkeypatch.setattr(processes, "this_host", lambda: host)

    async def ask(endpoint, *args, timeout=None):
        tries.append(endpoint)
        if len(tries) <= times:
            raise ValueError("error spawning proc mesh: statuses: Timeout(30.001737517s)=0..1")
        return [(1, os.getpid())]

    replica._ask = ask
    return replica, told


@pytest.mark.parametrize("times", [0, 1, 2])
def test_a_process_that_starts_late_is_started_again(monkeypatch, times):
    replica, told = spawned_late(monkeypatch, times)
    asyncio.run(replica.begin())
    assert replica.pids == [1] and len(told) == times
    assert all("did not start within 30 s" in line and "starting it again" in line
               for line in told)


def test_a_process_that_always_starts_late_is_one_line(monkeypatch):
    replica, _ = spawned_late(monkeypatch, 99)
    with pytest.raises(RuntimeError, match="gave up after 2 restarts; trainer: a process did not "
                                           "start within 30 s .Monarch's limit.") as error:
        asyncio.run(replica.begin())
    assert "\n" not in str(error.value)


def test_a_constructor_that_fails_is_not_tried_again(monkeypatch):
    replica, told = spawned_late(monkeypatch, 0)

    async def ask(endpoint, *args, timeout=None):
        raise ValueError("no such model")

    replica._ask = ask
    with pytest.raises(ValueError, match="no such model"):
        asyncio.run(replica.begin())
    assert not told


def run_that_dies(times, where):
    """Return (what Services.run calls, the names of it, in a run whose trainer dies so often)."""
    called = []

    def part(name):
        async def do(*args, **kwargs):
            called.append(name)
            assert len(called) < 40
            if name == where and called.count(name) <= times:
                raise Dead("trainer: process 1 is gone", 0)
        return do

    parts = {name: part(name) for name in ("_save", "_once", "_revive", "finish")}
    return types.SimpleNamespace(
        replicas=[], ours=[], version=6, cfg=ServicesConfig(max_restarts=2), history="history",
        trainer=types.SimpleNamespace(restart=part("restart")), **parts), called


def test_a_trainer_that_dies_at_the_same_update_every_time_is_given_up():
    run, called = run_that_dies(99, where="_once")
    with pytest.raises(RuntimeError, match="gave up at update 7; trainer: process 1 is gone"):
        asyncio.run(Services.run(run))
    assert called.count("restart") == 2


@pytest.mark.parametrize(("where", "then"), [
    ("finish", ["_revive", "_once", "finish"]), ("_revive", ["_revive", "_once", "finish"]),
    ("_save", ["_save", "_once", "finish"])])
def test_a_trainer_may_die_before_the_first_and_after_the_last_update(where, then):
    run, called = run_that_dies(1, where=where)
    assert asyncio.run(Services.run(run, resume=where == "_revive")) == "history"
    assert called[called.index("restart") + 1:] == then


def test_ctrl_c_before_the_start_is_one_line(monkeypatch, capsys):
    def pressed(flags):
        raise KeyboardInterrupt

    monkeypatch.setattr(services_run, "run", pressed)
    assert services_run.main([]) == 0
    assert capsys.readouterr().out == "Stopped by Ctrl-C before the first update.\n"


def test_a_reward_that_fails_or_is_no_number_is_named(tmp_path):
    (tmp_path / "mine.py").write_text(
        "def none(r, a): return None\ndef nan(r, a): return float('nan')\n", encoding="utf-8")
    for name, words in (("none", "TypeError: float"), ("nan", "returned nan; give a finite")):
        actor = RewardActor(None, f"{tmp_path / 'mine.py'}:{name}")
        with pytest.raises(Fault, match=words) as error:
            actor.one("3", "4")
        assert f"mine.py:{name}, called with ('3', '4')" in str(error.value)


# ============================================================== slow


@slow
def test_a_killed_command_leaves_no_process_and_resume_goes_on(tmp_path):
    flags = ["--eval-every", "2", "--save-every", "2"]
    process = command_line(tmp_path, "--iters", "9999", *flags)
    below, _ = stop(process, tmp_path / "history.json", 4, signal.SIGKILL)
    time.sleep(3)
    assert len(below) == 4 and not any(os.path.exists(f"/proc/{pid}") for pid in below)
    done = len(json.loads((tmp_path / "history.json").read_text(encoding="utf-8"))["loss"])
    more = command_line(tmp_path, "--iters", str(done + 2), *flags, "--resume")
    told, wrong = more.communicate(timeout=100)
    assert more.returncode == 0, told + wrong
    history = json.loads((tmp_path / "history.json").read_text(encoding="utf-8"))
    assert len(history["loss"]) == done + 2 and (tmp_path / "curves.png").is_file()
    wanted, _ = plain_loop(iters=done + 2, prompts_per_iter=4, eval_every=99, eval_n=20)
    assert equal(torch.load(tmp_path / "policy.pt", weights_only=True), wanted)


@slow
def test_an_error_in_your_function_is_one_line(tmp_path):
    lab = with_text(tmp_path / "lab.py", "    d = ref_logp - logp\n",
                    "    d = ref_logp - logp.view(7, -1, 3, 11)\n")
    process = command_line(tmp_path / "out", "--iters", "3", "--lab", str(lab))
    told, wrong = process.communicate(timeout=100)
    assert process.returncode == 2 and "Traceback" not in told + wrong
    assert "shape '[7, -1, 3, 11]' is invalid" in told.splitlines()[-1]
    assert "Task 3" in told.splitlines()[-1] and "-k task3 --lab=" in told.splitlines()[-1]


@slow
def test_a_generator_killed_twice_in_100_updates_learns_as_well(tmp_path):
    plain = [plain_loop(iters=100, eval_every=100, seed=seed)[1]["acc_sampled"][-1]
             for seed in range(5)]
    middle, spread = statistics.mean(plain), statistics.stdev(plain)
    _, history, _ = train(tmp_path, [(30, "generator0"), (60, "generator1")], iters=100,
                          eval_every=50, mode="async", max_staleness=4, correction="tis",
                          generator={"replicas": 2})
    print(plain, history["acc_sampled"], history["restarts"], history["dropped"][-1])
    assert history["restarts"] == {"generator0": 1, "generator1": 1}
    assert abs(history["acc_sampled"][-1] - middle) <= 3 * spread


@slow
def test_all_that_can_die_dies_once_and_the_numbers_stay(tmp_path):
    settings = SMALL | {"iters": 14, "mode": "async", "staleness": 1, "timeout": 20.0}
    settings |= {"generator": {"procs": 2, "replicas": 2}, "reference": {"replicas": 2}}
    weights, *_ = train(tmp_path / "a", **settings)
    again, history, _ = train(
        tmp_path / "b", [(3, "reward0"), (5, "reference0"), (7, "trainer"), (9, "generator0"),
                         (11, "trainer")], **settings)
    assert equal(weights, again)
    assert history["restarts"] == {"reward0": 1, "reference0": 1, "trainer": 2, "generator0": 1}


@slow
def test_a_trainer_that_hangs_is_replaced_after_the_timeout(tmp_path):
    settings = SMALL | {"iters": 6, "timeout": 15.0}
    weights, *_ = train(tmp_path / "a", **settings)
    again, history, _ = train(tmp_path / "b", [(4, "trainer")], signal.SIGSTOP, **settings)
    assert history["restarts"] == {"trainer": 1} and equal(weights, again)


def hf_folder(path):
    """Write a tiny HuggingFace model; return its folder."""
    tiny.save(path)
    return str(path)


@slow
def test_a_vllm_server_takes_a_generators_place(tmp_path):
    folder = hf_folder(tmp_path / "model")

    async def go(url):
        server = VLLMGenerator(url, folder, tmp_path / "weights")
        hf = GRPOConfig(max_steps=3, num_train_epochs=3, prompts_per_step=4, group_size=4,
                        loss="grpo", max_new_tokens=16)
        cfg = ServicesConfig.real(hf, mode="async", staleness=1, correction="tis")
        async with Services(cfg, LAB, tmp_path, folder, generators=[server],
                            rows=tiny.rows(8)) as services:
            assert set(services.pids) == {"trainer", "reward0", "reference0"}
            return await services.run(tell=lambda line: None)

    with running() as (url, seen):
        history = asyncio.run(go(url))
    asked = [path for path, _ in seen]
    assert asked.count("/v1/completions") == 3 and asked.count("/collective_rpc") == 2
    assert history["weight_version"] == [0, 0, 1] and len(history["loss"]) == 3
