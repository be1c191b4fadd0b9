"""A training run: its results, mistakes in the tasks, files, Ctrl-C, GRPOConfig, flags, odd places.

Every run is a few iterations long, from a model that was never trained.
"""

import contextlib
import dataclasses
import errno
import functools
import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
from pathlib import Path

import pytest
import torch

import lab15_run
import tinylm
from instructor.tests.lab_texts import STUB
from instructor.tests.processes import PLAIN, run_python
from instructor.variants import catalog
from tests.labfile import ROOT, TASKS, load_lab

DRAW = lab15_run.plot_curves
FEW = "--iters=2 --prompts-per-iter=4 --G=4 --eval-every=1 --eval-n=10".split()
STATS, EVALS = list(lab15_run.STATS), list(lab15_run.EVALS)
DATA = ["config.json", "history.json", "policy.pt"]
FILES = sorted([*DATA, "curves.png"])


def make_sft(path):
    """Save an untrained model where the SFT model is expected."""
    torch.manual_seed(0)
    model = tinylm.TinyLM(**tinylm.MODEL)
    torch.save({"fingerprint": tinylm._fingerprint(), "model": model.state_dict()}, path)


@pytest.fixture(scope="module")
def sft(tmp_path_factory):
    path = tmp_path_factory.mktemp("sft") / "sft.pt"
    make_sft(path)
    return path


@pytest.fixture
def lab_of(tmp_path, tmp_path_factory, monkeypatch, sft):
    """Return a function that loads a lab file's text; runs go below tmp_path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(lab15_run, "plot_curves", lambda hist: Picture())
    before = torch.is_grad_enabled()

    def load(text=None):
        path = tmp_path_factory.mktemp("lab") / "lab15_grpo.py"
        path.write_text(text or catalog.solution(), encoding="utf-8")
        lab = load_lab(path)
        monkeypatch.setitem(sys.modules, "lab15_grpo", lab)  # as in its folder
        # A model that was never trained earns this reward half the time.
        lab.reward = lambda response, answer: float(response[:1] in "01234")
        lab.train_grpo = functools.partial(lab.train_grpo, sft_path=sft)
        return lab

    yield load
    torch.set_grad_enabled(before)


class Picture:
    """Stand in for a figure: matplotlib takes a second."""

    def savefig(self, file):
        """Write something that is no picture."""
        file.write(b"a figure")


@pytest.fixture
def lab(lab_of):
    return lab_of()


def train(lab, *flags):
    """Return the exit code of the command."""
    return lab15_run.command(vars(lab), [*FEW, *flags])


def small(lab, **settings):
    """Return a GRPOConfig for a run of a fraction of a second."""
    few = {"iters": 6, "prompts_per_iter": 2, "G": 4, "eval_every": 2, "eval_n": 10}
    return lab.GRPOConfig(**few | settings)


def lines_of(capsys):
    """Return what was printed, without the lines of the iterations."""
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    lines = said.err.splitlines() + said.out.splitlines()
    return [line for line in lines if not line.startswith("iter ")]


def names(folder):
    """Return the names in a folder."""
    return sorted(path.name for path in Path(folder).iterdir() if path.suffix != ".lock")


def read_json(path):
    """Return what a JSON file holds; JSON has no NaN, though Python would read one."""
    text = path.read_text(encoding="utf-8")
    return json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} in {path.name}"))


def state(folder):
    """Return the iterations in history.json and a sum over policy.pt; config.json must be whole."""
    read_json(folder / "config.json")
    weights = torch.load(folder / "policy.pt", weights_only=True)
    return len(read_json(folder / "history.json")["loss"]), float(weights["head.bias"].abs().sum())


def weights(model):
    """Return all parameters as one vector."""
    return torch.cat([p.detach().flatten() for p in model.parameters()])


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
    """Send the signal that Ctrl-C sends."""
    signal.raise_signal(signal.SIGINT)
    return result


# ============================================================== results


def test_a_run_leaves_four_files(lab, tmp_path, monkeypatch):
    monkeypatch.setattr(lab15_run, "plot_curves", DRAW)
    cfg, folder = small(lab, seed=3), tmp_path / "my runs" / "x"
    policy, hist = lab.train_grpo(cfg, out_dir=folder)
    assert names(folder) == FILES, "and nothing temporary"
    saved = read_json(folder / "history.json")
    assert saved["schema"] == 1 and saved["lab_version"] == lab.LAB_VERSION
    assert {k: saved[k] for k in STATS + EVALS} == hist and list(hist) == STATS + EVALS
    assert hist["eval_iter"] == [0, 2, 4, 6] and all(len(hist[k]) == 6 for k in STATS)
    assert dataclasses.asdict(cfg).items() <= read_json(folder / "config.json").items()
    model = tinylm.TinyLM(**tinylm.MODEL)
    model.load_state_dict(torch.load(folder / "policy.pt", weights_only=True))
    assert torch.equal(weights(model), weights(policy))
    assert (folder / "curves.png").read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"


@pytest.mark.parametrize("same", [{}, {"eval_every": 7}, {"eval_every": 7, "eval_n": 501}])
def test_seed_decides_and_measuring_changes_nothing(lab, sft, same):
    settings = {"iters": 12, "eval_every": 10, "seed": 5}
    first, hist = lab.train_grpo(small(lab, **settings), verbose=False)
    again, hist_again = lab.train_grpo(small(lab, **settings | same), verbose=False)
    assert not torch.equal(weights(first), weights(tinylm.load_or_train_sft(sft))), "it trained"
    assert torch.equal(weights(first), weights(again)), "bit by bit"
    assert all(hist[k] == hist_again[k] for k in (STATS if same else STATS + EVALS))
    assert hist["eval_iter"] == [0, 10, 12], "the last iteration is measured, too"
    if not same:
        other, _ = lab.train_grpo(small(lab, **settings | {"seed": 6}), verbose=False)
        assert not torch.equal(weights(first), weights(other))


def test_no_iterations(lab, tmp_path):
    _, hist = lab.train_grpo(small(lab, iters=0), out_dir=tmp_path / "x")
    assert hist["eval_iter"] == [0] and hist["loss"] == [] and names(tmp_path / "x") == FILES
    assert "sampled accuracy" in lab15_run.verdict(small(lab, iters=0), hist)


def test_prints_a_line_per_evaluation_or_nothing(lab, capsys):
    lab.train_grpo(small(lab))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:2] for line in lines] == [["iter", str(n)] for n in (2, 4, 6)]
    lab.train_grpo(small(lab), verbose=False)
    assert capsys.readouterr() == ("", "")


def test_curves_are_labelled(lab):
    _, hist = lab.train_grpo(small(lab), verbose=False)
    axes = DRAW(hist).axes
    titles = " ".join(a.get_title() for a in axes)
    for word in ("accuracy", "reward", "loss", "entropy", "KL", "clipped", "zero-signal"):
        assert word in titles
    *panels, legend = axes
    assert len(panels) == 7 and all(a.get_xlabel() == "iteration" for a in panels)
    assert not legend.axison and legend.texts
    sampled, greedy = axes[0].lines
    assert {t.get_text() for t in axes[0].get_legend().get_texts()} == {"sampled", "greedy"}
    look = [(line.get_linestyle(), line.get_marker()) for line in (sampled, greedy)]
    assert look[0][0] != look[1][0] and look[0][1] != look[1][1], "told apart without colour"


KNOWN = [{}, {"seed": 4, "eval_every": 7}]
OTHER = [{"lr": 1e-3}, {"iters": 100, "n": 100}, {"n": 120}]
VERDICTS = [(0.5, 0.92, settings, "as it should be") for settings in KNOWN]
VERDICTS += [(start, end, settings, "expected 0.35 to 0.60, then 0.84 or more; read chapter.md")
             for settings in KNOWN for start, end in ((0.5, 0.83), (0.34, 0.92), (0.61, 0.92))]
VERDICTS += [(0.5, 0.92, settings, "no expected range is known") for settings in OTHER]


@pytest.mark.parametrize("start, end, settings, words", VERDICTS)
def test_verdict(lab, start, end, settings, words):
    n = settings.get("n", 300)
    cfg = lab.GRPOConfig(**{k: v for k, v in settings.items() if k != "n"})
    text = lab15_run.verdict(cfg, {"acc_sampled": [start, 0.7, end], "loss": [0.0] * n})
    assert f"sampled accuracy {start:.3f} -> {end:.3f}" in text and words in text
    assert "\n" not in text


# ============================================================== mistakes in the tasks

REST = """
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    adv = group_advantages(groups["rewards"], cfg.G, cfg.scale_std)
    out = groups["out"]
    with torch.no_grad():
        old_logp = sequence_logprobs(policy, out)
        ref_logp = sequence_logprobs(ref, out)
    logp = sequence_logprobs(policy, out)
    loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
    opt.zero_grad()
    loss.backward()
    opt.step()
    stats = {"reward": groups["rewards"].mean().item(), "loss": loss.item(), "kl": s["kl"],
             "clip_frac": s["clip_frac"], "frac_zero_signal": 0.0,
             "entropy": token_entropy(policy, out)}
