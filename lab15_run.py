"""Run a training: the flags of `python lab15_grpo.py`, checks, saving, curves.

lab15_grpo.py, your file, uses this module; your five functions do not. Read it if you are curious:

    settings     what GRPOConfig accepts
    tasks        turns a mistake in one of the five functions into a line that names the task
    files        the folder of a run, in which nothing is overwritten
    Ctrl-C       waits while files are written
    a run        what train_grpo enters: the watch on the tasks, the progress bar, saving, Ctrl-C
    curves       the figure, and whether the accuracy is as it should be
    results      the commit and the machine that a JSON file of results comes from
    the command  python lab15_grpo.py --help

Only the standard library is imported at the top; PyTorch, tqdm, filelock and matplotlib are
imported where they are needed. A parameter called `lab` is the namespace of a lab file: its
globals(), or vars() of the loaded module.
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
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
import warnings
from pathlib import Path
from typing import NamedTuple

TOP = Path(__file__).resolve().parent
STOPPED = 130  # exit code after Ctrl-C, as in a shell


class RunError(RuntimeError):
    """End a run with one or two lines that a student can act on."""

    def _render_traceback_(self):  # what a notebook shows of it
        return str(self).splitlines()


def readable(value, limit=200):
    """Return a text, an exception or a path as one printable line.

    Bytes of a file name that are UTF-8 after all become characters; what is not printable becomes
    an escape, "x1b" after a backslash. say() escapes what the terminal's encoding lacks.
    """
    try:
        text = str(value)
    except Exception:  # a student's own exception class may fail at anything
        text = type(value).__name__
    with contextlib.suppress(UnicodeEncodeError):
        text = text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    text = " ".join(text.split())
    text = "".join(c if c.isprintable() else ascii(c)[1:-1] for c in text)
    return text if len(text) <= limit else text[: limit - 3] + "..."


def counted(n, noun):
    """Return a number with its noun: "1 run", "20 runs", "0.5 points"."""
    number = f"{n:g}" if isinstance(n, float) else str(n)
    return f"{number} {noun}{'s' * (n != 1)}"


def say(text, stream=None):
    """Print a text, above the progress bar if there is one; a closed pipe is no error."""
    stream = stream or sys.stdout
    encoding = getattr(stream, "encoding", None) or "utf-8"
    text = text.encode(encoding, "backslashreplace").decode(encoding)
    try:
        if "tqdm" in sys.modules:
            sys.modules["tqdm"].tqdm.write(text, file=stream)
        else:
            print(text, file=stream)
        stream.flush()
    except OSError as error:  # training continues
        _into_nothing(stream, error)


def _into_nothing(stream, error):
    """Drop what follows on a stream whose reader has left; raise any other error of writing."""
    windows = os.name == "nt" and error.errno == errno.EINVAL
    if not (isinstance(error, BrokenPipeError) or windows):
        raise error
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


class _Pipe(io.FileIO):
    """A standard stream whose reader may leave early."""

    def write(self, data):
        """Write, or drop the data if the reader has left."""
        try:
            return super().write(data)
        except OSError as error:
            _into_nothing(self, error)
            return len(data)


def piped(main):
    """Return what the main() of a command returns; a reader that leaves early is no error.

    `| head` closes the pipe when it has read enough. The command then finishes its work
    without output, and its exit code is that of the work.
    """
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        with contextlib.suppress(AttributeError, OSError, ValueError):  # not a file, or closed
            if stream.isatty():
                continue
            raw = _Pipe(stream.fileno(), "w", closefd=False)
            buffered = isinstance(stream.buffer, io.BufferedWriter)  # not with python -u
            setattr(sys, name, io.TextIOWrapper(
                io.BufferedWriter(raw) if buffered else raw, stream.encoding, stream.errors,
                line_buffering=stream.line_buffering, write_through=stream.write_through))
    return main()


# ============================================================== settings

# For each setting: its smallest value (None: it must be above 0), and its meaning.
SETTINGS = {
    "iters": (0, "iterations; each samples a batch and learns from it"),
    "prompts_per_iter": (None, "prompts per iteration, P"),
    "G": (2, "group size: responses per prompt"),
    "inner_steps": (None, "gradient steps on each batch"),
    "lr": (None, "learning rate of Adam"),
    "clip_eps": (None, "clip range: ratios from 1 - eps to 1 + eps count in full"),
    "beta": (0, "weight of the KL to the SFT model; 0 switches it off"),
    "temperature": (None, "sampling temperature"),
    "scale_std": (False, "divide advantages by the group's standard deviation"),
    "max_grad_norm": (None, "largest gradient norm; longer gradients are scaled down"),
    "eval_every": (None, "iterations between two evaluations (and saves)"),
    "eval_n": (None, "held-out sums in an evaluation"),
    "seed": (0, "seed of prompts and samples: same seed, same run"),
}
LARGEST = 2**63 - 1  # the largest seed that PyTorch accepts
# Settings that can break a run: an unusual one is named before a task is blamed.
STRONG = ("lr", "max_grad_norm", "temperature", "inner_steps", "clip_eps", "beta")


def allowed(name, kind):
    """Return in words which values a setting accepts; kind is the type of its default."""
    if kind is bool:
        return "True or False"
    if kind not in (int, float):
        return f"a {kind.__name__}"
    low = SETTINGS.get(name, (None,))[0]
    number = "a whole number" if kind is int else "a finite number"
    return f"{number} above 0" if low is None else f"{number} of {low} or more"


def not_allowed(name, value, kind):
    """Return what to give instead of a value that a setting does not accept, or None.

    Args:
        name: the setting.
        value: the value that was given.
        kind: type of the default: bool, int or float, or that of a setting the student added.
    """
    if not (type(value) is kind or (kind is float and type(value) is int)):
        return allowed(name, kind)
    if kind not in (int, float):
        return None
    if kind is int and value > LARGEST:
        return f"a whole number up to {LARGEST}"
    low = SETTINGS.get(name, (None,))[0]
    fits = value > 0 if low is None else value >= low  # False for NaN
    return None if fits and value != math.inf else allowed(name, kind)


def check_settings(cfg):
    """Raise a ValueError that names the first setting of a GRPOConfig that is not allowed."""
    for name, value in vars(cfg).items():
        if instead := not_allowed(name, value, type(getattr(type(cfg), name, value))):
            raise ValueError(f"GRPOConfig: {name} = {value!r} is not allowed; give {instead}")


def unusual(cfg):
    """Return the strong settings that differ from their defaults, as "lr=0.1, beta=0", or ""."""
    found = {name: getattr(cfg, name, None) for name in STRONG}
    return ", ".join(f"{name}={value}" for name, value in found.items()
                     if value != getattr(type(cfg), name, value))


# ============================================================== tasks

# The parameters of each task, with what must hold for those that one task hands to another.
TASKS = {
    1: ("sample_group", {"model": None, "prompts": list, "answers": list, "G": int,
                         "temperature": None}),
    2: ("group_advantages", {"rewards": "tensor", "G": int, "scale_std": None, "eps": None}),
    3: ("k3_kl", {"logp": "tensor", "ref_logp": "(B, T)"}),
    4: ("grpo_loss", {"logp": "tensor", "old_logp": "(B, T)", "ref_logp": "(B, T)", "adv": "(B,)",
                      "mask": "(B, T)", "clip_eps": None, "beta": None}),
    5: ("grpo_step", dict.fromkeys(("policy", "ref", "opt", "prompts", "answers", "cfg"))),
}
STATS = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")
EVALS = ("eval_iter", "acc_sampled", "acc_greedy")
FAR = 60  # log-probs further apart may well overflow: exp(60) is 1e26


def test_command(task, lab):
    """Return the command that runs a task's tests on a lab file."""
    command = f"python -m pytest -q -k task{task}"
    path = Path(lab.get("__file__") or TOP / "lab15_grpo.py").resolve()
    if path != TOP / "lab15_grpo.py":
        shown = readable(path.relative_to(TOP) if path.is_relative_to(TOP) else path, 500)
        quote = '"' if re.search(r"[^\w./\\:~+-]", shown) else ""
        command += f" --lab={quote}{shown}{quote}"
    return command if Path.cwd() == TOP else f"{command} (in {readable(TOP, 500)})"


