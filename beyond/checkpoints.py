"""Checkpoints of a training run: whole or not there, and enough for a resume to the bit.

    OUT/checkpoint-20/    model and tokenizer as from_pretrained reads them, and state.pt with
                          optimizer, schedule, random numbers, place in the data, samples in use
    OUT/final/            model and tokenizer; written at the end, after Ctrl-C too

Several processes write together: checkpoints_many.py.

A folder is written under a temporary name and renamed: kill -9 in the middle loses that save only.
"""

import contextlib
import copy
import os
import random
import re
import shutil
from pathlib import Path
from typing import Any

import torch

STATE = "state.pt"


def seed_everything(seed: int) -> None:
    """Seed what training draws from."""
    torch.manual_seed(seed)
    random.seed(seed)


def random_state() -> dict[str, Any]:
    """Return the state of every generator that training draws from."""
    state = {"python": random.getstate(), "torch": torch.get_rng_state()}
    if torch.cuda.is_available():
        state["cuda"] = torch.cuda.get_rng_state_all()
    return state


def set_random_state(state: dict[str, Any]) -> None:
    """Put back what random_state returned."""
    version, numbers, gauss = state["python"]
    random.setstate((version, tuple(numbers), gauss))
    torch.set_rng_state(state["torch"])
    if "cuda" in state and torch.cuda.is_available():
        torch.cuda.set_rng_state_all(state["cuda"])


def found(folder: str | Path) -> list[Path]:
    """Return the checkpoints of a run, oldest first; what is half written is none."""
    paths = [p for p in Path(folder).glob("checkpoint-*") if re.fullmatch(r"\D+-\d+", p.name)]
    paths = [p for p in paths if (p / STATE).is_file()]
    return sorted(paths, key=lambda p: int(p.name.split("-")[1]))


def write_model(folder: Path, policy, weights: dict[str, torch.Tensor] | None = None) -> None:
    """Write model and tokenizer as from_pretrained reads them.

    Args:
        folder: it is there.
        policy: an hf_backend.Policy.
        weights: taken in the place of the model's own.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would be in the middle of ours
    model = policy.model
    if hasattr(model, "merge_and_unload"):  # LoRA: a whole model, and the adapter beside it
        model.save_pretrained(folder / "adapter")
        model = copy.deepcopy(model).merge_and_unload()  # unmerging is not exact
    model.save_pretrained(folder, **({"state_dict": weights} if weights else {}))
    policy.tokenizer.save_pretrained(folder)


def put(temporary: Path, folder: Path) -> None:
    """Rename a folder to one that was not there, or is replaced."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        if folder.exists():
            os.replace(folder, old)
        os.replace(temporary, folder)
    finally:
        if not folder.exists() and old.exists():
            os.replace(old, folder)
        shutil.rmtree(old, ignore_errors=True)


def save(folder: str | Path, policy, state: dict[str, Any] | None) -> Path:
    """Write model, tokenizer and state, if any, to a folder that was not there, or is replaced.

    Raises:
        OSError: it cannot be written (a full disk, say). What was there before is still there.
    """
    folder = Path(folder)
    temporary = folder.with_name(f".{folder.name}.{os.getpid()}.tmp")
    folder.parent.mkdir(parents=True, exist_ok=True)
    try:
        temporary.mkdir()
        write_model(temporary, policy)
        if state is not None:
            torch.save(state, temporary / STATE)
        put(temporary, folder)
    except Exception as error:  # safetensors and torch.save have exceptions of their own
        if isinstance(error, OSError):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        shutil.rmtree(temporary, ignore_errors=True)
    return folder


def prune(folder: str | Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and what a killed save has left."""
    for path in found(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    for path in Path(folder).glob(".checkpoint-*.*"):
        with contextlib.suppress(OSError):
            shutil.rmtree(path)


def load_state(folder: str | Path, name: str = STATE) -> dict[str, Any]:
    """Return the state of a checkpoint.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    path = Path(folder) / name
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise OSError(f"{folder} is no checkpoint to go on from: it has no {name}. Give a folder "
                      "checkpoint-N (final/ holds a model alone), or True for the newest") from None
    except OSError:
        raise
    except Exception as error:
        raise OSError(f"{path} cannot be read: {type(error).__name__}: {error}"[:200]) from error


def put_back(state: dict[str, Any], policy, opt: torch.optim.Optimizer) -> None:
    """Take over weights and optimizer of a checkpoint that one process wrote, in one process."""
    own = dict(policy.model.named_parameters())
    check_same(state["trained"], own)
    with torch.no_grad():
        for name, value in state["trained"].items():
            own[name].copy_(value)
    opt.load_state_dict(state["opt"])


def check_same(kept: dict[str, torch.Tensor], own: dict[str, torch.nn.Parameter]) -> None:
    """Raise a ValueError if a checkpoint's trained weights are not those that are trained now."""
    if {n: v.shape for n, v in kept.items()} != {
            n: p.shape for n, p in own.items() if p.requires_grad}:
        raise ValueError("the checkpoint is of another model or another lora_rank: resume with "
                         "those it was made with, or take another output_dir")


def changed(state: dict[str, Any], cfg) -> str:
    """Return which settings differ from those of a checkpoint, or nothing."""
    found = odd(state, cfg, tuple(vars(cfg)))
    text = ", ".join(f"{k} {state['settings'][k]} -> {vars(cfg)[k]}" for k in found)
    return text and f", with other settings: {text}"


def odd(state: dict[str, Any], cfg, names: tuple[str, ...]) -> list[str]:
    """Return which of some settings differ from those of a checkpoint."""
    before = state.get("settings", {})
    return [k for k in names if k in before and before[k] != getattr(cfg, k)]


def plain(batch):
    """Return a batch as plain data for a checkpoint."""
    if batch is None:
        return None
    keep = [r | {"out": {k: v for k, v in r["out"].items()
                         if k not in ("tokenizer", "ends", "state")}}
            for r in batch["rollouts"]]
    return batch | {"rollouts": keep}


def as_sampled(batch, policy):
    """Return a batch of a checkpoint as sample made it, on the policy's device."""
    if batch is None:
        return None
    for rollout in batch["rollouts"]:
        rollout["out"] |= {"tokenizer": policy.tokenizer, "ends": policy.ends}
    return batch