"""
KEYS = "('reward', 'loss', 'kl', 'clip_frac', 'frac_zero_signal', 'entropy')"
DEVICES = "Expected all tensors to be on the same device, but found cuda:0 and cpu!"


def ends(line):
    """Return Task 5 with another end."""
    return REST + f"    {line}"


def step(old, new):
    """Return Task 5 with a mistake in it."""
    assert REST.count(old) == 1
    return REST.replace(old, new) + "    return stats"


WRONG = [  # task, its body, words of the message
    (5, REST, "returned None"),
    (5, ends("return stats['loss']"), "a float, not a dict"),
    (5, ends("return {}"), "without reward, loss"),
    (5, ends("stats['entropi'] = stats.pop('entropy')\n    return stats"), "'entropi'"),
    (5, ends("stats['Reward'] = stats.pop('reward')\n    return stats"), "without reward"),
    (5, ends("return stats | {'loss': loss}"), "'loss' as a Tensor"),
    (5, ends("return stats | {'reward': groups['rewards']}"), "'reward' as a Tensor"),
    (5, ends("return stats | {'entropy': None}"), "'entropy' as None"),
    (5, f"return dict.fromkeys({KEYS}, 0.0)", "never calls opt.step()"),
    (5, step("    opt.step()\n", ""), "never calls opt.step()"),
    (5, step("    loss.backward()\n", ""), "without a gradient"),
    (5, step("    opt.zero_grad()\n    loss.backward()\n",
             "    loss.backward()\n    opt.zero_grad()\n"), "gradient"),
    (5, step("loss.backward()", "loss.backwards()"), "loss.backwards()"),
    (5, step("loss.backward()", "stats.backward()"), "UnboundLocalError"),
    (5, step("adv, out", "adv.view(-1, 1), out"), "(16, 1), not (16,)"),
    (5, step(', out["mask"]', ", out"), "mask as a dict"),
    (5, step('"rewards"], cfg.G', '"rewards"], 3'), "G = 3"),
    (5, step("cfg.beta)", "cfg.beta, 1)"), "calls grpo_loss at"),
    (5, step("loss, s =", "loss ="), "loss.backward()"),
    (5, step('groups["out"]', 'groups["outs"]'), "KeyError: 'outs'"),
    (5, step('groups["out"]', "undefined_name"), "undefined_name"),
    (5, ends("return stats | {'kl': 1 / 0}"), "ZeroDivisionError"),
    (5, ends("return stats + 1"), "TypeError"),
    (5, ends("raise ValueError('two\\nlines, \\u00fc')"), "ValueError: two lines"),
    (5, ends("raise NotImplementedError"), "is not finished"),
    (5, ends("raise SystemExit"), "ends the program"),
    (5, "return grpo_step(policy, ref, opt, prompts, answers, cfg)", "RecursionError"),
    (5, ends("torch.set_grad_enabled(False)\n    return stats"), "gradients switched off"),
    (5, ends("assert False, 'x' * 5000\n"), "AssertionError"),
    (1, "return None", "returned None, not a dict"),
    (1, "return {'out': sample(model, prompts)}", "without responses, rewards"),
    (1, "exit()", "ends the program"),
    (1, "return sample(model, [7])", "prompts must be a list"),
    (1, f"raise RuntimeError({DEVICES!r})", DEVICES + ". Create yours (rewards?) on the device of"),
    (2, "return rewards.view(-1, G)", "shape (4, 4), not (16,)"),
    (2, "return rewards / 0", "NaN or infinity"),
    (2, "return rewards * 0", "0 for every advantage"),
    (2, "return (rewards - rewards.mean()).tolist()", "a list, not a tensor"),
    (3, "return (ref_logp - logp).mean()", "shape (), not"),
    (3, "return (logp - logp) / 0", "NaN or infinity"),
    (3, "return k3_kl", "a function, not a tensor"),
    (3, "ref_logp -= logp; return ref_logp.exp() - ref_logp - 1", "changes its argument ref_logp"),
    (4, "return ((logp - old_logp) * 0).mean(), {'kl': 0.0, 'clip_frac': 0.0}", "gradient to logp"),
    (4, "return logp.mean()", "a Tensor, not the pair"),
    (4, "return logp.mean().item(), {}", "a loss that is a float"),
    (4, "return logp.mean(), {'kl': 0.0}", "stats without clip_frac"),
    (4, "return logp.mean(), {'kl': logp.mean(), 'clip_frac': 0.0}", "'kl' as a Tensor"),
    (4, "return logp.mean() * float('nan'), {'kl': 0.0, 'clip_frac': 0.0}", "the loss nan"),
    (4, "return adv * logp, {}", "RuntimeError"),
]


@pytest.mark.parametrize("task, body, words", WRONG)
def test_a_wrong_task_is_named_wherever_it_shows(lab_of, capsys, tmp_path, task, body, words):
    body = textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n"
    assert train(lab_of(catalog.with_body(task, body)), "--out=x") == 1
    lines = lines_of(capsys)
    assert len(lines) <= 3 and max(map(len, lines)) < 500, lines
    assert lines[0].startswith(f"Task {task}, {TASKS[task].name}, "), lines
    assert words in " ".join(lines), lines
    assert f"Test: python -m pytest -q -k task{task}" in " ".join(lines)
    assert lines[-1] == "Nothing was saved in x" and names(tmp_path) == []


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("how", ["deleted", "renamed", "a number", "fewer parameters", "unwritten"])
def test_a_function_that_is_not_there(lab_of, capsys, task, how):
    name, text = TASKS[task].name, catalog.solution()
    if how in ("deleted", "a number"):
        before, *_, after = catalog.cut_at(task)
        text = before + (f"{name} = 3\n" if how == "a number" else "") + after
    elif how == "renamed":
        text = text.replace(f"def {name}(", f"def {name}s(")
    elif how == "unwritten":
        text = catalog.with_body(task, '    raise NotImplementedError("Task")\n')
    else:
        text = text.replace(f"def {name}{TASKS[task].signature}", f"def {name}(other)")
    assert train(lab_of(text)) == 1
    lines = lines_of(capsys)
    assert len(lines) <= 2 and lines[0].startswith(f"Task {task}, {name}, "), lines
    assert f"python -m pytest -q -k task{task}" in lines[0]


def test_running_out_of_memory_is_no_mistake(lab_of, capsys):
    line = 'raise RuntimeError("DefaultCPUAllocator: can\'t allocate memory: you tried 9 bytes")'
    assert train(lab_of(catalog.with_body(1, f"    {line}\n"))) == 1
    assert lines_of(capsys)[0].startswith("Out of memory in Task 1 (lab15_grpo.py line ")


def test_a_strong_setting_is_named_with_the_task(lab, capsys):
    assert train(lab, "--temperature=1e-300") == 1
    text = " ".join(lines_of(capsys))
    assert "temperature=1e-300" in text and "Try the default" in text


def can_compile():
    """Return whether torch.compile works here: it needs a C++ compiler and Python's headers."""
    try:
        torch.compile(lambda x: x + 1)(torch.ones(2))
    except Exception:
        return False
    return True