class TaskError(RunError):
    """Report a mistake in one of the five functions, found while they train.

    Args:
        task: its number.
        what: what is wrong, as the words after "Task 3, k3_kl, ".
        lab: the lab file's namespace.
    """

    def __init__(self, task, what, lab):
        self.task = task
        end = "" if what.endswith((".", "?")) else "."
        super().__init__(
            f"Task {task}, {TASKS[task][0]}, {what}{end} Test: {test_command(task, lab)}")


def next_task(lab):
    """Return a TaskError for the first task that is missing or not written yet, or None."""
    file = readable(Path(lab.get("__file__") or "lab15_grpo.py").name)
    for number, (name, _) in TASKS.items():
        function = lab.get(name)
        if function is None:
            return TaskError(number, f"is missing: {file} has no function of that name", lab)
        if not callable(function):
            kind = type(function).__name__
            return TaskError(number, f"is not a function: in {file} the name is a {kind}", lab)
        if is_stub(function):
            line = function.__code__.co_firstlineno
            return TaskError(number, f"comes next: it is not written yet ({file} line {line})", lab)
    return None


def is_stub(function):
    """Return whether a function only raises NotImplementedError, without calling it."""
    import dis

    code = getattr(function, "__code__", None)
    if code is None or "NotImplementedError" not in code.co_names:
        return False
    # Whatever else a function does, it first loads a name, an argument or a number for it.
    loads = [step for step in dis.get_instructions(code) if step.opname.startswith("LOAD_")]
    return loads[0].argval == "NotImplementedError"


def is_number(value):
    """Return whether a statistic is a real number: Python's or numpy's, not a bool or a tensor."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def kind_of(value):
    """Return "None" for None, else "a list", "an int"."""
    name = type(value).__name__
    return "None" if value is None else f"a{'n' * (name[0] in 'aeiou')} {name}"


def no_tensor(value, shape):
    """Return what is wrong with a value that should be a tensor of a shape, or None."""
    import torch

    if not isinstance(value, torch.Tensor):
        return f"{kind_of(value)}, not a tensor of shape {tuple(shape)}"
    if value.shape != shape:
        return f"a tensor of shape {tuple(value.shape)}, not {tuple(shape)}"
    return None


def without(found, keys):
    """Return "without kl (but with 'KL')" for a dict that lacks keys; "" if it has all."""
    missing = ", ".join(key for key in keys if key not in found)
    others = ", ".join(repr(key) for key in found if key not in keys)
    return missing and f"without {missing}" + (f" (but with {others})" if others else "")


def finite(*tensors):
    """Return whether no entry is NaN or infinite."""
    return all(bool(t.isfinite().all()) for t in tensors)


def near(logp, *others):
    """Return whether all log-probs are finite and so near that their ratios cannot overflow."""
    return finite(logp, *others) and all(
        float((other - logp).detach().abs().max()) < FAR for other in others)


# Each of these returns what is wrong with the result of a task, or None. `given` has the task's
# arguments by their names.


def wrong_group(result, given):
    """Check the result of Task 1."""
    if not isinstance(result, dict):
        return f"{kind_of(result)}, not a dict"
    if wrong := without(result, ("out", "responses", "rewards")):
        return f"a dict {wrong}"
    B = len(given["prompts"]) * given["G"]
    if wrong := wrong_out(result["out"], B):
        return f"'out' {wrong}"
    responses, rewards = result["responses"], result["rewards"]
    if not isinstance(responses, (list, tuple)) or len(responses) != B:
        size = f" of {len(responses)}" if hasattr(responses, "__len__") else ""
        return f"'responses' as {kind_of(responses)}{size}, not a list of P*G = {B}"
    if wrong := no_tensor(rewards, (B,)):
        return f"'rewards' as {wrong}"
    if not rewards.is_floating_point():
        return f"'rewards' as {rewards.dtype}, not as a float tensor"
    return None


def wrong_out(out, B):
    """Check the dict that Task 1 returns under "out"; B is the number of rows, P*G."""
    import torch

    if not isinstance(out, dict) or without(out, ("ids", "prompt_len", "mask")):
        return f"as {kind_of(out)}, not as the dict that sample returns"
    if len(out["ids"]) != B:
        return f"with {counted(len(out['ids']), 'row')}, not P*G = {B}"
    if out["ids"].shape[1] != out["prompt_len"] + out["mask"].shape[1]:
        return "that is not sample's: its ids are not prompt_len + T wide"
    if out["ids"].is_inference() and not torch.is_inference_mode_enabled():
        return "made in inference_mode, which training cannot use"
    return None


def wrong_advantages(result, given):
    """Check the result of Task 2."""
    wrong = no_tensor(result, given["rewards"].shape)
    if wrong is None and finite(given["rewards"]) and not finite(result):
        return "NaN or infinity for finite rewards"
    return wrong


def wrong_kl(result, given):
    """Check the result of Task 3."""
    wrong = no_tensor(result, given["logp"].shape)
    if wrong is None and near(given["logp"], given["ref_logp"]) and not finite(result):
        return "NaN or infinity for log-probs that are finite and near each other"
    return wrong


def wrong_loss(result, given):
    """Check the result of Task 4."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        return f"{kind_of(result)}, not the pair (loss, stats)"
    loss, stats = result
    one_number = hasattr(loss, "numel") and loss.numel() == 1
    if wrong := no_tensor(loss, loss.shape if one_number else ()):
        return f"a loss that is {wrong}"
    if not isinstance(stats, dict):
        return f"stats that are {kind_of(stats)}, not a dict"
    if wrong := without(stats, ("kl", "clip_frac")):
        return f"stats {wrong}"
    logp, old_logp, ref_logp = (given[name] for name in ("logp", "old_logp", "ref_logp"))
    if logp.requires_grad and not loss.requires_grad:
        return "a loss from which no gradient flows to logp"
    if near(logp, old_logp, ref_logp) and finite(given["adv"]) and not finite(loss):
        return f"the loss {float(loss)} for finite log-probs and advantages"
    return None


