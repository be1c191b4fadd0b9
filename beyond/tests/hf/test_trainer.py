"""GRPOTrainer on a random model: the batch's gradient, resume, saving, messages."""

import copy
import os
import random
import signal
import subprocess
import sys
import time

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import tiny
from beyond.hf.schedule import factor
from beyond.saving import checkpoints
from beyond.tests.short_runs import KillAt, Killed, lines, long_run, trainer, weights
from lab15_run import TOP

# ---------------------------------------------------------------- the gradient of a batch


def gradient_of(made):
    """Return (gradients, metrics) of a step on two samplings of six prompts; no weight moves."""
    torch.manual_seed(0)
    rows = [r | {"text": r["prompt"]} for r in tiny.rows(6)]
    batch = [made.roll_out(rows[:4]), made.roll_out(rows[4:])]
    grads = []

    def keep():
        grads.extend(p.grad.clone() for p in made.policy.parameters())

    made.opt.step = keep
    return grads, made.update(batch)


@pytest.mark.parametrize("loss", ["lab", "dapo", "dr_grpo", "dapo_group"])
def test_micro_batches_and_accumulation_add_up_to_the_whole_batch(tmp_path, loss):
    common = {"loss": loss, "gradient_accumulation_steps": 2, "kl_beta": 0.1, "max_grad_norm": 1e9}
    whole, metrics = gradient_of(trainer(tmp_path, **common))
    for size in (5, 8):
        grads, other = gradient_of(trainer(tmp_path, micro_batch=size, **common))
        assert other["loss"] == pytest.approx(metrics["loss"], abs=1e-6)
        assert other["kl"] == pytest.approx(metrics["kl"], abs=1e-6)
        for a, b in zip(whole, grads, strict=True):
            torch.testing.assert_close(a, b, atol=1e-6, rtol=1e-4)


def test_the_last_smaller_batch_is_a_step_too(tmp_path):
    made = trainer(tmp_path, prompts_per_step=2, gradient_accumulation_steps=2, inner_steps=1,
                   num_train_epochs=1, save_steps=0)
    before = weights(made)
    history = made.train(tiny.rows(5))
    assert made.done == 2 and history[-1]["step"] == 2
    assert len(lines(tmp_path, "completions")) == 5 * 8
    assert not torch.equal(weights(made), before)
    assert all(p.grad is None for p in made.policy.parameters())


def test_your_whole_grpo_step_and_the_loop_here_do_the_same(tmp_path):
    ends = []
    for step in ("lab", "ours"):
        made = trainer(tmp_path / step, step=step, save_steps=0)
        made.train(tiny.rows(6))
        ends.append(weights(made))
    torch.testing.assert_close(ends[0], ends[1], atol=1e-5, rtol=1e-4)


def test_the_schedule_counts_optimizer_steps(tmp_path):
    rates = [factor(i, 10, 2, "cosine") for i in range(10)]
    assert rates[0] == 0.5 and rates[1] == rates[2] == 1.0 and rates[-1] < 0.05
    made = trainer(tmp_path, gradient_accumulation_steps=4, prompts_per_step=1, inner_steps=1,
                   warmup_steps=1, num_train_epochs=1, logging_steps=1, save_steps=0)
    history = made.train(tiny.rows(16))
    assert len(history) == 4 == made.schedule.total and history[0]["learning_rate"] > 0


def test_every_epoch_has_its_order_and_a_log_is_the_mean_of_its_window(tmp_path):
    seen = []

    class Watch:
        def on_rollout(self, trainer, rows, responses, rewards):
            seen.append(([row["prompt"] for row in rows], float(rewards.mean())))

    made = trainer(tmp_path, [Watch()], prompts_per_step=2, inner_steps=1, save_steps=0)
    made.eval_rows = tiny.rows(4)
    history = made.train(tiny.rows(8))
    assert "eval/accuracy" in history[-1]
    orders = [sum((s[0] for s in seen[i : i + 4]), []) for i in (0, 4)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    assert history[0]["reward"] == pytest.approx((seen[0][1] + seen[1][1]) / 2)


# ---------------------------------------------------------------- resume


@pytest.mark.parametrize("changes", [{}, {"step": "lab"}, {"lora_rank": 2}])
@pytest.mark.parametrize("killed_at", [4, 7])
def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(tmp_path, changes, killed_at):
    def made(name, callbacks=()):
        if changes.get("lora_rank"):
            pytest.importorskip("peft", reason="pip install -r beyond/requirements.txt")
        return trainer(tmp_path / name, callbacks, **changes)

    whole = made("whole")
    whole.train(tiny.rows(9))
    with pytest.raises(Killed):
        made("killed", [KillAt(killed_at)]).train(tiny.rows(9))
    resumed = made("killed")
    resumed.train(tiny.rows(9), resume=True)
    assert torch.equal(weights(resumed), weights(whole))
    for name in ("training_log", "completions"):
        assert lines(tmp_path / "killed", name) == lines(tmp_path / "whole", name)


KILLED = """
import sys
sys.path.insert(0, {top!r})
import torch
torch.set_num_threads(1)
from beyond.tests.short_runs import long_run
from beyond import tiny
long_run({out!r}).train(tiny.rows(9), resume=True)
"""


@pytest.mark.slow
@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_killed_three_times_at_random_moments_a_run_ends_as_if_it_had_not_been(tmp_path):
    out, draw = tmp_path / "run", random.Random(0)
    code, newest = KILLED.format(top=str(TOP), out=str(out)), 0
    for _ in range(3):
        child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.DEVNULL)
        while child.poll() is None and newest >= max([0, *map(step_of, checkpoints.found(out))]):
            time.sleep(0.01)
        time.sleep(draw.random())
        child.send_signal(signal.SIGKILL)
        child.wait()
        newest = step_of(checkpoints.found(out)[-1])
        assert checkpoints.load_state(checkpoints.found(out)[-1])["step"] == newest
    assert newest < 60
    resumed, whole = long_run(out), long_run(tmp_path / "whole")
    resumed.train(tiny.rows(9), resume=True)
    whole.train(tiny.rows(9))
    assert torch.equal(weights(resumed), weights(whole))
    assert lines(out, "training_log") == lines(tmp_path / "whole", "training_log")


