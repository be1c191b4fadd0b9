"""Tensor parallelism: every process has a part of every layer, and all read the same text.

    torchrun --nproc-per-node 2 -m beyond.train_hf --parallel tp --step ours ...

DDP and FSDP2 (parallel.py) cut the batch; this cuts the projections of every block: whole attention
heads, and columns of the MLP (torch's parallelize_module; Shoeybi et al. 2019, Megatron-LM). The
rest (embedding, norms, head) is on every process. A forward adds up the parts twice in each block.

All processes have the same prompts, random numbers and logits: they draw the same tokens in
lock-step. For batches, seeds, denominators and metrics there is one process (one_of). Each forward
compares what is read (same_everywhere). Rewards are rank 0's (once).
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import torch
import torch.nn as nn

from beyond.parallel import ranks
from beyond.parallel.ranks import World, blocks_of, gather

COLUMNS = ("q_proj", "k_proj", "v_proj", "gate_proj", "up_proj")
ROWS = ("o_proj", "down_proj")
INSTEAD = "Take parallel = fsdp"


def one_of(world: World, how: str) -> World:
    """Return the world as the data see it: of one process with tensor parallelism."""
    return dataclasses.replace(world, rank=0, size=1) if how == "tp" else world


def scorer(policy, ref, world: World, how: str) -> nn.Module:
    """Return parallel.scorer(policy, ...); with tensor parallelism both models are cut first.

    Args:
        policy: an hf.backend.Policy.
        ref: the reference, or None.
        world: the World.
        how: ddp, fsdp or tp.
    """
    for one in (policy, ref) if how == "tp" else ():
        if one is not None:
            split(one.model, world)
    return ranks.scorer(policy, one_of(world, how), how)


def once(world: World, how: str, do: Callable[[], Any]) -> Any:
    """Return do(); with tensor parallelism rank 0's, on every rank.

    A reward need not say the same twice (a judge, a clock), and one call is cheaper.

    Args:
        world: the World.
        how: ddp, fsdp or tp.
        do: what to call.
    """
    if how != "tp" or not world.many:
        return do()
    return gather(world, do() if world.main else None)[0]


def plan_of(model: nn.Module, size: int) -> dict[str, Any]:
    """Return how each projection is cut: module name -> style of parallelize_module.

    Args:
        model: a causal LM.
        size: number of processes.

    Raises:
        ValueError: a model that is not built like Llama, or sizes that cannot be cut.
    """
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel

    kind, known = type(model).__name__, sorted(COLUMNS + ROWS)
    names = {m: name for name, m in model.named_modules()}
    plan: dict[str, Any] = {}
    for block in blocks_of(model) or [nn.Identity()]:
        found = [(m, n.rpartition(".")[2]) for n, m in block.named_modules()
                 if n.rpartition(".")[2] in known]
        if sorted(name for _, name in found) != known:
            raise ValueError(f"parallel = tp: {kind} has not once each of {', '.join(known)} in "
                             f"every block, as Llama has. {INSTEAD}")
        plan |= {names[m]: ColwiseParallel() if n in COLUMNS else RowwiseParallel()
                 for m, n in found}
    for parent in sorted({name.rpartition(".")[0] for name in plan}):
        for name, _ in model.get_submodule(parent).named_parameters(parent):
            if name.rpartition(".")[0] not in plan:  # its gradient would be one of some heads
                raise ValueError(f"parallel = tp: {kind} has {name} among the projections, which "
                                 f"Llama has not. {INSTEAD}")
    cfg: Any = model.config
    for name in ("num_attention_heads", "num_key_value_heads", "intermediate_size"):
        if (n := getattr(cfg, name, size)) % size:
            raise ValueError(f"parallel = tp: {name} = {n} cannot be cut into {size} parts: start "
                             "another number of processes")
    return plan


def split(model: Any, world: World) -> None:
    """Cut a model's blocks over the ranks, in place; all its weights become DTensors.

    Gradients: of a part on its rank; of what is whole, the same on every rank, and counted once in
    clip_grad_norm_. Make the optimizer after this.

    Args:
        model: a causal LM, on the world's device; rank 0's weights are taken.
        world: the World; in a world of one nothing is done.

    Raises:
        ValueError: the model is not built like Llama, or gives other logits when cut.
    """
    if not world.many:
        return
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, distribute_module
    from torch.distributed.tensor.parallel import parallelize_module

    plan, ids = plan_of(model, world.size), torch.arange(8, device=world.device).view(2, 4)
    mesh = init_device_mesh(world.device.type, (world.size,))
    into, head = model.get_input_embeddings(), model.get_output_embeddings()
    tied = into.weight is head.weight

    def to_dtensors(module, inputs, mesh):
        return tuple(DTensor.from_local(x, mesh, [Replicate()], run_check=False)
                     if isinstance(x, torch.Tensor) else x for x in inputs)

    before = logits_of(model, ids)
    parallelize_module(model, mesh, plan)
    for name, module in list(model.named_modules()):
        if name not in plan and any(True for _ in module.parameters(recurse=False)):
            # Whole, but a DTensor too: clip_grad_norm_ and AdamW take no mixed lists.
            distribute_module(
                module, mesh, None, to_dtensors, lambda module, out, mesh: out.to_local())
    if tied:
        head.weight = into.weight
    into.register_forward_pre_hook(
        lambda module, inputs: same_everywhere(inputs[0]), prepend=True)
    try:
        apart = float((logits_of(model, ids) - before).abs().max() / before.abs().max())
    except (RuntimeError, TypeError, AttributeError) as error:
        raise ValueError(f"parallel = tp: {type(model).__name__} does not run in parts "
                         f"({str(error).splitlines()[0]:.80}). {INSTEAD}") from None
    if not apart < 1e-2:
        raise ValueError(f"parallel = tp: {type(model).__name__} gives other logits in parts (by "
                         f"{apart:.1g} of the largest). {INSTEAD}")


@torch.no_grad()
def logits_of(model: Any, ids: torch.Tensor) -> torch.Tensor:
    """Return a model's logits without a cache."""
    return model(ids, use_cache=False).logits


def same_everywhere(ids: torch.Tensor) -> None:
    """Compare the ids that a forward reads over all ranks, before anything is added up.

    Raises:
        ValueError: they differ; on all ranks.
    """
    import torch.distributed as dist

    at = torch.arange(1, ids.numel() + 1, device=ids.device)
    number = ((ids.flatten() + 1) * (at * 40503 % 65521)).sum()
    held = torch.stack([number, number.new_tensor(ids.shape[0]), number.new_tensor(ids.shape[-1])])
    held = torch.cat([held, -held])
    dist.all_reduce(held, dist.ReduceOp.MAX)
    if (held[:3] + held[3:]).any():  # largest - smallest
        raise ValueError("the processes of parallel = tp no longer read the same tokens: their "
                         "logits differ. Resume from the last checkpoint; should it happen again: "
                         "parallel = fsdp")
