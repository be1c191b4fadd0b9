"""beyond.launch.tiny on 1, 2 and 4 ranks: equal to one process, checkpoints, messages."""

import json
import os
import shutil
import signal
import sys

import pytest
import torch

import lab15_run
import tinylm
from beyond import plot
from beyond.launch import tiny
from beyond.parallel.ranks import World, seed_of
from beyond.saving import checkpoints
from beyond.tests.launch import job as launch_job
from beyond.tests.processes import TORCHRUN, ended

FEW = ["--iters", "4", "--eval-every", "2", "--eval-n", "10"]
COUNTS = (1, 2, 4)


@pytest.fixture(scope="module")
def job(tmp_path_factory):
    """Return (what launch_job has measured, by number of ranks; its folder)."""
    if sys.platform != "linux":
        pytest.skip("torchrun with gloo: Linux")
    folder = tmp_path_factory.mktemp("job")
    for n in (2, 4, 1):  # two write what the others read
        start = [*TORCHRUN, "--nproc-per-node", str(n)] if n > 1 else [sys.executable]
        code, said = ended([*start, "-m", "beyond.tests.launch.job", str(folder)], 240)
        assert code == 0, said[-3000:]
    names = {n: folder / f"size{n}.json" for n in COUNTS}
    return {n: json.loads(names[n].read_text(encoding="utf-8")) for n in COUNTS}, folder


# ---------------------------------------------------------------- equal to one process


@pytest.mark.parametrize("loss", launch_job.GRADIENTS)
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
@pytest.mark.parametrize("ranks", COUNTS)
def test_loss_and_gradients_are_those_of_one_process(job, ranks, how, loss):
    found = job[0][ranks]["gradients"]
    cases = [case for name, case in found.items() if name.startswith(f"{how} {loss} ")]
    assert len(cases) == (1 if ranks == 4 else 2)
    for case in cases:
        assert case["scale"] > 0.01
        assert case["loss"] < 1e-12 and case["grad"] < 1e-12


@pytest.mark.parametrize("ranks", [2, 4])
def test_a_mean_of_local_means_is_another_gradient(job, ranks):
    found = job[0][ranks]["gradients"]
    if ranks == 2:  # as many rows, but not as many tokens
        assert found["ddp dapo even"]["wrong"] > 0.05
    for loss in launch_job.GRADIENTS:  # ranks differ in rows
        assert found[f"ddp {loss} uneven"]["wrong"] > 0.05


@pytest.mark.parametrize("loss", launch_job.TRAININGS)
@pytest.mark.parametrize("how", ["ddp", "fsdp"])
@pytest.mark.parametrize("ranks", [2, 4])
def test_whole_trainings_are_those_of_one_process(job, ranks, how, loss):
    weights, history = job[0][ranks]["trainings"][f"{how} {loss}"]
    weights1, history1 = job[0][1]["trainings"][f"{how} {loss}"]
    start = torch.cat([p.detach().flatten() for p in launch_job.model().parameters()])
    assert (torch.tensor(weights1) - start).abs().max() > 1e-3
    torch.testing.assert_close(torch.tensor(weights), torch.tensor(weights1), atol=1e-9, rtol=0)
    for name, values in history.items():  # rewards are float32 in the lab
        assert values == pytest.approx(history1[name], abs=1e-6), name


@pytest.mark.parametrize("ranks", COUNTS)
def test_ranks_draw_the_same_prompts_and_other_samples(job, ranks):
    seeds, prompts = zip(*job[0][ranks]["seeds"])
    assert list(seeds) == [seed_of(7, rank) for rank in range(ranks)] and seeds[0] == 7
    assert len(set(seeds)) == ranks and all(drawn == prompts[0] for drawn in prompts)


# ---------------------------------------------------------------- one process and the lab


def run_of(out, *more, lab=None, world=None):
    args = [*FEW, "--out", str(out), *more, *(["--lab", str(lab)] if lab else [])]
    return tiny.Run(tiny.parse(None, args), world or World())


def weights(run):
    return torch.cat([p.detach().flatten() for p in run.policy.whole.parameters()])


