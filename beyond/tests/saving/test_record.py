"""run.yaml: what a run was made of, whole before its first step, and a run when given back."""

import os
from pathlib import Path

import pytest
import yaml

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import sft, tiny, train_hf
from beyond.saving import record
from beyond.tests.short_runs import digits, lines, trainer
from beyond.tests.solution import SOLUTION, needs_solution

REWARD = "def mine(response, answer):\n    return float(len(response) % 3)\n"


@pytest.fixture
def files(tmp_path, model):
    """Return the arguments of a run that has a file of everything, in a path with blanks."""
    here = tmp_path / "my files"
    here.mkdir()
    tiny.write_jsonl(here / "train.jsonl", tiny.rows(4))
    (here / "reward.py").write_text(REWARD, encoding="utf-8")
    return ["--model", str(model), "--data", str(here / "train.jsonl"), "--reward",
            f"{here / 'reward.py'}:mine", "--group-size", "2", "--prompts-per-step", "2",
            "--max-new-tokens", "3", "--max-steps", "2", "--log-completions", "0",
            "--learning-rate", "3e-3", "--output-dir", str(tmp_path / "x")]


def load(folder):
    return yaml.safe_load((Path(folder) / "run.yaml").read_text(encoding="utf-8"))


def results(folder):
    return lines(folder, "training_log"), lines(folder, "completions")


# ---------------------------------------------------------------- what it says


def test_it_is_whole_before_the_first_step(tmp_path):
    seen = []

    def score(response, answer):
        seen.append(load(tmp_path / "x"))
        return 0.0

    made = trainer(tmp_path / "x", max_steps=1, loss="dr_grpo")
    made.reward_fn = score
    made.train(tiny.rows(3))
    assert seen[0] == load(tmp_path / "x")
    assert seen[0]["run"]["rows"]["number"] == 3 and seen[0]["learning_rate"] == 3e-3


@needs_solution
def test_it_names_model_data_reward_loss_lab_settings_commit_versions_machine(files, tmp_path):
    more = ["--loss", "dr_grpo", "--step", "ours", "--lab", str(SOLUTION)]
    assert train_hf.main([*files, *more]) == 0
    found = load(tmp_path / "x")
    here = tmp_path / "my files"
    assert found["data"] == str(here / "train.jsonl") and found["lab"] == str(SOLUTION)
    assert found["reward"] == f"{here / 'reward.py'}:mine" and Path(found["model"]).is_dir()
    assert (found["loss"], found["adv"], found["clip_epsilon"], found["kl_beta"]) == (
        "dr_grpo", "mean_only", 0.2, 0.0)
    run = found["run"]
    assert run["loss"] == "loss dr_grpo: advantages mean_only, clip range 0.2, no KL (kl_beta 0)"
    assert run["command"].startswith("python -m beyond.train_hf --model ")
    assert {"torch", "transformers", "python"} <= run["versions"].keys()
    assert run["commit"] and run["machine"] and run["started"]
    assert set(run["files"]) == {"lab", "model", "data", "reward"}
    for name in ("lab", "data"):
        assert run["files"][name]["sha256"] == record.digest(found[name])


