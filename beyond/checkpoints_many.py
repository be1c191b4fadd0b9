"""Checkpoints that several processes write together, and any number of processes reads.

    OUT/checkpoint-20/    the model as from_pretrained reads it; state.pt (step, place in the data,
                          number of processes); shards/ (weights and optimizer, each rank its part,
                          torch.distributed.checkpoint); rank0.pt, rank1.pt, ... (random numbers and
                          samples in use of each rank)

All ranks must see the same folder. With as many processes as before a run goes on to the bit. With
another number the weights, the optimizer and the samples in use are the same; sampling goes on with
new seeds: seed_of(seed + step, rank). One process reads these, and several read those of one.
"""

import os
import shutil
import warnings
from pathlib import Path
from typing import Any

import torch

from beyond import checkpoints
from beyond.batches import in_order, part_of
from beyond.parallel import World, agree, gather, whole
from beyond.parallel_tp import weights as weights_of

SHARDS = "shards"
RANK = "rank{}.pt"


def parts_of(policy, opt) -> dict[str, Any]:
    """Return trained weights and optimizer state by name; with FSDP2 just this rank's part."""
    from torch.distributed.checkpoint import state_dict

    options = state_dict.StateDictOptions(ignore_frozen_params=True)
    return {
        "model": state_dict.get_model_state_dict(policy.model, options=options),
        "opt": state_dict.get_optimizer_state_dict(policy.model, opt, options=options),
    }


def put_parts(policy, opt, parts: dict[str, Any], everything: bool = False) -> None:
    """Take over what parts_of returned; everything: each rank has all of it and takes its part."""
    from torch.distributed.checkpoint import state_dict

    options = state_dict.StateDictOptions(full_state_dict=everything, strict=False)
    state_dict.set_model_state_dict(policy.model, parts["model"], options=options)
    state_dict.set_optimizer_state_dict(policy.model, opt, parts["opt"], options=options)


def save(folder: str | Path, trainer, state: dict[str, Any] | None) -> Path:
    """Write a checkpoint, or without state the model alone; every rank must call it.

    Raises:
        OSError: it could not be written on some rank, whose message it is; on all ranks.
    """
    import torch.distributed.checkpoint as dcp

    folder, world, policy = Path(folder), trainer.world, trainer.policy
    number = gather(world, os.getpid())[0]
    temporary = folder.with_name(f".{folder.name}.{number}.tmp")

    def on_main(do):
        return agree(world, lambda: do() if world.main else None)

    try:
        on_main(lambda: temporary.mkdir(parents=True))
        names = set(policy.model.state_dict())  # not inside whole: it would end it
        with whole(trainer.through):
            how = trainer.cfg.parallel
            weights = weights_of(policy.model) if how == "tp" else (
                gathered(policy.model, names) if how == "fsdp" else None)
            on_main(lambda: checkpoints.write_model(temporary, policy, weights))
        if state is not None:
            own = {name: state.pop(name) for name in ("random", "batch")}
            state.pop("trained"), state.pop("opt")
            parts = parts_of(policy, trainer.opt)
            agree(world, lambda: dcp.save(parts, checkpoint_id=temporary / SHARDS))
            agree(world, lambda: torch.save(own, temporary / RANK.format(world.rank)))
            state |= {"processes": world.size, "batches": trainer.data.size}
            on_main(lambda: torch.save(state, temporary / checkpoints.STATE))
        on_main(lambda: checkpoints.put(temporary, folder))
    finally:
        if world.main:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def gathered(model, names: set[str]) -> dict[str, torch.Tensor]:
    """Return the weights of these names of a model of FSDP2, inside whole."""
    every = [*model.named_parameters(remove_duplicate=False), *model.named_buffers()]
    return {name: value.detach() for name, value in every if name in names}


def load(folder: Path, state: dict[str, Any], trainer) -> None:
    """Take over weights, optimizer and samples in use of a checkpoint; every rank must call it.

    Args:
        folder: the checkpoint.
        state: what checkpoints.load_state returned for it; gets "random" (None: the ranks' random
            numbers are of no use here) and "batch".
        trainer: a GRPOTrainer.

    Raises:
        OSError: it cannot be read.
    """
    policy, opt, world = trainer.policy, trainer.opt, trainer.world
    before = state.get("processes", 1)
    parts = state.get("batches", before)  # with tensor parallelism all have the same batch
    same = (before, parts) == (world.size, trainer.data.size)
    if before == 1:
        checkpoints.check_same(state["trained"], dict(policy.model.named_parameters()))
        put_parts(policy, opt, named(state, policy, opt), everything=True)
        kept = [{"random": state["random"], "batch": state["batch"]}]
    else:
        read_shards(folder, policy, opt, world)
        ranks = [world.rank] if same else range(parts)
        kept = [checkpoints.load_state(folder, RANK.format(rank)) for rank in ranks]
    if same:
        state.update(kept[0])
        return
    state["random"], state["batch"] = None, kept[0]["batch"]
    if state["batch"]:
        rollouts = in_order([k["batch"]["rollouts"] for k in kept])
        state["batch"] |= {"rollouts": part_of(rollouts, trainer.data, trainer.cfg.group_size)}


def read_shards(folder: Path, policy, opt, world: World) -> None:
    """Read the parts of weights and optimizer that this rank has now."""
    import torch.distributed.checkpoint as dcp

    parts = parts_of(policy, opt)
    with warnings.catch_warnings():  # that one process reads by itself is meant
        warnings.simplefilter("ignore")
        agree(world, lambda: dcp.load(
            parts, checkpoint_id=folder / SHARDS, no_dist=not world.many))
    put_parts(policy, opt, parts)


def named(state: dict[str, Any], policy, opt) -> dict[str, Any]:
    """Return the weights and optimizer state of a world of one by name instead of by number."""
    names = [n for n, p in policy.model.named_parameters() if p.requires_grad]
    groups = [g | {"params": [names[i] for i in g["params"]]} for g in state["opt"]["param_groups"]]
    by_name = {names[i]: v for i, v in state["opt"]["state"].items()}
    return {"model": state["trained"], "opt": {"state": by_name, "param_groups": groups}}