@pytest.mark.parametrize("compiled", [False, True])
def test_every_right_variant_trains(lab_of, compiled):
    if compiled and not can_compile():
        pytest.skip("torch.compile needs a C++ compiler and Python's headers")
    chosen = [v for v in catalog.wheats() if ("torch.compile" in v.text) is compiled]
    assert chosen
    for variant in chosen:
        assert train(lab_of(variant.text), f"--out={variant.id}") == 0, variant.id


def test_a_wrong_variant_trains_or_is_named(lab_of):
    """Each tenth: no exception but ours, and it names the task that was changed."""
    named = 0
    for variant in list(catalog.chaffs())[::10]:
        lab = lab_of(variant.text)
        cfg = lab.GRPOConfig(iters=2, prompts_per_iter=4, G=4, eval_n=10)
        try:
            lab.train_grpo(cfg, verbose=False)
        except lab15_run.TaskError as error:
            assert error.task == variant.task, (variant.id, error)
            named += 1
        except FloatingPointError:
            pass
    assert named > 5


def test_a_notebook_shows_the_same_line(lab_of, monkeypatch, capsys):
    from notebooks import first_cell, live

    lab = lab_of(catalog.with_body(5, "    return None\n"))
    monkeypatch.setattr(first_cell, "lab", lambda: lab)
    monkeypatch.setattr(live, "display", lambda shown, **_: None)
    with first_cell.needs(1, 2, 3, 4, 5) as found:
        live.Live(found, found.GRPOConfig(eval_n=10)).train(None)
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and said.startswith("Task 5, grpo_step, returned None")
    assert 'check("task5")' in said


