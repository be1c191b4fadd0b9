"""What is given beside the tasks: a run's files, its early ends, GRPOConfig, the flags.

Every run is a few iterations long, from an SFT model of three steps; no test trains for real.
"""

import dataclasses
import errno
import functools
import json
import math
import os
import signal
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch

import lab15_run
import tinylm
from instructor.tests.test_given_files import names, sft_path, short_recipe, small_disk, weights
from instructor.tests.test_loader import RIGHT, STUB, edit, section
from tests.labfile import ROOT, TASKS, load_lab

__all__ = ["sft_path", "short_recipe", "small_disk"]  # fixtures of the other file, used here too

LOOPS = ["reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy"]
EVALS = ["eval_iter", "acc_sampled", "acc_greedy"]
FILES = ["config.json", "curves.png", "history.json", "policy.pt"]
FIELDS = "iters prompts_per_iter G inner_steps lr clip_eps beta temperature scale_std".split()
FIELDS += "max_grad_norm eval_every eval_n seed".split()


@pytest.fixture
def lab(tmp_path, monkeypatch, sft_path):
    """The solution as a fresh module, for short runs.

    An untrained model earns its reward half the time; the SFT model is the short one; the figure
    is none (matplotlib takes a second); what is written without being told where lands in tmp_path.
    """
    lab = load_lab(ROOT / "solutions" / "lab15_grpo.py")
    lab.reward = lambda response, answer: float(response[:1] in "01234")
    lab.train_grpo = functools.partial(lab.train_grpo, sft_path=sft_path, verbose=False)
    lab.draw = lab15_run.plot_curves
    monkeypatch.setattr(lab15_run, "plot_curves", no_figure)
    monkeypatch.chdir(tmp_path)
    return lab


def no_figure(hist):
    """Stand in for plot_curves."""
    return types.SimpleNamespace(savefig=lambda file, **_: file.write(b"a figure"))


def small(lab, **settings):
    """Return a GRPOConfig of a fraction of a second."""
    few = {"iters": 6, "prompts_per_iter": 2, "G": 4, "eval_every": 2, "eval_n": 10}
    return lab.GRPOConfig(**few | settings)


def run_main(lab, monkeypatch, *flags):
    """Call main with these flags and some that make it short; return the exit code."""
    few = "--iters=4 --prompts-per-iter=2 --G=4 --eval-every=2 --eval-n=10".split()
    monkeypatch.setattr(sys, "argv", ["lab15_grpo.py", *few, *flags])
    try:
        lab15_run.main(vars(lab))
    except SystemExit as error:
        return error.code
    return 0


def call_at(function, n, act):
    """Return the function, but its n-th call does act(result) instead."""
    count = []

    @functools.wraps(function)
    def wrapped(*args, **kwargs):
        count.append(1)
        result = function(*args, **kwargs)
        return act(result) if len(count) == n else result

    return wrapped


def interrupt(*_, **__):
    """Do what Ctrl-C does."""
    raise KeyboardInterrupt


def press_ctrl_c(result):
    """Do what Ctrl-C does where it is made to wait."""
    signal.raise_signal(signal.SIGINT)
    return result


def no_space(*_):
    """Do what a full disk does."""
    raise OSError(errno.ENOSPC, "No space left on device")


def saved_history(folder):
    """Return history.json; JSON has no NaN, though Python would read one."""
    text = (folder / "history.json").read_text("utf-8")
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in history.json"))


# ============================================================== runs


