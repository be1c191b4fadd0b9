"""The two settings files of a guide to torchforge, unedited, and its flags: train_hf, services."""

import json
import re
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
pytest.importorskip("yaml", reason="pip install -r beyond/requirements.txt")

from beyond import services_run, tiny, torchforge, train_hf
from beyond.settings import load_yaml

GUIDE = Path(__file__).resolve().parents[1] / "guide"
FILES = ["grpo_math.yaml", "distributed.yaml"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("guide")
    tiny.save(made / "model")
    tiny.write_jsonl(made / "rows.jsonl", tiny.rows(4))
    return made


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("command", [train_hf, services_run])
def test_a_dry_run_names_every_key_and_counts_those_without_a_counterpart(capsys, command, name):
    path = str(GUIDE / name)
    keys = load_yaml(path)
    assert command.main(["--config", path, "--dry-run"]) == 0
    told = capsys.readouterr().out
    lines = [line for line in told.splitlines() if " -> " in line]
    assert [line.split(" = ")[0].strip() for line in lines] == list(keys)
    none = sum("-> none here (" in line for line in lines)
    assert f"{len(keys) - none} of {len(keys)} settings have a counterpart here, {none} have none" \
        in told
    assert told.startswith(f"{path}: {len(keys)} settings\n")
    if name == "distributed.yaml":
        assert "It would be refused: tensor_parallel_degree = 2 and data_parallel_shard" in told


def test_what_the_files_say_arrives(folder):
    args = ["--config", str(GUIDE / FILES[0]), "--model", str(folder / "model")]
    for cfg in (train_hf.settings_of(train_hf.arguments(args)),
                services_run.config_of(services_run.arguments(args)).hf):
        found = (cfg.prompts_per_step, cfg.group_size, cfg.gradient_accumulation_steps, cfg.bf16)
        assert found == (4, 8, 4, True)
        assert (cfg.learning_rate, cfg.kl_beta, cfg.temperature) == (1e-6, 0.1, 0.7)
        assert (cfg.clip_low, cfg.clip_high, cfg.loss, cfg.step) == (0.2, 0.28, "grpo", "ours")
        assert cfg.max_prompt_tokens + cfg.max_new_tokens == 4096
    flags = train_hf.arguments(["--config", str(GUIDE / FILES[0])])
    train_hf.settings_of(flags)
    assert (flags.model, flags.data) == ("Qwen/Qwen2.5-7B-Instruct", "gsm8k")
    assert any("settings have no counterpart here; --dry-run lists them" in line
               for line in flags.notices)


def test_a_model_with_fewer_positions_is_given_no_more(folder, tmp_path):
    config = json.loads((folder / "model" / "config.json").read_text(encoding="utf-8"))
    for known, expected in ((2048, (512, 1536)), (256, (128, 128))):
        config["max_position_embeddings"] = known
        (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
        flags = train_hf.arguments(["--config", str(GUIDE / FILES[0]), "--model", str(tmp_path)])
        cfg = train_hf.settings_of(flags)
        assert (cfg.max_prompt_tokens, cfg.max_new_tokens) == expected
        assert any(f"the model has {known} positions" in line for line in flags.notices)


def test_its_flags_are_taken_or_answered_in_one_line(folder, capsys):
    model = ["--model", str(folder / "model")]
    args = [*model, "--trainer.procs", "4", "--generator.procs=2", "--ref_model.procs", "3"]
    cfg = services_run.config_of(services_run.arguments(args))
    assert (cfg.trainer.procs, cfg.generator.procs, cfg.reference.procs) == (4, 2, 3)
    for args, said in ((["--trainer.procs", "5"], "trainer.procs = 5 processes cannot share"),
                       (["--trainer.num_replicas", "2"], "one policy is trained"),
                       (["--trainer.prox", "2"], "did you mean procs"),
                       (["--parallelism.pipeline_parallel_degree", "2"], "no pipeline parallelism"),
                       (["--training.dtype", "float16"], "give bfloat16 or float32"),
                       (["--dataset.split", "test"], "only the train split")):
        with pytest.raises(ValueError, match=re.escape(said)) as error:
            services_run.config_of(services_run.arguments([*model, *args]))
        assert "\n" not in str(error.value)
    for args, said in ((["--trainer.procs", "4"], "torchrun --standalone --nproc-per-node 4"),
                       (["--parallelism.tensor_parallel_degree", "2"], "--parallel tp"),
                       (["--grpo.n_samplse", "2"], "unknown setting")):
        with pytest.raises(ValueError, match=re.escape(said)) as error:
            train_hf.settings_of(train_hf.arguments([*model, *args]))
        assert "\n" not in str(error.value)
    flags = train_hf.arguments([*model, "--generator.procs", "4"])
    train_hf.settings_of(flags)
    assert "command line: 1 setting has no counterpart here; --dry-run lists them" in \
        flags.notices


def test_as_many_processes_as_torchrun_has_started_are_right(folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    for degree, how in (
            ("tensor_parallel_degree=2", "tp"), ("data_parallel_shard_degree=2", "fsdp"),
            ("data_parallel_shard_degree=-1", "fsdp"), ("data_parallel_replicate_degree=2", "ddp")):
        cfg = train_hf.settings_of(train_hf.arguments([
            "--model", str(folder / "model"), f"parallelism.{degree}", "trainer.procs=2"]))
        assert cfg.parallel == how


def test_every_rule_is_in_words_of_ours():
    from beyond.config import ELSEWHERE, SPECS

    values = {"training.dtype": "bfloat16", "dataset.split": "train", "dataset.data_split": "train"}
    for key in torchforge.RULES:
        line = torchforge.line_of(key, values.get(key, 2), "train_hf")
        assert line.none or line.note or line.ours
        assert all(n in SPECS or n in ELSEWHERE or n == "_seq_len" for n in line.ours)


def test_the_first_file_trains_a_tiny_model_on_tiny_data(folder, tmp_path, capsys):
    args = ["--config", str(GUIDE / FILES[0]), "--model", str(folder / "model"), "--data",
            str(folder / "rows.jsonl"), "--output-dir", str(tmp_path / "out"), "--log-completions",
            "0", "grpo.n_samples=2", "training.seq_len=40", "max_prompt_tokens=30"]
    assert train_hf.main(args) == 0
    assert (tmp_path / "out" / "final" / "model.safetensors").is_file()
    told = capsys.readouterr().out
    assert "loss = grpo of beyond.losses" in told and "torch finds no GPU here" in told
