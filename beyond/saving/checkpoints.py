"""Checkpoints of a training run: written atomically, complete enough for an exact resume.

    OUT/checkpoint-20/    model and tokenizer as from_pretrained reads them (not of launch/tiny)
        state.pt          what all ranks share: step, settings, place in the data; written by rank 0
        shards/           trained weights and optimizer by name, each rank its part, written by
                          torch.distributed.checkpoint; DDP, FSDP2 and one process write the same
        rank0.pt, ...     what each rank has: random numbers, samples in use
    OUT/final/            model and tokenizer; written at the end, after Ctrl-C too

Any number of processes writes it together, and any number reads it; all must see the same folder.
With the same number of processes a run resumes bit for bit. With another number the weights, the
optimizer and the samples in use are the same; sampling continues with new seeds.

A folder is written under a temporary name and renamed: kill -9 in the middle loses only that save.
"""

import contextlib
import copy
import os
import random
import re
import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch

from beyond.parallel.ranks import World, agree, gather

STATE = "state.pt"
SHARDS = "shards"
RANK = "rank{}.pt"


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
    """Return the checkpoints of a run, oldest first; ignore what is half written."""
    paths = [p for p in Path(folder).glob("checkpoint-*") if re.fullmatch(r"\D+-\d+", p.name)]
    paths = [p for p in paths if (p / STATE).is_file()]
    return sorted(paths, key=lambda p: int(p.name.split("-")[1]))


def write_model(folder: Path, policy, weights: dict[str, torch.Tensor] | None = None) -> None:
    """Write model and tokenizer as from_pretrained reads them.

    Args:
        folder: it is there.
        policy: an hf.backend.Policy.
        weights: written instead of the model's own.
    """
    from transformers.utils import logging

    logging.disable_progress_bar()  # it would garble our own progress bar
    model = policy.model
    if hasattr(model, "merge_and_unload"):  # LoRA: a whole model, and the adapter beside it
        model.save_pretrained(folder / "adapter")
        policy.tokenizer.save_pretrained(folder / "adapter")  # it can be started from, too
        model = copy.deepcopy(model).merge_and_unload()  # unmerging is not exact
    model.save_pretrained(folder, **({"state_dict": weights} if weights else {}))
    policy.tokenizer.save_pretrained(folder)


def link_model(checkpoint: Path, folder: Path) -> None:
    """Put the model's files of a checkpoint into another folder, without copies where possible.

    A resume reads the checkpoint's shards, never these files: changing one of them changes nothing
    in it.

    Args:
        checkpoint: that save has written.
        folder: it is there.
    """
    for path in sorted(checkpoint.rglob("*")):
        where = path.relative_to(checkpoint)
        if path.is_dir() or where.parts[0] == SHARDS or path.suffix == ".pt":
            continue
        (folder / where).parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(path, folder / where)
        except OSError:  # a file system without links
            shutil.copy2(path, folder / where)


def put(temporary: Path, folder: Path) -> None:
    """Rename a folder; replace the target if it exists."""
    old = folder.with_name(f".{folder.name}.{os.getpid()}.old")
    try:
        if folder.exists():
            os.replace(folder, old)
        os.replace(temporary, folder)
    finally:
        if not folder.exists() and old.exists():
            os.replace(old, folder)
        shutil.rmtree(old, ignore_errors=True)


def save(
    folder: str | Path, world: World, write: Callable[[Path], Any] = lambda folder: None,
    state: dict[str, Any] | None = None, own: dict[str, Any] | None = None,
    model: Any = None, opt: torch.optim.Optimizer | None = None,
) -> Path:
    """Write a folder, or replace it if it exists; every rank must call this.

    Args:
        folder: the folder.
        world: the World.
        write: called on every rank with the folder's temporary name: writes the model's files.
        state: what all ranks share, plain data; None: only the model's files are written.
        own: what this rank has, plain data.
        model: its trained weights are written, not inside a wrapper of DDP.
        opt: its optimizer.

    Raises:
        OSError: it could not be written on some rank (a full disk, say), whose message it is; on
            all ranks. What was there before is still there.
    """
    folder = Path(folder)
    temporary = folder.with_name(f".{folder.name}.{gather(world, os.getpid())[0]}.tmp")

    def on_main(do: Callable[[], Any]) -> None:
        agree(world, lambda: do() if world.main else None)

    try:
        on_main(lambda: temporary.mkdir(parents=True))
        agree(world, lambda: write(temporary))
        if state is not None:
            parts, ours = parts_of(model, opt), temporary / RANK.format(world.rank)
            agree(world, lambda: write_shards(parts, temporary / SHARDS, world))
            agree(world, lambda: torch.save(own, ours))
            state = state | {"trained": shapes_of(model), "processes": world.size}
            on_main(lambda: torch.save(state, temporary / STATE))
        on_main(lambda: put(temporary, folder))
    except Exception as error:  # safetensors and torch.save have exceptions of their own
        if isinstance(error, OSError):
            raise
        raise OSError(f"{type(error).__name__}: {error}") from error
    finally:
        if world.main:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def shapes_of(model: Any) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the weights that are trained, by name; tied weights have one name."""
    return {n: tuple(p.shape) for n, p in model.named_parameters() if p.requires_grad}


def parts_of(model: Any, opt: Any) -> dict[str, Any]:
    """Return trained weights and optimizer state by name; with FSDP2 just this rank's part."""
    from torch.distributed.checkpoint import state_dict

    options = state_dict.StateDictOptions(ignore_frozen_params=True)
    if not opt.state:  # before the first step torch makes an empty one, to have what to save
        state_dict.get_optimizer_state_dict(model, opt, options=options)
        for state in opt.state.values():
            if "step" in state:
                state["step"].zero_()
    weights, trained = state_dict.get_model_state_dict(model, options=options), shapes_of(model)
    return {"model": {name: weights[name] for name in trained},
            "opt": state_dict.get_optimizer_state_dict(model, opt, options=options)}


