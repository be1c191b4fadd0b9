"""Ctrl-C as a normal end, and what a step reports: clipped tokens, ids, responses without score."""

import signal

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import GRPOTrainer, tiny, train_hf
from beyond.hf.metrics import joined, loss_metrics
from beyond.saving import checkpoints
from beyond.tests.short_runs import KillAt, Killed, digits, lines, trainer, weights


class Press:
    """Presses Ctrl-C in the middle of a step."""

    def __init__(self, step, times=1):
        self.step, self.times = step, times

    def on_loss(self, trainer, losses):
        """Press at the step, before the optimizer has made it."""
        if trainer.done + 1 == self.step:
            for _ in range(self.times):
                signal.raise_signal(signal.SIGINT)


@pytest.mark.parametrize("inner", [1, 2])
def test_a_run_goes_on_to_the_bit_after_ctrl_c(tmp_path, capsys, inner):
    whole = trainer(tmp_path / "whole", save_steps=0, inner_steps=inner)
    whole.train(tiny.rows(9))
    stopped = trainer(tmp_path / "cut", [Press(5)], save_steps=0, inner_steps=inner)
    stopped.train(tiny.rows(9))
    assert stopped.done == 5  # the step is finished first
    said = capsys.readouterr()
    assert "stopping after this step" in said.err and "continues from checkpoint-5" in said.out
    again = trainer(tmp_path / "cut", save_steps=0, inner_steps=inner)
    again.train(tiny.rows(9), resume=True)
    assert torch.equal(weights(again), weights(whole))
    assert lines(tmp_path / "cut", "training_log") == lines(tmp_path / "whole", "training_log")


def test_a_second_ctrl_c_does_not_wait_and_leaves_a_model_but_no_checkpoint(tmp_path, capsys):
    made = trainer(tmp_path, [Press(5, times=2)], save_steps=0)
    made.train(tiny.rows(9))
    assert made.done == 4 and not checkpoints.found(tmp_path)
    assert (tmp_path / "final" / "model.safetensors").is_file()
    assert "continues from the start" in capsys.readouterr().out
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler  # as it was


