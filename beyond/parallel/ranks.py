"""Several processes that train one policy, started by torchrun: who is who, sums, DDP, FSDP2.

    torchrun --nproc-per-node 2 -m beyond.train_hf --parallel fsdp ...

    world = start()                                  # without torchrun: a world of one
    model = wrap(model, world, "ddp")
    rows = prompts[my_part(world, len(prompts))]     # whole groups stay on one rank
    [N] = total(world, [tokens of this rank])        # denominators are those of all ranks
    (loss * world.size).backward()                   # see wrap

Seeds: rank r samples with seed_of(seed, r); the order of the data is the seed's on every rank.
Only torch's own parts are used: torch.distributed, DistributedDataParallel, fully_shard.
Tensor parallelism (how = "tp"): parallel/tensor.py.
"""

import contextlib
import dataclasses
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
import torch.nn as nn

from lab15_run import counted

KINDS = ("ddp", "fsdp")


@dataclasses.dataclass
class World:
    """This process among all that train.

    Args:
        rank: 0 to size - 1; rank 0 writes.
        size: number of processes.
        local_rank: its number on this machine.
        device: where its model lives.
    """

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    device: torch.device = dataclasses.field(default_factory=lambda: torch.device("cpu"))

    @property
    def main(self) -> bool:
        """Whether this is rank 0, which writes and speaks for all."""
        return self.rank == 0

    @property
    def many(self) -> bool:
        """Whether there are other processes."""
        return self.size > 1


def start(device: str | None = None, only_torchrun: bool = False) -> World:
    """Return this process's world; with several processes, after all of them have met.

    Args:
        device: "cpu" (also None: gloo) or "cuda" (nccl, one GPU a process).
        only_torchrun: take others' RANK and WORLD_SIZE for none of ours.

    Without torchrun, or with one process, it is a world of one and there is no process group.

    Raises:
        ValueError: another kind of device, or fewer GPUs than processes.
    """
    where = torch.device(device or "cpu")
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or (only_torchrun and "TORCHELASTIC_RUN_ID" not in os.environ):
        return World(device=where)
    rank, local = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if where.type not in ("cpu", "cuda"):
        raise ValueError(f"several processes need device cpu or cuda, got {device}")
    if where.type == "cuda":
        if local >= torch.cuda.device_count():
            raise ValueError(
                f"process {local} of this machine has no GPU: there are "
                f"{torch.cuda.device_count()}. Lower --nproc-per-node")
        where = torch.device("cuda", local)
        torch.cuda.set_device(where)
    if not dist.is_initialized():  # Python objects travel over gloo in both cases
        backend = "gloo" if where.type == "cpu" else "cpu:gloo,cuda:nccl"
        dist.init_process_group(backend, store=_store(), rank=rank, world_size=size)
    return World(rank, size, local, where)


