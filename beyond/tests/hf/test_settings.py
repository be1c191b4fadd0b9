"""What a run can be told: config, chat, LoRA, losses, loggers; and what it says of trouble."""

import ast
import dataclasses
import json
import sys
import time

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

import lab15_run
from beyond import ExactMatchReward, GRPOConfig, GRPOTrainer, tiny
from beyond.config import from_flags
from beyond.hf import backend
from beyond.student import plugins
from beyond.tests.short_runs import digits, lines
from lab15_run import TOP

FORGE = {
    "group_size": 4, "clip_epsilon": 0.2, "kl_beta": 0.01, "temperature": 0.9,
    "max_new_tokens": 5, "learning_rate": 5e-6, "gradient_accumulation_steps": 2,
    "max_grad_norm": 1.0, "num_train_epochs": 1, "save_steps": 100, "logging_steps": 10,
    "output_dir": "forge_output", "use_wandb": False, "wandb_project": "forge",
    "wandb_run_name": "grpo_run", "seed": 42,
}
CHAT = "{% for m in messages %}<{{ m.role }}>{{ m.content }}|{% endfor %}{% if \
add_generation_prompt %}<assistant>{% endif %}"


def make(out, reward=digits, model=None, tokenizer=None, callbacks=(), **changes):
    settings = {"output_dir": str(out), "max_new_tokens": 4, "log_completions": 0, "save_steps": 0,
                "learning_rate": 1e-3, "group_size": 4, "prompts_per_step": 2}
    return GRPOTrainer(model or tiny.model(), tokenizer or tiny.tokenizer(), reward,
                       GRPOConfig(**(settings | changes)), callbacks=callbacks)


def text_rows(n=4):
    return [r | {"text": r["prompt"]} for r in tiny.rows(n)]


# ---------------------------------------------------------------- config


def test_all_fields_of_forge_rl_are_taken_and_all_of_ours_are_used():
    cfg = GRPOConfig(**FORGE)
    assert len(FORGE) == 16 and all(getattr(cfg, k) == v for k, v in FORGE.items())
    read = set()
    for path in (TOP / "beyond").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                read.add(node.attr)
    assert {f.name for f in dataclasses.fields(GRPOConfig)} <= read


def test_yaml_then_overrides_then_flags_and_the_nearest_name(tmp_path):
    from beyond.train_hf import arguments

    path = tmp_path / "run.yaml"
    path.write_text("group_size: 4\nloss:\n  loss: dapo\n  clip_high: 0.3\nlearning_rate: 1e-4\n",
                    encoding="utf-8")
    flags = arguments(["--config", str(path), "loss.clip_high=0.28", "--group-size", "6"])
    cfg = from_flags(flags)
    assert (cfg.loss, cfg.clip_high, cfg.group_size, cfg.learning_rate) == ("dapo", 0.28, 6, 1e-4)
    path.write_text("grupsize: 4\n", encoding="utf-8")
    with pytest.raises(ValueError, match="did you mean group_size"):
        from_flags(arguments(["--config", str(path)]))
    with pytest.raises(ValueError, match="did you mean clip_high"):
        from_flags(arguments(["clip_hihg=0.3"]))


@pytest.mark.parametrize("bad, said", [
    ({"kl_beta": -1}, "0 or more"), ({"temperature": 0}, "temperature"),
    ({"schedule": "cos"}, "constant or cosine"), ({"group_size": 2.5}, "int"),
    ({"learning_rate": float("nan")}, "learning_rate")])
def test_bad_settings_are_named_with_what_is_allowed(bad, said):
    with pytest.raises(ValueError, match=said):
        GRPOConfig(**bad)


def test_a_loss_brings_its_own_clip_range_and_beta(tmp_path):
    assert (make(tmp_path).cfg.clip_epsilon, make(tmp_path).cfg.kl_beta) == (0.2, 0.04)
    gspo = make(tmp_path, loss="gspo")
    assert (gspo.cfg.clip_epsilon, gspo.cfg.clip_high, gspo.cfg.kl_beta) == (0.06, 0.08, 0.0)
    assert gspo.ref is None and make(tmp_path, loss="gspo_paper").cfg.clip_epsilon == 3e-4
    assert make(tmp_path, loss="gspo", kl_beta=0.1).ref is not None
    with pytest.raises(ValueError, match="did you mean dapo"):
        make(tmp_path, loss="dappo")


# ---------------------------------------------------------------- the quick start of forge-rl


