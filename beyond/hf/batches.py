"""Choose the next prompts, and split or join the rollouts of a batch.

A batch is a list of rollouts (one a sampling); a rollout is the dict that GRPOTrainer.roll_out
returns, and holds whole groups.
"""

import random
from typing import Any

import torch

from beyond.hf import backend
from beyond.parallel.ranks import World, my_part

BY_ROW = ("adv", "rewards", "prompts", "responses")


def next_rows(place: dict[str, int], rows: list, cfg) -> list:
    """Return the next prompts_per_step rows of this epoch's order, fewer at its end.

    Args:
        place: epoch and row; advanced in place.
        rows: all rows.
        cfg: a GRPOConfig. Its seed decides the order, the same on every rank.
    """
    order = list(range(len(rows)))
    if cfg.shuffle:
        random.Random(f"{cfg.seed}-{place['epoch']}").shuffle(order)
    part = order[place["row"] : place["row"] + cfg.prompts_per_step]
    place["row"] += len(part)
    if place["row"] >= len(rows):
        place["epoch"], place["row"] = place["epoch"] + 1, 0
    return [rows[i] for i in part]


def check_parts(n: int, cfg, world: World) -> None:
    """Raise a ValueError if some batch of n prompts cannot be split over the processes.

    Args:
        n: prompts of an epoch, 1 or more.
        cfg: a GRPOConfig.
        world: the processes that share the prompts.
    """
    sizes = {min(n, cfg.prompts_per_step), n % cfg.prompts_per_step} - {0}
    for size in sorted(sizes, reverse=True):
        where = f"prompts_per_step = {cfg.prompts_per_step}" if size == cfg.prompts_per_step else (
            f"the last batch of an epoch of {n} prompts has {size}")
        if size < world.size:
            raise ValueError(f"{where}: fewer than the {world.size} processes. Give more "
                             "prompts_per_step, another --max-samples, or fewer processes")
        if cfg.step == "lab" and size % world.size:
            raise ValueError(
                f"{where}: step = lab needs a multiple of the {world.size} processes, since your "
                "grpo_loss is a mean over the rows of one process. Give another prompts_per_step "
                "or --max-samples, or take step = ours")


def in_order(by_rank: list[list]) -> list:
    """Return the samplings of all ranks in the order of a single process: sampling, then rank."""
    most = max(map(len, by_rank), default=0)
    return [part[i] for i in range(most) for part in by_rank if i < len(part)]


def cut(rollout: dict[str, Any], start: int, stop: int) -> dict[str, Any]:
    """Return rows start to stop (whole groups) of a rollout, as if sampled by themselves.

    Args:
        rollout: as GRPOTrainer.roll_out returns it.
        start: the first row, a multiple of the group size.
        stop: the row behind the last one, likewise.
    """
    at = torch.arange(start, stop)
    out = backend.rows_of(rollout["out"], at)
    mask = out["mask"]
    found: dict[str, Any] = {"out": out} | {k: rollout[k][start:stop] for k in BY_ROW}
    for name in ("old", "ref"):
        kept = rollout[name]
        found[name] = None if kept is None else kept[start:stop, : mask.shape[1]]
    for name in ("parts", "notes"):
        found[name] = {k: v[start:stop] for k, v in rollout.get(name, {}).items()}
    found["entropy"] = float((out["entropy"] * mask).sum() / mask.sum().clamp(min=1.0))
    return found


def part_of(rollouts: list[dict[str, Any]], world: World, G: int) -> list[dict[str, Any]]:
    """Return this rank's share of the rollouts of all ranks: consecutive whole groups.

    Args:
        rollouts: of all ranks, in the order of a single process.
        world: the processes that share the prompts.
        G: group size.
    """
    mine = my_part(world, sum(len(r["adv"]) for r in rollouts) // G)
    start, stop, found = mine.start * G, mine.stop * G, []
    for rollout in rollouts:
        n = len(rollout["adv"])
        low, high = max(0, start), min(n, stop)
        if low < high:
            found.append(rollout if (low, high) == (0, n) else cut(rollout, low, high))
        start, stop = start - n, stop - n
    return found


def scored(policy, out: dict[str, Any], entropies: bool = False, wide: bool = False):
    """Return (log-probs, entropies or None) of the sampled tokens, each (B, T), with gradients.

    Args:
        policy: an hf.backend.Policy.
        out: what sample or rows_of returned.
        entropies: return them, too.
        wide: read at least two positions, the second masked out. FSDP2 gathers weights for the
            prompts, and again for what follows their first token: on every rank, or never.
    """
    short = wide and out["mask"].shape[1] == 1
    if short:
        more = {k: torch.nn.functional.pad(out[k], (0, 1)) for k in ("mask", "entropy")}
        out = out | more | {"ids": torch.cat([out["ids"], out["ids"][:, -1:]], 1)}
    logp = backend.sequence_logprobs(policy, out)
    entropy = backend.token_entropies(policy, out) if entropies else None
    if short:  # clones: FSDP2 wants no views
        logp, entropy = logp[:, :1].clone(), None if entropy is None else entropy[:, :1].clone()
    return logp, entropy
