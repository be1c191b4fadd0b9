"""Two runs and one folder: nothing is overwritten, and nothing is shared."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

import lab15_run
from beyond import sft, tiny, train_hf
from beyond.saving import checkpoints, record
from beyond.saving.folder import RunFolder, continues, spoken
from beyond.tests.short_runs import KillAt, Killed, lines, sft_trainer, trainer, weights
from lab15_run import TOP


def names(folder):
    return sorted(path.name for path in Path(folder).iterdir())


def state_of(folder):
    """Return every file of a folder with its content."""
    return {str(path.relative_to(folder)): path.read_bytes()
            for path in sorted(Path(folder).rglob("*")) if path.is_file()}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "train.jsonl"
    tiny.write_jsonl(path, tiny.rows(4))
    return path


def command(program, model, out, rows, *more):
    """Run train_hf or sft in this process; return its exit code."""
    asked = ["--model", str(model), "--output-dir", str(out), "--data", str(rows), "--max-steps",
             "2", "--prompts-per-step", "2", "--max-new-tokens", "3", *more]
    grpo = ["--group-size", "2", "--log-completions", "0"]
    return sft.main(asked) if program == "sft" else train_hf.main([*asked, *grpo])


# ---------------------------------------------------------------- one after the other


@pytest.mark.parametrize("first, second", [
    ("train_hf", "train_hf"), ("sft", "sft"), ("sft", "train_hf"), ("train_hf", "sft")])
def test_a_second_run_puts_the_first_aside_whole(model, rows, tmp_path, capsys, first, second):
    out = tmp_path / "runs" / "x"
    assert command(first, model, out, rows) == 0
    (out / "notes.txt").write_text("mine", encoding="utf-8")
    before = state_of(out)
    capsys.readouterr()
    assert command(second, model, out, rows, "--seed", "1") == 0
    said = capsys.readouterr().out
    assert said.count(f"{out} held an earlier run; it is now {out}.earlier-1") == 1
    assert state_of(tmp_path / "runs" / "x.earlier-1") == before
    assert names(tmp_path / "runs") == ["x", "x.earlier-1"]
    assert {"run.yaml", "final", "checkpoint-2", "training_log.jsonl"} <= set(names(out))
    assert said.strip().splitlines()[-1].startswith(f"{out}: 2 steps in ")


@pytest.mark.parametrize("write", [
    lambda p: str(p) + os.sep, lambda p: os.path.relpath(p), lambda p: str(p.parent / "." / p.name),
    lambda p: str(p.parent / "y" / ".." / p.name), lambda p: str(p.parent / "link")])
def test_a_folder_is_the_same_however_it_is_written(model, rows, tmp_path, monkeypatch, write):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "y").mkdir()
    out = tmp_path / "x"
    try:
        (tmp_path / "link").symlink_to(out, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    assert command("sft", model, out, rows) == 0
    before = state_of(out)
    assert command("sft", model, write(out), rows, "--seed", "1") == 0
    assert state_of(tmp_path / "x.earlier-1") == before and (tmp_path / "link").is_symlink()
    assert (out / "final").is_dir() and state_of(out) != before


def test_the_model_may_lie_in_the_folder_of_its_run(model, rows, tmp_path):
    out = tmp_path / "x"
    assert command("sft", model, out, rows) == 0
    assert command("train_hf", out / "final", out, rows) == 0
    moved = tmp_path / "x.earlier-1" / "final"
    assert (moved / "model.safetensors").is_file() and (out / "final").is_dir()
    settings, run = record.read(out)  # what was trained is where it is now
    assert settings["model"] == run["files"]["model"]["path"] == str(moved)
    assert settings["output_dir"] == str(out)


@pytest.mark.parametrize("kept", [["history.json", "policy.pt"], ["checkpoint.pt", "history.json"]])
def test_the_labs_own_run_and_one_of_services_are_put_aside_too(tmp_path, kept):
    out = tmp_path / "x"
    out.mkdir()
    for name in kept:
        (out / name).write_text("precious", encoding="utf-8")
    sft_trainer(out, max_steps=1).train(tiny.rows(4))
    assert names(tmp_path / "x.earlier-1") == sorted(kept)


def test_the_lab_puts_a_run_of_train_hf_aside(tmp_path):
    sft_trainer(tmp_path / "x", max_steps=1).train(tiny.rows(4))
    with lab15_run.Folder(tmp_path / "x") as folder:
        folder.write({"history.json": b"{}"})
    assert (tmp_path / "x.earlier-1" / "final").is_dir()
    assert names(tmp_path / "x") == ["history.json"]


@pytest.mark.parametrize("content", ["thesis.tex", "a folder/x", "model.safetensors"])
def test_a_folder_with_other_things_is_not_touched(model, rows, tmp_path, capsys, content):
    path = tmp_path / "mine" / content
    path.parent.mkdir(parents=True)
    path.write_text("precious", encoding="utf-8")
    assert command("sft", model, tmp_path / "mine", rows) == 2
    [line] = capsys.readouterr().out.strip().splitlines()
    assert "holds something other than a training run" in line and "--output-dir" in line
    assert names(tmp_path) == ["mine", "train.jsonl"]
    assert path.read_text(encoding="utf-8") == "precious"


def test_the_folder_that_one_stands_in_is_not_renamed(model, rows, tmp_path, capsys, monkeypatch):
    out = tmp_path / "x"
    sft_trainer(out, max_steps=1).train(tiny.rows(4))
    monkeypatch.chdir(out)
    before = state_of(out)
    assert command("sft", model, ".", rows) == 2
    assert "cannot be renamed" in capsys.readouterr().out and state_of(out) == before


# ---------------------------------------------------------------- ended early


class Fails:
    """Raises in the first step, before the optimizer has made it."""

    def __init__(self, error):
        self.error = error

    def on_loss(self, trainer, losses):
        """Raise."""
        raise self.error


@pytest.mark.parametrize("error", [KeyboardInterrupt(), RuntimeError("broken"), OSError("gone")])
@pytest.mark.parametrize("earlier", [False, True])
def test_without_a_step_nothing_is_left_and_the_earlier_run_is_back(tmp_path, error, earlier):
    out = tmp_path / "runs" / "x"
    if earlier:
        trainer(out, max_steps=1).train(tiny.rows(3))
        before = state_of(out)
    made = trainer(out, [Fails(error)])
    if isinstance(error, KeyboardInterrupt):
        made.train(tiny.rows(3))
    else:
        with pytest.raises(type(error)):
            made.train(tiny.rows(3))
    if earlier:
        assert names(out.parent) == ["x"] and state_of(out) == before
    else:
        assert names(tmp_path) == []


def test_a_run_that_fails_later_keeps_what_it_has(tmp_path):
    trainer(tmp_path / "x", max_steps=1).train(tiny.rows(3))
    with pytest.raises(Killed):
        trainer(tmp_path / "x", [KillAt(2)], save_steps=0).train(tiny.rows(3))
    assert names(tmp_path) == ["x", "x.earlier-1"]
    assert (tmp_path / "x" / "final").is_dir() and not checkpoints.found(tmp_path / "x")
    trainer(tmp_path / "x").train(tiny.rows(3), resume=True)  # nothing to resume: a new run
    assert names(tmp_path) == ["x", "x.earlier-1", "x.earlier-2"]


def test_a_mistake_before_the_run_moves_nothing(model, rows, tmp_path, capsys):
    out = tmp_path / "x"
    assert command("train_hf", model, out, rows) == 0
    before = state_of(out)
    for more in (["--device", "nowhere"], ["--stop", "no such text"], ["--loss", "x"]):
        assert command("train_hf", model, out, rows, *more) == 2
    assert state_of(out) == before and names(tmp_path) == ["train.jsonl", "x"]


# ---------------------------------------------------------------- at the same time


@pytest.mark.parametrize("resume", [False, True])
@pytest.mark.parametrize("program", ["sft", "train_hf"])
def test_a_folder_in_use_is_refused(model, rows, tmp_path, capsys, program, resume):
    out = tmp_path / "x"
    assert command(program, model, out, rows) == 0
    before = state_of(out)
    capsys.readouterr()
    with RunFolder(out, resume=True):
        code = command(program, model, str(out) + os.sep, rows, *["--resume"] * resume)
        assert code == 2
        [line] = capsys.readouterr().out.strip().splitlines()
        assert line.startswith("another run is writing to ") and "--output-dir" in line
    assert state_of(out) == before and names(tmp_path) == ["train.jsonl", "x"]


def test_the_lock_holds_while_the_folder_is_renamed_and_ends_with_the_run(tmp_path):
    seen = []

    class Look:
        def on_step_end(self, trainer, step):
            with pytest.raises(OSError, match="another run is writing") as error:
                RunFolder(tmp_path / "x").__enter__()
            seen.append(str(error.value))

    sft_trainer(tmp_path / "x", max_steps=1).train(tiny.rows(4))
    trainer(tmp_path / "x", [Look()], max_steps=2).train(tiny.rows(3))
    assert len(seen) == 2 and names(tmp_path) == ["x", "x.earlier-1"]
    with RunFolder(tmp_path / "x"):
        pass


HOLD = """
import sys
sys.path.insert(0, {top!r})
from beyond.saving.folder import RunFolder
with RunFolder({out!r}) as folder:
    folder.begin({{}}, {{"program": "sft"}})
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.mark.skipif(os.name == "nt", reason="no SIGKILL on Windows")
def test_a_process_that_was_killed_holds_nothing(tmp_path):
    out = tmp_path / "x"
    code = HOLD.format(top=str(TOP), out=str(out))
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True,
                          stdout=subprocess.PIPE) as child:
        assert child.stdout.readline().strip() == "held"
        with pytest.raises(OSError, match="another run is writing"):
            RunFolder(out).__enter__()
        child.send_signal(signal.SIGKILL)
        child.wait()
    assert names(out) == ["run.yaml"]
    with RunFolder(out) as folder:
        folder.begin({}, {"program": "sft"})
        folder.keep()
    assert names(tmp_path) == ["x", "x.earlier-1"]


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_cannot_be_written_is_one_line_and_stays(tmp_path):
    runs = tmp_path / "runs"
    sft_trainer(runs / "x", max_steps=1).train(tiny.rows(4))
    before = state_of(runs / "x")
    runs.chmod(0o555)
    try:
        with pytest.raises(OSError, match="cannot save in .*Permission denied") as error:
            sft_trainer(runs / "x", max_steps=1).train(tiny.rows(4))
        assert "\n" not in str(error.value) and state_of(runs / "x") == before
        with RunFolder(runs / "x", resume=True), pytest.raises(OSError, match="another run"):
            RunFolder(runs / "x", resume=True).__enter__()  # the lock is inside then
    finally:
        runs.chmod(0o755)