def step_of(folder):
    return int(folder.name.split("-")[1])


# ---------------------------------------------------------------- saving


def test_final_loads_as_a_model_after_ctrl_c(tmp_path, capsys):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    made = trainer(tmp_path, [KillAt(3, KeyboardInterrupt)])
    made.train(tiny.rows(9))
    assert "Stopped by Ctrl-C after 3 of" in capsys.readouterr().out
    for folder in ("final", "checkpoint-3"):
        model = AutoModelForCausalLM.from_pretrained(tmp_path / folder)
        assert AutoTokenizer.from_pretrained(tmp_path / folder)("1+1=")["input_ids"]
        loaded = torch.cat([p.detach().flatten() for p in model.parameters()])
        assert torch.equal(loaded, weights(made))


def test_a_full_disk_is_said_and_training_goes_on(tmp_path, capsys, monkeypatch):
    made = trainer(tmp_path)
    real = checkpoints.torch.save

    def full(*args, **kwargs):
        if made.done == 6:
            raise OSError(28, "No space left on device")
        return real(*args, **kwargs)

    monkeypatch.setattr(checkpoints.torch, "save", full)
    made.train(tiny.rows(9))
    said = capsys.readouterr().out
    assert "checkpoint-6 was not saved" in said and "No space left" in said
    assert [p.name for p in checkpoints.found(tmp_path)] == ["checkpoint-9", "checkpoint-12"]
    assert (tmp_path / "final" / "model.safetensors").is_file()
    assert not list(tmp_path.glob(".*tmp"))


# ---------------------------------------------------------------- messages


def test_steps_that_never_come_are_announced(tmp_path, capsys):
    made = trainer(tmp_path, logging_steps=100, save_steps=50, num_train_epochs=1)
    made.train(tiny.rows(3))
    said = capsys.readouterr().out
    assert "3 prompts, 2 optimizer steps" in said
    assert "logging_steps = 100 is more than the 2 steps" in said and "save_steps = 50" in said
    assert len(lines(tmp_path, "training_log")) == 1


def test_long_prompts_are_left_out_with_a_line(tmp_path, capsys):
    made = trainer(tmp_path, max_prompt_tokens=512, num_train_epochs=1)
    made.train([*tiny.rows(3), {"prompt": "1" * 2000, "reference": "1"}])
    assert "1 of 4 prompts have more than 512 tokens" in capsys.readouterr().out
    with pytest.raises(ValueError, match="no prompt"):
        made.train([{"prompt": "1" * 2000}])


def test_equal_rewards_have_an_advantage_of_exactly_zero(tmp_path):
    made = trainer(tmp_path)
    rows = [r | {"text": r["prompt"]} for r in tiny.rows(3)]
    made.reward_fn = lambda response, answer: 0.7
    assert (made.roll_out(rows)["adv"] == 0).all()


def test_what_cannot_be_scored_gets_advantage_zero(tmp_path):
    made = trainer(tmp_path)
    made.reward_fn = lambda prompts, responses: [None, *(float(i) for i in range(23))]
    rollout = made.roll_out([r | {"text": r["prompt"]} for r in tiny.rows(3)])
    assert rollout["adv"][0] == 0 and rollout["adv"].isfinite().all()
    assert rollout["adv"][1:8].sum().abs() < 1e-5


def test_the_reference_does_not_move(tmp_path):
    made = trainer(tmp_path)
    before = copy.deepcopy(made.ref.state_dict())
    made.train(tiny.rows(6))
    after = made.ref.state_dict()
    assert all(torch.equal(before[k], after[k]) for k in before)
