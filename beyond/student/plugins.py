"""Replace the lab's loss and advantages, by name or from a file."""

import dataclasses
import functools
import importlib.util
import inspect
import sys
import traceback
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

import lab15_run
from beyond.config import GRPOConfig
from beyond.losses import names
from beyond.losses.names import bound, own_settings
from beyond.settings import nearest
from beyond.student.checks import LabError, check_all, how_to_test
from lab15_run import out_of_memory


def load_student(path: str | Path, backend: Any):
    """Return a lab file's module on a backend; its token_entropy is the backend's.

    Its functions raise a LabError, a line that names the task, for whatever goes wrong in them.

    Raises:
        FileNotFoundError: no such file.
        ValueError: a task is not written, or broken: which, and how to test it.
    """
    from tests.labfile import TASKS, load_lab, task_state

    lab = load_lab(path, backend=backend)
    for number in TASKS:
        state = task_state(lab, number)
        if state.kind != "written":
            raise ValueError(f"{state.text}. Test: {how_to_test(number, path)}")
    check_all(lab, backend)
    if hasattr(backend, "token_entropy"):
        lab.token_entropy = backend.token_entropy
    return lab


def loss_differs(lab) -> str | None:
    """Return what of a lab file's grpo_loss is not the lab's, "value" or "gradient", else None.

    Its k3_kl is the lab's while it is tried: a wrong Task 3 is no mistake of Task 4.

    Raises:
        LabError: it cannot be called, or returns something else than (loss, stats).
    """
    from beyond.losses import grpo
    from beyond.losses.pieces import k3

    def of(loss):
        logp = old[0].clone().requires_grad_()
        value = loss(logp, *old[1:], adv, mask, 0.2, 0.1)[0]
        return torch.cat([value.reshape(1), torch.autograd.grad(value, logp)[0].flatten()])

    draw = torch.Generator().manual_seed(0)
    old = [-2 * torch.rand(6, 5, generator=draw) for _ in range(3)]
    adv = torch.randn(6, generator=draw)
    mask = (torch.arange(5) < torch.tensor([[1], [5], [3], [2], [4], [5]])).float()
    yours = lab.k3_kl
    try:
        lab.k3_kl = k3
        found = of(lab.grpo_loss)
    finally:
        lab.k3_kl = yours
    if torch.allclose(found.detach(), of(grpo).detach(), atol=1e-5, rtol=1e-4):
        return None
    return "value" if abs(float((found - of(grpo))[0].detach())) > 1e-4 else "gradient"


def differences(lab, cfg: GRPOConfig) -> list[str]:
    """Return a warning for each function of a lab file that is used and is not what was asked for.

    They are warnings: perhaps another loss is what you want to try.

    Args:
        lab: of load_student.
        cfg: a GRPOConfig.

    Raises:
        LabError: grpo_loss cannot be called, or returns something else than (loss, stats).
    """
    from beyond.student import probes

    used = probes.used_by(cfg)
    what = loss_differs(lab) if 4 in used else None
    lines = probes.differences(lab.__file__, [n for n in used if n != 4 or what])
    if not what:
        return lines
    head = f"warning: the {what} of your grpo_loss is not that of Task 4's formula"
    named = [line for line in lines if "(Task 4)" in line]
    others = [line for line in lines if line not in named]
    if named:
        return [*others, head + named[0].partition("asks for")[2]]
    return [*others, f"{head}. Training continues with it; to find out why: "
                     f"{how_to_test(4, lab.__file__)}"]


def try_losses(cfg: GRPOConfig, lab) -> None:
    """Try a loss of one's own, and whether the advantages have a name, before a model is loaded.

    Args:
        cfg: a GRPOConfig.
        lab: of load_student.

    Raises:
        LabError: a loss that cannot be used.
        ValueError: a loss or an advantage of an unknown name.
    """
    whole = with_own(cfg, lab)
    loss = loss_of(whole, lab)
    advantage_of(whole, lab)
    if ":" in cfg.loss:
        try_loss(loss, cfg.loss)


def backend_with(backend: types.ModuleType, **names: Any) -> Any:
    """Return a backend with some of its names replaced, as a module for load_student."""
    made = types.ModuleType(backend.__name__)
    vars(made).update({k: v for k, v in vars(backend).items() if not k.startswith("__")})
    vars(made).update(names)
    return made


def from_file(text: str) -> Callable:
    """Return the function of "file.py:function".

    Raises:
        ValueError: no such file or function, or the file cannot be run.
    """
    path, _, name = text.rpartition(":")
    if Path(text).is_file():
        raise ValueError(f"{text!r} is a file; give the function as well: {text}:NAME")
    if not path or not Path(path).is_file():
        raise ValueError(f"{text!r}: there is no file {path or text}; give file.py:function")
    spec = importlib.util.spec_from_file_location(f"yours_{Path(path).stem}", path)
    if spec is None or spec.loader is None:
        raise ValueError(f"{path} is no Python file; give file.py:function")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if f.filename == path]
        at = getattr(error, "lineno", None) or (lines[-1] if lines else "?")
        raise ValueError(f"{path} line {at}: {type(error).__name__}: {error}") from error
    if not callable(getattr(module, name, None)):
        raise ValueError(f"{path} has no function {name!r}")
    return getattr(module, name)