def wrong_stats(result, given):
    """Check the result of Task 5."""
    if not isinstance(result, dict):
        return f"{kind_of(result)}, not a dict with {', '.join(STATS)}"
    if wrong := without(result, STATS):
        return f"a dict {wrong}"
    for key in STATS:
        if not is_number(result[key]):
            return f"{key!r} as {kind_of(result[key])}, not as a Python float"
    return None


RESULTS = {1: wrong_group, 2: wrong_advantages, 3: wrong_kl, 4: wrong_loss, 5: wrong_stats}


def misused(number, given):
    """Return which argument breaks a task's contract, and how, or None.

    This is asked only after something went wrong: it decides whether the task or its caller is
    named.
    """
    import torch

    shape = getattr(given.get("logp"), "shape", ())
    shapes = {"(B, T)": shape, "(B,)": shape[:1]}
    for name, wanted in TASKS[number][1].items():
        value, wrong = given.get(name), None
        if isinstance(value, torch.Tensor) and value.is_inference():
            return f"{name} made in inference_mode"
        if wanted in shapes:
            wrong = no_tensor(value, shapes[wanted])
        elif wanted == "tensor" and not isinstance(value, torch.Tensor):
            wrong = f"{kind_of(value)}, not a tensor"
        elif wanted in (list, int) and type(value) is not wanted:
            wrong = f"{kind_of(value)}, not {wanted.__name__}"
        if wrong:
            return f"{name} as {wrong}"
    return misused_rewards(given["rewards"], given["G"]) if number == 2 else None


def misused_rewards(rewards, G):
    """Return why rewards cannot be cut into groups of G, or None."""
    if rewards.dim() != 1:
        return f"rewards as a tensor of shape {tuple(rewards.shape)}, not (P*G,)"
    return f"G = {G} for {counted(len(rewards), 'reward')}" if G < 1 or len(rewards) % G else None


class Call(NamedTuple):
    """A call of one of the five functions that has not returned yet."""

    task: int
    given: dict  # the arguments by their names
    line: str  # the line of the call in the lab file, or ""


