"""What a student's training run does: mistakes, files, flags, Ctrl-C, odd places.

Every run is two iterations long, from a model that was never trained.
"""

import contextlib
import errno
import functools
import json
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
from instructor import variants
from instructor.tests.test_given import (
    FILES,
    call_at,
    interrupt,
    names,
    no_space,
    press_ctrl_c,
)
from tests.labfile import ROOT, TASKS, load_lab

DRAW = lab15_run.plot_curves
FEW = "--iters=2 --prompts-per-iter=4 --G=4 --eval-every=1 --eval-n=10".split()


def make_sft(path):
    """Save an untrained model where the SFT model is looked for."""
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
        path.write_text(text or variants.solution(), encoding="utf-8")
        lab = load_lab(path)
        monkeypatch.setitem(sys.modules, "lab15_grpo", lab)  # as in its folder
        # A model that was never trained earns this reward half the time.
        lab.reward = lambda response, answer: float(response[:1] in "01234")
        lab.train_grpo = functools.partial(lab.train_grpo, sft_path=sft)
        return lab

    yield load
    torch.set_grad_enabled(before)


class Picture:
    """Stands in for a figure: matplotlib takes a second."""

    def savefig(self, file):
        """Write what is no picture."""
        file.write(b"a figure")


@pytest.fixture
def lab(lab_of):
    return lab_of()


def train(lab, *flags):
    """Return the exit code of the command."""
    return lab15_run.command(vars(lab), [*FEW, *flags])


def lines_of(capsys):
    """Return what was printed, without the lines of the iterations."""
    said = capsys.readouterr()
    assert "Traceback" not in said.out + said.err
    lines = said.err.splitlines() + said.out.splitlines()
    return [line for line in lines if not line.startswith("iter ")]


def state(folder):
    """Return the iterations that history.json, policy.pt know of; config.json must be whole."""
    history = json.loads((folder / "history.json").read_text(encoding="utf-8"))
    json.loads((folder / "config.json").read_text(encoding="utf-8"))
    weights = torch.load(folder / "policy.pt", weights_only=True)
    return len(history["loss"]), float(weights["head.bias"].double().abs().sum())


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
# (what Task 5 is, words of the message): whole bodies, or REST and what it returns.
WRONG_STEPS = [
    ("pass", "None"),
    ("return None", "None"),
    (REST, "returned None"),
    (REST + "    return stats['loss']", "a float, not a dict"),
    (REST + "    return loss, stats", "a tuple, not a dict"),
    (REST + "    return list(stats.items())", "a list, not a dict"),
    (REST + "    return 'done'", "a str, not a dict"),
    (REST + "    return groups['rewards']", "a Tensor, not a dict"),
    (REST + "    return {}", "without reward, loss"),
    (REST + "    stats['entropi'] = stats.pop('entropy')\n    return stats", "'entropi'"),
    (REST + "    stats['Reward'] = stats.pop('reward')\n    return stats", "without reward"),
    (REST + "    return stats | {'loss': loss}", "'loss' as a Tensor"),
    (REST + "    return stats | {'loss': loss.detach()}", "'loss' as a Tensor"),
    (REST + "    return stats | {'reward': groups['rewards']}", "'reward' as a Tensor"),
    (REST + "    return stats | {'entropy': '1.5'}", "'entropy' as a str"),
    (REST + "    return stats | {'entropy': None}", "'entropy' as None"),
    (REST + "    return stats | {'entropy': [1.5]}", "'entropy' as a list"),
    (f"return dict.fromkeys({KEYS}, 0.0)", "never calls opt.step()"),
    (REST.replace("    opt.step()\n", "") + "    return stats", "never calls opt.step()"),
    (REST.replace("    loss.backward()\n", "") + "    return stats", "without a gradient"),
    (REST.replace("    opt.zero_grad()\n    loss.backward()\n",
                  "    loss.backward()\n    opt.zero_grad()\n") + "    return stats", "gradient"),
    (REST.replace("loss.backward()", "loss.backwards()") + "    return stats", "loss.backwards()"),
    (REST.replace("loss.backward()", "stats.backward()") + "    return stats", "UnboundLocalError"),
    (REST.replace("adv, out", "adv.view(-1, 1), out") + "    return stats", "(16, 1), not (16,)"),
    (REST.replace(', out["mask"]', ", out") + "    return stats", "mask that is a dict"),
    (REST.replace('"rewards"], cfg.G', '"rewards"], 3') + "    return stats", "G = 3"),
    (REST.replace("cfg.beta)", "cfg.beta, 1)") + "    return stats", "calls grpo_loss at"),
    (REST.replace("loss, s =", "loss =") + "    return stats", "loss.backward()"),
    (REST.replace('groups["out"]', 'groups["outs"]') + "    return stats", "KeyError: 'outs'"),
    (REST.replace('groups["out"]', "undefined_name") + "    return stats", "undefined_name"),
    (REST + "    return stats | {'kl': 1 / 0}", "ZeroDivisionError"),
    (REST + "    return stats + 1", "TypeError"),
    (REST + "    raise ValueError('two\\nlines, \\u00fc')", "ValueError: two lines"),
    (REST + "    raise NotImplementedError", "is not finished"),
    (REST + "    raise SystemExit", "ends the program"),
    (REST + "    exit()", "ends the program"),
    ("return grpo_step(policy, ref, opt, prompts, answers, cfg)", "RecursionError"),
    (REST + "    torch.set_grad_enabled(False)\n    return stats", "gradients switched off"),
    (REST + "    assert False, 'x' * 5000\n", "AssertionError"),
]


