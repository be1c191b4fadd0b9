"""TRL's trainer with our loss: the same gradients as ours, whatever way TRL cuts the batch."""

import importlib.util
import math
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
pytest.importorskip("trl", reason="pip install -r beyond/requirements-trl.txt")

import trl
from datasets import Dataset
from transformers import AutoModelForCausalLM, TrainerCallback, logging

from beyond import losses, tiny
from beyond.adapters.trl import TRLTrainer
from beyond.hf import backend
from beyond.losses import names
from beyond.settings import default_path
from beyond.student.plugins import load_student
from lab15_run import TOP

logging.set_verbosity_error()
EPS, BETA, HEAT, ROWS, T = 0.1, 0.3, 0.7, 8, 6
# float32 on both sides: the error is measured in units of the largest entry of the gradient.
CLOSE = 1e-6
CLIPS = [f"clip_ratio/{n}" for n in ("low_mean", "low_min", "high_mean", "high_max", "region_mean")]
PLAIN = {"loss_type": "grpo", "use_bias_correction_kl": False}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder with the policy; TRL reads its reference from where the policy came."""
    path = tmp_path_factory.mktemp("model")
    tiny.model().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def fixed():
    return samples()


def samples():
    """Return samples of ragged prompts and lengths, with old and ref of other policies."""
    torch.manual_seed(3)
    tokenizer = tiny.tokenizer()
    policy, old, ref = (backend.Policy(tiny.model(seed), tokenizer, max_new_tokens=T)
                        for seed in range(3))
    out = backend.sample(policy, ["12+7=", "3+4="] * (ROWS // 2), temperature=HEAT)
    out["mask"] = (torch.arange(T) < torch.tensor([[6], [1], [3], [5], [2], [2], [4], [3]])).float()
    with torch.no_grad():
        score = [backend.sequence_logprobs(p, out) for p in (policy, old, ref)]
    return policy, out, score[1], score[2], torch.randn(ROWS)


def lab_loss(*five):
    return load_student(default_path(), backend).grpo_loss(*five, EPS, BETA)


BOTH = {"lab": lab_loss, "dapo": lambda *five: losses.dapo(*five, EPS, BETA)}


def gradient_of(model):
    return {name: p.grad.clone() for name, p in model.named_parameters()}


def ours(fixed, loss, old=True):
    """Return (gradients, stats) of our side: one backward of the whole batch."""
    policy, out, old_logp, ref, adv = fixed
    policy.zero_grad()
    logp = backend.sequence_logprobs(policy, out)
    value, stats = loss(logp, old_logp if old else logp.detach(), ref, adv, out["mask"])
    value.backward()
    return gradient_of(policy.model), stats | {"value": float(value.detach())}


def difference(a, b):
    """Return the largest difference over all parameters, in units of the largest entry."""
    return max(float((a[n] - b[n]).abs().max()) for n in b) / max(
        float(g.abs().max()) for g in b.values())


def as_trl_has_it(fixed, old=True):
    """Return the fixed samples under TRL's names."""
    _, out, old_logp, ref, adv = fixed
    known, L, mask = out["prompts"], out["prompt_len"], out["mask"].long()
    batch = {
        "prompt_ids": out["ids"][:, :L], "prompt_mask": known["real"][known["row"]],
        "completion_ids": out["ids"][:, L:], "completion_mask": mask, "advantages": adv,
        "num_items_in_batch": mask.sum(), "ref_per_token_logps": ref,
    }
    return batch | ({"old_per_token_logps": old_logp} if old else {})


class Keep(TrainerCallback):
    """Keeps the gradient of every optimizer step."""

    def __init__(self):
        self.gradients = []

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        """Keep them as they are before the step."""
        self.gradients.append(gradient_of(model))


def trainer_of(folder, kind=TRLTrainer, own=None, reward=None, **changes):
    """Return a trainer of TRL's on the CPU; own: what only TRLTrainer takes."""
    data = Dataset.from_list(tiny.rows(8))
    settings = {
        "output_dir": str(folder / "out"), "per_device_train_batch_size": ROWS,
        "num_generations": 4, "max_completion_length": T, "beta": BETA, "epsilon": EPS,
        "temperature": HEAT, "learning_rate": 0.0, "max_grad_norm": 0.0, "max_steps": 2,
        "gradient_checkpointing": False, "bf16": False, "use_cpu": True, "report_to": "none",
        "save_strategy": "no", "logging_steps": 1, "disable_tqdm": True, "shuffle_dataset": False,
        "dataloader_pin_memory": False,
    }
    return kind(
        model=AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32),
        reward_funcs=reward or spread, args=trl.GRPOConfig(**(settings | changes)),
        train_dataset=data, eval_dataset=data.select(range(2)),
        processing_class=tiny.tokenizer(pad="<pad>"), callbacks=[Keep()], **(own or {}))