class Guard:
    """Watch the five functions while they train; a mistake in one becomes a TaskError.

    Args:
        lab: the lab file's namespace; the five functions in it are replaced for a while.
        cfg: the GRPOConfig; a strong setting in it may be the cause.
    """

    def __init__(self, lab, cfg):
        self.lab, self.cfg, self.kept, self.calls = lab, cfg, {}, []
        self.steps = 0  # calls of opt.step
        self.moved = False  # whether one of them had a gradient
        self.signal = True  # whether the rewards in a group differ, in this iteration
        self.optimizer = None  # the handle of the hook that counts its steps
        self.stats = {}  # what Task 4 returned last
        self.changed = []  # (task, argument) changed in place in this iteration

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
        """Return a task's function that reports exceptions and odd results as TaskErrors."""
        parameters = TASKS[number][1]

        @functools.wraps(function)
        def call(*args, **kwargs):
            given = dict(zip(parameters, args)) | kwargs
            self.calls.append(Call(number, given, self.line_of(sys._getframe(1))))
            try:
                result = self.run(function, args, kwargs)
                if error := self.judged(result):
                    raise error
            finally:
                self.calls.pop()
            return result

        return call

    def run(self, function, args, kwargs):
        """Call the function of the task at hand and return its result.

        Args:
            function: the student's.
            args: by position.
            kwargs: by name.

        Raises:
            RunError: it raised an exception, or left gradients switched on or off.
        """
        import torch

        number, given, _ = self.calls[-1]
        grad, before = torch.is_grad_enabled(), versions(given)
        try:
            if number == 5:
                self.follow(given)
            result = function(*args, **kwargs)
        except RunError:
            raise
        except (Exception, SystemExit) as error:
            raise self.raised(error, function) from error
        finally:
            left = torch.is_grad_enabled()
            torch.set_grad_enabled(grad)
            now = versions(given)
            self.changed += [(number, name) for name in before if now[name] != before[name]]
        if left != grad:
            what = f"leaves gradients switched {'on' if left else 'off'} after it returns"
            raise TaskError(number, what, self.lab)
        return result

    def judged(self, result):
        """Return the TaskError for the result of the task at hand, or None."""
        import torch

        number, given, _ = self.calls[-1]
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                wrong = RESULTS[number](result, given)
        except Exception:  # the arguments have other names: there is nothing to compare with
            return None
        if wrong:
            return self.returned(wrong)
        with contextlib.suppress(Exception):  # as above
            return self.learned(number, result, given)
        return None

    # ------------------------------------------------------------ whether it learns

    def follow(self, given):
        """Start an iteration; count the steps of its optimizer from now on."""
        self.changed = []
        opt = given.get("opt")
        if self.optimizer is None and hasattr(opt, "register_step_pre_hook"):
            self.optimizer = opt.register_step_pre_hook(self.before_step)

    def before_step(self, opt, *_):
        """Count a step; note whether there is a gradient for it, until there was one."""
        self.steps += 1
        if not self.moved:
            found = [p.grad for group in opt.param_groups for p in group["params"]]
            self.moved = any(bool(g.any()) for g in found if g is not None)

    def learned(self, number, result, given):
        """Return a TaskError if an iteration should have taught something and did not.

        Args:
            number: of the task.
            result: what it returned.
            given: its arguments by their names.
        """
        if number == 4:
            self.stats = result[1]
        if number in (1, 2):
            rewards = result["rewards"] if number == 1 else given["rewards"]
            groups = rewards.view(-1, self.cfg.G)
            differ = bool((groups != groups[:, :1]).any())
            self.signal = differ if number == 1 else self.signal
        if self.moved or not self.signal:
            return None
        what = None
        if number == 2 and differ and not result.any():
            what = "returned 0 for every advantage although the rewards in a group differ"
        if number == 4 and no_gradient(result[0], given):
            what = "returned a loss whose gradient to logp is 0"
        if number == 5:
            what = ("never calls opt.step(): nothing is learned" if not self.steps else
                    "calls opt.step() without a gradient: nothing is learned")
        return what and TaskError(number, what, self.lab)

    # ------------------------------------------------------------ whom to name

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
        """Return (task, what) of the caller that gave the task at hand wrong arguments, or None.

        Wrong arguments may come from further out: then that caller is named.
        """
        found = None
        for inner, outer in zip(self.calls[::-1], self.calls[-2::-1]):
            if not (wrong := misused(inner.task, inner.given)):
                break
            found = outer.task, f"calls {TASKS[inner.task][0]} with {wrong} ({inner.line})"
        return found

    def returned(self, wrong):
        """Return the TaskError for a wrong result of the task at hand."""
        if blamed := self.blamed():
            return TaskError(*blamed, self.lab)
        if wrong.startswith(("'kl' as", "'clip_frac' as")):  # Task 5 may pass on Task 4's
            key = wrong.split("'")[1]
            if not is_number(self.stats.get(key, 0.0)):
                return TaskError(4, f"returned stats with {wrong}", self.lab)
        odd = unusual(self.cfg) if "NaN" in wrong or "the loss" in wrong else ""
        hint = f". Or is it {odd}? Try the default" if odd else ""
        return TaskError(self.calls[-1].task, f"returned {wrong}{hint}", self.lab)

    def raised(self, error, function):
        """Return the RunError for an exception in the task at hand."""
        number, text = self.calls[-1].task, readable(error, 160)
        frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__)
                  if frame.f_globals is not globals()]
        own = [(frame, line) for frame, line in frames if frame.f_globals is self.lab]
        where = self.place(*own[-1]) if own else ""
        by_own_line = bool(own) and own[-1] == frames[-1]
        if out_of_memory(error):
            return RunError(f"Out of memory in Task {number} ({where}): try a smaller --G, "
                            f"--prompts-per-iter or --eval-n. {text}")
        if isinstance(error, NotImplementedError) and by_own_line:
            return TaskError(number, f"is not finished: it still raises at {where}", self.lab)
        if isinstance(error, SystemExit):
            return TaskError(number, f"ends the program at {where}", self.lab)
        if isinstance(error, TypeError) and not frames:
            return self.does_not_fit(function, text)
        outside = bool(frames) and not by_own_line  # in PyTorch, say, or in tinylm
        return self.failed(f"{type(error).__name__}: {text}", where, outside)

    def failed(self, what, where, outside):
        """Return the TaskError for an exception that has no form of its own.

        Args:
            what: the exception, in words.
            where: the line of the lab file that led to it, or "".
            outside: whether another file's line raised it.
        """
        if blamed := self.blamed():
            return TaskError(blamed[0], f"{blamed[1]}\n{what}", self.lab)
        if self.changed and outside:
            task, name = self.changed[0]
            cause = f"changes its argument {name} in place; that is why {where} fails"
            return TaskError(task, f"{cause}\n{what}", self.lab)
        if "same device" in what:
            what += ". Create yours (rewards?) on the device of out['ids']"
        if outside and (odd := unusual(self.cfg)):
            what += f". Or is it {odd}? Try the default"
        what = f"fails at {where}\n{what}" if where else f"raised {what}"
        return TaskError(self.calls[-1].task, what, self.lab)

    def does_not_fit(self, function, text):
        """Return the TaskError for a call that does not fit the function's parameters."""
        import inspect

        number, _, line = self.calls[-1]
        name, contract = TASKS[number]
        with contextlib.suppress(TypeError, ValueError):
            own = tuple(inspect.signature(function).parameters)
            if own[: len(contract)] != tuple(contract):
                what = f"has the parameters ({', '.join(own)}), not ({', '.join(contract)})"
                return TaskError(number, what, self.lab)
        caller = self.calls[-2].task if len(self.calls) > 1 else number
        return TaskError(caller, f"calls {name} at {line}\nTypeError: {text}", self.lab)


def versions(given):
    """Return how often each tensor was changed in place; inference tensors do not count it."""
    import torch

    tensors = {name: value for name, value in given.items() if isinstance(value, torch.Tensor)}
    return {name: t._version for name, t in tensors.items() if not t.is_inference()}


def no_gradient(loss, given):
    """Return whether Task 4's loss should have a gradient to logp, and it is 0."""
    import torch

    if given["old_logp"].requires_grad:  # Task 5's mistake: the two gradients cancel
        return False
    if not given["adv"].any() or not near(given["logp"], given["old_logp"]):
        return False
    return not torch.autograd.grad(loss, given["logp"], retain_graph=True)[0].any()


def out_of_memory(error):
    """Return whether an exception means that memory ran out."""
    words = ("out of memory", "can't allocate memory", "not enough memory")
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(w in str(error).lower() for w in words))


def stop_if_nan(s, policy, cfg, it):
    """Stop a run whose numbers are no longer finite.

    Args:
        s: the statistics of an iteration.
        policy: the model after it.
        cfg: the GRPOConfig.
        it: the number of the iteration.

    Raises:
        FloatingPointError: NaN or infinity; names the iteration and the likely setting.
    """
    import torch

    values = {k: v for k, v in s.items() if is_number(v)}
    sums = [p.data.sum() for p in policy.parameters()]
    if torch.tensor([*values.values(), *sums]).isfinite().all():
        return
    what = [f"{k} = {v}" for k, v in values.items() if not math.isfinite(v)]
    if not torch.tensor(sums).isfinite().all():
        what.append("weights of the policy")
    odd = unusual(cfg)
    cause = f"{odd}: try the default" if odd else (
        "a mistake in tasks 2-5: run their tests, python -m pytest -q")
    raise FloatingPointError(
        f"iteration {it}: NaN or infinity ({', '.join(what)}). Likely {cause}.")


