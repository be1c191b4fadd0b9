"""What stands around a training run: the command's flags, checks, saving and drawing.

lab15_grpo.py, your file, uses it; your five functions do not. Read it if you are curious:

    settings     what GRPOConfig accepts
    tasks        a mistake in one of the five functions becomes a line that names the task
    files        a run's folder: nothing is overwritten, nothing is claimed that was not written
    a run        what train_grpo enters: the guard, the progress bar, saving, Ctrl-C
    after it     the curves, and whether they are as they should be
    results      which commit and machine a JSON of results comes from (of notebooks and beyond)
    the command  python lab15_grpo.py --help

At the top only the standard library is imported; PyTorch, tqdm and matplotlib come in where they
are needed. A parameter called `lab` is a lab file's names: its globals(), or vars() of the loaded
module.
"""

import argparse
import contextlib
import difflib
import errno
import functools
import io
import json
import linecache
import math
import numbers
import os
import platform
import re
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path

TOP = Path(__file__).resolve().parent
STOPPED = 130  # exit code after Ctrl-C, as the shell has it


class RunError(RuntimeError):
    """What ends a run, in one or two lines that a student can act on."""

    def _render_traceback_(self):  # what a notebook shows of it
        return str(self).splitlines()


# ============================================================== words


def readable(value, limit=200):
    """Return a text, an exception or a path as one line that can be printed.

    Bytes of a file name that are UTF-8 after all become characters; what is not printable becomes
    an escape, "x1b" behind a backslash. say() escapes what a terminal's encoding lacks.
    """
    try:
        text = str(value)
    except Exception:  # an exception class of the student's own can fail at anything
        text = type(value).__name__
    with contextlib.suppress(UnicodeEncodeError):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def say(text, stream=None):
    """Print a text, above a progress bar if there is one; whoever reads it may be gone."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(text, file=stream)
        else:
            print(text, file=stream)
        stream.flush()
    except BrokenPipeError:  # `| head` has seen enough; the run goes on
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


# ============================================================== settings

# Per setting: the smallest value (None: above 0) and what it means.
SETTINGS = {
    "iters": (0, "iterations; each samples a batch and learns from it"),
    "prompts_per_iter": (None, "prompts of an iteration, P"),
    "G": (2, "group size: responses per prompt"),
    "inner_steps": (None, "gradient steps on each batch"),
    "lr": (None, "learning rate of Adam"),
    "clip_eps": (None, "clip range: the ratio counts from 1 - eps to 1 + eps"),
    "beta": (0, "weight of the KL to the SFT model; 0 is no leash"),
    "temperature": (None, "of the sampling"),
    "scale_std": (False, "divide advantages by the group's standard deviation"),
    "max_grad_norm": (None, "longest gradient; longer ones are scaled down"),
    "eval_every": (None, "iterations between two evaluations (and saves)"),
    "eval_n": (None, "held-out sums of an evaluation"),
    "seed": (0, "of prompts and samples: same seed, same run"),
}
LARGEST = 2**63 - 1  # that PyTorch takes for a seed
# Settings that can break a run, in which case they are named before any task is.
STRONG = ("lr", "max_grad_norm", "temperature", "inner_steps", "clip_eps", "beta")


def not_allowed(name, value, kind):
    """Return what to give instead of a value that a setting does not accept, or None.

    Args:
        name: the setting.
        value: what was given.
        kind: type of the default, bool, int or float.
    """
    low = SETTINGS.get(name, (None,))[0]
    if not (type(value) is kind or (kind is float and type(value) is int)):
        fits = False
    elif kind not in (int, float):  # True and False, or a setting of the student's own
        fits = True
    else:
        fits = (value > 0 if low is None else value >= low) and value != math.inf
    if fits and kind is int and value > LARGEST:
        return f"a whole number up to {LARGEST}"
    return None if fits else allowed(name, kind)


def allowed(name, kind):
    """Return the range of a setting in words."""
    if kind is bool:
        return "True or False"
    if kind not in (int, float):
        return f"a {kind.__name__}"
    low = SETTINGS.get(name, (None,))[0]
    number = "a whole number" if kind is int else "a finite number"
    return f"{number} above 0" if low is None else f"{number} of {low} or more"


def check_settings(cfg):
    """Raise a ValueError that names the first setting of a GRPOConfig that is not allowed."""
    for name, value in vars(cfg).items():
        if instead := not_allowed(name, value, type(getattr(type(cfg), name, value))):
            raise ValueError(f"GRPOConfig: {name} = {value!r} is not allowed; give {instead}")


def unusual(cfg):
    """Return the strong settings that are not the default, as "lr=0.1, beta=0", or ""."""
    found = {name: getattr(cfg, name, None) for name in STRONG}
    return ", ".join(f"{name}={value}" for name, value in found.items()
                     if value != getattr(type(cfg), name, value))


# ============================================================== tasks

TASKS = {
    1: ("sample_group", ("model", "prompts", "answers", "G", "temperature")),
    2: ("group_advantages", ("rewards", "G", "scale_std", "eps")),
    3: ("k3_kl", ("logp", "ref_logp")),
    4: ("grpo_loss", ("logp", "old_logp", "ref_logp", "adv", "mask", "clip_eps", "beta")),
    5: ("grpo_step", ("policy", "ref", "opt", "prompts", "answers", "cfg")),
}
STATS = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")
FAR = 60  # log-probs further apart may well overflow: exp(60) is 1e26


def test_command(task, lab):
    """Return the command that runs a task's tests on a lab file."""
    command = f"python -m pytest -q -k task{task}"
    path = Path(lab.get("__file__") or TOP / "lab15_grpo.py").resolve()
    if path != TOP / "lab15_grpo.py":
        shown = path.relative_to(TOP) if path.is_relative_to(TOP) else path
        shown = readable(shown, 500)
        quote = '"' if re.search(r"[^\w./\\:~+-]", shown) else ""
        command += f" --lab={quote}{shown}{quote}"
    return command if Path.cwd() == TOP else f"{command} (in {readable(TOP, 500)})"