# What guides to torchforge and other libraries call the arguments of a loss.
OTHER_NAMES = {"logprobs": "logp", "old_logprobs": "old_logp", "ref_logprobs": "ref_logp",
               "advantages": "adv", "padding_mask": "mask", "clip_range": "clip_eps"}
FIVE = ("logp", "old_logp", "ref_logp", "adv", "mask")


def as_loss(given: Callable, where: str) -> Callable:
    """Return a loss of any shape as one with the arguments of grpo_loss.

    Args:
        given: such a function; or a function, or a class with forward, that takes some of these
            five under the names above, with advantages (B, 1), and returns just the loss.
        where: what it is called in messages.

    Raises:
        ValueError: a required argument that we cannot supply.
    """
    if list(inspect.signature(given).parameters)[:5] == list(FIVE):
        return given
    function: Any = given() if inspect.isclass(given) else given
    parameters = inspect.signature(getattr(function, "forward", function)).parameters
    names = {name: OTHER_NAMES.get(name, name) for name in parameters}
    odd = [name for name, ours in names.items()
           if ours not in FIVE and parameters[name].default is inspect.Parameter.empty]
    if odd:
        raise ValueError(f"{where}: a loss cannot be given {', '.join(odd)}; its arguments are "
                         f"{', '.join(FIVE)} or {', '.join(OTHER_NAMES)}")

    def loss(logp, old_logp, ref_logp, adv, mask):
        known = dict(zip(FIVE, (logp, old_logp, ref_logp, adv.unsqueeze(1), mask)))
        value = function(**{name: known[ours] for name, ours in names.items() if ours in known})
        return value if isinstance(value, tuple) else (value, {})

    loss.reads_ref = "ref_logp" in names.values()  # type: ignore[attr-defined]
    return loss


def answering(loss: Callable, where: str) -> Callable:
    """Return a loss of one's own with its mistakes as one line each; a loss alone is enough.

    Args:
        loss: takes the five arguments of grpo_loss, and returns (loss, stats) or just the loss.
        where: what it is called in messages.
    """
    @functools.wraps(loss)
    def run(logp, *others, **extras):
        try:
            result = loss(logp, *others, **extras)
        except LabError:
            raise
        except Exception as error:
            if out_of_memory(error):
                raise
            path = str(Path(where.rpartition(":")[0]).absolute())
            lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__)
                     if frame.filename == path]
            at = f" at line {lines[-1]}" if lines else ""
            raise LabError(f"loss {where} raised {type(error).__name__}{at}: "
                           f"{' '.join(str(error).split()):.250}") from error
        value, stats = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if wrong := no_loss(value, stats, logp):
            raise LabError(f"loss {where} gave {wrong}")
        return value.reshape(()), stats

    return run


def no_loss(value: Any, stats: Any, logp: torch.Tensor) -> str | None:
    """Return what is wrong with a loss and its stats, and what to give instead, or None.

    Args:
        value: the loss.
        stats: what was returned beside it.
        logp: (B, T), what the gradient has to reach.
    """
    wanted = "give the loss, a tensor with a single number, or the pair (loss, stats)"
    if not isinstance(value, torch.Tensor):
        return f"{lab15_run.kind_of(value)}: {wanted}"
    if value.numel() != 1:
        return f"a tensor of shape {tuple(value.shape)}: {wanted}, such as the mean of these"
    if not isinstance(stats, dict):
        return f"stats that are {lab15_run.kind_of(stats)}: give a dict of numbers"
    if logp.requires_grad and torch.is_grad_enabled() and not value.requires_grad:
        return ("a loss from which no gradient flows to logp (logprobs): was something detached, "
                "or turned into a Python number?")
    return None


def try_loss(loss: Callable, where: str) -> None:
    """Call a loss of one's own on a few numbers: its mistakes show before a model is loaded.

    Args:
        loss: of loss_of.
        where: what it is called in messages.

    Raises:
        LabError: it raised, or did not return a loss with a gradient.
    """
    draw = torch.Generator().manual_seed(0)
    logp, old, ref = (-2 * torch.rand(4, 3, generator=draw) for _ in range(3))
    logp.requires_grad_()
    mask = (torch.arange(3) < torch.tensor([[3], [1], [2], [3]])).float()
    counts = {"rows": 4, "tokens": float(mask.sum()), "groups": 1}
    takes = {k: v for k, v in counts.items() if k in inspect.signature(loss).parameters}
    value, _ = loss(logp, old, ref, torch.tensor([1.0, -1.0, 0.5, -0.5]), mask, **takes)
    try:
        [gradient] = torch.autograd.grad(value, logp, allow_unused=True)
    except RuntimeError as error:
        raise LabError(f"loss {where}: its gradient raised {' '.join(str(error).split()):.200}"
                       ) from error
    if gradient is None:
        raise LabError(f"loss {where} gave {no_loss(value.detach(), {}, logp)}")