# ---------------------------------------------------------------- resume


def test_a_finished_run_can_be_made_longer_and_equals_one_of_that_length(tmp_path):
    common = {"schedule": "constant", "save_steps": 0}
    trainer(tmp_path / "x", max_steps=3, **common).train(tiny.rows(6))
    assert [path.name for path in checkpoints.found(tmp_path / "x")] == ["checkpoint-3"]
    longer = trainer(tmp_path / "x", max_steps=7, **common)
    longer.train(tiny.rows(6), resume=True)
    whole = trainer(tmp_path / "whole", max_steps=7, **common)
    whole.train(tiny.rows(6))
    assert weights(longer).equal(weights(whole)) and names(tmp_path) == ["whole", "x"]
    assert [row["step"] for row in lines(tmp_path / "x", "training_log")] == [2, 3, 4, 6, 7]


def test_a_resume_of_a_finished_run_changes_nothing(tmp_path):
    trainer(tmp_path / "x", max_steps=2).train(tiny.rows(3))
    before = state_of(tmp_path / "x")
    trainer(tmp_path / "x", max_steps=2).train(tiny.rows(3), resume=True)
    assert state_of(tmp_path / "x") == before


def test_a_final_that_a_kill_prevented_is_written_by_the_resume(tmp_path):
    made = trainer(tmp_path / "x", max_steps=2)
    save = made.save
    made.save = lambda name, whole=True: save(name, whole) if whole else None
    made.train(tiny.rows(3))
    assert not (tmp_path / "x" / "final").exists()
    trainer(tmp_path / "x", max_steps=2).train(tiny.rows(3), resume=True)
    assert (tmp_path / "x" / "final" / "model.safetensors").is_file()