class TaskError(RunError):
    """A mistake in one of the five functions, found while they train.

    Args:
        task: its number.
        what: what is wrong, following "Task 3, k3_kl, ".
        lab: the lab file's names.
    """

    def __init__(self, task, what, lab):
        self.task, self.what = task, what
        end = "" if what.endswith((".", "?")) else "."
        super().__init__(
            f"Task {task}, {TASKS[task][0]}, {what}{end} Test: {test_command(task, lab)}")


def next_task(lab):
    """Return a TaskError for the first task that is not written yet, or is not there; or None."""
    for number, (name, _) in TASKS.items():
        function = lab.get(name)
        file = readable(Path(lab.get("__file__") or "lab15_grpo.py").name)
        if function is None:
            return TaskError(number, f"is missing: {file} has no function of that name", lab)
        if not callable(function):
            what = f"is no function: the name stands for a {type(function).__name__} in {file}"
            return TaskError(number, what, lab)
        if is_stub(function):
            line = function.__code__.co_firstlineno
            return TaskError(number, f"comes next: it is not written yet ({file} line {line})", lab)
    return None


def is_stub(function):
    """Return whether a function does nothing but raise NotImplementedError; it is not called."""
    import dis

    code = getattr(function, "__code__", None)
    if code is None or "NotImplementedError" not in code.co_names:
        return False
    # Whatever else it does, it first loads a name, an argument or a number to do it with.
    loads = [step for step in dis.get_instructions(code) if step.opname.startswith("LOAD_")]
    return loads[0].argval == "NotImplementedError"


def is_number(value):
    """Return whether a statistic is a real number: Python's or numpy's, not a bool or a tensor."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def no_tensor(value, shape):
    """Return what is wrong with a value that should be a tensor of a shape, or None."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"{kind_of(value)}, not a tensor of shape {tuple(shape)}"
    if value.shape != shape:
        return f"a tensor of shape {tuple(value.shape)}, not {tuple(shape)}"
    return None


def kind_of(value):
    """Return None for None, else "a list", "an int"."""
    name = type(value).__name__
    return "None" if value is None else f"a{'n' * (name[0] in 'aeiou')} {name}"


def finite(*tensors):
    """Return whether no entry is NaN or infinite."""
    return all(bool(t.isfinite().all()) for t in tensors)


def near(logp, *others):
    """Return whether all log-probs are finite and so near that their ratios cannot overflow."""
    return finite(logp, *others) and all(
        float((other - logp).detach().abs().max()) < FAR for other in others)


# What is wrong with the result of a task, or None. `given` holds its arguments by their names.


def wrong_group(result, given):
    """Look at the result of Task 1."""
    import torch

    if not isinstance(result, dict):
        return f"{kind_of(result)}, not a dict"
    missing = [key for key in ("out", "responses", "rewards") if key not in result]
    if missing:
        return f"a dict without {', '.join(missing)}"
    B = len(given["prompts"]) * given["G"]
    out, responses = result["out"], result["responses"]
    if not isinstance(out, dict) or not {"ids", "prompt_len", "mask"} <= set(out):
        return f"'out' as {kind_of(out)}, not as the dict that sample returns"
    if len(out["ids"]) != B:
        return f"'out' with {len(out['ids'])} rows, not P*G = {B}"
    if out["ids"].shape[1] != out["prompt_len"] + out["mask"].shape[1]:
        return "'out' that is not sample's: its ids are not prompt_len + T wide"
    if out["ids"].is_inference() and not torch.is_inference_mode_enabled():
        return "'out' made in inference_mode, which training cannot use"
    if not isinstance(responses, (list, tuple)) or len(responses) != B:
        size = f" of {len(responses)}" if hasattr(responses, "__len__") else ""
        return f"'responses' as {kind_of(responses)}{size}, not a list of P*G = {B}"
    wrong = no_tensor(result["rewards"], (B,))
    if wrong is None and not result["rewards"].is_floating_point():
        wrong = f"{result['rewards'].dtype}, not as a float tensor"
    return wrong and f"'rewards' as {wrong}"


def wrong_advantages(result, given):
    """Look at the result of Task 2."""
    wrong = no_tensor(result, given["rewards"].shape)
    if wrong is None and finite(given["rewards"]) and not finite(result):
        return "NaN or infinity for finite rewards"
    return wrong


def wrong_kl(result, given):
    """Look at the result of Task 3."""
    wrong = no_tensor(result, given["logp"].shape)
    if wrong is None and near(given["logp"], given["ref_logp"]) and not finite(result):
        return "NaN or infinity for log-probs that are finite and near each other"
    return wrong