def test_functions_that_are_wrong_on_purpose_train(lab_of):
    lab = lab_of(catalog.with_body(2, "    return rewards * 0\n"))
    before = {name: getattr(lab, name) for name, _ in lab15_run.TASKS.values()}
    with lab15_run.unwatched():
        _, hist = lab.train_grpo(lab.GRPOConfig(iters=2, eval_n=10), verbose=False)
    assert len(hist["loss"]) == 2
    with pytest.raises(lab15_run.TaskError, match="Task 2"):
        lab.train_grpo(lab.GRPOConfig(iters=2, eval_n=10), verbose=False)
    assert before == {name: getattr(lab, name) for name in before}, "the five are put back"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_nan_in_the_loss_names_iteration_and_setting(lab, tmp_path, value):
    lab.grpo_step = call_at(lab.grpo_step, 4, lambda s: s | {"loss": value})
    with pytest.raises(FloatingPointError) as error:
        lab.train_grpo(small(lab, lr=6e-4), out_dir=tmp_path / "x")
    text = str(error.value)
    assert "iteration 4" in text and "lr=0.0006" in text and "\n" not in text
    assert names(tmp_path / "x") == FILES and state(tmp_path / "x")[0] == 3


def test_nan_in_the_weights_is_noticed_at_once(lab, tmp_path, capsys):
    real = lab.grpo_step

    def spoil(policy, *others):
        stats = real(policy, *others)
        with torch.no_grad():
            policy.head.bias[0] = math.nan
        return stats

    lab.grpo_step = spoil
    assert train(lab) == 1
    line, nothing = lines_of(capsys)
    assert "iteration 1" in line and "tasks 2-5" in line, "the settings are the defaults"
    assert "Nothing was saved" in nothing and names(tmp_path) == []


# ============================================================== files


def test_nothing_is_overwritten(lab, capsys, tmp_path):
    for n in range(3):
        assert train(lab, "--out=runs/x", f"--seed={n}") == 0
        moved = [line for line in lines_of(capsys) if "held an earlier run" in line]
        x = Path("runs/x")
        assert moved == ([f"{x} held an earlier run; it is now {x}.earlier-{n}"] if n else [])
        (tmp_path / "runs" / "x" / "notes.txt").write_text(str(n), encoding="utf-8")
    for folder, n in (("x.earlier-1", 0), ("x.earlier-2", 1), ("x", 2)):
        folder = tmp_path / "runs" / folder
        assert names(folder) == sorted([*FILES, "notes.txt"])
        assert read_json(folder / "config.json")["seed"] == n
        assert (folder / "notes.txt").read_text(encoding="utf-8") == str(n)


def test_a_failed_run_leaves_the_earlier_one_where_it_was(lab_of, capsys, tmp_path):
    assert train(lab_of(), "--out=x") == 0
    before = {name: (tmp_path / "x" / name).read_bytes() for name in FILES}
    capsys.readouterr()
    assert train(lab_of(catalog.with_body(5, "    return None\n")), "--out=x") == 1
    assert lines_of(capsys)[-1] == "Nothing was saved in x; x is the earlier run again"
    assert names(tmp_path) == ["x"]
    assert before == {name: (tmp_path / "x" / name).read_bytes() for name in names(tmp_path / "x")}


