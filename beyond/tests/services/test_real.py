"""Services with a real model: train_hf's numbers to the bit, its data, rewards, losses, adapters.

With LAB15_SLOW=1 also: adapters, two trainer processes, kills of the whole command, the guide.
"""

import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
pytest.importorskip("monarch", reason="pip install -r beyond/requirements-monarch.txt")

from beyond import tiny
from beyond.config import GRPOConfig
from beyond.hf.policy import load_policy
from beyond.hf.trainer import GRPOTrainer
from beyond.saving import checkpoints, record
from beyond.services import real
from beyond.services.config import ServicesConfig
from beyond.services.controller import Services
from beyond.student.named import load_reward
from beyond.tasks.rewards import combined
from beyond.tests.solution import SOLUTION as LAB
from lab15_run import TOP

if not sys.platform.startswith("linux"):
    pytest.skip("these tests look into /proc", allow_module_level=True)

GUIDE = TOP / "beyond" / "tests" / "guide"
SMALL = {"group_size": 4, "prompts_per_step": 2, "max_new_tokens": 5, "learning_rate": 1e-2,
         "log_completions": 0, "eval_samples": 4, "seed": 3, "save_steps": 0}
MINE = "def digits(response, answer):\n    return float(sum(c.isdigit() for c in response))\n"
slow = pytest.mark.skipif(not os.environ.get("LAB15_SLOW"), reason="slow: LAB15_SLOW=1 runs it")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with a model, rows and a reward."""
    top = tmp_path_factory.mktemp("real")
    tiny.save(top / "model")
    tiny.write_jsonl(top / "rows.jsonl", tiny.rows(7))
    (top / "mine.py").write_text(MINE, encoding="utf-8")
    return top


def rewards(folder):
    return f"exact=1,{folder / 'mine.py'}:digits=2"


def services(folder, out, kills=(), own=None, rows=7, **changes):
    """Train with services, end some processes on the way; return the history.

    Args:
        folder: of the fixture.
        out: output folder.
        kills: pairs (number of updates done, name of a replica), in order.
        own: settings of ServicesConfig.
        rows: how many.
        **changes: of GRPOConfig.
    """
    cfg = ServicesConfig.real(GRPOConfig(**(SMALL | changes)), **({"save_every": 1} | (own or {})))
    waiting = list(kills)

    async def go():
        async with Services(cfg, LAB, out, str(folder / "model"), rewards(folder), None,
                            tiny.rows(rows), tiny.rows(4)) as made:
            def step(version):
                if waiting and waiting[0][0] == version:
                    os.kill(made.pids[waiting.pop(0)[1]][0], signal.SIGKILL)

            return await made.run(step=step, tell=lambda line: None)

    history = asyncio.run(go())
    assert not waiting
    return history


def plain(folder, out, **changes):
    """Train as train_hf --step ours does; return the trainer."""
    cfg = GRPOConfig(**(SMALL | {"output_dir": str(out)} | changes))
    made = GRPOTrainer(load_policy(folder / "model", cfg), None,
                       combined(load_reward(rewards(folder))), cfg, eval_dataset=tiny.rows(4))
    made.train(tiny.rows(7))
    return made


def log(out):
    """Return the lines of the log without what a clock says."""
    rows = [json.loads(x) for x in
            (out / "training_log.jsonl").read_text(encoding="utf-8").splitlines()]
    return [{k: v for k, v in row.items() if k != "step_time"} for row in rows]


def same(one, two):
    """Compare what two runs have left, to the bit."""
    from safetensors.torch import load_file

    assert log(one) == log(two)
    read = [(out / "completions.jsonl").read_bytes() for out in (one, two)]
    assert read[0] == read[1]
    weights = [load_file(out / "final" / "model.safetensors") for out in (one, two)]
    assert weights[0].keys() == weights[1].keys()
    assert all(torch.equal(a, weights[1][name]) for name, a in weights[0].items())


def test_synchronous_is_train_hf_to_the_bit_even_if_processes_are_killed(tmp_path, folder):
    changes = {"num_train_epochs": 2, "inner_steps": 2, "gradient_accumulation_steps": 2,
               "loss": "dapo", "schedule": "linear", "warmup_steps": 1, "micro_batch": 3,
               "eval_steps": 2, "stop": "7"}
    history = services(folder, tmp_path / "a", [(1, "generator0"), (2, "trainer")], **changes)
    made = plain(folder, tmp_path / "b", **changes)
    same(tmp_path / "a", tmp_path / "b")
    assert made.done == 8 and len(history["loss"]) == 4 and history["staleness"] == [0] * 4
    assert history["acc_sampled"][-1] == made.history[-1]["eval/accuracy"]
    written = json.loads((tmp_path / "a" / "history.json").read_text(encoding="utf-8"))
    assert written["restarts"] == {"generator0": 1, "trainer": 1}
    assert {p.name for p in (tmp_path / "a").iterdir()} >= {
        "final", "checkpoint-8", "config.json", "history.json"}


def test_a_resume_compares_the_files_that_the_command_names(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(real, "rank", lambda: 0)
    files = {"data": str(folder / "rows.jsonl"), "reward": str(folder / "mine.py")}
    made = Services(ServicesConfig.real(GRPOConfig(**SMALL)), LAB, tmp_path, str(folder / "model"),
                    rewards(folder), None, tiny.rows(7), files=files)
    actor = real.RealTrainerActor(*made._trainer_args())
    actor.build()
    compared = actor.trainer.facts["files"]
    assert {name: compared[name] for name in files} == {
        name: record.of_file(path) for name, path in files.items()}


# ---------------------------------------------------------------- what is refused, in one line


@pytest.mark.parametrize(("changes", "own", "said"), [
    ({"step": "lab"}, {}, "services have step = ours"), ({"parallel": "tp"}, {}, "cut no layers"),
    ({}, {"trainer": {"replicas": 2}}, "one policy is trained"),
    ({}, {"trainer": {"procs": 3}}, "cannot share 2 prompts"),
    ({"loss": "lab"}, {"mode": "async", "correction": "tis"}, "give tis_level=sequence"),
    ({"loss": "dappo"}, {}, "did you mean dapo")])
def test_settings_that_do_not_go_together_are_one_line(folder, tmp_path, changes, own, said):
    with pytest.raises(ValueError, match=said) as error:
        cfg = ServicesConfig.real(GRPOConfig(**(SMALL | changes)), **own)
        Services(cfg, LAB, tmp_path, str(folder / "model"), "exact", None, tiny.rows(4))
    assert "\n" not in str(error.value)


# ---------------------------------------------------------------- slow


@slow
def test_adapters_travel_alone_and_are_train_hfs_to_the_bit(tmp_path, folder):
    changes = {"num_train_epochs": 2, "lora_rank": 2, "lora_dropout": 0.25, "kl_beta": 0.1}
    services(folder, tmp_path / "a", [(3, "trainer")], **changes)
    plain(folder, tmp_path / "b", **changes)
    same(tmp_path / "a", tmp_path / "b")


@slow
def test_an_exact_staleness_is_reproducible_with_corrections(tmp_path, folder):
    for name, own in {"token": {"correction": "tis"}, "ratio": {"correction": "ratio"},
                      "sequence": {"correction": "tis", "tis_level": "sequence"}}.items():
        own |= {"mode": "async", "staleness": 1}
        changes = {"num_train_epochs": 2, "loss": "grpo", "inner_steps": 2}
        first = services(folder, tmp_path / f"{name}a", own=own, **changes)
        services(folder, tmp_path / f"{name}b", [(3, "trainer")], own=own, **changes)
        same(tmp_path / f"{name}a", tmp_path / f"{name}b")
        assert first["staleness"][1:] == [1] * (len(first["staleness"]) - 1)


@slow
@pytest.mark.parametrize("parallel", ["ddp", "fsdp"])
def test_two_trainer_processes_make_the_steps_of_one(tmp_path, folder, parallel):
    changes = {"num_train_epochs": 1, "learning_rate": 1e-3, "max_steps": 3}
    own = {"trainer": {"procs": 2}}
    changes |= {"parallel": parallel}
    two = services(folder, tmp_path / "a", [(1, "trainer")], own=own, rows=8, **changes)
    one = services(folder, tmp_path / "b", rows=8, **(changes | {"parallel": "ddp"}))
    assert two["reward"] == pytest.approx(one["reward"])
    assert two["loss"] == pytest.approx(one["loss"], abs=1e-5)
    assert two["kl"] == pytest.approx(one["kl"], abs=1e-5)


def command(folder, out, *more):
    """Start the command; Ctrl-C and kills go to it alone."""
    args = [sys.executable, "-m", "beyond.services_run", "--model", str(folder / "model"), "--lab",
            str(LAB), "--data", str(folder / "rows.jsonl"), "--reward", rewards(folder), "--out",
            str(out), "--save-every", "1"]
    args += [f"--{name.replace('_', '-')}={value}" for name, value in SMALL.items()
             if name != "save_steps"]
    return subprocess.Popen([*args, *more], cwd=TOP, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, start_new_session=True)


@slow
def test_three_kills_at_random_moments_change_nothing(tmp_path, folder):
    out, draw = tmp_path / "out", random.Random(time.time_ns())
    seconds = []
    for i in range(3):
        process = command(folder, out, "--max-steps", "12", *(["--resume"] if i else []))
        while not checkpoints.found(out):
            assert process.poll() is None, process.communicate()
            time.sleep(0.05)
        seconds.append(draw.uniform(0, 8))
        time.sleep(seconds[-1])
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
    process = command(folder, out, "--max-steps", "12", "--resume")
    told, wrong = process.communicate(timeout=600)
    assert process.returncode == 0, (seconds, told, wrong)
    plain(folder, tmp_path / "plain", max_steps=12)
    same_without_evaluation(out, tmp_path / "plain", seconds)


def same_without_evaluation(one, two, about):
    from safetensors.torch import load_file

    logs = [[{k: v for k, v in row.items() if not k.startswith("eval/")} for row in log(out)]
            for out in (one, two)]
    assert logs[0] == logs[1], about
    weights = [load_file(out / "final" / "model.safetensors") for out in (one, two)]
    assert all(torch.equal(a, weights[1][name]) for name, a in weights[0].items()), about


@slow
def test_the_guides_files_run_with_a_tiny_model_and_data(tmp_path, folder):
    common = ["--model", str(folder / "model"), "--data", str(folder / "rows.jsonl")]
    for name, more, said in (
            ("grpo_math", [], "no counterpart here"),
            ("distributed", [], "one kind of parallelism at a time"),
            ("distributed", ["parallelism.tensor_parallel_degree=1"], "final/")):
        done = subprocess.run(
            [sys.executable, "-m", "beyond.services_run", "--config", str(GUIDE / f"{name}.yaml"),
             *common, "--out", str(tmp_path / f"{name}{len(more)}"), *more],
            cwd=TOP, capture_output=True, text=True, timeout=600)
        assert said in done.stdout and "Traceback" not in done.stderr, done.stdout + done.stderr
        assert done.returncode == (2 if "one kind" in said else 0)