def steps_on(fixed, folder, old=True, **changes):
    """Return (TRL's trainer after two optimizer steps at learning rate 0, their gradients)."""
    made = trainer_of(folder, **changes)
    made._generate_and_score_completions = lambda inputs: as_trl_has_it(fixed, old)
    made.train()
    kept = next(c for c in made.callback_handler.callbacks if isinstance(c, Keep))
    assert len(kept.gradients) == 2
    return made, kept.gradients


def log_of(made):
    """Return what TRL logged of its first step."""
    return made.state.log_history[0]


# ---------------------------------------------------------------- gradients

CUTS = {
    "whole": {},
    "two micro-batches": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2},
    "two iterations": {"num_iterations": 2},
    "both": {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
             "num_iterations": 2},
    "a step from two generations": {
        "per_device_train_batch_size": 4, "gradient_accumulation_steps": 2,
        "steps_per_generation": 1},
}


@pytest.mark.parametrize("old", [True, False], ids=["old given", "old is now"])
@pytest.mark.parametrize("cut", list(CUTS)[:4])
def test_trl_with_the_labs_loss_has_our_gradients(fixed, folder, cut, old):
    want, stats = ours(fixed, lab_loss, old)
    made, found = steps_on(fixed, folder, old, **CUTS[cut])
    assert max(difference(g, want) for g in found) < CLOSE
    if cut in ("whole", "two iterations"):  # else TRL logs the mean over micro-batches
        assert log_of(made)["kl"] == pytest.approx(stats["kl"], rel=1e-5)
        assert log_of(made)["clip_ratio/region_mean"] == pytest.approx(stats["clip_frac"])
    if old:
        assert stats["clip_frac"] > 0.2, "the clip must matter here"
        logged = log_of(made)
        assert logged["clip_ratio/region_mean"] == pytest.approx(
            logged["clip_ratio/low_mean"] + logged["clip_ratio/high_mean"])


@pytest.mark.parametrize("cut", list(CUTS)[:4])
def test_trls_own_loss_with_the_same_definition_has_our_gradients(fixed, folder, cut):
    want, _ = ours(fixed, lab_loss)
    _, found = steps_on(fixed, folder, kind=trl.GRPOTrainer, **PLAIN, **CUTS[cut])
    assert max(difference(g, want) for g in found) < CLOSE


@pytest.mark.parametrize("changes", [{}, {"loss_type": "grpo"},
                                     {"use_bias_correction_kl": False}])
def test_trls_own_loss_as_it_comes_has_others(fixed, folder, changes):
    want, _ = ours(fixed, lab_loss)
    _, found = steps_on(fixed, folder, kind=trl.GRPOTrainer, **changes)
    assert difference(found[0], want) > 0.01