def test_a_run_that_fails_later_is_kept(lab, capsys, tmp_path):
    lab.grpo_step = call_at(lab.grpo_step, 2, lambda result: None)
    assert train(lab, "--out=x") == 1
    lines = lines_of(capsys)
    assert lines[0].startswith("Task 5") and lines[1].startswith("x: curves.png")
    assert state(tmp_path / "x")[0] == 1


@pytest.mark.parametrize("content", ["notes.txt", "policy.pt", "curves.png", "a folder/x"])
def test_a_folder_with_other_things_is_left_alone(lab, capsys, tmp_path, content):
    path = tmp_path / "mine" / content
    path.parent.mkdir(parents=True)
    path.write_text("precious", encoding="utf-8")
    assert train(lab, "--out=mine") == 1
    (line,) = lines_of(capsys)
    assert "mine holds something other" in line and content.split("/")[0] in line
    assert path.read_text(encoding="utf-8") == "precious" and names(tmp_path) == ["mine"]


@pytest.mark.parametrize("content", [[], [".DS_Store"], ["history.json.123.tmp"], ["probe.9.tmp"]])
def test_a_folder_with_nothing_in_it_is_taken(lab, tmp_path, content):
    (tmp_path / "x").mkdir()
    for name in content:
        (tmp_path / "x" / name).touch()
    assert train(lab, "--out=x") == 0
    assert set(FILES) <= set(names(tmp_path / "x")) and names(tmp_path) == ["x"]


def test_the_folder_that_one_stands_in_is_not_renamed(lab, capsys, tmp_path):
    assert train(lab, "--out=.") == 0
    capsys.readouterr()
    for out in (".", str(tmp_path), "../" + tmp_path.name):
        assert train(lab, f"--out={out}") == 1
        (line,) = lines_of(capsys)
        assert "cannot be renamed" in line
    assert names(tmp_path) == FILES


def test_a_link_stays_a_link(lab, tmp_path):
    target = tmp_path / "disk" / "x"
    target.mkdir(parents=True)
    try:
        (tmp_path / "link").symlink_to(target, target_is_directory=True)
    except OSError:
        pytest.skip("no links here")
    for _ in range(2):
        assert train(lab, "--out=link") == 0
    assert (tmp_path / "link").is_symlink()
    assert names(tmp_path / "disk") == ["x", "x.earlier-1"] and names(target) == FILES


def test_two_runs_at_once(lab, capsys, tmp_path):
    with lab15_run.Folder("x"):
        assert train(lab, "--out=x") == 1
        (line,) = lines_of(capsys)
        assert line.startswith("another run is writing to x")
        assert train(lab, "--out=y") == 0
    assert train(lab, "--out=x") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x", "y"], "no lock is left"


def test_the_lock_of_a_killed_run_is_ignored(lab, tmp_path):
    (tmp_path / ".x.lock").touch()
    assert train(lab, "--out=x") == 0


UNUSABLE = {"a file": "file", "below a file": "file/x", "too long": "x" * 300,
            "too long below": "x" * 300 + "/y", "nul": "a\0b"}


@pytest.mark.parametrize("kind", UNUSABLE)
def test_the_folder_is_tried_before_anything_is_trained(lab, capsys, tmp_path, kind):
    (tmp_path / "file").write_text("precious", encoding="utf-8")
    lab.load_or_train_sft = None  # calling it would be an error
    assert train(lab, f"--out={UNUSABLE[kind]}") == 1
    (line,) = lines_of(capsys)
    assert line.startswith("cannot save in ") and "Nothing was started" in line
    assert "--out" in line and names(tmp_path) == ["file"]
    with pytest.raises(lab15_run.RunError, match="cannot save in"):
        with lab15_run.Folder(UNUSABLE[kind]):
            pass


def as_nobody(act):
    """Return what act() returns in a child process without root's rights."""
    if not hasattr(os, "fork"):
        pytest.skip("no fork here")
    out, into = os.pipe()
    if (child := os.fork()) == 0:
        try:
            if os.geteuid() == 0:
                os.setgid(65534)
                os.setuid(65534)
            os.write(into, str(act()).encode())
        except BaseException as error:
            os.write(into, repr(error).encode())
        finally:
            os._exit(0)
    os.close(into)
    with os.fdopen(out, encoding="utf-8") as file:
        said = file.read()
    os.waitpid(child, 0)
    return said


@pytest.mark.parametrize("used", [False, True])
def test_a_read_only_folder(request, used):
    top = Path(tempfile.mkdtemp(prefix="lab15"))  # all may enter it, unlike pytest's folders
    (top / "x").mkdir()

    def remove():
        for path in (top, top / "x"):
            path.chmod(0o755)
        shutil.rmtree(top)

    request.addfinalizer(remove)
    if used:
        (top / "x" / "history.json").write_text("{}", encoding="utf-8")
    for path in (top / "x", top):
        path.chmod(0o555)
    def enter():
        os.chdir(top)
        try:
            with lab15_run.Folder("x"):
                return "entered"
        except lab15_run.RunError as error:
            return error

    said = as_nobody(enter)
    assert said.startswith("cannot save in x: Permission denied. Nothing was started"), said
    assert names(top) == ["x"] and names(top / "x") == ["history.json"] * used