def wrong_loss(result, given):
    """Look at the result of Task 4."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return f"{kind_of(result)}, not the pair (loss, stats)"
    loss, stats = result
    wrong = no_tensor(loss, loss.shape if getattr(loss, "numel", int)() == 1 else ())
    if wrong:
        return f"a loss that is {wrong}"
    if not isinstance(stats, dict):
        return f"stats that are {kind_of(stats)}, not a dict"
    if missing := [key for key in ("kl", "clip_frac") if key not in stats]:
        return f"stats without {', '.join(missing)}"
    logp, old_logp, ref_logp = (given[name] for name in ("logp", "old_logp", "ref_logp"))
    if logp.requires_grad and not loss.requires_grad:
        return "a loss from which no gradient flows to logp"
    if near(logp, old_logp, ref_logp) and finite(given["adv"]) and not finite(loss):
        return f"the loss {float(loss)} for finite log-probs and advantages"
    return None


def wrong_stats(result, given):
    """Look at the result of Task 5."""
    if not isinstance(result, dict):
        return f"{kind_of(result)}, not a dict with {', '.join(STATS)}"
    if missing := [key for key in STATS if key not in result]:
        there = ", ".join(repr(key) for key in result if key not in STATS)
        return f"a dict without {', '.join(missing)}" + (f" (but with {there})" if there else "")
    for key in STATS:
        if not is_number(result[key]):
            return f"{key!r} as {kind_of(result[key])}, not as a Python float"
    return None


RESULTS = {1: wrong_group, 2: wrong_advantages, 3: wrong_kl, 4: wrong_loss, 5: wrong_stats}


def misused(number, given):
    """Return which argument is not what the contract says, and how; or None.

    Only asked after something went wrong: then it decides whether the task or its caller is named.
    """
    import torch

    for name, value in given.items():
        if isinstance(value, torch.Tensor) and value.is_inference():
            return f"{name} made in inference_mode"
    if number == 1:
        texts = [isinstance(given.get(n), list) for n in ("prompts", "answers")]
        return None if all(texts) and type(given.get("G")) is int else "other things than lists"
    if number == 2:
        rewards, G = given.get("rewards"), given.get("G")
        if not isinstance(rewards, torch.Tensor) or rewards.dim() != 1:
            shape = tuple(rewards.shape) if isinstance(rewards, torch.Tensor) else ""
            return f"rewards that are {kind_of(rewards)} {shape}".rstrip() + ", not (P*G,)"
        if type(G) is not int or len(rewards) % G:
            return f"G = {readable(G, 40)} for {len(rewards)} rewards"
        return None
    if number in (3, 4):
        logp = given.get("logp")
        if not isinstance(logp, torch.Tensor):
            return f"logp that is {kind_of(logp)}"
        shapes = {name: logp.shape for name in ("ref_logp", "old_logp", "mask")[: 4 * number - 11]}
        shapes |= {"adv": logp.shape[:1]} if number == 4 else {}
        for name, shape in shapes.items():
            if wrong := no_tensor(given.get(name), shape):
                return f"{name} that is {wrong}"
    return None


class Guard:
    """Watches the five functions while they train: what goes wrong in one is a TaskError.

    Args:
        lab: the lab file's names; the five functions are exchanged in it for a while.
        cfg: the GRPOConfig; a strong setting of it may be what is wrong.
    """

    def __init__(self, lab, cfg):
        self.lab, self.cfg, self.kept, self.calls = lab, cfg, {}, []
        self.steps = 0  # calls of opt.step
        self.moved = False  # whether one of them had a gradient
        self.signal = True  # whether the rewards of a group differ, in this iteration
        self.optimizer = None
        self.stats = {}  # what Task 4 returned last
        self.changed = []  # (task, argument) that was changed in place, in this iteration

    def __enter__(self):
        if error := next_task(self.lab):
            raise error
        for number, (name, _) in TASKS.items():
            self.kept[name] = self.lab[name]
            self.lab[name] = self.watched(number, self.lab[name])
        return self

    def __exit__(self, *_):
        self.lab.update(self.kept)
        if self.optimizer:
            self.optimizer.remove()

    def watched(self, number, function):
        """Return a task's function with its exceptions and odd results as a TaskError."""
        parameters = TASKS[number][1]

        @functools.wraps(function)
        def call(*args, **kwargs):
            import torch

            given, grad = dict(zip(parameters, args)) | kwargs, torch.is_grad_enabled()
            before = versions(given)
            self.calls.append((number, given, self.line_of(sys._getframe(1))))
            try:
                if number == 5:
                    self.follow(given)
                result = function(*args, **kwargs)
            except RunError:
                raise
            except (Exception, SystemExit) as error:
                raise self.raised(error, function) from error
            finally:
                self.calls.pop()
                left, _ = torch.is_grad_enabled(), torch.set_grad_enabled(grad)
                now = versions(given)
                self.changed += [(number, name) for name in before if now[name] != before[name]]
            if left != grad:
                what = f"leaves gradients switched {'on' if left else 'off'} for all that follows"
                raise TaskError(number, what, self.lab)
            if error := self.judged(number, result, given):
                raise error
            return result

        return call

    def judged(self, number, result, given):
        """Return the TaskError for a result of a task, or None."""
        import torch

        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = RESULTS[number](result, given)
        except Exception:  # arguments of other names than the contract's: nothing to compare with
            return None
        if wrong:
            self.calls.append((number, given, self.line_of(sys._getframe(2))))
            try:
                return self.returned(wrong)
            finally:
                self.calls.pop()
        with contextlib.suppress(Exception):  # as above
            return self.learned(number, result, given)
        return None

    # ------------------------------------------------------------ whether it learns

    def follow(self, given):
        """Count what the optimizer does from now on; an iteration begins."""
        self.changed = []
        opt = given.get("opt")
        if self.optimizer is None and hasattr(opt, "register_step_pre_hook"):
            self.optimizer = opt.register_step_pre_hook(self.before_step)

    def before_step(self, opt, *_):
        """Note a step, and whether there is a gradient for it; looked for until there is one."""
        self.steps += 1
        if not self.moved:
            found = [p.grad for group in opt.param_groups for p in group["params"]]
            self.moved = any(bool(g.any()) for g in found if g is not None)

    def learned(self, number, result, given):
        """Return a TaskError if an iteration should have taught something and did not."""
        import torch

        if number in (1, 2):
            rewards = (result["rewards"] if number == 1 else given["rewards"]).view(-1, self.cfg.G)
            differ = bool((rewards != rewards[:, :1]).any())
        if number == 1:
            self.signal = differ
        if number == 4:
            self.stats = result[1]
        if self.moved or not self.signal:
            return None
        what = None
        if number == 2 and differ and not result.any():
            what = "returned 0 for every advantage, though rewards of a group differ"
        if number == 4 and given["old_logp"].requires_grad:
            return None  # Task 5 should not have given that
        if number == 4 and given["adv"].any() and near(given["logp"], given["old_logp"]):
            found = torch.autograd.grad(result[0], given["logp"], retain_graph=True)[0]
            if not found.any():
                what = "returned a loss whose gradient to logp is 0"
        if number == 5:
            what = ("never calls opt.step(): nothing is learned" if not self.steps else
                    "calls opt.step() without a gradient: nothing is learned")
        return what and TaskError(number, what, self.lab)

    # ------------------------------------------------------------ what to say

    def line_of(self, frame):
        """Return "lab15_grpo.py line 12: code" for the innermost frame in the lab file, or ""."""
        while frame is not None and frame.f_globals is not self.lab:
            frame = frame.f_back
        return self.place(frame, frame.f_lineno) if frame else ""

    def place(self, frame, number):
        """Return "lab15_grpo.py line 12: code"."""
        file = frame.f_code.co_filename
        code = linecache.getline(file, number)
        return f"{readable(Path(file).name)} line {number}: {readable(code, 90)}".rstrip(" :")

    def blamed(self):
        """Return (task, words): who gave the task at hand wrong arguments; None: nobody did."""
        found = None
        for (number, given, line), (caller, *_) in zip(self.calls[::-1], self.calls[-2::-1]):
            if not (wrong := misused(number, given)):
                break
            found = caller, f"calls {TASKS[number][0]} with {wrong} ({line})"
        return found

    def returned(self, wrong):
        """Return the TaskError for a result of the task at hand."""
        if blamed := self.blamed():
            return TaskError(*blamed, self.lab)
        if wrong.startswith(("'kl' as", "'clip_frac' as")):  # Task 5 hands on what it was given
            key = wrong.split("'")[1]
            if not is_number(self.stats.get(key, 0.0)):
                return TaskError(4, f"returned stats with {wrong}", self.lab)
        odd = unusual(self.cfg) if "NaN" in wrong or "the loss" in wrong else ""
        hint = f". Or is it {odd}? Try the default" if odd else ""
        return TaskError(self.calls[-1][0], f"returned {wrong}{hint}", self.lab)

    def raised(self, error, function):
        """Return the RunError for an exception of the task at hand."""
        number = self.calls[-1][0]
        frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)
                  if frame.f_globals is not globals()]
        own = [(frame, line) for frame, line in frames if frame.f_globals is self.lab]
        kind, text = type(error).__name__, readable(error, 160)
        where = self.place(*own[-1]) if own else ""
        if out_of_memory(error):
            return RunError(f"Out of memory in Task {number} ({where}): try a smaller --G, "
                            f"--prompts-per-iter or --eval-n. {text}")
        if isinstance(error, NotImplementedError) and own and own[-1] == frames[-1]:
            return TaskError(number, f"is not finished: it still raises at {where}", self.lab)
        if isinstance(error, SystemExit):
            return TaskError(number, f"ends the program at {where}", self.lab)
        if isinstance(error, TypeError) and not frames:
            return self.not_callable_so(number, function, text)
        if blamed := self.blamed():
            return TaskError(blamed[0], f"{blamed[1]}\n{kind}: {text}", self.lab)
        if self.changed and frames and frames[-1] not in own:
            task, name = self.changed[0]
            what = f"changes {name}, which it was given, in place; so {where} fails"
            return TaskError(task, f"{what}\n{kind}: {text}", self.lab)
        if "same device" in text:
            text += ". Create yours (rewards?) on the device of out['ids']"
        if (odd := unusual(self.cfg)) and frames and frames[-1] not in own:
            text += f". Or is it {odd}? Try the default"
        what = f"fails at {where}\n{kind}: {text}" if where else f"raised {kind}: {text}"
        return TaskError(number, what, self.lab)

    def not_callable_so(self, number, function, text):
        """Return the TaskError for a call that does not fit the function's parameters."""
        import inspect

        name, contract = TASKS[number]
        with contextlib.suppress(TypeError, ValueError):
            own = tuple(inspect.signature(function).parameters)
            if own[: len(contract)] != contract:
                what = f"has the parameters ({', '.join(own)}), not ({', '.join(contract)})"
                return TaskError(number, what, self.lab)
        caller = self.calls[-2][0] if len(self.calls) > 1 else number
        return TaskError(caller, f"calls {name} at {self.calls[-1][2]}\nTypeError: {text}",
                         self.lab)