# ============================================================== files

DATA = ("history.json", "config.json", "policy.pt")  # of one state of a run, always together
CURVES = "curves.png"
# What a run leaves in its folder, whichever command made it; checkpoint-N is a mark, too.
MARKS = {"history.json", "run.yaml", "training_log.jsonl", "completions.jsonl", "checkpoint.pt",
         "final"}
LITTER = {".DS_Store", "Thumbs.db", "desktop.ini", ".ipynb_checkpoints"}  # and *.tmp, .*.lock
ROOM = 1_000_000  # bytes that a run needs, with both states while one replaces the other


def why(error):
    """Return an OSError's reason without the path, which is named already."""
    return readable(getattr(error, "strerror", None) or error)


class Folder:
    """Hold the folder of one run; to be entered once: `with Folder("runs/seed0") as folder`.

    An earlier run in it is renamed to NAME.earlier-N; a folder with anything else is refused. Other
    runs are kept out until the block ends. If nothing was saved, everything is as it was before.

    Args:
        path: where; its parents are made.
        fresh: False for a run that continues in its own folder: nothing in it is moved.
        flag: how a user chooses another folder, for messages.

    Raises:
        RunError: on entering: the folder cannot be used; one line gives the reason.
    """

    def __init__(self, path, fresh=True, flag="--out NAME"):
        self.path, self.fresh, self.flag = Path(os.path.expanduser(path)), fresh, flag
        self.shown = readable(self.path, 500)
        self.lock = None
        self.earlier = None  # where the earlier run is now
        self.made = []  # folders that did not exist before, the innermost first
        self.there = []  # files of this run
        self.saved_at = None  # iterations in the saved data
        self.failed = ""  # why the last save of the data failed
        self.no_curves = ""  # why there are no curves
        self.stopped = False  # by Ctrl-C

    def __fspath__(self):
        return str(self.path)

    def __enter__(self):
        self.reserve()
        self.take()
        return self

    @contextlib.contextmanager
    def _one_line(self):
        """Undo what was done and raise a RunError, a single line, for what fails in the block."""
        try:
            yield
        except RunError:
            self.__exit__()
            raise
        except (OSError, ValueError) as error:
            self.__exit__()
            raise RunError(f"cannot save in {self.shown}: {why(error)}. Nothing was started; "
                           f"choose another folder ({self.flag})") from error

    def reserve(self):
        """Keep other runs out of the folder; nothing in it is moved yet.

        Raises:
            RunError: it cannot be used.
        """
        with self._one_line():
            self.path = self.path.resolve()  # a link stays one; its target is renamed
            self._make_parents()
            self._lock()
            names = self._names()
            if names and self.fresh:
                self._check_movable(names)
            stays = self.path.is_dir() and not (names and self.fresh)
            self._check_room(self.path if stays else self.path.parent)

    def take(self):
        """Make the folder; an earlier run in it is renamed, unless this run continues it.

        Raises:
            RunError: it cannot be done.
        """
        with self._one_line():
            names = self._names()
            if names and self.fresh:
                self._put_aside()
            if not self.path.is_dir():
                self.path.mkdir()
                self.made.insert(0, self.path)
            self._check_room(self.path)

    def _make_parents(self):
        for path in (self.path, *self.path.parents):
            if path.exists() and not path.is_dir():
                raise OSError(f"{readable(path, 500)} is a file, not a folder")
        missing = [path for path in self.path.parents if not path.exists()]
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.made = missing

    def _lock(self):
        """Keep other runs out, where the file system allows it.

        The lock is beside the folder, so that it holds while the folder is renamed; inside it only
        where nothing can be written beside it, since then it cannot be renamed either. The system
        releases the lock of a process that has died.
        """
        from filelock import FileLock, Timeout

        for place in (self.path.parent / f".{self.path.name}.lock", self.path / ".run.lock"):
            lock = FileLock(place, timeout=0)
            try:
                lock.acquire()
                self.lock = lock
                return
            except Timeout:  # filelock also says so where it cannot write
                if os.access(lock.lock_file, os.W_OK):
                    raise RunError(f"another run is writing to {self.shown}; choose another folder "
                                   f"({self.flag})") from None
            except (OSError, NotImplementedError):
                pass  # no locks here
            if not self.path.is_dir():
                return

    def _names(self):
        """Return the names in the folder, apart from those that do not concern a run."""
        if not self.path.is_dir():
            return set()
        names = {path.name for path in self.path.iterdir()} - LITTER
        return {name for name in names
                if not name.endswith(".tmp") and not (name[0] == "." and name.endswith(".lock"))}

    def _check_movable(self, names):
        """Raise a RunError unless the folder, which holds these names, is a run to be renamed."""
        if not any(name in MARKS or re.fullmatch(r"checkpoint-\d+", name) for name in names):
            shown = readable(", ".join(sorted(names)[:2]), 80)
            more = f" and {len(names) - 2} more" if len(names) > 2 else ""
            flag = self.flag.partition(" ")[0]
            raise RunError(f"{self.shown} holds something other than a training run ({shown}{more})"
                           f"; it was not touched. Choose a new folder, such as {flag} "
                           f"{readable(self.path.name + '/run1')}")
        inside = [path for path in (Path.cwd(), TOP, Path.home()) if path.is_relative_to(self.path)]
        if inside or os.path.ismount(self.path):
            raise RunError(f"{self.shown} holds an earlier run and cannot be renamed while you or "
                           f"the lab are inside it; choose another folder ({self.flag})")

    def _put_aside(self):
        """Rename the folder to the next free NAME.earlier-N."""
        prefix = f"{self.path.name}.earlier-"
        numbers = [path.name.removeprefix(prefix) for path in self.path.parent.iterdir()
                   if path.name.startswith(prefix)]
        number = 1 + max((int(n) for n in numbers if n.isdecimal()), default=0)
        self.earlier = self.path.rename(self.path.with_name(f"{prefix}{number}"))
        say(f"{self.shown} held an earlier run; it is now {self.shown}.earlier-{number}")

    def _check_room(self, where):
        """Raise an OSError if nothing, or not enough, can be written in a folder."""
        probe = where / f"probe.{os.getpid()}.tmp"
        try:
            probe.write_bytes(bytes(ROOM))
        finally:
            with contextlib.suppress(OSError):
                probe.unlink(missing_ok=True)

    def save(self, files, at):
        """Save the data of one state; report and return whether that worked.

        Args:
            files: dict from names to bytes.
            at: the iterations in them.
        """
        self.failed = self.write(files)
        if self.failed:
            kept = "" if self.saved_at is None else ". The files saved before are kept"
            say(f"cannot save in {self.shown}: {self.failed}{kept}")
        else:
            self.saved_at = at
        return not self.failed

    def write(self, files):
        """Write files, all of them or none; return "", or why that failed.

        Args:
            files: dict from names to bytes.
        """
        temporary = {name: self.path / f"{name}.{os.getpid()}.tmp" for name in files}
        replaced = []
        try:
            for name, data in files.items():
                temporary[name].write_bytes(data)
            for name in files:
                os.replace(temporary[name], self.path / name)
                replaced.append(name)
        except OSError as error:
            if not replaced:
                return why(error)
            # On Windows, a file that another program has open cannot be replaced.
            older = ", ".join(name for name in files if name not in replaced)
            return f"{why(error)}; {', '.join(replaced)} are newer than {older}"
        finally:
            self.there += [name for name in replaced if name not in self.there]
            for path in temporary.values():
                with contextlib.suppress(OSError):
                    path.unlink(missing_ok=True)
        return ""

    def report(self):
        """Return one line: what is saved, and what is not."""
        if not self.there:
            because = f": {self.failed}" if self.failed else ""
            back = f"; {self.shown} is the earlier run again" if self.earlier == self.path else ""
            return f"Nothing was saved in {self.shown}{because}{back}"
        names = [name for name in (CURVES, *DATA) if name in self.there]
        line = f"{self.shown}: {', '.join(names)}"
        if self.failed:
            line += f", as after iteration {self.saved_at}; the rest is NOT saved ({self.failed})"
        if self.no_curves:
            line += f"; NO {CURVES} ({self.no_curves})"
        return line

    def __exit__(self, *_):
        if not self.there:
            self._undo()
        if self.lock:
            # The file goes first: after the release it may be another run's. (On Windows an open
            # file cannot be removed; there filelock does it.)
            with contextlib.suppress(OSError):
                Path(self.lock.lock_file).unlink(missing_ok=True)
            self.lock.release()
            self.lock = None
        if not self.there:
            for folder in self.made:  # only those that are empty
                with contextlib.suppress(OSError):
                    folder.rmdir()

    def _undo(self):
        """Remove the new folder and give the earlier run its name back."""
        with contextlib.suppress(OSError):
            if self.path in self.made:
                self.path.rmdir()
            if self.earlier:
                self.earlier = self.earlier.rename(self.path)