def _store():
    """Return the store in which the ranks find each other, a new one after a restart.

    torchrun on one machine (torch 2.13) keeps its store over --max-restarts: the addresses of the
    dead are in it, and gloo waits for them. On several machines it makes a new one each time.
    """
    store, _, _ = next(dist.rendezvous("env://"))
    if os.environ.get("GROUP_WORLD_SIZE", "1") != "1":
        return store
    return dist.PrefixStore(f"life{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)


def stop(world: World) -> None:
    """Leave the process group, if there is one."""
    if world.many and dist.is_initialized():
        dist.destroy_process_group()


def settings(cfg, world: World):
    """Return a config for one of several processes.

    Args:
        cfg: a GRPOConfig.
        world: the World.

    Raises:
        ValueError: what does not go together, in one line.
    """
    if cfg.prompts_per_step < world.size and cfg.parallel != "tp":
        raise ValueError(f"prompts_per_step = {cfg.prompts_per_step} is fewer than the "
                         f"{world.size} processes: each needs whole groups. Give more prompts, or "
                         "start fewer processes")
    if cfg.parallel != "ddp" and cfg.lora_rank:
        raise ValueError(f"parallel = {cfg.parallel} does not go with lora_rank, whose adapters "
                         "are small: take parallel = ddp")
    on_gpu = world.device.type == "cuda"
    return dataclasses.replace(cfg, device=str(world.device)) if on_gpu else cfg


# ============================================================== numbers and objects of all ranks


def _reduced(world: World, numbers: list[float], how) -> list[float]:
    if not world.many or not numbers:
        return [float(x) for x in numbers]
    held = torch.tensor(numbers, dtype=torch.float64, device="cpu")
    dist.all_reduce(held, how)
    return held.tolist()


def total(world: World, numbers: list[float]) -> list[float]:
    """Return the sums of each number over all ranks, in float64; every rank must call it."""
    return _reduced(world, numbers, dist.ReduceOp.SUM)


def extreme(world: World, numbers: list[float]) -> list[float]:
    """Return the largest of each number over all ranks; every rank must call it."""
    return _reduced(world, numbers, dist.ReduceOp.MAX)


def gather(world: World, thing: Any) -> list:
    """Return what every rank gave, in rank order, on every rank; every rank must call it.

    Args:
        world: the World.
        thing: anything that can be pickled; tensors on the CPU.
    """
    if not world.many:
        return [thing]
    found: list[Any] = [None] * world.size
    dist.all_gather_object(found, thing)
    return found


def of_all(world: World, function: Callable, values: torch.Tensor, *args, **kwargs) -> torch.Tensor:
    """Return this rank's part of what a function makes of all ranks' values; every rank must call.

    Args:
        world: the World.
        function: of (values, *args), such as an advantage that looks at the whole batch; it
            returns a tensor as long as its values.
        values: (n,) this rank's; n may be another on each rank.
        *args: passed on.
        **kwargs: passed on.
    """
    if not world.many:
        return function(values, *args, **kwargs)
    parts = gather(world, values.cpu())
    first = sum(map(len, parts[: world.rank]))
    whole = function(torch.cat(parts).to(values.device), *args, **kwargs)
    return whole[first : first + len(values)]


def agree(world: World, do: Callable[[], Any]) -> Any:
    """Return do(); if it fails on any rank, all ranks raise, and none waits for another forever.

    Raises:
        OSError: the message of the first rank that failed.
    """
    if not world.many:
        return do()
    result, error = None, None
    try:
        result = do()
    except BaseException as problem:  # torch.distributed.checkpoint's is no Exception
        if isinstance(problem, (KeyboardInterrupt, SystemExit)):
            raise
        plain = isinstance(problem, (OSError, ValueError))
        error = f"{problem}" if plain else f"{type(problem).__name__}: {problem}"
    errors = gather(world, error)
    for rank, text in enumerate(errors):
        if text is not None:
            raise OSError(text if all(errors) else f"rank {rank}: {text}")
    return result


@contextlib.contextmanager
def ctrl_c(world: World) -> Iterator[list[int]]:
    """Yield a list that gets an entry with Ctrl-C, instead of an exception in the middle of a step.

    Ranks must stop after the same step; see stopped. torchrun passes Ctrl-C on and waits
    --shutdown-timeout seconds (30) before it kills. In a world of one a second Ctrl-C is the
    usual exception.
    """
    pressed: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield pressed
        return

    def press(number, frame):
        if pressed and not world.many:
            raise KeyboardInterrupt
        pressed.append(number)
        if world.main:
            print("\nCtrl-C: stopping after this step", file=sys.stderr, flush=True)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield pressed
    finally:
        signal.signal(signal.SIGINT, before)


def stopped(world: World, pressed: list[int]) -> bool:
    """Return whether Ctrl-C has reached any rank; every rank must call it."""
    return extreme(world, [float(len(pressed))])[0] > 0


def my_part(world: World, n: int) -> slice:
    """Return which of n prompts this rank takes: consecutive ones, sizes differ by at most one.

    Raises:
        ValueError: there are fewer prompts than processes.
    """
    if n < world.size:
        raise ValueError(f"{counted(n, 'prompt')} cannot be split over {world.size} processes: "
                         "give more prompts a step, or start fewer processes")
    return slice(n * world.rank // world.size, n * (world.rank + 1) // world.size)


def seed_of(seed: int, rank: int) -> int:
    """Return a rank's seed: seed + 1000003 * rank, so that rank 0 samples as a world of one does.

    The step is a large prime: seeds 0, 1, 2, ... of several runs do not meet on other ranks.
    """
    return seed + 1_000_003 * rank


# ============================================================== models


def blocks_of(model: nn.Module) -> list[nn.Module]:
    """Return a model's blocks: the members of its longest ModuleList."""
    lists = [list(m) for m in model.modules() if isinstance(m, nn.ModuleList)]
    return max(lists, key=len, default=[])


def wrap(model: nn.Module, world: World, how: str) -> nn.Module:
    """Return a model whose backward() leaves the MEAN of the ranks' gradients on every rank.

    Args:
        model: on the world's device, with the same weights on every rank.
        world: the World; in a world of one the model itself is returned.
        how: "ddp": every rank has all weights. "fsdp": every rank keeps a part of each weight, of
            its gradient and of its optimizer state (fully_shard, for each block and the rest);
            make the optimizer after this.

    Both take the mean. A rank's loss is its share of the loss of the whole batch (its own terms,
    divided by all ranks' rows or tokens or groups), so the sum is wanted: multiply the loss by
    world.size before backward(). Only what runs inside the returned model's forward() is seen.

    Raises:
        ValueError: another kind.
    """
    if how not in KINDS:
        raise ValueError(f"parallel = {how!r} is not allowed; give {' or '.join(KINDS)}")
    if not world.many:
        return model
    if how == "ddp":
        with warnings.catch_warnings():  # torch 2.13 renames the argument, 2.9 has no other
            warnings.simplefilter("ignore", FutureWarning)
            # Buffers are constants (rotary tables, masks): nothing to send before every forward.
            # Without find_unused_parameters DDP orders its buckets anew after the first step, and
            # with them the additions: from 3 ranks on a resumed run would differ in the last bit.
            return nn.parallel.DistributedDataParallel(
                model, broadcast_buffers=False, find_unused_parameters=True)
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh(world.device.type, (world.size,))
    for block in blocks_of(model):
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh, reshard_after_forward=False)
    return model


class Through(nn.Module):
    """Runs functions of a policy as the forward of one module, which DDP and FSDP2 hook into.

    hf_backend scores with parts of a model (decoder, head), which a wrapper does not see.

    Args:
        policy: an hf.backend.Policy.
    """

    def __init__(self, policy: nn.Module):
        super().__init__()
        self.policy = policy

    def forward(self, function, *args):
        """Return function(policy, *args)."""
        return function(self.policy, *args)


def scorer(policy: nn.Module, world: World, how: str) -> nn.Module:
    """Return wrap(Through(policy)), ready for use.

    Args:
        policy: an hf.backend.Policy.
        world: the World.
        how: ddp or fsdp.
    """
    made = wrap(Through(policy), world, how) if world.many else Through(policy)
    if world.many and how == "fsdp":  # its first forward tells FSDP2 which module is the whole
        with torch.no_grad():
            made(lambda policy: None)
        made.reshard()  # type: ignore[operator]
    return made


@contextlib.contextmanager
def whole(model: nn.Module) -> Iterator[None]:
    """Keep all weights of a model that wrap() has sharded on every rank; else do nothing.

    For sampling: ranks stop at different lengths, and a forward that gathers weights must be
    called equally often by all. It costs the memory of the weights, not of gradients and
    optimizer. All ranks enter and leave together; inside nothing waits for another rank. Inside,
    too, the weights are ordinary tensors; there must be no backward().
    """
    from torch.distributed.fsdp import FSDPModule

    parts = [m for m in model.modules() if isinstance(m, FSDPModule)]
    for part in parts:
        part.unshard()
        part.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for part in parts:
            part.reshard()
            # As wrap() has set it: blocks are sharded again after their forward, the rest stays.
            part.set_reshard_after_forward(part is not model, recurse=False)


def syncing(model: nn.Module, now: bool):
    """Return the context of a micro-batch: DDP sends gradients after the last one only.

    FSDP2 sends them each time: kept until the last they would have the size of the whole model.
    """
    held = isinstance(model, nn.parallel.DistributedDataParallel) and not now
    return model.no_sync() if held else contextlib.nullcontext()  # type: ignore[operator]


def turns(world: World, pieces: list, how: str) -> list:
    """Return a rank's micro-batches, with FSDP2 as many as any rank has: the last again.

    Every forward and backward of FSDP2 gathers weights from all ranks. DDP waits once, at the end.

    Args:
        world: the World.
        pieces: this rank's micro-batches.
        how: ddp or fsdp.
    """
    if not world.many or how != "fsdp":
        return pieces
    most = int(extreme(world, [float(len(pieces))])[0])
    return pieces + pieces[-1:] * (most - len(pieces))


def full(tensor: torch.Tensor) -> torch.Tensor:
    """Return a tensor of which every rank has a part as a whole; every rank must call it."""
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def weights(model: nn.Module) -> dict[str, torch.Tensor]:
    """Return all weights of a model in parts, whole and on the CPU; every rank must call it."""
    found: dict[int, torch.Tensor] = {}  # tied weights stay one
    named = model.state_dict(keep_vars=True)
    for value in named.values():
        if id(value) not in found:
            found[id(value)] = full(value.detach()).cpu()
    return {name: found[id(value)] for name, value in named.items()}