def versions(given):
    """Return how often each tensor was changed in place; inference tensors do not count it."""
    import torch

    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    return {name: t._version for name, t in tensors.items() if not t.is_inference()}


def out_of_memory(error):
    """Return whether an exception says that memory is used up."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(w in str(error).lower() for w in words))


def stop_if_nan(s, policy, cfg, it):
    """Raise a FloatingPointError that names the iteration and the likely setting.

    Args:
        s: the statistics of an iteration.
        policy: the model after it.
        cfg: the GRPOConfig.
        it: number of the iteration.
    """
    import torch

    numbers = {k: v for k, v in s.items() if is_number(v)}
    sums = [p.data.sum() for p in policy.parameters()]
    if torch.tensor([*numbers.values(), *sums]).isfinite().all():
        return
    what = [f"{k} = {v}" for k, v in numbers.items() if not math.isfinite(v)]
    if not torch.tensor(sums).isfinite().all():
        what.append("weights of the policy")
    odd = unusual(cfg)
    why = f"{odd}: try the default" if odd else (
        "a mistake in tasks 2-5: run their tests, python -m pytest -q")
    raise FloatingPointError(
        f"iteration {it}: NaN or infinity ({', '.join(what)}). Likely {why}.")


# ============================================================== files

DATA = ("history.json", "config.json", "policy.pt")  # of one state of a run, always together
CURVES = "curves.png"
LITTER = {".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints"}
TEMPORARY = re.compile(r"(?:history\.json|config\.json|policy\.pt|curves\.png|probe)\.\d+\.tmp")
ROOM = 1_000_000  # bytes that a run needs, with both states while one takes the other's place


def why(error):
    """Return what an OSError says, without the path that is named already."""
    return readable(getattr(error, "strerror", None) or error)


class Folder:
    """The folder of one run. It may be entered once: `with Folder("runs/seed0") as folder`.

    An earlier run in it is renamed to NAME.earlier-N; a folder with other things is refused. As
    long as it is entered, no other run can have it. If nothing was saved, all is as before.

    Args:
        path: where; its parents are made.
        fresh: False for a run that goes on in its own folder: nothing in it is moved.

    Raises:
        RunError: when entered: the folder cannot be had, in one line that says why.
    """

    def __init__(self, path, fresh=True):
        self.path, self.fresh = Path(os.path.expanduser(path)), fresh
        self.shown = readable(self.path, 500)
        self.lock = self.earlier = None
        self.made = []  # folders that were not there before
        self.there = []  # files of this run
        self.saved_at = None  # iterations that the data files know of
        self.failed = ""  # why the last save of the data files failed
        self.no_curves = ""  # why there are no curves
        self.stopped = False  # by Ctrl-C

    def __fspath__(self):
        return str(self.path)

    def __enter__(self):
        try:
            self.path = self.path.resolve()  # a link stays one; what it leads to is renamed
            self._lock()
            self._take()
            self._probe()
        except RunError:
            self.__exit__()
            raise
        except (OSError, ValueError) as error:
            self.__exit__()
            raise RunError(f"cannot save in {self.shown}: {why(error)}. Nothing was begun; give "
                           "another folder (--out NAME)") from error
        return self

    def _lock(self):
        """Keep other runs out, where the file system can do that."""
        from filelock import FileLock, Timeout

        parent = self.path.parent
        for path in (self.path, *self.path.parents):
            if path.exists() and not path.is_dir():
                what = "it" if path == self.path else readable(path, 500)
                raise OSError(errno.ENOTDIR, f"{what} is a file, not a folder")
        missing = [p for p in self.path.parents if not p.exists()]
        parent.mkdir(parents=True, exist_ok=True)
        self.made = missing
        lock = FileLock(parent / f".{self.path.name}.lock", timeout=0)
        try:
            lock.acquire()
            self.lock = lock
        except Timeout:  # also what filelock says where it cannot write
            if os.access(lock.lock_file, os.W_OK):
                raise RunError(f"another run is writing to {self.shown} now; give this one another "
                               "folder (--out NAME)") from None
        except (OSError, NotImplementedError):
            pass

    def _take(self):
        """Make the folder; rename the one that is there if it holds a run."""
        if self.path.is_dir():
            names = {p.name for p in self.path.iterdir()}
            names = {n for n in names if n not in LITTER and not TEMPORARY.fullmatch(n)}
            if not self.fresh or not names:
                return
            if "history.json" not in names:
                shown = readable(", ".join(sorted(names)[:2]), 80)
                more = f" and {len(names) - 2} more" if len(names) > 2 else ""
                raise RunError(f"{self.shown} holds what is no training run ({shown}{more}), and "
                               f"stays as it is; give a new folder, such as --out "
                               f"{readable(self.path.name + '/run1')}")
            if self._in_use():
                raise RunError(f"{self.shown} holds a run, and cannot be renamed: you or the lab "
                               "are in it; give another folder (--out NAME)")
            self._put_aside()
        self.path.mkdir()
        self.made.insert(0, self.path)

    def _in_use(self):
        """Return whether the folder must not be renamed: work goes on in it, or it is a disk."""
        inside = [Path.cwd(), TOP, Path.home()]
        return os.path.ismount(self.path) or any(
            p == self.path or self.path in p.parents for p in inside)

    def _put_aside(self):
        """Rename the folder to NAME.earlier-N, behind all there are."""
        pattern = re.compile(re.escape(self.path.name) + r"\.earlier-(\d+)")
        found = [pattern.fullmatch(p.name) for p in self.path.parent.iterdir()]
        number = 1 + max((int(match[1]) for match in found if match), default=0)
        earlier = self.path.with_name(f"{self.path.name}.earlier-{number}")
        self.path.rename(earlier)
        self.earlier = earlier
        say(f"{self.shown} held an earlier run: it is {self.shown}.earlier-{number} now")

    def _probe(self):
        """Raise an OSError if nothing, or not enough, can be written."""
        probe = self.path / f"probe.{os.getpid()}.tmp"
        try:
            probe.write_bytes(bytes(ROOM))
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)

    def save(self, files, at=None):
        """Write some files, all of them or none; return whether that went well.

        Args:
            files: dict from names to bytes.
            at: the iterations that they know of.
        """
        temporary = {n: self.path / f"{n}.{os.getpid()}.tmp" for n in files}
        replaced = []
        try:
            for name, data in files.items():
                temporary[name].write_bytes(data)
            for name in files:
                os.replace(temporary[name], self.path / name)
                replaced.append(name)
        except OSError as error:
            self.failed = why(error)
            if replaced:  # someone has one of them open, on Windows
                self.failed += (f"; {', '.join(replaced)} are of iteration {at}, "
                                f"{', '.join(n for n in files if n not in replaced)} are older")
            say(f"cannot save in {self.shown}: {self.failed}. What was saved before is whole."
                if not replaced else f"cannot save all of {self.shown}: {self.failed}")
            return False
        finally:
            self.there += [n for n in replaced if n not in self.there]
            for path in temporary.values():
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        if at is not None:
            self.failed, self.saved_at = "", at
        return True

    def report(self):
        """Return one line: what is there now, and what is not."""
        if not self.there:
            because = f": {self.failed}" if self.failed else ""
            again = self.earlier and self.earlier == self.path
            back = f"; {self.shown} is the earlier run again" if again else ""
            return f"Nothing was saved in {self.shown}{because}{back}"
        names = [n for n in (CURVES, *DATA) if n in self.there]
        line = f"{self.shown}: {', '.join(names)}"
        if self.failed:
            line += f", as after iteration {self.saved_at}; the rest is NOT saved ({self.failed})"
        if self.no_curves:
            line += f"; NO {CURVES} ({self.no_curves})"
        return line

    def __exit__(self, *_):
        if not self.there:
            self._give_back()
        if self.lock:
            path = Path(self.lock.lock_file)
            with contextlib.suppress(OSError):  # first, or another run's would go; not on Windows
                path.unlink(missing_ok=True)
            self.lock.release()
            self.lock = None
            if os.name == "nt":
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        if not self.there:
            self._remove(self.made)

    def _give_back(self):
        """Let the folder be as it was before."""
        self._remove([p for p in self.made if p == self.path])
        if self.earlier:
            with contextlib.suppress(OSError):
                self.earlier.rename(self.path)
                self.earlier = self.path

    @staticmethod
    def _remove(folders):
        """Remove empty folders, the innermost first."""
        for folder in folders:
            with contextlib.suppress(OSError):
                folder.rmdir()


asked_to_stop = []  # not empty once Ctrl-C was pressed while the command runs


def note_ctrl_c(*_):
    """Handle SIGINT while the command runs."""
    asked_to_stop.append(True)
    raise KeyboardInterrupt


@contextlib.contextmanager
def noticing():
    """Keep in mind that Ctrl-C was pressed: imports of other libraries may swallow it."""
    asked_to_stop.clear()
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, note_ctrl_c)
    try:
        yield
    finally:
        asked_to_stop.clear()
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


@contextlib.contextmanager
def uninterrupted():
    """Let Ctrl-C wait for the end of the block; gives a list that then is not empty."""
    asked = []
    if threading.current_thread() is not threading.main_thread():
        yield asked  # Ctrl-C comes to the main thread alone
        return
    before = signal.signal(signal.SIGINT, lambda *_: asked.append(True))
    try:
        yield asked
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


# ============================================================== a run


class unwatched:
    """`with unwatched():` the five functions are not watched: they are wrong on purpose."""

    now = 0

    def __enter__(self):
        unwatched.now += 1

    def __exit__(self, *_):
        unwatched.now -= 1


class Run:
    """What train_grpo enters: it watches the tasks, saves, and makes Ctrl-C a normal end.

    Args:
        lab: the lab file's names.
        cfg: the GRPOConfig.
        policy: the model that is trained.
        hist: the history, a dict of lists that the loop fills.
        out_dir: where the run is saved, a path or a Folder; None: nowhere.
        fresh: False if the run goes on in a folder of its own.
        watch: False leaves the five functions as they are.

    Raises:
        RunError: the folder cannot be had; a TaskError: a task is not written, or wrong.
    """

    def __init__(self, lab, cfg, policy, hist, out_dir=None, fresh=True, watch=True):
        self.lab, self.cfg, self.policy, self.hist = lab, cfg, policy, hist
        self.stack = contextlib.ExitStack()
        self.guard = Guard(lab, cfg) if watch and not unwatched.now else contextlib.nullcontext()
        self.own = out_dir is not None and not isinstance(out_dir, Folder)
        self.folder = Folder(out_dir, fresh) if self.own else out_dir
        self.start = time.time()

    def __enter__(self):
        if self.own:
            self.stack.enter_context(self.folder)
        try:
            self.guard.__enter__()
        except BaseException:
            self.stack.close()
            raise
        return self

    def progress(self, steps, shown=True):
        """Return the steps, with a progress bar on a terminal that is gone at the end."""
        from tqdm import tqdm

        return tqdm(steps, leave=False, disable=None if shown else True)

    def print(self, text):
        """Print a line above the progress bar."""
        say(text)

    def check(self, s, it):
        """Raise a FloatingPointError if an iteration left NaN behind."""
        if asked_to_stop:  # and somebody's `except:` has eaten the KeyboardInterrupt
            raise KeyboardInterrupt
        stop_if_nan(s, self.policy, self.cfg, it)

    def save(self):
        """Write history.json, config.json and policy.pt."""
        if self.folder is None:
            return
        with uninterrupted() as asked:
            self._save()
        if asked:
            signal.raise_signal(signal.SIGINT)

    def _save(self):
        import torch

        self._trim()
        about = {"schema": 1, "lab_version": self.lab.get("LAB_VERSION"),
                 "torch": torch.__version__, "seconds": round(time.time() - self.start, 1),
                 "device": str(next(iter(self.policy.parameters())).device)}
        weights = io.BytesIO()
        torch.save(self.policy.state_dict(), weights)
        parts = (self.hist, vars(self.cfg))
        content = [json.dumps(about | part, default=float).encode() for part in parts]
        files = dict(zip(DATA, [*content, weights.getvalue()]))
        return self.folder.save(files, len(self.hist["loss"]))

    def _trim(self):
        """Cut the lists to one length: Ctrl-C may have come while they were filled."""
        for keys in (STATS, ("eval_iter", "acc_sampled", "acc_greedy")):
            size = min(len(self.hist[key]) for key in keys)
            for key in keys:
                del self.hist[key][size:]

    def _draw(self):
        """Write curves.png; without it the run is whole all the same."""
        picture = io.BytesIO()
        try:
            plot_curves(self.hist).savefig(picture)
        except KeyboardInterrupt:
            self.folder.no_curves, self.folder.stopped = "stopped by Ctrl-C", True
        except ImportError as error:
            package = (error.name or "matplotlib").partition(".")[0]
            self.folder.no_curves = (f"{readable(package)} is missing: python -m pip install "
                                     f"{readable(package)}")
        except Exception as error:
            self.folder.no_curves = readable(f"{type(error).__name__}: {error}")
        else:
            if not self.folder.save({CURVES: picture.getvalue()}):
                self.folder.no_curves, self.folder.failed = self.folder.failed, ""
            return
        say(f"{CURVES} is not drawn ({self.folder.no_curves}); the rest is saved")

    def __exit__(self, kind, error, _):
        stopped = kind is not None and issubclass(kind, KeyboardInterrupt)
        with self.stack:
            with uninterrupted() as asked:
                saved = self._end(stopped, kind is None)
            if asked and self.folder is not None:
                self.folder.stopped, self.folder.no_curves = True, "stopped by Ctrl-C"
            elif saved:
                self._draw()
        return stopped

    def _end(self, stopped, whole):
        """Put the five functions back and save; return whether that went well."""
        self.guard.__exit__(None, None, None)
        self._trim()
        done, measured = len(self.hist["loss"]), self.hist["eval_iter"]
        if stopped:
            kept = "what was measured is kept" if measured else "nothing was measured yet"
            say(f"Stopped by Ctrl-C after {done} iterations; {kept}.")
        if self.folder is None:
            return False
        self.folder.stopped = stopped
        # A mistake in the very first iteration does not take the place of an earlier run.
        return bool(done or (measured and (stopped or whole))) and self._save()


# ============================================================== after it


def plot_curves(hist):
    """Return a matplotlib Figure: accuracy and five other curves over the iterations."""
    from matplotlib.figure import Figure

    titles = {"reward": "mean reward of the samples", "entropy": "entropy (nats per token)",
              "kl": "KL to the SFT model (k3)", "clip_frac": "fraction of tokens clipped",
              "frac_zero_signal": "fraction of zero-signal groups"}
    figure = Figure(figsize=(12, 6.5), layout="constrained")
    first, *others = figure.subplots(2, 3).flat
    first.plot(hist["eval_iter"], hist["acc_sampled"], "o-", color="#0072B2", ms=3, label="sampled")
    first.plot(hist["eval_iter"], hist["acc_greedy"], "s--", color="#D55E00", ms=3, label="greedy")
    first.set(title="accuracy on held-out sums", xlabel="iteration", ylim=(0, 1.02))
    first.legend(loc="lower right")
    for panel, (key, title) in zip(others, titles.items()):
        panel.plot(range(1, len(hist[key]) + 1), hist[key], color="#0072B2", lw=1)
        panel.set(title=title, xlabel="iteration")
    return figure


def verdict(cfg, hist):
    """Return one line: is the accuracy curve where it should be and, if not, what to read."""
    sampled = hist["acc_sampled"] or [float("nan")]  # Ctrl-C may come before the first
    start, end = sampled[0], sampled[-1]
    what = "no band is known for these settings; read chapter.md section 7"
    if len(hist["loss"]) == 300 and cfg == type(cfg)(seed=cfg.seed, eval_every=cfg.eval_every):
        bad = "expected 0.35 to 0.60, then 0.84 or more; read chapter.md section 7"
        what = "as it should be" if 0.35 <= start <= 0.60 and end >= 0.84 else bad
    return f"sampled accuracy {start:.3f} -> {end:.3f}: {what}"


# ============================================================== where results come from


def machine():
    """Return the processor's name and the number of cores."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def commit():
    """Return the commit that is checked out, with a + if files were changed since."""
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=TOP, capture_output=True, text=True, check=False
        ).stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def about(command):
    """Return what every JSON of results says of its origin.

    quiet: whether the machine had at least one idle core, without which seconds mean little.
    """
    import torch

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {"command": command, "commit": commit(), "machine": machine(),
            "torch": torch.__version__, "threads": torch.get_num_threads(),
            "quiet": load < (os.cpu_count() or 1)}


