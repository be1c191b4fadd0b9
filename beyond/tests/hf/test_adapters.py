"""LoRA: its settings, peft's configs, adapters as starting points, what cannot be trained."""

import json
import shutil

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
pytest.importorskip("peft", reason="pip install -r beyond/requirements.txt")

import peft

from beyond import GRPOConfig, GRPOTrainer, sft, tiny, train_hf
from beyond.hf import backend
from beyond.hf.policy import load_policy
from beyond.tests.short_runs import digits

SMALL = {"max_new_tokens": 4, "log_completions": 0, "save_steps": 0, "learning_rate": 1e-2,
         "group_size": 4, "prompts_per_step": 2}


def make(out, model=None, peft_config=None, **changes):
    cfg = GRPOConfig(**(SMALL | {"output_dir": str(out)} | changes))
    return GRPOTrainer(model or tiny.model(), tiny.tokenizer(), digits, cfg,
                       peft_config=peft_config)


def logp(policy, out):
    return backend.sequence_logprobs(policy, out).detach()


def samples(policy, seed=0):
    torch.manual_seed(seed)
    return backend.sample(policy, ["1+1=", "2+3="] * 2)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a model's folder with a trained adapter in run/final/adapter."""
    top = tmp_path_factory.mktemp("adapters")
    tiny.save(top / "base")
    cfg = GRPOConfig(**SMALL, lora_rank=2, output_dir=str(top / "run"), num_train_epochs=2)
    GRPOTrainer(load_policy(top / "base", cfg), None, digits, cfg).train(tiny.rows(4))
    return top


def trained(folder):
    base = tiny.model()
    return peft.PeftModel.from_pretrained(base, folder / "run" / "final" / "adapter",
                                          is_trainable=True)


# ---------------------------------------------------------------- settings