def test_alone_it_is_the_labs_train_grpo_to_the_bit(tmp_path):
    run = run_of(tmp_path, "--seed", "3")
    tiny.train(run, tmp_path)
    lab = tiny.load_student(tiny.default_path(), tinylm)
    policy, history = lab.train_grpo(run.cfg, verbose=False)
    assert torch.equal(weights(run), torch.cat([p.detach().flatten() for p in policy.parameters()]))
    assert run.hist == history and lab15_run.verdict(run.cfg, run.hist)
    written = json.loads((tmp_path / "history.json").read_text(encoding="utf-8"))
    assert {k: written[k] for k in history} == history
    saved = torch.load(tmp_path / "policy.pt")
    assert all(torch.equal(saved[k], v) for k, v in policy.state_dict().items())
    series = plot.read(tmp_path)  # beyond.plot draws it like any run
    assert len(series["reward"]) == 4 and len(series["eval/accuracy"]) == 3


@pytest.mark.parametrize("step", [1, 3])
def test_ctrl_c_is_a_normal_end_and_resume_goes_on_to_the_bit(tmp_path, step):
    whole = run_of(tmp_path / "whole")
    tiny.train(whole, None)
    stopped = run_of(tmp_path / "stopped")  # now: a Run seeds torch's random numbers
    given, calls = stopped.lab.grpo_step, []

    def interrupted(*args):
        calls.append(1)
        if len(calls) == step:
            os.kill(os.getpid(), signal.SIGINT)
        return given(*args)

    stopped.lab.grpo_step = interrupted
    before = signal.getsignal(signal.SIGINT)
    tiny.train(stopped, None)
    assert len(stopped.hist["loss"]) == step and signal.getsignal(signal.SIGINT) is before
    resumed = run_of(tmp_path / "stopped", "--resume")
    tiny.train(resumed, None)
    assert torch.equal(weights(resumed), weights(whole))
    assert {k: resumed.hist[k] for k in tiny.UNITS} == {k: whole.hist[k] for k in tiny.UNITS}


# ---------------------------------------------------------------- checkpoints


@pytest.mark.parametrize("wrote", ["ddp", "fsdp"])
@pytest.mark.parametrize("ranks", [1, 4])
def test_what_two_ranks_have_written_other_numbers_read(job, ranks, wrote):
    assert job[0][ranks]["read"][wrote] == {"weights": 0.0, "adam": 0.0, "done": 6}


def test_a_save_that_was_killed_loses_only_itself(tmp_path):
    run = run_of(tmp_path)
    tiny.train(run, None)
    half = tmp_path / ".checkpoint-6.1234.tmp" / "shards"
    half.mkdir(parents=True)
    (half / "__0_0.distcp").write_bytes(b"half")
    again = run_of(tmp_path, "--resume", "--iters", "6")
    assert len(again.hist["loss"]) == 4 and torch.equal(weights(again), weights(run))
    tiny.train(again, None)
    assert [p.name for p in checkpoints.found(tmp_path)] == ["checkpoint-4", "checkpoint-6"]
    assert not list(tmp_path.glob(".checkpoint*"))


def test_a_full_disk_is_said_and_training_goes_on(tmp_path, capsys, monkeypatch):
    run = run_of(tmp_path)
    given = torch.save

    def full(*args, **kwargs):
        if len(run.hist["loss"]) == 2:
            raise OSError(28, "No space left on device")
        return given(*args, **kwargs)

    monkeypatch.setattr(torch, "save", full)
    tiny.train(run, None)
    said = capsys.readouterr().out
    assert "checkpoint-2 was not saved" in said and "No space left" in said
    assert [p.name for p in checkpoints.found(tmp_path)] == ["checkpoint-4"]


@pytest.mark.parametrize(
    "more, said",
    [((), "continue it with --resume"), (("--resume", "--lr", "0.1"), "made with lr = 0.0003, not"),
     (("--resume", "--loss", "dapo"), "made with loss = 'lab'")],
)
def test_a_checkpoint_of_another_run_is_not_taken_up(tmp_path, more, said):
    tiny.train(run_of(tmp_path), None)
    with pytest.raises(ValueError, match=said):
        run_of(tmp_path, *more)


