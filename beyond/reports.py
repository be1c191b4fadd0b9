"""What a trainer says and writes beside its metrics: plans, completions, evaluation."""

import contextlib
from typing import Any

import torch

from beyond import hf_backend
from beyond.batches import in_order
from beyond.data import usable
from beyond.parallel import gather, seed_of, total, whole
from beyond.parallel_tp import once
from beyond.rewards import call


def quiet(world):
    """Return a context in which only rank 0 prints."""
    return contextlib.nullcontext() if world.main else contextlib.redirect_stdout(None)


def announce(n: int, cfg) -> int:
    """Return the number of optimizer steps; warn of what would never happen in so many."""
    batches = -(-n // (cfg.prompts_per_step * cfg.gradient_accumulation_steps))
    steps = batches * cfg.inner_steps * cfg.num_train_epochs
    steps = min(steps, cfg.max_steps) if cfg.max_steps else steps
    print(f"{n} prompts, {steps} optimizer steps")
    for name in ("logging_steps", "save_steps", "eval_steps"):
        if getattr(cfg, name) > steps:
            print(f"{name} = {getattr(cfg, name)} is more than the {steps} steps there are: "
                  f"it happens at the end only. Set {name} lower to see more.")
    if cfg.warmup_steps > steps:
        print(f"warmup_steps = {cfg.warmup_steps} of {steps} steps: the learning rate never "
              "reaches its peak")
    return steps


def notes_of(metadata: dict[str, Any], n: int) -> dict[str, list]:
    """Return what a reward noted of each of n responses, as plain text and numbers."""
    plain = (str, int, float, type(None))
    return {
        f"metadata/{k}": [x if isinstance(x, plain) else str(x) for x in v]
        for k, v in metadata.items() if k != "parts" and isinstance(v, list) and len(v) == n
    }


def columns_of(rows: list[dict], out: dict[str, Any]) -> dict[str, list]:
    """Return what a reward may ask for beside prompts and responses: the data's columns, the ids.

    Args:
        rows: the data's row of each response.
        out: what sample returned for them.
    """
    names = {k for row in rows for k in row} - {"prompt", "text"}
    ids = {"completion_ids": hf_backend.response_ids(out)}
    return ids | {k: [row.get(k) for row in rows] for k in names}


def judged(trainer, prompts: list[str], responses: list[str], columns: dict) -> tuple:
    """Return (scores, {part: scores}, notes) of the trainer's reward."""
    def ask():
        found = call(trainer.reward_fn, prompts, responses, columns, trainer.cfg.reward_timeout)
        notes = notes_of(found.metadata, len(responses))
        return found.scores, found.metadata.get("parts", {}), notes

    return once(trainer.world, trainer.cfg.parallel, ask)


def completion_rows(rollout: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the responses of a rollout as rows of completions.jsonl."""
    ids, parts, rows = hf_backend.response_ids(rollout["out"]), rollout["parts"], []
    for i, text in enumerate(rollout["responses"]):
        reward = float(rollout["rewards"][i])
        rows.append({
            "prompt": rollout["prompts"][i], "completion": text, "ids": ids[i],
            "reward": None if reward != reward else reward,
            "advantage": float(rollout["adv"][i]),
        } | {f"rewards/{k}": v[i] for k, v in parts.items()} | {
            k: v[i] for k, v in rollout.get("notes", {}).items()})
    return rows


def write_completions(trainer) -> None:
    """Write the responses of all ranks to the batch that is done with, in the prompts' order."""
    cfg, mine = trainer.cfg, [completion_rows(r) for r in trainer.batch["rollouts"]]
    rows = [row for part in in_order(gather(trainer.data, mine)) for row in part]
    if trainer.world.main:
        shown = cfg.log_completions if trainer.done % cfg.logging_steps == 0 else 0
        trainer.log.completions(trainer.done, rows, shown)


@torch.no_grad()
def evaluate(trainer, greedy: bool = False) -> float:
    """Return the mean reward of one response to each evaluation prompt; own random numbers.

    Each rank answers its share of the prompts; drawn ones differ with the number of processes.
    """
    policy, cfg, world = trainer.policy, trainer.cfg, trainer.data
    with quiet(trainer.world):
        rows = usable(trainer.eval_rows, policy)[: cfg.eval_samples]
    n = len(rows)  # perhaps fewer than processes
    rows = rows[n * world.rank // world.size : n * (world.rank + 1) // world.size]
    generator = torch.Generator(policy.device).manual_seed(seed_of(cfg.seed, world.rank))
    scores: list[float | None] = []
    with whole(trainer.through):
        for start in range(0, len(rows), 64):
            part = rows[start : start + 64]
            texts = [r["text"] for r in part]
            out = hf_backend.sample(policy, texts, cfg.temperature, greedy, generator=generator)
            responses = hf_backend.decode_responses(out)
            scores += judged(trainer, texts, responses, columns_of(part, out))[0]
    known = [s for s in scores if s is not None]
    got, answered = total(world, [sum(known), len(known)])
    return got / max(1, answered)