def test_a_run_leaves_four_files(lab, tmp_path, monkeypatch):
    cfg, folder = small(lab, seed=3), tmp_path / "my runs" / "x"
    monkeypatch.setattr(lab15_run, "plot_curves", lab.draw)
    policy, hist = lab.train_grpo(cfg, out_dir=folder)
    assert names(folder) == FILES, "and nothing temporary"
    saved = saved_history(folder)
    assert saved["schema"] == 1 and saved["lab_version"] == lab.LAB_VERSION
    assert {k: saved[k] for k in LOOPS + EVALS} == hist and list(hist) == LOOPS + EVALS
    assert hist["eval_iter"] == [0, 2, 4, 6] and all(len(hist[k]) == 6 for k in LOOPS)
    config = json.loads((folder / "config.json").read_text("utf-8"))
    assert dataclasses.asdict(cfg).items() <= config.items()
    state = torch.load(folder / "policy.pt", weights_only=True)
    model = tinylm.TinyLM(**tinylm.MODEL)
    model.load_state_dict(state)
    assert torch.equal(weights(model), weights(policy))
    assert (folder / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("same", [{}, {"eval_every": 7}, {"eval_every": 7, "eval_n": 501}])
def test_seed_decides_and_measuring_changes_nothing(lab, same):
    settings = {"iters": 12, "eval_every": 10, "seed": 5}
    first, hist = lab.train_grpo(small(lab, **settings))
    again, hist_again = lab.train_grpo(small(lab, **settings | same))
    start = tinylm.load_or_train_sft(lab.train_grpo.keywords["sft_path"])
    assert not torch.equal(weights(first), weights(start)), "the run did train"
    assert torch.equal(weights(first), weights(again)), "bit by bit"
    assert all(hist[k] == hist_again[k] for k in (LOOPS if same else LOOPS + EVALS))
    assert hist["eval_iter"] == [0, 10, 12], "the last iteration is measured, too"
    if not same:
        other, _ = lab.train_grpo(small(lab, **settings | {"seed": 6}))
        assert not torch.equal(weights(first), weights(other))


def test_no_iterations(lab, tmp_path):
    policy, hist = lab.train_grpo(small(lab, iters=0), out_dir=tmp_path / "x")
    assert hist["eval_iter"] == [0] and hist["loss"] == [] and names(tmp_path / "x") == FILES
    assert "sampled accuracy" in lab15_run.verdict(small(lab, iters=0), hist)


def test_what_a_run_prints(lab, sft_path, capsys):
    train = lab.train_grpo.func
    train(small(lab), sft_path)
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["iter", str(n)] for n in (2, 4, 6)]
    train(small(lab), sft_path, verbose=False)
    said = capsys.readouterr()
    assert said.out == "" and said.err == ""


def test_curves_are_labelled(lab):
    _, hist = lab.train_grpo(small(lab))
    axes = lab.draw(hist).axes
    titles = " ".join(a.get_title() for a in axes)
    for word in ("accuracy", "reward", "entropy", "KL", "clipped", "zero-signal"):
        assert word in titles
    assert len(axes) == 6 and all(a.get_xlabel() == "iteration" for a in axes)
    sampled, greedy = axes[0].lines
    assert {t.get_text() for t in axes[0].get_legend().get_texts()} == {"sampled", "greedy"}
    look = [(line.get_linestyle(), line.get_marker()) for line in (sampled, greedy)]
    assert look[0][0] != look[1][0] and look[0][1] != look[1][1], "told apart without colour"


# ============================================================== early ends


@pytest.mark.parametrize(
    "name, n, iterations, evals",
    [
        ("grpo_step", 4, 3, [0, 2]),
        ("accuracy", 6, 4, [0, 2]),  # between sampled and greedy of the third evaluation
        ("accuracy", 5, 4, [0, 2]),
        ("make_batch", 1, 0, [0]),
        ("accuracy", 1, 0, []),
        ("_save", 1, 2, [0, 2]),
    ],
)
def test_ctrl_c_keeps_what_was_measured(
        lab, tmp_path, capsys, monkeypatch, name, n, iterations, evals):
    owner = lab15_run.Run if name == "_save" else lab
    act = press_ctrl_c if name == "_save" else interrupt
    monkeypatch.setattr(owner, name, call_at(getattr(owner, name), n, act))
    policy, hist = lab.train_grpo(small(lab), out_dir=tmp_path / "x")
    assert hist["eval_iter"] == evals
    assert {len(hist[k]) for k in EVALS} == {len(evals)}
    assert {len(hist[k]) for k in LOOPS} == {iterations}
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and f"Ctrl-C after {iterations} iterations" in said
    if not evals:
        assert names(tmp_path) == [], "nothing was measured, so nothing is saved"
        return
    assert names(tmp_path / "x") == FILES
    assert {k: saved_history(tmp_path / "x")[k] for k in hist} == hist
    state = torch.load(tmp_path / "x" / "policy.pt", weights_only=True)
    assert torch.equal(state["norm.weight"], policy.norm.weight)