def test_ctrl_c_before_the_first_step_is_one_line(monkeypatch, capsys, tmp_path):
    def press(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(train_hf, "materials", press)
    assert train_hf.main(["--data", "sums", "--output-dir", str(tmp_path)]) == 130
    assert capsys.readouterr().out == (
        "Stopped by Ctrl-C before the first step: there is nothing to keep.\n")


def test_clip_ratios_are_shares_of_tokens_and_their_extremes_of_responses(tmp_path):
    cfg = trainer(tmp_path, clip_epsilon=0.2).cfg
    mask = torch.tensor([[1.0, 1, 1, 1], [1, 0, 0, 0]])
    logp = torch.log(torch.tensor([[1.5, 1.0, 1.0, 1.0], [0.5, 9, 9, 9]]))
    adv, old = torch.tensor([1.0, -1.0]), torch.zeros(2, 4)
    parts = [loss_metrics(torch.tensor(0.0), {"kl": 0.0}, logp[i : i + 1], old[i : i + 1],
                          adv[i : i + 1], mask[i : i + 1], cfg) for i in range(2)]
    found = joined(parts)  # of 5 tokens one is clipped above, and one below
    assert found["clip_ratio/high_mean"] == pytest.approx(1 / 5)
    assert found["clip_ratio/low_mean"] == pytest.approx(1 / 5)
    assert found["clip_ratio/region_mean"] == pytest.approx(2 / 5)
    assert found["clip_ratio/high_max"] == pytest.approx(1 / 4)
    assert found["clip_ratio/low_min"] == 0


def test_a_resume_says_which_settings_are_others_and_when_nothing_is_left(tmp_path, capsys):
    trainer(tmp_path).train(tiny.rows(9), resume=True)
    assert "with other settings" not in capsys.readouterr().out
    again = trainer(tmp_path, learning_rate=1e-4, num_train_epochs=3)
    again.train(tiny.rows(9), resume=True)
    said = capsys.readouterr().out
    assert "resumed at step 12, with other settings: " in said
    assert "learning_rate 0.003 -> 0.0001" in said and "num_train_epochs 2 -> 3" in said
    trainer(tmp_path, num_train_epochs=1).train(tiny.rows(9), resume=True)
    assert "all steps are made (6)" in capsys.readouterr().out


def test_a_checkpoint_of_other_weights_is_refused_in_one_line(tmp_path):
    trainer(tmp_path).train(tiny.rows(9))
    with pytest.raises(ValueError, match="of another model or another lora_rank"):
        trainer(tmp_path, lora_rank=2).train(tiny.rows(9), resume=True)


def test_gspo_compares_the_ratio_of_a_whole_response(tmp_path):
    cfg = trainer(tmp_path, loss="gspo", step="ours", clip_epsilon=0.2).cfg
    logp = torch.log(torch.tensor([[1.5, 1 / 1.5], [1.5, 1.5]]))  # ratios 1 and 1.5
    found = joined([loss_metrics(torch.tensor(0.0), {}, logp, torch.zeros(2, 2), torch.ones(2),
                                 torch.ones(2, 2), cfg)])
    assert found["clip_ratio/high_mean"] == 0.5 and found["clip_ratio/high_max"] == 1


def test_samples_in_use_are_given_up_when_their_settings_have_changed(tmp_path):
    with pytest.raises(Killed):
        trainer(tmp_path, [KillAt(3)], inner_steps=2).train(tiny.rows(9))
    again = trainer(tmp_path, inner_steps=1, group_size=4)  # step 3 is the first of a pair
    history = again.train(tiny.rows(9), resume=True)
    assert history[-1]["step"] == again.done == 6
    used = [tuple(r["ids"]) for r in map(dict, lines(tmp_path, "completions"))]
    assert len(used) >= 3 * 3 * 4


def test_what_cannot_be_resumed_or_configured_is_one_line(tmp_path):
    made = trainer(tmp_path)
    made.train(tiny.rows(9))
    with pytest.raises(OSError, match="final is not a checkpoint to resume from"):
        trainer(tmp_path / "x").train(tiny.rows(9), resume=str(tmp_path / "final"))
    (tmp_path / "checkpoint-1").mkdir()
    torch.save({"step": 1}, tmp_path / "checkpoint-1" / "state.pt")
    with pytest.raises(OSError, match="checkpoint-1 was written by an earlier version"):
        trainer(tmp_path / "x").train(tiny.rows(9), resume=str(tmp_path / "checkpoint-1"))
    with pytest.raises(ValueError, match="config must be beyond's GRPOConfig, not <class 'dict'>"):
        GRPOTrainer(tiny.model(), tiny.tokenizer(), digits, {"group_size": 2})
    with pytest.raises(ValueError, match="beyond's GRPOConfig, not <class 'lab15"):
        GRPOTrainer(tiny.model(), tiny.tokenizer(), digits, made.lab.GRPOConfig())


def test_a_reward_may_ask_for_the_sampled_ids(tmp_path):
    seen = []

    def score(prompts, responses, completion_ids):
        seen.extend(zip(responses, completion_ids))
        return [digits(r, None) for r in responses]

    made = trainer(tmp_path, max_steps=1)
    made.reward_fn, made.eval_rows = score, tiny.rows(3)
    made.train(tiny.rows(3))
    ends = made.policy.ends
    for text, ids in seen:
        kept = ids[:-1] if ids[-1] in ends else ids
        assert made.policy.tokenizer.decode(kept, skip_special_tokens=True) == text
    assert len(seen) == 3 * made.cfg.group_size + 2 * 3  # and of two evaluations


def test_a_step_without_any_score_is_said_once(tmp_path, capsys):
    made = trainer(tmp_path)
    made.reward_fn = lambda prompts, responses, **_: [None] * len(responses)
    before = weights(made).clone()
    made.cfg.kl_beta = 0.0
    history = made.train(tiny.rows(9))
    assert capsys.readouterr().out.count("no response of this step has a score") == 1
    assert all(h["frac_unscored"] == 1 for h in history)
    assert torch.allclose(weights(made), before)