def test_forge_rls_quick_start_runs_as_written(tmp_path, monkeypatch):
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tiny.save(tmp_path / "model")
    monkeypatch.chdir(tmp_path)
    model = AutoModelForCausalLM.from_pretrained("model")
    tokenizer = AutoTokenizer.from_pretrained("model")
    tokenizer.pad_token = tokenizer.eos_token
    dataset = [
        {"prompt": "What is 2 + 2? Answer:", "reference": "4"},
        {"prompt": "What is 10 - 3? Answer:", "reference": "7"},
    ]
    trainer = GRPOTrainer(
        model=model,
        tokenizer=tokenizer,
        reward_fn=ExactMatchReward(),
        config=GRPOConfig(group_size=4, num_train_epochs=1),
    )
    trainer.train(dataset)
    assert trainer.done == 1
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "runs" / "hf" / "final")


# ---------------------------------------------------------------- chat


def test_messages_go_through_the_template_once_and_texts_never(tmp_path):
    tokenizer = tiny.tokenizer()
    tokenizer.chat_template = CHAT
    made = make(tmp_path, tokenizer=tokenizer)
    row = {"prompt": [{"role": "user", "content": "1+1="}], "reference": "2"}
    made.train([row, row])
    assert made.policy.chat and not made.policy.add_special_tokens
    said = lines(tmp_path, "completions")[0]["prompt"]
    assert said == "<user>1+1=|<assistant>"
    ours = backend.encode(made.policy, [said])["ids"][0].tolist()
    theirs = tokenizer.apply_chat_template(row["prompt"], add_generation_prompt=True)
    assert ours == (theirs if isinstance(theirs, list) else theirs["input_ids"])
    with pytest.raises(ValueError, match="some are texts"):
        made.train(tiny.rows(2))
    with pytest.raises(ValueError, match="no chat template"):
        make(tmp_path).train([row])


# ---------------------------------------------------------------- LoRA


def test_lora_trains_adapters_alone_against_the_model_with_its_adapter_off(tmp_path):
    pytest.importorskip("peft", reason="pip install -r beyond/requirements.txt")
    base = backend.Policy(tiny.model(), tiny.tokenizer(), max_new_tokens=4)
    made = make(tmp_path, lora_rank=2, num_train_epochs=3)
    trained = sum(p.numel() for g in made.opt.param_groups for p in g["params"])
    assert trained < sum(p.numel() for p in made.policy.parameters()) / 4
    assert {id(p) for p in made.ref.parameters()} == {id(p) for p in made.policy.parameters()}
    made.train(tiny.rows(6))
    out = backend.sample(made.policy, ["1+1=", "2+3="])
    found = [backend.sequence_logprobs(p, out).detach() for p in (base, made.ref, made.policy)]
    torch.testing.assert_close(found[1], found[0], atol=1e-6, rtol=1e-6)
    assert (found[2] - found[0]).abs().max() > 1e-4
    assert made.history[-1]["kl"] > 0
    whole = backend.load_or_train_sft(tmp_path / "final", max_new_tokens=4)
    torch.testing.assert_close(backend.sequence_logprobs(whole, out).detach(), found[2],
                               atol=1e-4, rtol=1e-4)


# ---------------------------------------------------------------- losses


def gradients(made):
    torch.manual_seed(0)
    batch, grads = [made.roll_out(text_rows())], []
    made.opt.step = lambda: grads.extend(p.grad.clone() for p in made.policy.parameters())
    return made.update(batch), grads


@pytest.mark.parametrize("size", [0, 5])
def test_the_entropy_bonus_is_the_gradient_of_the_entropy(tmp_path, size):
    common = {"max_grad_norm": 1e9, "micro_batch": size, "kl_beta": 0.0}
    plain, a = gradients(make(tmp_path, **common))
    bonus, b = gradients(make(tmp_path, entropy_coef=0.5, **common))
    made = make(tmp_path, **common)
    torch.manual_seed(0)
    out = made.roll_out(text_rows())["out"]
    entropy = backend.token_entropies(made.policy, out).sum() / out["mask"].sum()
    c = torch.autograd.grad(entropy, list(made.policy.parameters()))
    assert bonus["loss"] == pytest.approx(plain["loss"] - 0.5 * float(entropy), abs=1e-5)
    for x, y, z in zip(a, b, c):
        torch.testing.assert_close(y, x - 0.5 * z, atol=1e-5, rtol=1e-3)