def with_step(body):
    """Return the solution with another body of Task 5."""
    return variants.with_body(5, textwrap.indent(textwrap.dedent(body).strip("\n"), "    ") + "\n")


@pytest.mark.parametrize("body, words", WRONG_STEPS)
def test_a_wrong_task_5_is_a_line_that_names_it(lab_of, capsys, tmp_path, body, words):
    assert train(lab_of(with_step(body)), "--out=x") == 1
    lines = lines_of(capsys)
    assert len(lines) <= 3 and max(map(len, lines)) < 500, lines
    assert lines[0].startswith("Task 5, grpo_step, ") and words in " ".join(lines), lines
    assert "Test: python -m pytest -q -k task5" in " ".join(lines)
    assert lines[-1] == "Nothing was saved in x" and names(tmp_path) == []


WRONG_OTHERS = [
    (1, "return None", "returned None, not a dict"),
    (1, "return {'out': sample(model, prompts)}", "without responses, rewards"),
    (1, "exit()", "ends the program"),
    (1, "return sample(model, [7])", "prompts must be a list"),
    (2, "return rewards.view(-1, G)", "shape (4, 4), not (16,)"),
    (2, "return rewards / 0", "NaN or infinity"),
    (2, "return rewards * 0", "0 for every advantage"),
    (2, "return (rewards - rewards.mean()).tolist()", "a list, not a tensor"),
    (3, "return (ref_logp - logp).mean()", "shape (), not"),
    (3, "return (logp - logp) / 0", "NaN or infinity"),
    (3, "return k3_kl", "a function, not a tensor"),
    (4, "return ((logp - old_logp) * 0).mean(), {'kl': 0.0, 'clip_frac': 0.0}", "gradient to logp"),
    (4, "return logp.mean()", "a Tensor, not the pair"),
    (4, "return logp.mean().item(), {}", "a loss that is a float"),
    (4, "return logp.mean(), {'kl': 0.0}", "stats without clip_frac"),
    (4, "return logp.mean(), {'kl': logp.mean(), 'clip_frac': 0.0}", "'kl' as a Tensor"),
    (4, "return logp.mean() * float('nan'), {'kl': 0.0, 'clip_frac': 0.0}", "the loss nan"),
    (4, "return adv * logp, {}", "RuntimeError"),
]