@pytest.fixture
def full_disk(monkeypatch):
    """Return a function that lets some writes fail, by number and size of the data.

    They count from 1: two probes, three a save, curves.
    """
    real, count = Path.write_bytes, []

    def fail(which):
        def write_bytes(path, data):
            count.append(path.name)
            if which(len(count), len(data)):
                real(path, data[:1000])
                raise OSError(errno.ENOSPC, "No space left on device")
            return real(path, data)

        monkeypatch.setattr(Path, "write_bytes", write_bytes)

    return fail


@pytest.mark.parametrize("before", range(12))
def test_the_files_of_a_state_belong_together(lab, capsys, tmp_path, full_disk, before):
    """The disk is full from one write on; there are twelve in all."""
    full_disk(lambda n, size: n > before)
    assert train(lab, "--out=x") == 1
    lines = lines_of(capsys)
    if before < 5:  # before the first save was complete
        assert names(tmp_path) == []
        assert any("in x: No space left" in line for line in lines[-2:]), lines
        return
    assert state(tmp_path / "x")[0] == (1 if before < 8 else 2)
    assert names(tmp_path / "x") == DATA
    report = next(line for line in lines if line.startswith("x: history"))
    if before < 11:
        assert f"as after iteration {1 if before < 8 else 2}" in report
        assert "NOT saved (No space left" in report
    else:
        assert "NO curves.png (No space left" in report


def test_a_small_disk(lab, capsys, tmp_path, full_disk):
    full_disk(lambda n, size: size > 700_000)  # more than a state has, less than two have
    assert train(lab, "--out=x") == 1
    (line,) = lines_of(capsys)
    assert "No space left" in line and "Nothing was started" in line and names(tmp_path) == []


def test_a_failing_save_does_not_end_the_training(lab, tmp_path, capsys, full_disk):
    full_disk(lambda n, size: n == 3)  # once, after the probes
    assert train(lab, "--out=x") == 0, "the next save worked"
    assert names(tmp_path / "x") == FILES and state(tmp_path / "x")[0] == 2
    assert sum("cannot save in x: No space left" in line for line in lines_of(capsys)) == 1


def test_a_file_that_cannot_be_replaced_is_reported(lab, capsys, tmp_path, monkeypatch):
    """As on Windows, where another program has policy.pt open."""
    real, count = os.replace, []

    def replace(source, target):
        count.append(target)
        if Path(target).name == "policy.pt" and len(count) > 3:
            raise PermissionError(errno.EACCES, "Access is denied")
        real(source, target)

    monkeypatch.setattr(os, "replace", replace)
    assert train(lab, "--out=x") == 1
    report = next(line for line in lines_of(capsys) if line.startswith("x: "))
    assert "Access is denied; history.json, config.json are newer than policy.pt" in report


