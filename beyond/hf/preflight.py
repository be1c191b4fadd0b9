"""Checks made before torch is imported and a model is loaded; each error is one line.

A mistyped flag, folder or name is reported at once, not after minutes of loading.
"""

import difflib
import os
import re
from pathlib import Path

from beyond.config import GRPOConfig
from beyond.losses import names
from beyond.settings import nearest, needs
from beyond.tasks.reward_limit import in_thread

HUB = r"[\w.-]+(/[\w.-]+)?"
PATIENCE = 5.0  # seconds in which a hub must answer
ADVICE = ("Give a folder made by save_pretrained, such as runs/hf/final. Without network: "
          "python -m beyond.smollm says how to bring a model")


def packages(cfg: GRPOConfig) -> None:
    """Raise a ValueError if a setting needs a package that is not installed."""
    for name, wanted in (("tensorboard", cfg.tensorboard), ("wandb", cfg.use_wandb),
                         ("trackio", cfg.use_trackio)):
        if wanted:
            needs(name, name if name == "tensorboard" else f"use_{name}")
    if cfg.lora_rank:
        needs("peft", "lora_rank")


def together(cfg: GRPOConfig) -> None:
    """Raise a ValueError for an unknown loss, advantage or estimator, or settings that clash."""
    if ":" in cfg.loss or cfg.loss.endswith(".py"):
        own_file(cfg.loss, "loss")
    elif cfg.loss != "lab":
        names.check(cfg.loss)
    if cfg.adv not in (None, "lab", *names.ADVANTAGE_NAMES):
        known = ["lab", *names.ADVANTAGE_NAMES]
        raise ValueError(f"adv = {cfg.adv!r} is unknown{nearest(str(cfg.adv), known)}")
    if cfg.kl not in (None, *names.KL_NAMES):
        raise ValueError(f"kl = {cfg.kl!r} is unknown{nearest(str(cfg.kl), names.KL_NAMES)}")
    if cfg.step == "lab":
        whole_step(cfg)
    if cfg.parallel != "ddp" and cfg.lora_rank:
        raise ValueError(f"parallel = {cfg.parallel} does not go with lora_rank, whose adapters "
                         "are small: take parallel = ddp")


def whole_step(cfg: GRPOConfig) -> None:
    """Raise a ValueError for settings that a student's whole grpo_step cannot use."""
    defaults = {"loss": ("lab",), "adv": (None, "lab"), "kl": (None, "k3"), "micro_batch": (0,),
                "clip_low": (None,), "clip_high": (None,), "entropy_coef": (0.0,),
                "gradient_accumulation_steps": (1,)}
    odd = [name for name, allowed in defaults.items() if getattr(cfg, name) not in allowed]
    if odd:
        raise ValueError(f"step = lab calls your grpo_step whole, so {', '.join(odd)} cannot "
                         "be set; take step = ours")


def processes(cfg: GRPOConfig) -> None:
    """Raise a ValueError if several processes are asked for and only this one runs."""
    if cfg.parallel != "ddp" and int(os.environ.get("WORLD_SIZE", "1")) < 2:
        raise ValueError(
            f"parallel = {cfg.parallel} shares a model among several processes, and this is a "
            f"single one: torchrun --nproc-per-node 2 -m beyond.train_hf --parallel {cfg.parallel}"
            " ..., or leave it out")


def own_file(text: str, what: str) -> Path:
    """Return the path of "file.py:function".

    Raises:
        ValueError: there is no such file, or no function is named.
    """
    path, _, name = text.rpartition(":")
    if Path(alone := text.removesuffix(":")).is_file():
        raise ValueError(f"{what} {text!r} is a file; give the function as well: {alone}:NAME")
    if not path or not name or not Path(path).is_file():
        raise ValueError(f"{what} {text!r}: there is no file {path or text}; give file.py:function")
    return Path(path)


def file(path: str | None, flag: str) -> None:
    """Raise an OSError if a flag names a file that does not exist."""
    if path is None or Path(path).is_file():
        return
    if Path(path).is_dir():
        raise OSError(f"{flag} {path} is a folder; give the file")
    folder = Path(path).parent
    known = sorted(p.name for p in folder.iterdir() if p.is_file()) if folder.is_dir() else []
    close = nearest(Path(path).name, known) if known else ""
    raise OSError(f"{flag} {path}: there is no such file{close if 'did you' in close else ''}")


# ============================================================== the model


def model(name: str | Path) -> None:
    """Raise an OSError if there is no such model: no folder, and no name that a hub knows.

    A mistyped folder is reported at once. A hub is asked only for names that cannot be a folder,
    and has a few seconds to answer.
    """
    path = Path(name)
    if path.is_dir():
        is_model(path)
    elif path.is_file():
        raise OSError(f"{name} cannot be loaded: it is a file; give the model's folder")
    elif (not re.fullmatch(HUB, str(name)) or str(name).startswith(".")
          or (len(path.parts) > 1 and Path(path.parts[0]).is_dir())):
        raise OSError(f"{name} cannot be loaded: there is no such folder{closest(path)}. {ADVICE}")
    else:
        on_hub(str(name))


def closest(path: Path) -> str:
    """Return "; did you mean x?" with a similar folder that exists, or ""."""
    near = path.parent
    known = [p.name for p in near.iterdir() if p.is_dir()] if near.is_dir() else []
    close = difflib.get_close_matches(path.name, known, 1, 0.5)
    return f"; did you mean {near / close[0]}?" if close else ""


def is_model(path: Path) -> None:
    """Raise an OSError if a folder holds no model."""
    if any((path / name).is_file() for name in ("config.json", "adapter_config.json")):
        return
    inside = [str(path / name) for name in ("final", *(p.name for p in path.glob("checkpoint-*")))
              if (path / name / "config.json").is_file()]
    raise OSError(f"{path} cannot be loaded: it has no config.json, so it is no model"
                  f"{f'; did you mean {inside[0]}?' if inside else f'. {ADVICE}'}")


def on_hub(name: str) -> None:
    """Raise an OSError if a hub's model is not on this machine and the hub does not have it."""
    from huggingface_hub import HfApi, constants, try_to_load_from_cache
    from huggingface_hub.errors import RepositoryNotFoundError

    if isinstance(try_to_load_from_cache(name, "config.json"), str):
        return
    why = "this machine is told not to ask a hub (HF_HUB_OFFLINE)"
    if not constants.HF_HUB_OFFLINE:
        try:
            in_thread(lambda: HfApi().model_info(name, timeout=PATIENCE), 2 * PATIENCE)
            return
        except RepositoryNotFoundError:
            why = "the hub has no model of that name, or does not show it to you"
        except Exception as error:  # no network, a proxy, a closed port: each has its own
            why = f"the hub does not answer: {type(error).__name__}"
    raise OSError(f"{name} cannot be loaded: there is no such folder{closest(Path(name))}, nor can "
                  f"it be fetched ({why}). {ADVICE}")