@pytest.mark.parametrize("task, body, words", WRONG_OTHERS)
def test_a_wrong_task_is_named_wherever_it_shows(lab_of, capsys, tmp_path, task, body, words):
    assert train(lab_of(variants.with_body(task, f"    {body}\n")), "--out=x") == 1
    lines = lines_of(capsys)
    assert len(lines) <= 3, lines
    assert lines[0].startswith(f"Task {task}, {TASKS[task].name}, "), lines
    assert words in " ".join(lines) and f"-k task{task}" in " ".join(lines), lines


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("how", ["deleted", "renamed", "a number", "fewer parameters", "unwritten"])
def test_a_function_that_is_not_there(lab_of, capsys, task, how):
    name, text = TASKS[task].name, variants.solution()
    if how in ("deleted", "a number"):
        before, *_, after = variants.cut_at(task)
        text = before + (f"{name} = 3\n" if how == "a number" else "") + after
    elif how == "renamed":
        text = text.replace(f"def {name}(", f"def {name}s(")
    elif how == "unwritten":
        text = variants.with_body(task, '    raise NotImplementedError("Task")\n')
    else:
        text = text.replace(f"def {name}{TASKS[task].signature}", f"def {name}(other)")
    assert train(lab_of(text)) == 1
    lines = lines_of(capsys)
    assert len(lines) <= 2 and lines[0].startswith(f"Task {task}, {name}, "), lines
    assert f"python -m pytest -q -k task{task}" in lines[0]


def test_every_right_variant_trains(lab_of, capsys):
    for variant in variants.wheats():
        assert train(lab_of(variant.text), f"--out={variant.id}") == 0, variant.id
    capsys.readouterr()


def test_a_wrong_variant_trains_or_is_named(lab_of):
    """Each tenth: no exception but ours, and it names the task that was changed."""
    named = 0
    for variant in list(variants.chaffs())[::10]:
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

    lab = lab_of(with_step("return None"))
    monkeypatch.setattr(first_cell, "lab", lambda: lab)
    monkeypatch.setattr(live, "display", lambda shown, **_: None)
    with first_cell.needs(1, 2, 3, 4, 5) as found:
        live.Live(found, found.GRPOConfig(eval_n=10)).train(None)
    said = capsys.readouterr().out
    assert said.count("\n") == 1 and said.startswith("Task 5, grpo_step, returned None")
    assert 'check("task5")' in said


def test_the_five_functions_are_put_back(lab_of):
    lab = lab_of(with_step("return None"))
    before = {name: getattr(lab, name) for _, (name, _) in lab15_run.TASKS.items()}
    with pytest.raises(lab15_run.TaskError):
        lab.train_grpo(lab.GRPOConfig(eval_n=10))
    assert before == {name: getattr(lab, name) for name in before}


def test_functions_that_are_wrong_on_purpose_train(lab_of):
    lab = lab_of(variants.with_body(2, "    return rewards * 0\n"))
    with lab15_run.unwatched():
        _, hist = lab.train_grpo(lab.GRPOConfig(iters=2, eval_n=10), verbose=False)
    assert len(hist["loss"]) == 2
    with pytest.raises(lab15_run.TaskError, match="Task 2"):
        lab.train_grpo(lab.GRPOConfig(iters=2, eval_n=10), verbose=False)


def test_a_strong_setting_is_named_with_the_task(lab, capsys):
    assert train(lab, "--temperature=1e-300") == 1
    text = " ".join(lines_of(capsys))
    assert "temperature=1e-300" in text and "Try the default" in text


def test_memory_that_is_used_up_is_no_mistake(lab, capsys):
    def sample(*_, **__):
        raise RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried 9 bytes")

    lab.sample = sample
    assert train(lab) == 1
    assert lines_of(capsys)[0].startswith("Out of memory in Task 1 (lab15_grpo.py line ")


def test_a_tensor_on_another_device_names_the_students_line(lab_of, capsys):
    error = "Expected all tensors to be on the same device, but found cuda:0 and cpu!"
    lab = lab_of(variants.with_body(1, f"    raise RuntimeError({error!r})\n"))
    assert train(lab) == 1
    said = " ".join(lines_of(capsys))
    assert "lab15_grpo.py line " in said and error in said and "device of out['ids']" in said


# ============================================================== files