def test_a_path_that_is_no_text_and_a_folder_without_git_are_written_too(tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr(record, "here", record.here.__wrapped__)
    run = record.about_run("sft", "python", {"data": os.fsdecode(b"gone-\xff"), "x": tmp_path})
    text = record.text_of({"data": os.fsdecode(b"gone-\xff"), "stop": "\n"}, run)
    (tmp_path / "run.yaml").write_bytes(text)
    settings, found = record.read(tmp_path)
    assert settings == {"data": os.fsdecode(b"gone-\xff"), "stop": "\n"}
    assert found == run and "sha256" not in run["files"]["data"] and text.isascii()
    assert "git is not installed" in run["commit"]


@pytest.mark.parametrize("text", ["", "[1, 2]", "a: [", "run: 5", "\xff"])
def test_what_is_no_record_is_none(tmp_path, text):
    (tmp_path / "run.yaml").write_text(text, encoding="latin-1")
    assert record.read(tmp_path) == ({}, {}) == record.read(tmp_path / "gone")


# ---------------------------------------------------------------- given back


@pytest.mark.parametrize("more", [[], ["--loss", "gspo", "--kl-beta", "0.1"], ["--seed", "7"]])
def test_given_back_it_is_the_same_run_from_any_folder(files, tmp_path, monkeypatch, more):
    monkeypatch.chdir(tmp_path / "my files")
    relative = [x.replace(str(tmp_path / "my files") + os.sep, "") for x in files]
    assert train_hf.main([*relative, *more]) == 0
    wanted, before = results(tmp_path / "x"), load(tmp_path / "x")
    monkeypatch.chdir(tmp_path)
    assert train_hf.main(["--config", str(tmp_path / "x" / "run.yaml")]) == 0
    assert results(tmp_path / "x") == wanted == results(tmp_path / "x.earlier-1")
    again = load(tmp_path / "x")
    again.pop("run"), before.pop("run")
    assert again == before


def test_flags_win_over_the_file_and_another_loss_brings_its_own(files, tmp_path):
    assert train_hf.main([*files, "--loss", "dapo", "--kl-beta", "0.3"]) == 0
    config = ["--config", str(tmp_path / "x" / "run.yaml"), "--output-dir", str(tmp_path / "y")]
    assert train_hf.main([*config, "--loss", "rloo", "--max-samples", "2"]) == 0
    found = load(tmp_path / "y")
    assert (found["loss"], found["adv"], found["clip_high"]) == ("rloo", "leave_one_out", None)
    assert found["kl_beta"] == 0.3  # set by hand then, and so it stays
    assert found["run"]["rows"]["number"] == 2


def test_sft_is_repeated_by_its_own_record_and_not_by_another_command(files, tmp_path, capsys):
    asked = [x for x in files if x not in ("--group-size", "--log-completions", "--reward", "0")
             and not x.endswith(":mine")]
    asked.remove("2")
    assert sft.main(asked) == 0
    wanted, config = lines(tmp_path / "x", "training_log"), str(tmp_path / "x" / "run.yaml")
    assert sft.main(["--config", config]) == 0
    assert lines(tmp_path / "x", "training_log") == wanted
    capsys.readouterr()
    assert train_hf.main(["--config", config]) == 2
    assert f"python -m beyond.sft --config {config}" in capsys.readouterr().out


# ---------------------------------------------------------------- resume


def test_a_resume_needs_no_more_than_the_folder(files, tmp_path, capsys):
    assert train_hf.main([*files, "--seed", "3"]) == 0
    capsys.readouterr()
    asked = ["--resume", "--output-dir", str(tmp_path / "x"), "--max-steps", "4"]
    assert train_hf.main(asked) == 0
    said = capsys.readouterr().out
    assert "resumed at step 2, with other settings: max_steps 2 -> 4" in said
    assert load(tmp_path / "x")["seed"] == 3 and load(tmp_path / "x")["max_steps"] == 4
    assert [row["step"] for row in lines(tmp_path / "x", "training_log")] == [1, 2, 3, 4]


def test_a_resume_names_each_file_that_has_changed(files, tmp_path, capsys):
    assert train_hf.main(files) == 0
    (tmp_path / "my files" / "reward.py").write_text(REWARD + "# new\n", encoding="utf-8")
    tiny.write_jsonl(tmp_path / "my files" / "train.jsonl", tiny.rows(6))
    capsys.readouterr()
    assert train_hf.main([*files, "--resume", "--max-steps", "4"]) == 0
    said = next(x for x in capsys.readouterr().out.splitlines() if x.startswith("resumed at"))
    for words in ("max_steps 2 -> 4", "reward file ", "data file ", "rows 4 -> 6"):
        assert words in said


@pytest.mark.parametrize("change, said", [
    (lambda rows: rows[:3], "started with 4 rows, and there are 3 now"),
    (lambda rows: rows[::-1], "started with other rows."),
    (lambda rows: [rows[0] | {"answer": "no"}, *rows[1:]], None),  # reference is what counts
    (lambda rows: [rows[0] | {"reference": "no"}, *rows[1:]], "started with other rows"),
    (lambda rows: [*rows[1:], *tiny.rows(9)[4:]], "started with other rows (then 4, now 8)")])
def test_a_resume_with_other_rows_is_refused(files, tmp_path, capsys, change, said):
    assert train_hf.main(files) == 0
    tiny.write_jsonl(tmp_path / "my files" / "train.jsonl", change(tiny.rows(4)))
    before = {path: path.read_bytes() for path in (tmp_path / "x").rglob("*") if path.is_file()}
    capsys.readouterr()
    code = train_hf.main([*files, "--resume", "--max-steps", "4"])
    if said is None:
        assert code == 0
        return
    assert code == 2 and said in capsys.readouterr().out
    assert all(path.read_bytes() == text for path, text in before.items())


def test_a_resume_from_another_model_is_refused(files, tmp_path, capsys):
    assert train_hf.main(files) == 0
    tiny.model(seed=1).save_pretrained(tmp_path / "other")
    tiny.tokenizer().save_pretrained(tmp_path / "other")
    asked = [*files, "--resume", "--max-steps", "4", "--model", str(tmp_path / "other")]
    assert train_hf.main(asked) == 2
    assert "started from another model (model " in capsys.readouterr().out


def test_where_a_reward_was_written_is_found():
    assert record.source_of(digits) == digits.__code__.co_filename
    assert record.source_of(train_hf.load_reward("exact")) is None
    assert record.source_of(len) is None and record.source_of(lambda r, a: 0) == __file__