@pytest.mark.parametrize("name, n", [("accuracy", 1), ("grpo_step", 3)])
def test_ctrl_c_on_the_command_line(lab, monkeypatch, capsys, name, n):
    setattr(lab, name, call_at(getattr(lab, name), n, interrupt))
    assert run_main(lab, monkeypatch) == 130
    said = capsys.readouterr().out
    assert "Stopped by Ctrl-C" in said and "runs/seed0" in said.replace(os.sep, "/")


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_in_the_loss_names_iteration_and_setting(lab, tmp_path, value):
    lab.grpo_step = call_at(lab.grpo_step, 4, lambda s: s | {"loss": value})
    with pytest.raises(FloatingPointError) as error:
        lab.train_grpo(small(lab, lr=6e-4), out_dir=tmp_path / "x")
    text = str(error.value)
    assert "iteration 4" in text and "lr=0.0006" in text and "\n" not in text
    assert names(tmp_path / "x") == FILES
    assert len(saved_history(tmp_path / "x")["loss"]) == 3


def test_nan_in_the_weights_is_noticed_at_once(lab, monkeypatch, tmp_path, capsys):
    real = lab.grpo_step

    def spoil(policy, *others):
        stats = real(policy, *others)
        with torch.no_grad():
            policy.head.bias[0] = math.nan
        return stats

    lab.grpo_step = spoil
    assert run_main(lab, monkeypatch) == 1
    said = capsys.readouterr()
    assert "iteration 1" in said.err and said.err.count("\n") == 1, "one line, no traceback"
    assert "tasks 2-5" in said.err, "with default settings the likely cause is a mistake"
    assert "Nothing was saved" in said.out and names(tmp_path) == []


def test_a_learning_rate_far_too_high(lab):
    with pytest.raises(FloatingPointError, match=r"iteration \d+: .*lr=1e\+30"):
        lab.train_grpo(small(lab, lr=1e30))


# ============================================================== which task comes next


def test_unfinished_lab_as_a_script():
    command = [sys.executable, "-B", str(ROOT / "lab15_grpo.py")]
    if 1 not in load_lab(ROOT / "lab15_grpo.py").__unwritten__:
        pytest.skip("Task 1 is written")
    done = subprocess.run(command, capture_output=True, encoding="utf-8", timeout=120)
    assert done.returncode != 0 and done.stdout == ""
    assert done.stderr.count("\n") == 1, done.stderr
    assert "Task 1, sample_group" in done.stderr
    assert "python -m pytest -q -k task1" in done.stderr


@pytest.mark.parametrize("written", [(), (1, 2), (1, 2, 3, 4), (2, 3, 4, 5), (1, 2, 3, 4, 5)])
def test_next_task(written, tmp_path):
    text = STUB
    for n in written:
        text = edit(text, (section(STUB, n), section(RIGHT, n)))
    (tmp_path / "lab.py").write_text(text, "utf-8")
    error = lab15_run.next_task(vars(load_lab(tmp_path / "lab.py")))
    found = error and (error.task, TASKS[error.task].name)
    expected = {(): (1, "sample_group"), (1, 2): (3, "k3_kl"), (1, 2, 3, 4): (5, "grpo_step")}
    expected |= {(2, 3, 4, 5): (1, "sample_group"), (1, 2, 3, 4, 5): None}
    assert found == expected[written]


# ============================================================== GRPOConfig

NUMBERS = [math.nan, math.inf, -math.inf, "1", None, True, [1]]
WRONG = {  # besides NUMBERS
    "iters": [-1, 2.5],
    "prompts_per_iter": [0, -1, 2.0],
    "G": [1, 0, -8],
    "inner_steps": [0, 1.5],
    "lr": [0, 0.0, -1e-3],
    "clip_eps": [0.0, -0.2],
    "beta": [-1e-9],
    "temperature": [0, -1.0],
    "scale_std": [0, 1],
    "max_grad_norm": [0, -1],
    "eval_every": [0, -10],
    "eval_n": [0],
    "seed": [-1, 0.5],
}
RIGHT_AT_THE_EDGE = {"iters": 0, "prompts_per_iter": 1, "G": 2, "inner_steps": 1, "lr": 1}
RIGHT_AT_THE_EDGE |= {"clip_eps": 2, "beta": 0, "temperature": 1, "scale_std": False}
RIGHT_AT_THE_EDGE |= {"max_grad_norm": 1e9, "eval_every": 1, "eval_n": 1, "seed": 0}