def kl_turned(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """The lab's loss with the wrong sign of the KL term."""
    return losses.grpo(logp, old_logp, ref_logp, adv, mask, clip_eps, -beta)


def test_a_wrong_loss_has_other_gradients(fixed, folder):
    want, _ = ours(fixed, lab_loss)
    _, found = steps_on(fixed, folder, own={"loss": kl_turned})
    assert difference(found[0], want) > 0.01


@pytest.mark.parametrize("name", ["grpo", "dr_grpo", "dapo", "gspo"])
@pytest.mark.parametrize("cut", ["two micro-batches", "both"])
def test_losses_that_take_a_denominator_get_that_of_the_whole_step(fixed, folder, name, cut):
    more = {"L": T} if name == "dr_grpo" else {}
    want, _ = ours(fixed, lambda *five: losses.LOSSES[name](*five, EPS, BETA, **more))
    _, found = steps_on(fixed, folder, own={"loss": name}, **CUTS[cut])
    assert max(difference(g, want) for g in found) < CLOSE


@pytest.mark.parametrize("name", ["lab", "dapo"])
def test_one_generation_may_be_used_up_in_several_steps(fixed, folder, name):
    want, _ = ours(fixed, BOTH[name])
    made, found = steps_on(
        fixed, folder, own={"loss": name}, per_device_train_batch_size=2,
        gradient_accumulation_steps=2, steps_per_generation=4)
    tokens = [float(b["completion_mask"].sum()) for b in made._buffered_inputs]
    share = torch.tensor([sum(tokens[:2]), sum(tokens[2:])]) / sum(tokens)
    assert share[0] != 0.5, "else rows and tokens weigh the same"
    share = torch.tensor([0.5, 0.5]) if name == "lab" else share
    both = {n: share[0] * found[0][n] + share[1] * found[1][n] for n in want}
    assert difference(both, want) < CLOSE


def test_the_labs_loss_may_take_a_step_from_two_generations(fixed, folder):
    want, _ = ours(fixed, lab_loss)
    halves = [torch.arange(0, 4), torch.arange(4, 8)] * 2
    whole = as_trl_has_it(fixed)
    made = trainer_of(folder, **CUTS["a step from two generations"])

    def half(inputs):
        at = halves.pop(0)
        return {k: v if v.dim() == 0 else v[at] for k, v in whole.items()}

    made._generate_and_score_completions = half
    made.train()
    found = next(c for c in made.callback_handler.callbacks if isinstance(c, Keep)).gradients
    assert max(difference(g, want) for g in found) < CLOSE


@pytest.mark.parametrize("name", BOTH)
def test_an_evaluation_batch_stands_for_itself(fixed, folder, name):
    _, stats = ours(fixed, BOTH[name])
    made = trainer_of(folder, own={"loss": name}, **CUTS["two micro-batches"])
    made.current_gradient_accumulation_steps = 2
    made.model.eval()
    value = float(made._compute_loss(made.model, as_trl_has_it(fixed)).detach())
    assert value == pytest.approx(stats["value"], rel=1e-5)


@pytest.mark.slow
@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
def test_two_processes_have_the_gradients_of_one(fixed, folder):
    run = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2",
           "-m", "beyond.tests.adapters.test_trl", str(folder)]
    done = subprocess.run(run, cwd=TOP, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    for name, loss in BOTH.items():
        want, _ = ours(fixed, loss)
        found = torch.load(folder / f"{name}.pt")
        assert difference(found, want) < CLOSE


def one_of_two(folder: Path) -> None:
    """Run as one of two processes: each has half of the rows, and not half of the tokens."""
    rank = int(os.environ["RANK"])
    mine = {k: v if v.dim() == 0 else v[4 * rank : 4 * rank + 4]
            for k, v in as_trl_has_it(samples()).items()}
    assert mine["completion_mask"].sum() != 13
    for name in BOTH:
        made = trainer_of(folder, own={"loss": name}, per_device_train_batch_size=4)
        made._generate_and_score_completions = lambda inputs: mine
        made.train()
        if rank == 0:
            kept = next(c for c in made.callback_handler.callbacks if isinstance(c, Keep))
            torch.save(kept.gradients[0], folder / f"{name}.pt")


# ---------------------------------------------------------------- a real run


def spread(completions, **_):
    """A reward that differs from one random text to the next."""
    return [float(sum(map(ord, text)) % 7) for text in completions]


def test_a_real_run_trains_logs_and_evaluates(folder):
    made = trainer_of(
        folder, learning_rate=1e-3, max_steps=3, num_iterations=2, eval_strategy="steps",
        eval_steps=2, max_grad_norm=1.0, log_completions=True, reward=spread)
    before = {n: p.detach().clone() for n, p in made.model.named_parameters()}
    made.train()
    logs = [line for line in made.state.log_history if "loss" in line]
    assert len(logs) == 3 and math.isfinite(logs[0]["reward"])
    for line in logs:
        assert all(math.isfinite(line[k]) for k in ("loss", "kl", "entropy", *CLIPS))
    assert logs[0]["kl"] == pytest.approx(0, abs=1e-6) and logs[2]["kl"] > 1e-5
    # TRL gives the old log-probs of the first of two steps on the same samples: the ratio is 1.
    assert logs[0]["clip_ratio/region_mean"] == 0
    assert any(math.isfinite(line.get("eval_kl", math.inf)) for line in made.state.log_history)
    assert any(not torch.equal(p, before[n]) for n, p in made.model.named_parameters())
    assert len(list((folder / "out" / "completions").glob("*.parquet"))) >= 3


def test_the_example_runs_with_a_lab_file(monkeypatch, tmp_path, capsys):
    from beyond.examples import trl_with_your_loss

    monkeypatch.chdir(tmp_path)
    trl_with_your_loss.main(["--steps", "10", "--adv", "lab", "--lab", str(default_path())])
    said = capsys.readouterr().out
    assert "is that of Task 4" in said and "step  10: reward 0." in said


@pytest.mark.parametrize("adv", ["trl", "lab"])
def test_advantages_are_trls_or_the_labs(folder, adv):
    made = trainer_of(folder, own={"adv": adv}, max_steps=1, reward=spread)
    made.train()
    rewards = made.scores[:, 0]
    want = load_student(default_path(), backend).group_advantages(rewards, 4)
    trls = want * math.sqrt(3 / 4)  # its std is the sample's
    want = want if adv == "lab" else trls
    assert want.abs().max() > 0.5
    assert torch.allclose(torch.tensor(list(made._logs["advantages"])), want, rtol=1e-3)
    used = torch.cat([b["advantages"] for b in made._buffered_inputs])  # TRL has shuffled them
    assert torch.allclose(used.sort().values, want.sort().values, rtol=1e-3)


@pytest.mark.parametrize("name", ["dr_grpo", "rloo", "gspo", "dapo", "grpo"])
def test_a_name_is_the_same_algorithm_as_elsewhere_unless_set_by_hand(folder, capsys, name):
    default = {"beta": 0.0, "epsilon": 0.2}
    made, own = trainer_of(folder, own={"loss": name}, **default), names.own(name)
    bound = made.loss.keywords
    assert (made.args.beta, bound["clip_eps"]) == (own["kl_beta"], own["clip_epsilon"])
    assert bound.get("clip_high") == own["clip_high"] or own["clip_high"] is None
    assert f"loss {name}: advantages {own['adv']}, " in capsys.readouterr().out
    rewards = torch.tensor([1.0, 0, 0, 1, 1, 1, 0, 1])
    want = losses.ADVANTAGES["group" if own["adv"] == "lab" else own["adv"]](rewards, 4)
    assert torch.allclose(made.advantages(rewards, 4), want, atol=1e-3)
    hand = trainer_of(folder, own={"loss": name, "adv": "trl"}, beta=0.2, epsilon=0.15)
    assert (hand.args.beta, hand.loss.keywords["clip_eps"], hand.advantages) == (0.2, 0.15, None)


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(("own", "changes", "message"), [
    ({}, {"importance_sampling_level": "sequence"}, "set importance_sampling_level = token"),
    ({}, {"top_entropy_quantile": 0.5, "delta": 2.0}, "delta = None, top_entropy_quantile = 1.0"),
    ({}, {"epsilon_high": 0.3}, "has no clip_low and clip_high"),
    ({"loss": "dapoo"}, {}, "did you mean dapo"),
    ({"loss": "dapo_group"}, {}, "whole groups"),
    ({"loss": "dapo"}, CUTS["a step from two generations"], "several generations"),
    ({"adv": "lab"}, {"scale_rewards": "batch"}, "group by group"),
])
def test_what_the_loss_cannot_follow_is_refused(folder, own, changes, message):
    with pytest.raises(ValueError, match=message):
        trainer_of(folder, own=own, **changes)


def test_without_trl_there_is_one_clear_line(monkeypatch):
    from beyond.adapters import trl as plug_trl

    monkeypatch.setitem(sys.modules, "trl", None)
    spec = importlib.util.spec_from_file_location("plug_trl_alone", plug_trl.__file__)
    with pytest.raises(ImportError, match="pip install -r beyond/requirements-trl.txt") as caught:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "\n" not in str(caught.value)


def test_another_trl_without_the_methods_is_not_run_with_its_own_loss(monkeypatch, folder):
    monkeypatch.setattr("beyond.adapters.trl.Base", types.SimpleNamespace())
    with pytest.raises(ImportError, match="no _get_per_token.*it is not version 1.16"):
        trainer_of(folder)


if __name__ == "__main__":
    one_of_two(Path(sys.argv[1]))