def test_a_loss_from_a_file_as_a_function_and_as_torchforges_class(tmp_path):
    path = TOP / "beyond" / "examples" / "custom_loss.py"
    common = {"max_grad_norm": 1e9, "kl_beta": 0.1, "inner_steps": 1}
    first, a = gradients(make(tmp_path, loss=f"{path}:clipped_with_k1", **common))
    second, b = gradients(make(tmp_path, loss=f"{path}:CustomLoss", **common))
    zoo, c = gradients(make(tmp_path, loss="dapo", kl="k1", clip_high=0.2, **common))
    assert first["loss"] == pytest.approx(second["loss"], abs=1e-6)
    assert first["loss"] == pytest.approx(zoo["loss"], abs=1e-5)
    for x, y, z in zip(a, b, c):
        torch.testing.assert_close(x, y)
        torch.testing.assert_close(x, z, atol=1e-6, rtol=1e-4)


def test_a_loss_that_wants_the_unknown_is_refused(tmp_path):
    path = tmp_path / "odd.py"
    path.write_text("def f(logp, values):\n    return logp.sum()\n", encoding="utf-8")
    with pytest.raises(ValueError, match="cannot be given values"):
        plugins.find_loss(f"{path}:f", None)
    with pytest.raises(ValueError, match="no function 'g'"):
        plugins.find_loss(f"{path}:g", None)
    with pytest.raises(ValueError, match="there is no file"):
        plugins.find_loss("gone.py:g", None)


@pytest.mark.parametrize("step", ["lab", "ours"])
def test_without_kl_no_pass_is_spent_on_a_reference(tmp_path, step, monkeypatch):
    seen = []
    real = backend.sequence_logprobs
    monkeypatch.setattr(backend, "sequence_logprobs",
                        lambda policy, out: (seen.append(policy), real(policy, out))[1])
    made = make(tmp_path, step=step, kl_beta=0.0)
    history = made.train(tiny.rows(2))
    assert made.ref is None and set(map(id, seen)) == {id(made.policy)}
    assert len(seen) == (2 if step == "lab" else 1)  # yours scores old_logp, then logp
    assert history[0].get("kl", 0.0) == 0.0


# ---------------------------------------------------------------- callbacks and loggers


def test_callbacks_are_told_everything_in_order(tmp_path):
    told = []

    class Everything:
        def __getattr__(self, name):
            if not name.startswith("on_"):
                raise AttributeError(name)
            return lambda trainer, **what: told.append((name, sorted(what)))

    made = make(tmp_path, callbacks=[Everything()], save_steps=1, eval_steps=1)
    made.eval_rows = tiny.rows(2)
    made.train(tiny.rows(4))
    names = [name for name, _ in told]
    assert names[:6] == ["on_rollout", "on_advantages", "on_loss", "on_eval", "on_save",
                         "on_step_end"]
    assert names[-1] == "on_save" and dict(told)["on_save"] == ["path"]


def test_tensorboard_is_read_back(tmp_path):
    pytest.importorskip("tensorboard", reason="pip install -r beyond/requirements.txt")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = make(tmp_path, tensorboard=True).train(tiny.rows(4))
    events = EventAccumulator(str(tmp_path / "tensorboard"))
    events.Reload()
    read = [(e.step, e.value) for e in events.Scalars("reward")]
    assert read == [(h["step"], pytest.approx(h["reward"])) for h in history]


def wandb_records(path):
    """Yield the records of a .wandb file: LevelDB's log format, after a header of 7 bytes."""
    data, at, record = path.read_bytes(), 7, b""
    while at + 7 <= len(data):
        if 32768 - at % 32768 < 7:  # the rest of a block is too small for a header
            at += 32768 - at % 32768
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # whole, or the last part
            yield record
            record = b""


def test_wandb_offline_is_read_back(tmp_path, monkeypatch):
    pytest.importorskip("wandb", reason="pip install wandb")

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_SILENT", "true")
    history = make(tmp_path, use_wandb=True).train(tiny.rows(4))
    assert wandb_rewards(tmp_path) == [pytest.approx(h["reward"]) for h in history]


def wandb_rewards(folder):
    """Return the logged rewards; W&B's service finishes its file a moment after finish()."""
    from wandb.proto import wandb_internal_pb2

    end = time.monotonic() + 30
    while True:
        records = []
        for data in wandb_records(next(folder.glob("wandb/offline-run-*/*.wandb"))):
            records.append(wandb_internal_pb2.Record())
            records[-1].ParseFromString(data)
        if any(r.WhichOneof("record_type") == "exit" for r in records) or time.monotonic() > end:
            items = [item for r in records for item in r.history.item]
            return [json.loads(i.value_json) for i in items if "reward" in (i.key, *i.nested_key)]
        time.sleep(0.2)