def test_nothing_is_overwritten(lab, capsys, tmp_path):
    for n in range(3):
        assert train(lab, "--out=runs/x", f"--seed={n}") == 0
        moved = [line for line in lines_of(capsys) if "held an earlier run" in line]
        assert moved == ([f"{Path('runs/x')} held an earlier run: it is "
                          f"{Path('runs/x')}.earlier-{n} now"] if n else [])
        (tmp_path / "runs" / "x" / "notes.txt").write_text(str(n), encoding="utf-8")
    for folder, n in (("x.earlier-1", 0), ("x.earlier-2", 1), ("x", 2)):
        folder = tmp_path / "runs" / folder
        assert names(folder) == sorted([*FILES, "notes.txt"])
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        assert config["seed"] == n and (folder / "notes.txt").read_text(encoding="utf-8") == str(n)


def test_a_failed_run_leaves_the_earlier_one_where_it_was(lab_of, capsys, tmp_path):
    assert train(lab_of(), "--out=x") == 0
    before = {name: (tmp_path / "x" / name).read_bytes() for name in FILES}
    capsys.readouterr()
    assert train(lab_of(with_step("return None")), "--out=x") == 1
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
    assert "mine holds what is no training run" in line and content.split("/")[0] in line
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
    for out in (".", "", str(tmp_path), "../" + tmp_path.name):
        if out:
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
        assert line.startswith("another run is writing to x now")
        assert train(lab, "--out=y") == 0
    assert train(lab, "--out=x") == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["x", "y"], "no lock is left"


def test_a_lock_that_a_kill_left_is_no_run(lab, tmp_path):
    (tmp_path / ".x.lock").touch()
    assert train(lab, "--out=x") == 0


def unusable(kind, tmp_path):
    """Return a folder that no run can have."""
    (tmp_path / "file").write_text("precious", encoding="utf-8")
    return {"a file": "file", "below a file": "file/x", "too long": "x" * 300,
            "too long below": "x" * 300 + "/y", "nul": "a\0b"}[kind]


@pytest.mark.parametrize("kind", ["a file", "below a file", "too long", "too long below", "nul"])
def test_the_folder_is_tried_before_anything_is_trained(lab, capsys, tmp_path, kind):
    lab.load_or_train_sft = None  # calling it would be an error
    assert train(lab, f"--out={unusable(kind, tmp_path)}") == 1
    (line,) = lines_of(capsys)
    assert line.startswith("cannot save in ") and "Nothing was begun" in line
    assert "--out" in line and names(tmp_path) == ["file"]
    with pytest.raises(lab15_run.RunError, match="cannot save in"):
        with lab15_run.Folder(unusable(kind, tmp_path)):
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
    request.addfinalizer(lambda: shutil.rmtree(top))
    (top / "x").mkdir()
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
    assert said.startswith("cannot save in x: Permission denied. Nothing was begun"), said
    assert names(top) == ["x"] and names(top / "x") == ["history.json"] * used


@pytest.mark.parametrize("before", range(8))
def test_the_files_of_a_state_belong_together(lab, capsys, tmp_path, monkeypatch, before):
    """The disk is full from one write on: the probe, then three files a save, then the curves."""
    real, count = Path.write_bytes, []

    def write_bytes(path, data):
        count.append(path.name)
        return real(path, data) if len(count) <= before else no_space()

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert train(lab, "--out=x") == 1
    lines = lines_of(capsys)
    if before < 4:  # before the first save was whole
        assert names(tmp_path) == []
        assert any("in x: No space left" in line for line in lines[-2:]), lines
        return
    done, bias = state(tmp_path / "x")
    assert (before, done) in ((4, 1), (5, 1), (6, 1), (7, 2))
    assert names(tmp_path / "x") == ["config.json", "history.json", "policy.pt"]
    report = next(line for line in lines if line.startswith("x: history.json"))
    assert "NOT saved (No space left" in report or f"as after iteration {done}" in report


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
    assert "Access is denied" in report and "policy.pt are older" in report