# ============================================================== Ctrl-C

asked_to_stop = []  # not empty once Ctrl-C was pressed while the command runs


@contextlib.contextmanager
def on_ctrl_c(handler):
    """Handle SIGINT in another way for a while; Python sends it to the main thread alone."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before if before is not None else signal.SIG_DFL)


def note_ctrl_c(*_):
    """Raise KeyboardInterrupt and note it, since an import of another library may swallow it."""
    asked_to_stop.append(True)
    raise KeyboardInterrupt


@contextlib.contextmanager
def uninterrupted():
    """Let Ctrl-C wait until the block ends; yields a list that is not empty if it was pressed."""
    asked = []
    with on_ctrl_c(lambda *_: asked.append(True)):
        yield asked


# ============================================================== a run

_unwatched = []  # an entry for every unwatched() block that was entered


@contextlib.contextmanager
def unwatched():
    """Let functions be wrong on purpose: no Run watches the five in this block."""
    _unwatched.append(True)
    try:
        yield
    finally:
        _unwatched.pop()


class Run:
    """Watch the tasks, save, and make Ctrl-C a normal end; train_grpo enters it.

    Args:
        lab: the lab file's namespace.
        cfg: the GRPOConfig.
        policy: the model that is trained.
        hist: the history, a dict of lists that the loop fills.
        out_dir: where to save the run, a path or a Folder; None: nowhere.
        fresh: False if the run continues in its own folder.

    Raises:
        RunError: the folder cannot be used.
        TaskError: a task is not written, or wrong.
    """

    def __init__(self, lab, cfg, policy, hist, out_dir=None, fresh=True):
        self.lab, self.cfg, self.policy, self.hist = lab, cfg, policy, hist
        self.guard = contextlib.nullcontext() if _unwatched else Guard(lab, cfg)
        self.own = out_dir is not None and not isinstance(out_dir, Folder)
        self.folder = Folder(out_dir, fresh) if self.own else out_dir
        self.start = time.time()

    def __enter__(self):
        with contextlib.ExitStack() as stack:  # if the second fails, the first is left again
            if self.own:
                stack.enter_context(self.folder)
            stack.enter_context(self.guard)
            self.stack = stack.pop_all()
        return self

    def progress(self, steps, shown=True):
        """Return the steps with a progress bar, which a terminal shows until the last one."""
        from tqdm import tqdm

        return tqdm(steps, leave=False, disable=None if shown else True)

    def print(self, text):
        """Print a line above the progress bar."""
        say(text)

    def check(self, s, it):
        """Stop the run if an iteration left NaN behind, or if Ctrl-C was swallowed in it.

        Raises:
            FloatingPointError: see stop_if_nan.
        """
        if asked_to_stop:
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
        history, config = (json.dumps(about | part, default=float).encode()
                           for part in (self.hist, vars(self.cfg)))
        files = dict(zip(DATA, (history, config, weights.getvalue())))
        return self.folder.save(files, len(self.hist["loss"]))

    def _trim(self):
        """Cut the lists to equal lengths: Ctrl-C may have come while they were filled."""
        for keys in (STATS, EVALS):
            size = min(len(self.hist[key]) for key in keys)
            for key in keys:
                del self.hist[key][size:]

    def __exit__(self, kind, error, trace):
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
        """Save what was measured; return whether that worked.

        Args:
            stopped: whether Ctrl-C ended the run.
            whole: whether it came to its end.
        """
        self._trim()
        done, measured = len(self.hist["loss"]), self.hist["eval_iter"]
        if stopped:
            kept = "the results so far are kept" if measured else "nothing was measured yet"
            say(f"Stopped by Ctrl-C after {counted(done, 'iteration')}; {kept}.")
        if self.folder is None:
            return False
        self.folder.stopped = stopped
        # A mistake in the very first iteration must not replace an earlier run.
        return bool(done or (measured and (stopped or whole))) and self._save()

    def _draw(self):
        """Write curves.png; a run without it is complete all the same."""
        picture = io.BytesIO()
        try:
            plot_curves(self.hist).savefig(picture)
            missing = self.folder.write({CURVES: picture.getvalue()})
        except KeyboardInterrupt:
            missing, self.folder.stopped = "stopped by Ctrl-C", True
        except ImportError as error:
            package = readable((error.name or "matplotlib").partition(".")[0])
            missing = f"{package} is missing: python -m pip install {package}"
        except Exception as error:
            missing = readable(f"{type(error).__name__}: {error}")
        self.folder.no_curves = missing
        if missing:
            say(f"{CURVES} was not drawn ({missing}); the rest is saved")


# ============================================================== curves


MEAN_OVER = 10  # iterations; one alone is too noisy to read
PANELS = {  # beside the accuracy: title and colour, as in chapter.md section 7
    "reward": ("mean reward of the samples", "#0072B2"),
    "loss": ("loss (last inner step)", "black"),
    "entropy": ("entropy, nats per token", "#009E73"),
    "kl": ("KL to the SFT model (k3)", "#CC79A7"),
    "clip_frac": ("fraction of tokens clipped", "#BF8400"),
    "frac_zero_signal": ("fraction of zero-signal groups", "#4897C4"),
}


def averaged(values, n=MEAN_OVER):
    """Return (x, y): the means over n iterations at a time, each at the last one of them."""
    starts = range(0, len(values), n)
    return [min(s + n, len(values)) for s in starts], [mean(values[s : s + n]) for s in starts]


def plot_curves(hist):
    """Return a matplotlib Figure: accuracy and six other curves over the iterations."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 6.5), layout="constrained")
    first, *others, spare = figure.subplots(2, 4).flat
    first.plot(hist["eval_iter"], hist["acc_sampled"], "o-", color="#0072B2", ms=3, label="sampled")
    first.plot(hist["eval_iter"], hist["acc_greedy"], "s--", color="#D55E00", ms=3, label="greedy")
    first.set(title="accuracy on held-out sums", xlabel="iteration", ylim=(0, 1.02))
    first.legend(loc="lower right")
    for panel, (key, (title, color)) in zip(others, PANELS.items()):
        panel.plot(range(1, len(hist[key]) + 1), hist[key], color=color, lw=0.6, alpha=0.4)
        panel.plot(*averaged(hist[key]), color=color, lw=2)
        panel.set(title=title, xlabel="iteration")
    spare.axis("off")
    spare.text(0, 0.5, f"thin and pale: every iteration\nthick: mean of the last {MEAN_OVER}",
               va="center")
    return figure