def test_a_checkpoint_elsewhere_is_no_reason_to_write_over_a_run(tmp_path):
    trainer(tmp_path / "one", max_steps=3).train(tiny.rows(6))
    trainer(tmp_path / "two", max_steps=1).train(tiny.rows(6))
    before = state_of(tmp_path / "two")
    from_one = str(tmp_path / "one" / "checkpoint-3")
    assert not continues(tmp_path / "two", from_one) and continues(tmp_path / "one", from_one)
    made = trainer(tmp_path / "two", max_steps=4)
    made.train(tiny.rows(6), resume=from_one)
    assert made.done == 4 and state_of(tmp_path / "two.earlier-1") == before


def test_max_steps_goes_round_the_data_as_often_as_needed(tmp_path):
    made = trainer(tmp_path / "x", max_steps=7, num_train_epochs=1, inner_steps=1)
    made.train(tiny.rows(3))  # three prompts a step: a step is a pass
    assert made.done == 7 and made.place["epoch"] == 7
    fine = sft_trainer(tmp_path / "y", max_steps=9, num_train_epochs=1)
    fine.train(tiny.rows(4))
    assert fine.done == 9


def test_seconds_are_said_as_people_say_them():
    assert [spoken(x) for x in (0.04, 59.94, 61, 3599, 7260)] == [
        "0.0 s", "59.9 s", "1 min 1 s", "59 min 59 s", "2 h 1 min"]