def write_shards(parts: dict[str, Any], folder: Path, world: World) -> None:
    """Write what parts_of returned; every rank must call it.

    Args:
        parts: this rank's.
        folder: it is made.
        world: the World.

    Raises:
        OSError: it could not be written on some rank; on all ranks.
    """
    import torch.distributed.checkpoint as dcp

    try:
        with warnings.catch_warnings():  # one process writing alone is intended
            warnings.simplefilter("ignore")
            dcp.save(parts, checkpoint_id=folder, no_dist=not world.many)
    except dcp.api.CheckpointException as error:
        raise OSError(last_line(error)) from None


def last_line(error: BaseException) -> str:
    """Return the last line of what an error says, or its type."""
    return (str(error).strip().splitlines() or [type(error).__name__])[-1][:200]


def prune(folder: str | Path, keep: int) -> None:
    """Remove all but the newest checkpoints, and the remains of a killed save."""
    for path in found(folder)[:-keep]:
        shutil.rmtree(path, ignore_errors=True)
    for path in Path(folder).glob(".checkpoint-*.*"):
        with contextlib.suppress(OSError):
            shutil.rmtree(path)


def load_state(folder: str | Path, name: str = STATE) -> dict[str, Any]:
    """Return the state of a checkpoint, or what one rank had.

    Raises:
        OSError: there is none, or it cannot be read.
    """
    path = Path(folder) / name
    try:
        return torch.load(path, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise OSError(f"{folder} is not a checkpoint to resume from: it has no {name}. Give a "
                      "folder checkpoint-N (final/ holds only a model), or True for the newest"
                      ) from None
    except Exception as error:
        raise damaged(folder, error) from error


def damaged(folder: str | Path, error: BaseException) -> OSError:
    """Return the error for a checkpoint that cannot be read."""
    return OSError(f"{folder} is damaged ({type(error).__name__}: {last_line(error):.100}): remove "
                   "it, and a resume continues from the one before")


def load(folder: Path, world: World, model: Any, opt: torch.optim.Optimizer) -> dict[str, Any]:
    """Load weights and optimizer from a checkpoint; every rank must call this.

    Args:
        folder: the checkpoint.
        world: the World; another number of processes may have written it.
        model: gets the weights, not inside a wrapper of DDP.
        opt: its optimizer.

    Returns: the state that was saved, and "processes", the number of them.

    Raises:
        OSError: it cannot be read; on all ranks.
        ValueError: it is of another model.
    """
    import torch.distributed.checkpoint as dcp
    from torch.distributed.checkpoint import state_dict

    state = load_state(folder)
    if not (folder / SHARDS).is_dir():
        raise OSError(f"{folder} was written by an earlier version, which this one cannot resume")
    if state["trained"] != shapes_of(model):
        raise ValueError("the checkpoint is of another model or another lora_rank: resume with "
                         "those it was made with, or take another output_dir")
    parts = parts_of(model, opt)

    def read() -> None:
        try:
            dcp.load(parts, checkpoint_id=folder / SHARDS, no_dist=not world.many)
        except (Exception, dcp.api.CheckpointException) as error:
            raise damaged(folder, error) from None

    with warnings.catch_warnings():  # one process reading alone is intended
        warnings.simplefilter("ignore")
        agree(world, read)
    options = state_dict.StateDictOptions(strict=False)
    state_dict.set_model_state_dict(model, parts["model"], options=options)
    state_dict.set_optimizer_state_dict(model, opt, parts["opt"], options=options)
    return state


def changed(state: dict[str, Any], cfg, more: Iterable[str] = ()) -> str:
    """Return which settings differ from those of a checkpoint, or nothing.

    Args:
        state: of a checkpoint.
        cfg: a GRPOConfig.
        more: what else differs, such as a file.
    """
    text = ", ".join(f"{k} {state['settings'][k]} -> {vars(cfg)[k]}"
                     for k in odd(state, cfg, tuple(vars(cfg))) if k != "output_dir")
    others = ", ".join(more)
    return (text and f", with other settings: {text}") + (others and f"; changed since: {others}")


def odd(state: dict[str, Any], cfg, names: tuple[str, ...]) -> list[str]:
    """Return which of some settings differ from those of a checkpoint.

    Args:
        state: of a checkpoint.
        cfg: a GRPOConfig.
        names: those looked at.
    """
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