def short(value, digits=4):
    """Return a float with so many significant digits; anything else as it is."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def read_json(path):
    """Return what a JSON file holds."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_json(path, content):
    """Write a JSON file by way of a temporary name; a run or a list of numbers per line."""
    import tinylm

    text = json.dumps(content, separators=(",", ":")).replace('],"', '],\n"')
    data = text.replace('{"seed":', '\n{"seed":').encode() + b"\n"
    tinylm.write_file(path, lambda file: file.write(data))


def mean(values):
    """Return the arithmetic mean."""
    return sum(values) / len(values)


# ============================================================== the command

FLAGS = {"device": "cpu, cuda or mps", "threads": "CPU threads, 1 to 1024; more are slower on most",
         "out": "folder for the results (default: runs/seedN)"}
EPILOG = """\
results:
  The folder gets history.json (all curves), config.json (the settings), policy.pt (the weights) and
  curves.png. An earlier run in it is renamed to NAME.earlier-1 (-2, ...): nothing is overwritten.
  Ctrl-C ends a run early and keeps what was measured.

exit code:
  0 all is saved; 1 a mistake in a task, or not all is saved; 2 a wrong flag; 130 Ctrl-C

examples:
  python lab15_grpo.py                                 about 15 seconds, into runs/seed0
  python lab15_grpo.py --seed 1 --lr 1e-3 --out runs/fast
  python lab15_grpo.py --no-scale-std --out runs/nostd
"""