def test_wandb_and_trackio_are_given_every_step(tmp_path, monkeypatch):
    (tmp_path / "packages").mkdir()
    for tool in ("wandb", "trackio"):
        (tmp_path / "packages" / f"{tool}.py").write_text(
            "told = []\n"
            "def init(project, name, config, dir=None):\n"
            "    told.append((project, name, config['group_size'], dir))\n"
            "def log(metrics, step): told.append((step, metrics['reward']))\n"
            "def finish(): told.append('end')\n", encoding="utf-8")
        monkeypatch.delitem(sys.modules, tool, raising=False)
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    out = tmp_path / "run"
    history = make(out, use_wandb=True, use_trackio=True, wandb_project="p").train(tiny.rows(4))
    steps = [(h["step"], h["reward"]) for h in history]
    for tool, folder in (("wandb", str(out)), ("trackio", None)):
        assert sys.modules.pop(tool).told == [("p", "grpo", 4, folder), *steps, "end"]


def test_a_logger_that_is_not_there_is_said_before_training(tmp_path, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    for name in ("use_wandb", "use_trackio", "tensorboard"):
        with pytest.raises(ValueError, match=f"{name} needs"):
            make(tmp_path, **{name: True}).train(tiny.rows(2))


def test_the_metrics_have_trls_names(tmp_path):
    history = make(tmp_path, num_train_epochs=2, inner_steps=2).train(tiny.rows(4))
    names = """loss grad_norm learning_rate num_tokens reward reward_std frac_reward_zero_std
        rewards/digits/mean rewards/digits/std kl entropy clip_ratio/low_mean clip_ratio/low_min
        clip_ratio/high_mean clip_ratio/high_max clip_ratio/region_mean completions/mean_length
        completions/min_length completions/max_length completions/clipped_ratio step_time epoch
        completions/mean_terminated_length completions/min_terminated_length
        completions/max_terminated_length""".split()
    assert set(names) <= set(history[0])
    rows = lines(tmp_path, "completions")
    prompts = sum(len(row["prompt"]) for row in rows)
    assert history[-1]["num_tokens"] == prompts + sum(len(row["ids"]) for row in rows)
    assert history[-1]["epoch"] == 2.0


def test_completions_keep_ids_reward_advantage_and_what_the_reward_noted(tmp_path):
    made = make(tmp_path, ExactMatchReward())
    made.train(tiny.rows(2))
    row = lines(tmp_path, "completions")[0]
    assert {"step", "prompt", "completion", "ids", "reward", "advantage"} <= set(row)
    assert "metadata/parsed" in row and row["reward"] in (0.0, 1.0)


def test_bf16_and_checkpointing_train(tmp_path):
    made = make(tmp_path, bf16=True, gradient_checkpointing=True)
    before = [p.detach().clone() for p in made.policy.parameters()]
    history = made.train(tiny.rows(2))
    assert made.policy.checkpointing() and history[0]["ratio_max"] == 1.0
    assert any(not torch.equal(a, b) for a, b in zip(before, made.policy.parameters()))


# ---------------------------------------------------------------- trouble


def test_a_collapse_is_said_once_with_the_settings(tmp_path, capsys):
    model = tiny.model()
    model.get_output_embeddings().weight.data[2] *= 200  # nothing but EOS
    made = make(tmp_path, lambda response, answer: 0.0, model, num_train_epochs=8)
    made.policy.model.get_output_embeddings().weight.data *= 50
    made.train(tiny.rows(2))
    said = capsys.readouterr().out
    assert said.count("nothing more is learned") == 1
    assert "learning_rate (now 0.001)" in said and "kl_beta (now 0.04)" in said


def test_out_of_memory_names_the_settings_and_keeps_the_weights(tmp_path, monkeypatch):
    made = make(tmp_path)
    update = made.update

    def full(batch):
        if made.done == 0:
            return update(batch)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(made, "update", full)
    with pytest.raises(MemoryError, match=r"micro_batch \(now all.*group_size \(now 4\)"):
        made.train(tiny.rows(4))
    assert (tmp_path / "final" / "model.safetensors").is_file()
    assert lab15_run.out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))


def test_a_reward_that_raises_on_one_sample_is_named_and_the_weights_are_kept(tmp_path):
    def picky(response, answer):
        if answer == "4":  # of the second step
            raise KeyError("no such unit")
        return 1.0

    made = make(tmp_path, picky, shuffle=False)
    with pytest.raises(ValueError, match="reward picky: sample .* raised KeyError"):
        made.train(tiny.rows(4))
    assert (tmp_path / "final" / "model.safetensors").is_file()