def test_without_matplotlib_the_run_is_kept(lab, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(lab15_run, "plot_curves", DRAW)
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert train(lab, "--out=x") == 1
    assert names(tmp_path / "x") == DATA
    report = next(line for line in lines_of(capsys) if line.startswith("x: "))
    assert "NO curves.png" in report and "pip install matplotlib" in report


# ============================================================== Ctrl-C

MOMENTS = [  # whose call, which one, iterations and evaluations that are kept
    ("load_or_train_sft", 1, 0, []),
    ("accuracy", 1, 0, []),
    ("make_batch", 1, 0, [0]),
    ("accuracy", 5, 4, [0, 2]),
    ("accuracy", 6, 4, [0, 2]),  # between sampled and greedy of the third evaluation
    ("grpo_step", 4, 3, [0, 2]),
    ("_save", 1, 2, [0, 2]),
    ("_save", 4, 6, [0, 2, 4, 6]),  # the last one
    ("plot_curves", 1, 6, [0, 2, 4, 6]),
]


@pytest.mark.parametrize("name, n, iterations, evals", MOMENTS)
def test_ctrl_c_is_a_normal_end_that_keeps_what_was_measured(
        lab, capsys, tmp_path, monkeypatch, name, n, iterations, evals):
    owner = {"_save": lab15_run.Run, "plot_curves": lab15_run}.get(name, lab)
    act = press_ctrl_c if name == "_save" else interrupt
    monkeypatch.setattr(owner, name, call_at(getattr(owner, name), n, act))
    real, returned, before = lab.train_grpo, [], signal.getsignal(signal.SIGINT)
    lab.train_grpo = lambda *args, **kwargs: returned.append(real(*args, **kwargs)) or returned[0]
    assert train(lab, "--iters=6", "--eval-every=2", "--out=x") == 130
    assert signal.getsignal(signal.SIGINT) is before
    text = "\n".join(lines_of(capsys))
    assert 1 <= text.count("Ctrl-C") <= 2 and re.search(r"\bx\b", text), text
    in_the_loop = iterations < 6 and name != "load_or_train_sft"
    assert (f"Ctrl-C after {iterations} iterations" in text) == in_the_loop
    if not evals:
        assert names(tmp_path) == [], "nothing was measured, so nothing is saved"
        return
    [(policy, hist)] = returned
    assert hist["eval_iter"] == evals and {len(hist[k]) for k in EVALS} == {len(evals)}
    assert {len(hist[k]) for k in STATS} == {iterations}
    assert names(tmp_path / "x") == (FILES if in_the_loop else DATA)
    assert state(tmp_path / "x")[0] == iterations
    assert read_json(tmp_path / "x" / "history.json").items() >= hist.items()
    saved = torch.load(tmp_path / "x" / "policy.pt", weights_only=True)
    assert torch.equal(saved["norm.weight"], policy.norm.weight)


def test_ctrl_c_that_is_swallowed_is_noticed_an_iteration_later(lab, capsys):
    def swallow(result):
        with contextlib.suppress(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        return result

    lab.grpo_step = call_at(lab.grpo_step, 1, swallow)
    assert train(lab, "--out=x") == 130
    assert "Stopped by Ctrl-C after 0 iterations" in "\n".join(lines_of(capsys))


def test_ctrl_c_outside_the_main_thread_is_not_touched(lab, tmp_path):
    codes = []
    thread = threading.Thread(target=lambda: codes.append(train(lab, "--out=x")))
    thread.start()
    thread.join(60)
    assert codes == [0] and names(tmp_path / "x") == FILES


# ============================================================== GRPOConfig

NUMBERS = [math.nan, math.inf, -math.inf, "1", None, True, [1]]  # wrong for every setting
SETTINGS = {  # a value at the edge of what is right, and wrong ones besides NUMBERS
    "iters": (0, [-1, 2.5]),
    "prompts_per_iter": (1, [0, -1, 2.0]),
    "G": (2, [1, 0, -8]),
    "inner_steps": (1, [0, 1.5]),
    "lr": (1, [0, 0.0, -1e-3]),
    "clip_eps": (2, [0.0, -0.2]),
    "beta": (0, [-1e-9]),
    "temperature": (1, [0, -1.0]),
    "scale_std": (False, [0, 1]),
    "max_grad_norm": (1e9, [0, -1]),
    "eval_every": (1, [0, -10]),
    "eval_n": (1, [0]),
    "seed": (0, [-1, 0.5]),
}


@pytest.mark.parametrize("name", SETTINGS)
def test_config_names_what_is_not_allowed(lab, name):
    right, wrong = SETTINGS[name]
    lab.GRPOConfig(**{name: right})
    for value in wrong + [n for n in NUMBERS if not (name == "scale_std" and n is True)]:
        with pytest.raises(ValueError) as error:
            lab.GRPOConfig(**{name: value})
        text = str(error.value)
        assert f"GRPOConfig: {name} = {value!r}" in text and "\n" not in text
        low = {"G": "of 2 or more", "scale_std": "True or False"}
        low |= dict.fromkeys(["iters", "beta", "seed"], "of 0 or more")
        assert text.partition("give ")[2].endswith(low.get(name, "above 0")), text


def test_every_field_is_checked_and_has_a_flag(lab):
    fields = [f.name for f in dataclasses.fields(lab.GRPOConfig)]
    assert fields == list(SETTINGS) == list(lab15_run.SETTINGS)


# ============================================================== flags

WRONG_FLAGS = [  # what is typed, words of the one line
    ("--iters=abc", "whole number of 0 or more"), ("--iters=-1", "whole number of 0 or more"),
    ("--iters=2.5", "whole number"), ("--iters", "--iters needs a value: "),
    ("--iters", "a whole number of 0 or more"),
    ("--iters=", "whole number"), ("--G=1", "of 2 or more"), ("--G=0x8", "of 2 or more"),
    ("--lr=nan", "--lr: nan is not allowed; give a finite number above 0"),
    ("--lr=0,1", "finite number above 0"),
    ("--lr=inf", "finite number above 0"), ("--lr -1", "finite number above 0"),
    ("--beta=-1", "finite number of 0 or more"), ("--seed=-1", "of 0 or more"),
    ("--seed=99999999999999999999", "up to 9223372036854775807"),
    ("--iters=" + "9" * 5000, "whole number"), ("--threads=0", "--threads: 0 is not allowed"),
    ("--threads=two", "1 to 1024"), ("--threads", "1 to 1024"), ("--out", "folder"),
    ("--iter=3", "did you mean --iters?"),
    ("--learning-rate=1", "--help"), ("--prompt-per-iter 3", "did you mean --prompts-per-iter?"),
    ("--g=3", "did you mean --G?"), ("--outt=x", "did you mean --out?"), ("x", "word x"),
    ("--scale-std=False", "--no-scale-std: takes no value"), ("--scale-std False", "word False"),
    ("--out=", "--out: give the name of a folder"),
    ("--device=cuda:99", "--device cuda:99 cannot be used here"),
    ("--device=meta", "--device meta"), ("--device=tpu9", "--device tpu9"),
    ("--device=", "--device"), ("--\u00fcber=1", "there is no flag --"), ("-h5", "--help"),
]


@pytest.mark.parametrize("typed, words", WRONG_FLAGS)
def test_a_wrong_flag_is_one_line_with_the_way_out(lab, capsys, tmp_path, typed, words):
    assert lab15_run.command(vars(lab), typed.split(" ")) == 2
    (line,) = lines_of(capsys)
    assert words in line and len(line) < 300, line
    assert names(tmp_path) == [], "nothing was started"


def test_flags_are_the_settings_of_the_config(lab):
    got = []

    def train_grpo(cfg, device, out_dir):
        got.append((cfg, device, out_dir.shown))
        return None, {"acc_sampled": [0.5, 0.9], "loss": [0.0]}

    lab.train_grpo = train_grpo
    settings = {name: right for name, (right, _) in SETTINGS.items()} | {"iters": 7, "G": 3}
    flags = [f"--{k.replace('_', '-')}={v}" for k, v in settings.items() if k != "scale_std"]
    lab15_run.command(vars(lab), [*flags, "--no-scale-std", "--out", "some where"])
    assert got[0] == (lab.GRPOConfig(**settings), "cpu", "some where")
    assert lab15_run.command(vars(lab), ["--seed=2"]) == 1, "nothing was saved"
    assert got[1] == (lab.GRPOConfig(seed=2), "cpu", str(Path("runs/seed2")))
    assert torch.get_num_threads() == 1


def test_names_with_underscores_are_accepted(lab, tmp_path, capsys):
    assert train(lab, "--eval_every=2", "--no_scale_std", "--out=my_x") == 0
    config = read_json(tmp_path / "my_x" / "config.json")
    assert config["eval_every"] == 2 and config["scale_std"] is False
    where, accuracy = lines_of(capsys)
    assert where.startswith("my_x: curves.png") and "sampled accuracy" in accuracy


def test_help_explains_every_flag(lab, capsys):
    with pytest.raises(SystemExit) as end:
        lab15_run.command(vars(lab), ["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert not end.value.code
    for name, (_, meaning) in lab15_run.SETTINGS.items():
        assert f"--{name.replace('_', '-')}" in said and meaning in said, name
    for words in ("whole number of 2 or more", "default: 0.0003", "runs/seedN", "earlier-1",
                  "curves.png", "examples:", "Ctrl-C"):
        assert words in said, words


# ============================================================== odd places


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """A lab in a folder with spaces, with the solution as the student's file."""
    folder = tmp_path_factory.mktemp("odd") / "my lab (2)"
    folder.mkdir()
    for name in ("tinylm.py", "lab15_run.py", "solutions/lab15_grpo.py"):
        shutil.copy(ROOT / name, folder)
    make_sft(folder / "tinylm_sft.pt")
    return folder


def test_an_unfinished_lab_as_a_script(copy, tmp_path):
    (copy / "unfinished.py").write_text(STUB, encoding="utf-8")
    done = run_python(copy / "unfinished.py", cwd=tmp_path)
    assert done.returncode == 1 and done.stdout == b""
    text = done.stderr.decode()
    assert text.count("\n") == 1 and text.startswith("Task 1, sample_group, comes next"), text
    assert "python -m pytest -q -k task1" in text


def test_from_another_folder_with_another_name_in_the_c_locale(copy, tmp_path):
    link = tmp_path / "link.py"
    try:
        link.symlink_to(copy / "lab15_grpo.py")
    except OSError:
        link = copy / "lab15_grpo.py"
    done = run_python("-O", link, *FEW, "--out", "runs/\u00fcbung 1", cwd=tmp_path, **PLAIN)
    assert done.returncode == 0 and done.stderr == b"", done.stderr
    assert names(tmp_path / "runs") == ["\u00fcbung 1"]
    assert names(tmp_path / "runs" / "\u00fcbung 1") == FILES
    assert rb"\xfcbung 1: curves.png" in done.stdout and b"udc" not in done.stdout
    assert done.stdout.isascii() and b"\r" not in done.stdout, "no litter of a progress bar"


def test_as_a_module_into_a_pipe_that_is_closed(copy):
    command = f'"{sys.executable}" -m lab15_grpo {" ".join(FEW)} --iters=20 --out=piped'
    env = os.environ | {"OMP_NUM_THREADS": "1"}
    bash = shutil.which("bash") or pytest.skip("no bash here")
    words = f"set -o pipefail; {command} | head -1; echo code ${{PIPESTATUS[0]}}"
    done = subprocess.run([bash, "-c", words], cwd=copy, env=env, capture_output=True,
                          encoding="utf-8", timeout=300)
    assert "Traceback" not in done.stderr and "BrokenPipe" not in done.stderr, done.stderr
    assert "code 0" in done.stdout and names(copy / "piped") == FILES


@pytest.mark.parametrize("line, words", [
    ("import signal\ntry:\n    signal.raise_signal(signal.SIGINT)\nexcept BaseException:\n    pass",
     "Stopped by Ctrl-C.\n"),
    ("raise ModuleNotFoundError(\"No module named 'torch'\", name='torch')",
     "torch is not installed in this Python"),
])
def test_what_happens_while_pytorch_is_imported(copy, tmp_path, line, words):
    (tmp_path / "torch.py").write_text(line, encoding="utf-8")
    done = run_python(copy / "lab15_grpo.py", cwd=tmp_path, PYTHONPATH=str(tmp_path))
    text = done.stderr.decode()
    assert done.returncode != 0 and text.startswith(words) and text.count("\n") == 1, text


def test_importing_it_changes_nothing(copy):
    code = "import sys, lab15_run as x; print(sys.excepthook is x.hook, 'torch' in sys.modules)"
    assert run_python("-c", code, cwd=copy).stdout.split() == [b"False", b"False"]


def test_no_traceback_of_given_code_when_the_given_part_was_changed(lab_of, capsys):
    text = catalog.solution()
    assert text.count("            run.check(s, it)\n") == 1
    lab = lab_of(text.replace("            run.check(s, it)\n", "            run.checked(s, it)\n"))
    assert train(lab) == 1
    lines = lines_of(capsys)
    assert re.match(r"The training stopped at lab15_grpo.py line \d+: run.checked", lines[0]), lines