def test_a_failing_save_does_not_end_the_training(lab, tmp_path, capsys, monkeypatch):
    real, count = Path.write_bytes, []

    def write_bytes(path, data):
        count.append(path)
        return no_space() if len(count) == 2 else real(path, data)  # once, after the probe

    monkeypatch.setattr(Path, "write_bytes", write_bytes)
    assert train(lab, "--out=x") == 0, "the next save went well"
    assert names(tmp_path / "x") == FILES and state(tmp_path / "x")[0] == 2
    assert sum("cannot save in x: No space left" in line for line in lines_of(capsys)) == 1


def test_a_small_disk(lab, capsys, tmp_path):
    """A file system of 700 kB, where the right to mount one is given."""
    disk = tmp_path / "disk"
    disk.mkdir()
    words = ["mount", "-t", "tmpfs", "-o", "size=700k", "lab15", str(disk)]
    if not shutil.which("mount") or subprocess.run(words, capture_output=True).returncode:
        pytest.skip("needs the right to mount a file system")
    try:
        assert train(lab, f"--out={disk / 'x'}") == 1
        (line,) = lines_of(capsys)
        assert "No space left" in line and "Nothing was begun" in line
        assert names(disk) == []
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_without_matplotlib_the_run_is_kept(lab, capsys, tmp_path, monkeypatch):
    monkeypatch.setattr(lab15_run, "plot_curves", DRAW)
    for name in [n for n in sys.modules if n.split(".")[0] == "matplotlib"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert train(lab, "--out=x") == 1
    assert names(tmp_path / "x") == ["config.json", "history.json", "policy.pt"]
    report = next(line for line in lines_of(capsys) if line.startswith("x: "))
    assert "NO curves.png" in report and "pip install matplotlib" in report


def test_a_read_only_lab_trains_the_sft_model_once(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(tinylm, "train_sft", lambda: calls.append(1) or tinylm.TinyLM())
    (tmp_path / "file").touch()
    path = tmp_path / "file" / "sft.pt"
    with pytest.warns(UserWarning, match="not kept") as warned:
        policy, ref = (tinylm.load_or_train_sft(path) for _ in range(2))
    assert calls == [1] and len(warned) == 1
    assert policy is not ref and torch.equal(policy.head.weight, ref.head.weight)
    with torch.no_grad():
        policy.head.weight.zero_()
    assert ref.head.weight.any() and tinylm.load_or_train_sft(path).head.weight.any()


# ============================================================== Ctrl-C


@pytest.mark.parametrize("moment", ["SFT", "first evaluation", "step", "saving", "drawing",
                                    "last save"])
def test_ctrl_c_is_a_normal_end_at_every_moment(lab, capsys, tmp_path, monkeypatch, moment):
    before = signal.getsignal(signal.SIGINT)
    save = lab15_run.Run._save
    if moment == "SFT":
        lab.load_or_train_sft = interrupt
    elif moment == "first evaluation":
        lab.accuracy = interrupt
    elif moment == "step":
        lab.grpo_step = call_at(lab.grpo_step, 2, interrupt)
    elif moment == "drawing":
        monkeypatch.setattr(lab15_run, "plot_curves", interrupt)
    else:
        n = 1 if moment == "saving" else 3
        monkeypatch.setattr(lab15_run.Run, "_save", call_at(save, n, press_ctrl_c))
    assert train(lab, "--out=x") == 130
    assert signal.getsignal(signal.SIGINT) is before
    text = "\n".join(lines_of(capsys))
    assert text.count("Ctrl-C") <= 2 and "Ctrl-C" in text
    done = {"SFT": None, "first evaluation": None, "step": 1, "saving": 1}.get(moment, 2)
    if done is None:
        assert names(tmp_path) == []
    else:
        assert state(tmp_path / "x")[0] == done


def test_ctrl_c_that_somebody_swallows_is_noticed_an_iteration_later(lab, capsys, tmp_path):
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


# ============================================================== flags

WRONG_FLAGS = [  # what is typed, words of the one line
    ("--iters=abc", "whole number of 0 or more"), ("--iters=-1", "whole number of 0 or more"),
    ("--iters=2.5", "whole number"), ("--iters", "--iters needs a value: a whole number"),
    ("--iters=", "whole number"), ("--G=1", "of 2 or more"), ("--G=0x8", "of 2 or more"),
    ("--lr=nan", "finite number above 0"), ("--lr=0,1", "finite number above 0"),
    ("--lr=inf", "finite number above 0"), ("--lr -1", "finite number above 0"),
    ("--beta=-1", "finite number of 0 or more"), ("--seed=-1", "of 0 or more"),
    ("--seed=99999999999999999999", "up to 9223372036854775807"),
    ("--iters=" + "9" * 5000, "whole number"), ("--threads=0", "1 to 1024"),
    ("--threads=two", "1 to 1024"), ("--iter=3", "did you mean --iters?"),
    ("--learning-rate=1", "--help"), ("--prompt-per-iter 3", "did you mean --prompts-per-iter?"),
    ("--g=3", "did you mean --G?"), ("--outt=x", "did you mean --out?"), ("x", "word x"),
    ("--scale-std=False", "--no-scale-std"), ("--scale-std False", "word False"),
    ("--out=", "folder"), ("--device=cuda:99", "--device cuda:99 cannot be used here"),
    ("--device=meta", "--device meta"), ("--device=tpu9", "--device tpu9"),
    ("--device=", "--device"), ("--\u00fcber=1", "there is no flag --"), ("-h5", "--help"),
]


@pytest.mark.parametrize("typed, words", WRONG_FLAGS)
def test_a_wrong_flag_is_one_line_with_the_way_out(lab, capsys, tmp_path, typed, words):
    assert lab15_run.command(vars(lab), typed.split(" ")) == 2
    (line,) = lines_of(capsys)
    assert words in line and len(line) < 300, line
    assert names(tmp_path) == [], "nothing was begun"


def test_names_with_underscores_are_taken(lab, tmp_path):
    assert train(lab, "--eval_every=2", "--no_scale_std", "--out=my_x") == 0
    config = json.loads((tmp_path / "my_x" / "config.json").read_text(encoding="utf-8"))
    assert config["eval_every"] == 2 and config["scale_std"] is False


def test_help_says_what_every_flag_means(lab, capsys):
    with pytest.raises(SystemExit) as end:
        lab15_run.command(vars(lab), ["--help"])
    said = " ".join(capsys.readouterr().out.split())
    assert not end.value.code
    for name, (_, meaning) in lab15_run.SETTINGS.items():
        assert f"--{name.replace('_', '-')}" in said and meaning in said, name
    for words in ("whole number of 2 or more", "default: 0.0003", "runs/seedN", "earlier-1",
                  "curves.png", "examples:", "Ctrl-C"):
        assert words in said, words
    assert set(lab15_run.SETTINGS) == set(vars(lab.GRPOConfig()))


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


def run_python(*words, cwd, **env):
    """Return what a Python of its own did."""
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"} | env
    return subprocess.run([sys.executable, *map(str, words)], cwd=cwd, env=env,
                          capture_output=True, timeout=300)


def test_from_another_folder_with_another_name_in_the_c_locale(copy, tmp_path):
    link = tmp_path / "link.py"
    try:
        link.symlink_to(copy / "lab15_grpo.py")
    except OSError:
        link = copy / "lab15_grpo.py"
    done = run_python("-O", link, *FEW, "--out", "runs/\u00fcbung 1", cwd=tmp_path, LC_ALL="C",
                      PYTHONUTF8="0", PYTHONCOERCECLOCALE="0")
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


# ============================================================== a given part that was changed


def test_no_traceback_of_given_code_when_the_given_part_was_changed(lab_of, capsys):
    text = variants.solution()
    assert text.count("            run.check(s, it)\n") == 1
    lab = lab_of(text.replace("            run.check(s, it)\n", "            run.checked(s, it)\n"))
    assert train(lab) == 1
    lines = lines_of(capsys)
    assert re.match(r"The training stopped at lab15_grpo.py line \d+: run.checked", lines[0]), lines