def find_loss(name: str, lab) -> Callable:
    """Return the loss of a name.

    Raises:
        ValueError: an unknown name.
    """
    if ":" in name:
        return answering(as_loss(from_file(name), name), name)
    if name == "lab":
        return lab.grpo_loss
    return names.function_of(names.variant_of(name).loss)


def with_own(cfg: GRPOConfig, lab) -> GRPOConfig:
    """Return the config with what its loss's name stands for where nothing is set by hand.

    That is the variant's clip range, kl_beta, advantages and KL estimator; of a loss of one's own
    it is what the function's signature says. Warn about settings that the loss does not accept.

    Raises:
        ValueError: an unknown name.
    """
    loss = find_loss(cfg.loss, lab)
    if cfg.loss in names.NAMES:
        found = {k: v for k, v in names.own(cfg.loss).items() if getattr(cfg, k) is None}
        return dataclasses.replace(cfg, **found)
    known = inspect.signature(loss).parameters
    own: dict[str, Any] = {k: v for k, v in (("adv", "lab"), ("kl", "k3"))
                           if getattr(cfg, k) is None}
    wanted = {"clip_epsilon": "clip_eps", "kl_beta": "beta", "clip_high": "clip_high"}
    for field, name in wanted.items():
        if getattr(cfg, field) is None:
            own[field] = own_settings(loss)[name]
        elif name not in known and ":" in cfg.loss and name != "clip_high":
            print(f"the loss {cfg.loss} takes no {name}: {field} changes nothing in it")
            if name == "beta" and cfg.kl_beta == 0 and getattr(loss, "reads_ref", True):
                own[field] = own_settings(loss)[name]  # with 0 there would be no reference for it
    return dataclasses.replace(cfg, **own)


def loss_of(cfg: GRPOConfig, lab) -> Callable:
    """Return the loss as a function of (logp, old_logp, ref_logp, adv, mask) and extras.

    Raises:
        ValueError: an unknown name, or a setting that this loss does not have.
    """
    from beyond.losses import KL_ESTIMATORS

    loss = find_loss(cfg.loss, lab)
    known = inspect.signature(loss).parameters
    low = cfg.clip_epsilon if cfg.clip_low is None else cfg.clip_low
    extras: dict[str, Any] = {"clip_eps": low, "beta": cfg.kl_beta, "L": cfg.max_new_tokens,
                              "G": cfg.group_size}
    if cfg.loss in names.NAMES:
        extras |= names.extras_of(cfg.loss)
    open_ended = any(p.kind is p.VAR_KEYWORD for p in known.values())
    if cfg.clip_high is not None or cfg.clip_low is not None:
        if "clip_high" not in known:
            raise ValueError(f"the loss {cfg.loss!r} has no clip_low and clip_high; try dapo")
        extras["clip_high"] = cfg.clip_epsilon if cfg.clip_high is None else cfg.clip_high
    kl = cfg.kl or "k3"
    if kl != "k3":
        if kl not in KL_ESTIMATORS:
            raise ValueError(f"kl = {kl!r} is unknown{nearest(kl, list(KL_ESTIMATORS))}")
        if not (open_ended or "kl" in known):
            raise ValueError(f"the loss {cfg.loss!r} has its KL built in; try loss = grpo")
    if kl != "k3" or "kl" in known:
        loss = functools.partial(loss, kl=KL_ESTIMATORS[kl])
    return bound(loss, extras)


def advantage_of(cfg: GRPOConfig, lab) -> Callable:
    """Return the advantage as a function of (rewards, G): exactly 0 in groups of equal rewards.

    Rewards of NaN (not scored) are left out; the lab's function does not know them, so a batch
    that has some is given to beyond.losses.advantages.

    Raises:
        ValueError: an unknown name.
    """
    from beyond.losses import ADVANTAGES
    from beyond.losses.advantages import group_advantages

    name = cfg.adv or "lab"
    if name != "lab" and name not in ADVANTAGES:
        raise ValueError(f"adv = {name!r} is unknown{nearest(name, ['lab', *ADVANTAGES])}")

    def advantages(rewards: torch.Tensor, G: int) -> torch.Tensor:
        if name != "lab":
            return ADVANTAGES[name](rewards, G, cfg.scale_std)
        if rewards.isnan().any():
            return group_advantages(rewards, G, cfg.scale_std)
        adv = lab.group_advantages(rewards, G, cfg.scale_std)
        r = rewards.view(-1, G)
        equal = (r.amax(1) == r.amin(1)).repeat_interleave(G)
        return torch.where(equal, 0.0, adv)

    return advantages