def verdict(cfg, hist):
    """Return one line: whether the accuracy is as it should be, or what to read."""
    sampled = hist["acc_sampled"] or [float("nan")]  # Ctrl-C may come before the first
    start, end = sampled[0], sampled[-1]
    what = "no expected range is known for these settings; read chapter.md section 7"
    if len(hist["loss"]) == 300 and cfg == type(cfg)(seed=cfg.seed, eval_every=cfg.eval_every):
        bad = "expected 0.35 to 0.60, then 0.84 or more; read chapter.md section 7"
        what = "as it should be" if 0.35 <= start <= 0.60 and end >= 0.84 else bad
    return f"sampled accuracy {start:.3f} -> {end:.3f}: {what}"


# ============================================================== results


def machine():
    """Return the processor's name, the number of cores and the system."""
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        lines = cpuinfo.read_text(encoding="utf-8").splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    return f"{name}, {os.cpu_count()} cores, {platform.system()}"


def commit():
    """Return the commit that is checked out, with a + if files have changed since."""
    def git(*words):
        return subprocess.run(
            ["git", *words], cwd=TOP, capture_output=True, text=True, check=False
        ).stdout.strip()

    if not shutil.which("git"):
        return "unknown: git is not installed"
    return git("rev-parse", "--short", "HEAD") + ("+" if git("status", "--porcelain") else "")


def about(command):
    """Return what every JSON file of results records about its origin.

    quiet: whether the machine had at least one idle core, without which seconds mean little.
    """
    import torch

    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0
    return {"command": command, "commit": commit(), "machine": machine(),
            "torch": torch.__version__, "threads": torch.get_num_threads(),
            "quiet": load < (os.cpu_count() or 1)}


def short(value, digits=4):
    """Return a float rounded to some significant digits; anything else as it is."""
    return float(f"{value:.{digits}g}") if isinstance(value, float) else value


def read_json(path):
    """Return the content of a JSON file."""
    return json.loads(Path(path).read_text(encoding="utf-8"))


def write_json(path, content):
    """Write a JSON file atomically, with one run or one list of numbers a line."""
    import tinylm

    text = json.dumps(content, separators=(",", ":")).replace('],"', '],\n"')
    data = text.replace('{"seed":', '\n{"seed":').encode() + b"\n"
    tinylm.write_file(path, lambda file: file.write(data))


def mean(values):
    """Return the arithmetic mean."""
    return sum(values) / len(values)


# ============================================================== the command

# The flags that are no settings: what they accept.
FLAGS = {"device": "cpu, cuda or mps",
         "threads": "CPU threads, 1 to 1024; more threads are slower on most machines",
         "out": "folder for the results (default: runs/seedN)"}
EPILOG = """\
results:
  The folder gets history.json (all curves), config.json (the settings), policy.pt (the weights) and
  curves.png. An earlier run in it is renamed to NAME.earlier-1 (-2, ...): nothing is overwritten.
  Ctrl-C ends a run early and keeps the results so far.

exit code:
  0 everything is saved; 1 a mistake in a task, or something is not saved; 2 a wrong flag;
  130 Ctrl-C

examples:
  python lab15_grpo.py                                 about 15 seconds, into runs/seed0
  python lab15_grpo.py --seed 1 --lr 1e-3 --out runs/fast
  python lab15_grpo.py --no-scale-std --out runs/nostd
"""


class UsageError(RunError):
    """Report an unknown flag, or a value that a flag does not accept."""


class Parser(argparse.ArgumentParser):
    """Report in one line what is wrong with the flags."""

    def error(self, message):
        """Raise a UsageError; argparse itself does not say which values a flag accepts."""
        message = message.removeprefix("argument ").replace(
            "ignored explicit argument", "takes no value, so leave out")
        flag, _, what = message.partition(": ")
        if what == "expected one argument":
            action = next(a for a in self._actions if flag in a.option_strings)
            message = f"{flag} needs a value: {action.help}"
        raise UsageError(readable(message))