def test_the_settings_of_lora_are_pefts(tmp_path):
    made = make(tmp_path, lora_rank=4, lora_alpha=12, lora_targets="q_proj, v_proj")
    [config] = made.policy.model.peft_config.values()
    assert (config.r, config.lora_alpha, set(config.target_modules)) == (
        4, 12, {"q_proj", "v_proj"})
    default = make(tmp_path, lora_rank=4).policy.model.peft_config["default"]
    names = {name.split(".")[-1] for name in default.target_modules}
    assert default.lora_alpha == 8 and len(names) == 7
    same = peft.LoraConfig(r=4, lora_alpha=12, target_modules=["q_proj", "v_proj"],
                           task_type="CAUSAL_LM")
    other = make(tmp_path, peft_config=same)
    for a, b in zip(made.policy.parameters(), other.policy.parameters(), strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize(("changes", "said"), [
    ({"lora_alpha": 4}, "lora_alpha = 4.0 needs lora_rank"),
    ({"lora_targets": "q_proj"}, "needs lora_rank"), ({"lora_dropout": 0.1}, "needs lora_rank"),
    ({"lora_rank": 2, "lora_dropout": 1.0}, "below 1"),
    ({"lora_rank": 2, "lora_dropout": 0.1, "gradient_checkpointing": True}, "in backward"),
    ({"lora_rank": 2, "lora_targets": "q_prj"}, "q_proj"),
    ({"lora_rank": 2, "peft_config": peft.LoraConfig(task_type="CAUSAL_LM")}, "both make"),
    ({"peft_config": peft.PromptTuningConfig(num_virtual_tokens=2, task_type="CAUSAL_LM")},
     "cannot be trained here")])
def test_settings_that_cannot_be_are_one_line_before_training(tmp_path, changes, said):
    with pytest.raises(ValueError, match=said) as error:
        make(tmp_path, **changes)
    assert "\n" not in str(error.value)


def test_dropout_is_in_the_pass_with_gradients_alone_and_repeatable(tmp_path):
    weights = []
    for rate in (0.0, 0.5, 0.5):
        made = make(tmp_path / "x", lora_rank=2, lora_dropout=rate, num_train_epochs=2)
        before = torch.get_rng_state()
        with made.policy.dropping(1):
            assert all(m.p == rate for m, _ in made.policy.dropouts)
        assert torch.equal(before, torch.get_rng_state())
        history = made.train(tiny.rows(4))
        assert history[0]["ratio_max"] == 1.0
        out = samples(made.policy)
        assert torch.equal(logp(made.policy, out), logp(made.policy, out))
        weights.append([p.detach().clone() for p in made.policy.parameters()])
    none, some, again = weights
    assert all(torch.equal(a, b) for a, b in zip(some, again))
    assert any(not torch.equal(a, b) for a, b in zip(none, some))


# ---------------------------------------------------------------- adapters as starting points


@pytest.mark.parametrize("kind", ["one", "two active", "from the folder"])
def test_the_reference_is_the_start_and_stays_there(tmp_path, folder, kind):
    model = trained(folder)
    if kind == "two active":
        model.load_adapter(folder / "run" / "final" / "adapter", "more", is_trainable=True)
        model.base_model.set_adapter(["default", "more"])
    if kind == "from the folder":
        cfg = GRPOConfig(**SMALL, output_dir=str(tmp_path), num_train_epochs=3)
        at = folder / "run" / "final" / "adapter"
        made = GRPOTrainer(load_policy(at, cfg), None, digits, cfg)
    else:
        made = make(tmp_path, model, num_train_epochs=3)
    bare = backend.Policy(tiny.model(), tiny.tokenizer(), max_new_tokens=4)
    out = samples(made.policy)
    start = logp(made.policy, out)
    assert torch.equal(logp(made.ref, out), start)
    assert (logp(bare, out) - start).abs().max() > 1e-3  # the bare base is another policy
    history = made.train(tiny.rows(4))
    assert history[0]["kl"] == 0 and history[-1]["kl"] > 0
    assert torch.equal(logp(made.ref, out), start)
    assert (logp(made.policy, out) - start).abs().max() > 1e-3
    whole = backend.load_or_train_sft(tmp_path / "final", max_new_tokens=4, stop=None)
    torch.testing.assert_close(logp(whole, out), logp(made.policy, out), atol=1e-4, rtol=1e-4)


def test_what_cannot_be_trained_or_saved_is_said_before_training(tmp_path, folder):
    at = folder / "run" / "final" / "adapter"
    frozen = peft.PeftModel.from_pretrained(tiny.model(), at)
    with pytest.raises(ValueError, match="is frozen. Load it with .*is_trainable=True"):
        make(tmp_path, frozen)
    with pytest.raises(ValueError, match="lora_rank = 4: the model is an adapter already"):
        make(tmp_path, trained(folder), lora_rank=4)
    inside = tiny.model()
    inside.load_adapter(str(at))
    with pytest.raises(ValueError, match="could not be saved whole; load it with"):
        make(tmp_path, inside)
    still = tiny.model().requires_grad_(False)
    with pytest.raises(ValueError, match="no weight of the model can be trained"):
        make(tmp_path, still)
    assert make(tmp_path, trained(folder), lora_rank=2).policy.fresh is False  # the same rank


def test_an_adapter_of_this_lab_is_a_model_for_the_commands(tmp_path, folder, capsys):
    at = folder / "run" / "final" / "adapter"
    common = ["--model", str(at), "--max-steps", "1", "--group-size", "2", "--eval-samples", "2"]
    assert train_hf.main([*common, "--output-dir", str(tmp_path / "a"), "--step", "ours"]) == 0
    assert (tmp_path / "a" / "final" / "adapter" / "tokenizer_config.json").is_file()
    tiny.write_jsonl(tmp_path / "rows.jsonl", tiny.rows(4))
    assert sft.main(["--model", str(at), "--data", str(tmp_path / "rows.jsonl"), "--output-dir",
                     str(tmp_path / "b")]) == 0
    capsys.readouterr()
    assert train_hf.main([*common, "lora_rank=4", "--output-dir", str(tmp_path / "c")]) == 2
    said = capsys.readouterr().out
    assert "is an adapter already" in said and said.count("\n") == 1
    assert not (tmp_path / "c" / "final").exists()


def test_an_adapter_without_tokenizer_takes_the_one_above_and_one_without_base_says_so(
        tmp_path, folder):
    run = tmp_path / "run"
    shutil.copytree(folder / "run", run)
    at = run / "final" / "adapter"
    for path in at.glob("*token*"):
        path.unlink()
    cfg = GRPOConfig(**SMALL)
    assert load_policy(at, cfg).tokenizer is not None
    config = json.loads((at / "adapter_config.json").read_text(encoding="utf-8"))
    config["base_model_name_or_path"] = str(tmp_path / "gone")
    (at / "adapter_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(OSError, match="is an adapter of the model .*gone.* has them merged"):
        load_policy(at, cfg)


# ---------------------------------------------------------------- resume


def test_a_resume_of_an_adapter_is_exact(tmp_path, folder):
    changes = {"num_train_epochs": 2, "save_steps": 1, "lora_dropout": 0.0}
    whole = make(tmp_path / "a", trained(folder), **changes)
    whole.train(tiny.rows(4))
    part = make(tmp_path / "b", trained(folder), **changes, max_steps=2)
    part.train(tiny.rows(4))
    part.save("checkpoint-2")
    again = make(tmp_path / "b", trained(folder), **changes)
    again.train(tiny.rows(4), resume=True)
    for a, b in zip(whole.policy.parameters(), again.policy.parameters(), strict=True):
        assert torch.equal(a, b)
    assert whole.history[-1]["kl"] == again.history[-1]["kl"] > 0