class UsageError(RunError):
    """A flag that is not there, or a value that it does not take."""


class Parser(argparse.ArgumentParser):
    """Reports in one line what is wrong with the flags."""

    def error(self, message):
        """Raise a UsageError."""
        found = re.fullmatch(r"argument (?:--\S+, )?(--[^\s/]+)\S*: (.*)", message, re.DOTALL)
        if not found:
            raise UsageError(readable(message))
        flag, what = found.groups()
        name = flag.removeprefix("--").removeprefix("no-")
        if "ignored explicit argument" in what:
            raise UsageError(f"--{name} takes no value; the opposite is --no-{name}")
        if "expected one argument" in what:
            raise UsageError(f"{flag} needs a value: {self.range_of(name)}")
        raise UsageError(readable(f"{flag}: {what}"))

    def range_of(self, flag):
        """Return in words what a flag takes."""
        for action in self._actions:
            if action.dest == flag.replace("-", "_") and action.dest in SETTINGS:
                return allowed(action.dest, type(action.default))
        return FLAGS.get(flag, "see --help")

    def flags(self):
        """Return the names of all flags."""
        return [name for action in self._actions for name in action.option_strings]


def parser_of(settings):
    """Return the Parser of the command.

    Args:
        settings: dict from the fields of GRPOConfig to their defaults.
    """
    width = {"width": 96, "max_help_position": 26}
    parser = Parser(
        prog=f"python {readable(Path(sys.argv[0]).name)}", usage="%(prog)s [flags]", epilog=EPILOG,
        description="Train TinyLM with the five functions of this file.", allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, **width))
    for name, value in settings.items():
        kind, flag = type(value), "--" + name.replace("_", "-")
        meaning = SETTINGS[name][1] if name in SETTINGS else "a setting of your own"
        if kind is bool:
            words = f"{meaning} (default: {'yes' if value else 'no'})"
            parser.add_argument(flag, default=value, help=words,
                                action=argparse.BooleanOptionalAction)
        else:
            words = f"{meaning}; {allowed(name, kind)} (default: {value})"
            parser.add_argument(flag, default=value, type=value_of(name, kind, flag),
                                metavar="N" if kind is int else "X",
                                help=words.replace("%", "%%"))
    parser.add_argument("--device", default="cpu", help=FLAGS["device"] + " (default: cpu)")
    parser.add_argument("--threads", default=1, type=threads, metavar="N",
                        help=FLAGS["threads"] + " (default: 1)")
    parser.add_argument("--out", metavar="FOLDER", help=FLAGS["out"])
    return parser