@pytest.mark.parametrize("more", [(), ("--resume",)])
def test_a_checkpoint_of_an_earlier_version_is_named(tmp_path, more):
    (tmp_path / "checkpoint-40").mkdir()
    (tmp_path / "checkpoint-40" / "run.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ValueError, match="checkpoint-40 was written by an earlier version"):
        run_of(tmp_path, *more)


@pytest.mark.parametrize("name, text", [
    ("shards/__0_0.distcp", "half"), ("state.pt", "{"), ("rank0.pt", ""), ("shards/.metadata", "")])
def test_a_damaged_checkpoint_is_one_line_and_the_one_before_is_taken(
        tmp_path, capsys, name, text):
    args = ["--out", str(tmp_path), "--iters", "2", "--eval-every", "1", "--eval-n", "2"]
    assert tiny.main([*args, "--prompts-per-iter", "2"]) == 0
    (tmp_path / "checkpoint-2" / name).write_text(text, encoding="utf-8")
    capsys.readouterr()
    assert tiny.main([*args, "--prompts-per-iter", "2", "--resume"]) == 2
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and "checkpoint-2 is damaged" in said and "remove it" in said
    shutil.rmtree(tmp_path / "checkpoint-2")
    assert tiny.main([*args, "--prompts-per-iter", "2", "--resume"]) == 0
    assert (tmp_path / "checkpoint-2").is_dir()


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("ranks", COUNTS)
def test_nan_on_one_rank_ends_all_in_the_same_iteration(job, ranks):
    said = job[0][ranks]["messages"]["nan"]
    assert len(said) == ranks and len(set(said)) == 1
    assert "FloatingPointError: iteration 1: NaN or infinity (" in said[0]


@pytest.mark.parametrize("ranks", [2, 4])
def test_too_few_prompts_are_refused_by_all_ranks(job, ranks):
    said = job[0][ranks]["messages"]["few"]
    assert len(said) == ranks and len(set(said)) == 1
    assert "\n" not in said[0] and f"{ranks} processes" in said[0]


@pytest.mark.parametrize(
    "more, said",
    [(["--loss", "dapoo"], "--loss 'dapoo' is unknown; known: lab, grpo"),
     (["--loss", "dapo_full"], "only beyond.compare can"),
     (["--lab", "nowhere.py"], "there is no lab file "),
     (["--G", "1"], "G = 1 is not allowed"), (["--threads", "0"], "give 1 or more"),
     (["--device", "banana"], "give cpu or cuda"),
     (["--out", __file__], "no folder that can be written to")],
)
def test_a_wrong_flag_is_one_line(capsys, tmp_path, more, said):
    assert tiny.main(["--out", str(tmp_path), *more]) == 2
    shown = capsys.readouterr().out
    assert said in shown and shown.count("\n") == 1


def test_an_unwritten_task_is_named(capsys, tmp_path):
    lab = tmp_path / "lab.py"
    text = tiny.default_path().read_text(encoding="utf-8")
    lab.write_text(text.replace("    d = ref_logp - logp\n    return torch.exp(d) - d - 1",
                                "    raise NotImplementedError"), encoding="utf-8")
    assert tiny.main(["--lab", str(lab), "--out", str(tmp_path)]) == 2
    assert "not written yet: Task 3, k3_kl" in capsys.readouterr().out


def test_losses_have_their_own_clip_and_beta_unless_flags_say_otherwise():
    cfg = tiny.parse(None, ["--loss", "dapo"]).cfg
    assert (cfg.beta, cfg.clip_eps) == (0.0, 0.2)
    assert tiny.parse(None, ["--loss", "dapo", "--beta", "0.1"]).cfg.beta == 0.1
    assert tiny.parse(None, []).cfg.beta == 0.04


def test_a_step_that_never_calls_grpo_loss_is_named_on_several_ranks():
    with pytest.raises(tiny.LabError, match="your grpo_step does not call grpo_loss"):
        tiny.over_ranks(dict.fromkeys(tiny.UNITS, 0.0), {}, World(rank=0, size=2))