def setting(name, kind):
    """Return the argparse type of a setting; its errors name the values that are allowed."""
    def value_of(text):
        try:
            value = kind(text)
        except (ValueError, OverflowError):
            value = None
        if instead := not_allowed(name, value, kind):
            raise argparse.ArgumentTypeError(f"{readable(text, 60)} is not allowed; give {instead}")
        return value

    return value_of


def thread_count(text):
    """Return the number that --threads was given."""
    if not text.isdecimal() or not 1 <= int(text) <= 1024:
        raise argparse.ArgumentTypeError(f"{readable(text, 60)} is not allowed; give 1 to 1024")
    return int(text)


def folder_name(text):
    """Return the name that --out was given."""
    if not text.strip():
        raise argparse.ArgumentTypeError("give the name of a folder, such as runs/first")
    return text


def parser_of(settings):
    """Return the Parser of the command; settings has the fields of GRPOConfig with defaults."""
    parser = Parser(
        prog=f"python {readable(Path(sys.argv[0]).name)}", usage="%(prog)s [flags]", epilog=EPILOG,
        description="Train TinyLM with the five functions of this file.", allow_abbrev=False,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(
            prog, width=96, max_help_position=26))
    for name, value in settings.items():
        kind, flag = type(value), "--" + name.replace("_", "-")
        meaning = SETTINGS[name][1] if name in SETTINGS else "a setting of your own"
        if kind is bool:
            parser.add_argument(flag, default=value, action=argparse.BooleanOptionalAction,
                                help=f"{meaning} (default: {'yes' if value else 'no'})")
        else:
            words = f"{meaning}; {allowed(name, kind)} (default: {value})"
            parser.add_argument(flag, default=value, type=setting(name, kind),
                                metavar="N" if kind is int else "X",
                                help=words.replace("%", "%%"))
    parser.add_argument("--device", default="cpu", help=FLAGS["device"] + " (default: cpu)")
    parser.add_argument("--threads", default=1, type=thread_count, metavar="N",
                        help=FLAGS["threads"] + " (default: 1)")
    parser.add_argument("--out", type=folder_name, metavar="FOLDER", help=FLAGS["out"])
    return parser


def parsed(settings, args):
    """Return the flags as a dict.

    Args:
        settings: dict from the fields of GRPOConfig to their defaults.
        args: the words of the command line.

    Raises:
        UsageError: one of them is wrong.
    """
    # GRPOConfig's own spelling is accepted too, as in --prompts_per_iter=8.
    words = [re.sub("^--[^=]*", lambda flag: flag[0].replace("_", "-"), word) for word in args]
    parser = parser_of(settings)
    flags, unknown = parser.parse_known_args(words)
    if unknown:
        name = unknown[0].partition("=")[0]
        known = {flag.lower(): flag for action in parser._actions for flag in action.option_strings}
        close = difflib.get_close_matches(name.lower(), known, 1)
        hint = f"did you mean {known[close[0]]}? " if close else ""
        what = "there is no flag" if name.startswith("-") else "no flag takes the word"
        raise UsageError(f"{what} {readable(name, 60)}; {hint}--help lists all")
    return vars(flags)


def check_device(name):
    """Raise a UsageError if PyTorch cannot use a device of this name."""
    import torch

    try:
        torch.zeros(1, device=name).item()
    except Exception as error:  # which exception depends on the device
        text = str(error).strip().splitlines() or [type(error).__name__]
        raise UsageError(f"--device {readable(name, 60)} cannot be used here: "
                         f"{readable(text[0], 120).rstrip('.')}. Leave it out for the CPU"
                         ) from None


def main(lab, args=None):
    """Run the command; raise SystemExit unless everything went well.

    Args:
        lab: the lab file's globals().
        args: the words of the command line; None: those of this process.
    """
    if code := command(lab, sys.argv[1:] if args is None else args):
        sys.exit(code)


def command(lab, args):
    """Train and report where the results are; return the exit code: 0, 1, 2 or 130."""
    try:
        with on_ctrl_c(note_ctrl_c), warnings.catch_warnings():
            warnings.showwarning = one_line_warning
            flags = parsed(vars(lab["GRPOConfig"]()), args)
            device, count, out = (flags.pop(name) for name in FLAGS)
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
    finally:
        asked_to_stop.clear()


def one_line_warning(message, category, filename, lineno, file=None, line=None):
    """Show a warning in one line, in place of warnings.showwarning.

    Args:
        message: the warning.
        category: its class.
        filename: where it was raised.
        lineno: in that file.
        file: is not used.
        line: is not used.
    """
    say(f"warning: {readable(message)} ({readable(Path(filename).name)} line {lineno})", sys.stderr)


def prepare(device, count):
    """Set the threads, try the device, and announce the SFT training if it comes first."""
    import torch

    import tinylm

    torch.set_num_threads(count)
    check_device(device)
    if not Path(tinylm.__file__).with_name("tinylm_sft.pt").is_file():
        say("The SFT model is trained first, once (tinylm_sft.pt).")


def train(lab, cfg, device, folder):
    """Train and report how it went; return the exit code.

    Args:
        lab: the lab file's namespace.
        cfg: the GRPOConfig.
        device: where to train.
        folder: the Folder of the results, not entered yet.

    Raises:
        RunError: the folder cannot be used.
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
            "Has the given part below Task 5 been changed?")


# ============================================================== while the lab file is loaded


def leave_at_once(*_):
    """Handle SIGINT while PyTorch is imported, which may swallow a KeyboardInterrupt or crash."""
    os.write(2, b"Stopped by Ctrl-C.\n")
    os._exit(STOPPED)


def hook(kind, error, trace):
    """Show a missing package in one line, in place of sys.excepthook.

    Args:
        kind: class of the exception.
        error: the exception.
        trace: its traceback.
    """
    if issubclass(kind, ModuleNotFoundError) and error.name in ("torch", "numpy", "tqdm"):
        sys.stderr.write(f"{error.name} is not installed in this Python ({sys.executable}): "
                         "python -m pip install -r requirements.txt, or activate .venv first\n")
    else:
        sys.__excepthook__(kind, error, trace)


def started_as_script():
    """Return whether a lab file that was started as a script is importing this module."""
    frame = sys._getframe(1)
    while frame and (frame.f_globals is globals() or "importlib" in frame.f_code.co_filename):
        frame = frame.f_back
    # co_names are the names in the file's own statements: a lab file defines train_grpo.
    return (frame is not None and frame.f_globals.get("__name__") == "__main__"
            and "train_grpo" in frame.f_code.co_names)


if started_as_script():
    sys.excepthook = hook
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, leave_at_once)