@pytest.mark.parametrize("name", FIELDS)
def test_config_names_what_is_not_allowed(lab, name):
    lab.GRPOConfig(**{name: RIGHT_AT_THE_EDGE[name]})
    for value in WRONG[name] + NUMBERS:
        if name == "scale_std" and value is True:
            continue
        with pytest.raises(ValueError) as error:
            lab.GRPOConfig(**{name: value})
        text = str(error.value)
        assert f"GRPOConfig: {name} = {value!r}" in text and "\n" not in text
        allowed = text.partition("give ")[2]
        low = {"G": "of 2 or more", "scale_std": "True or False"}
        low |= dict.fromkeys(["iters", "beta", "seed"], "of 0 or more")
        assert allowed.endswith(low.get(name, "above 0")), text


def test_every_field_is_checked(lab):
    assert [f.name for f in dataclasses.fields(lab.GRPOConfig)] == FIELDS == list(WRONG)


# ============================================================== the command line


def test_flags_are_those_of_the_config(lab, monkeypatch, tmp_path):
    got = []
    hist = {"acc_sampled": [0.5, 0.9], "loss": [0.0]}
    def train_grpo(cfg, device, out_dir):
        got.append((cfg, device, out_dir.shown))
        return None, hist

    lab.train_grpo = train_grpo
    settings = RIGHT_AT_THE_EDGE | {"iters": 7, "seed": 4, "G": 3}
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items() if k != "scale_std"]
    run_main(lab, monkeypatch, *flags, "--no-scale-std", "--out", "some where")
    assert got[0] == (lab.GRPOConfig(**settings), "cpu", "some where")
    assert lab15_run.command(vars(lab), []) == 1, "nothing was saved"
    assert got[1] == (lab.GRPOConfig(), "cpu", str(Path("runs/seed0")))
    assert torch.get_num_threads() == 1


def test_main_says_where_the_results_are(lab, monkeypatch, tmp_path, capsys):
    assert run_main(lab, monkeypatch, "--seed=2") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2].startswith(f"{Path('runs/seed2')}: curves.png")
    assert "sampled accuracy" in lines[-1]
    assert names(tmp_path / "runs" / "seed2") == FILES


@pytest.mark.parametrize(
    "flag", ["--device=cuda", "--device=nonsense", "--threads=0", "--G=1", "--lr=nan"]
)
def test_what_cannot_run_is_said_in_one_line(lab, monkeypatch, tmp_path, flag, capsys):
    if flag == "--device=cuda" and torch.cuda.is_available():
        pytest.skip("there is CUDA here")
    assert run_main(lab, monkeypatch, flag) == 2
    text = capsys.readouterr().err
    assert text.count("\n") == 1 and len(text) < 300
    assert flag[2:].partition("=")[0].lower() in text.lower() or "cuda" in text.lower()
    assert names(tmp_path) == [], "nothing was begun"


def test_verdict(lab):
    def say(start, end, n=300, **settings):
        hist = {"acc_sampled": [start, 0.7, end], "loss": [0.0] * n}
        text = lab15_run.verdict(lab.GRPOConfig(**settings), hist)
        assert f"sampled accuracy {start:.3f} -> {end:.3f}" in text and "\n" not in text
        return text

    for settings in ({}, {"seed": 4, "eval_every": 7}):
        assert "as it should be" in say(0.5, 0.92, **settings)
        for start, end in ((0.5, 0.83), (0.34, 0.92), (0.61, 0.92)):
            text = say(start, end, **settings)
            assert "expected 0.35 to 0.60" in text and text.endswith("read chapter.md section 7")
    for settings in ({"lr": 1e-3}, {"iters": 100, "n": 100}, {"n": 120}):
        assert "no band is known" in say(0.5, 0.92, **settings)