def value_of(name, kind, flag):
    """Return a function that reads a flag's value, and raises a UsageError for a wrong one."""
    def read(text):
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            value = None
        if instead := not_allowed(name, value, kind):
            raise UsageError(f"{flag} {readable(text, 60)} is not allowed; give {instead}")
        return value

    return read


def threads(text):
    """Return the number of threads."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise UsageError(f"--threads {readable(text, 60)} is not allowed; give 1 to 1024")
    return int(text)


def parsed(settings, args):
    """Return the flags as a dict.

    Args:
        settings: dict from the fields of GRPOConfig to their defaults.
        args: the words of the command line.

    Raises:
        UsageError: one of them is wrong.
    """
    parser, words = parser_of(settings), []
    for word in args:
        if word.startswith("--"):  # --prompts_per_iter is the name that GRPOConfig has
            name, equals, value = word.partition("=")
            word = name.replace("_", "-") + equals + value
        words.append(word)
    flags, unknown = parser.parse_known_args(words)
    if unknown:
        name, known = unknown[0].partition("=")[0], parser.flags()
        lower = {flag.lower(): flag for flag in known}
        close = difflib.get_close_matches(name.lower(), lower, 1)
        hint = f"did you mean {lower[close[0]]}? " if close else ""
        what = "there is no flag" if name.startswith("-") else "no flag takes the word"
        raise UsageError(f"{what} {readable(name, 60)}; {hint}--help lists all")
    if flags.out is not None and not flags.out.strip():
        raise UsageError("--out needs the name of a folder, such as --out runs/first")
    return vars(flags)


def check_device(name):
    """Raise a UsageError if there is no such device."""
    import torch

    try:
        torch.zeros(1, device=name).item()
    except Exception as error:  # PyTorch raises what it likes here
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"--device {readable(name, 60)} cannot be used here: "
                         f"{readable(text[0], 120).rstrip('.')}. Leave it out for the CPU"
                         ) from None


def main(lab, args=None):
    """Run the command; raise SystemExit unless all went well.

    Args:
        lab: the lab file's globals().
        args: the words of the command line; None: those of this process.
    """
    if code := command(lab, sys.argv[1:] if args is None else args):
        sys.exit(code)


def command(lab, args):
    """Train and report where the results are; return the exit code: 0, 1, 2 or 130."""
    try:
        with noticing(), warnings.catch_warnings():
            warnings.showwarning = one_line_warning
            flags = parsed(vars(lab["GRPOConfig"]()), args)
            device, count, out = (flags.pop(name) for name in ("device", "threads", "out"))
            cfg = lab["GRPOConfig"](**flags)
            if error := next_task(lab):
                raise error
            prepare(device, count)
            return train(lab, cfg, device, Folder(out or f"runs/seed{cfg.seed}"))
    except KeyboardInterrupt:
        say("Stopped by Ctrl-C.")
        return STOPPED
    except UsageError as error:
        say(str(error), sys.stderr)
        return 2
    except (RunError, ValueError) as error:
        say(str(error), sys.stderr)
        return 1


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    """Show a warning in one line; stands in for warnings.showwarning."""
    say(f"warning: {readable(message)} ({readable(Path(filename).name)} line {lineno})", sys.stderr)


def prepare(device, count):
    """Set the threads and try the device; report that the SFT model is trained first, if it is."""
    import torch

    import tinylm

    torch.set_num_threads(count)
    check_device(device)
    if not Path(tinylm.__file__).with_name("tinylm_sft.pt").is_file():
        say("The SFT model is trained first, once (tinylm_sft.pt).")


def train(lab, cfg, device, folder):
    """Train and report how it went; return the exit code.

    Args:
        lab: the lab file's names.
        cfg: the GRPOConfig.
        device: where to train.
        folder: the Folder of the results, not entered yet.

    Raises:
        RunError: the folder cannot be had.
    """
    hist, wrong = None, None
    with folder:
        try:
            _, hist = lab["train_grpo"](cfg, device=device, out_dir=folder)
        except KeyboardInterrupt:  # before the loop, or a second one after it
            folder.stopped = True
        except (RunError, FloatingPointError) as error:
            wrong = str(error)
        except Exception as error:
            wrong = unexpected(error, lab)
    if wrong:
        say(wrong, sys.stderr)
    stopped = "Stopped by Ctrl-C. " if folder.stopped and hist is None else ""
    say(stopped + folder.report())
    if hist and hist["acc_sampled"]:
        say(verdict(cfg, hist))
    if folder.stopped:
        return STOPPED
    return 1 if wrong or folder.failed or folder.no_curves or not folder.there else 0


def unexpected(error, lab):
    """Return two lines about an exception that comes from neither the tasks nor the files."""
    frames = list(traceback.walk_tb(error.__traceback__))
    own = [frame for frame in frames if frame[0].f_globals is lab] or frames
    frame, number = own[-1]
    code = readable(linecache.getline(frame.f_code.co_filename, number), 90)
    return (f"The training stopped at {readable(Path(frame.f_code.co_filename).name)} line "
            f"{number}: {code}\n{type(error).__name__}: {readable(error)}. "
            "Is the part below Task 5 as it was given?")


# ============================================================== while the lab file is loaded


def leave_at_once(*_):
    """Handle SIGINT while PyTorch is imported, which may swallow a KeyboardInterrupt or crash."""
    os.write(2, b"Stopped by Ctrl-C.\n")
    os._exit(STOPPED)


def hook(kind, error, trace):
    """Stand in for sys.excepthook: a package that is not there is one line."""
    if issubclass(kind, ModuleNotFoundError) and error.name in ("torch", "numpy", "tqdm"):
        sys.stderr.write(f"{error.name} is not installed in this Python ({sys.executable}): "
                         "python -m pip install -r requirements.txt, or activate .venv first\n")
    else:
        sys.__excepthook__(kind, error, trace)


def started_as_script():
    """Return whether this module is being imported by a lab file that was started."""
    frame = sys._getframe(1)
    while frame and (frame.f_globals is globals() or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    # The names that the file's own statements use: a lab file is one that defines train_grpo.
    return (frame is not None and frame.f_globals.get("__name__") == "__main__"
            and "train_grpo" in frame.f_code.co_names)


if started_as_script():
    sys.excepthook = hook
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave_at_once)
