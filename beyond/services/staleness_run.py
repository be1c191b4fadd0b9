"""One run of beyond.staleness, in its own process: services on Monarch, or the plain loop.

    python -m beyond.services.staleness_run --staleness 16 --correction tis --seed 0 --out run.json
    python -m beyond.services.staleness_run --plain --seed 0 --out run.json

Prints the number of updates as they are made. The clock never stops between the first update and
the last: weights are set aside every EVERY updates, and evaluated when training is over. An
evaluation or a checkpoint in between would let a generator fill its buffer while no time counts.
"""

import argparse
import asyncio
import json
import os
import random
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each process

import torch

import lab15_run
import tinylm
from beyond.settings import default_path
from lab15_run import TOP
from tests.labfile import load_lab

EVERY = 10  # updates between two points of a curve
DIGITS = 6


def accuracies(snapshots: dict[int, dict], n: int) -> list[float]:
    """Return the sampled accuracy of each set of weights on n held-out sums, in order."""
    model = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt")
    found = []
    for _, state in sorted(snapshots.items()):
        model.load_state_dict(state)
        found.append(tinylm.accuracy(model, n=n))
    return found


def windows(values: list[float]) -> list[float]:
    """Return the means over EVERY updates each."""
    parts = [values[i : i + EVERY] for i in range(0, len(values), EVERY)]
    return [round(sum(part) / len(part), DIGITS) for part in parts]


def told(snapshots: dict[int, dict], seconds: list[float], n: int) -> dict[str, Any]:
    """Return a run's accuracy curve, with the updates and seconds of its points.

    Args:
        snapshots: number of updates: state_dict, with 0 and the last one.
        seconds: of the clock after every update.
        n: held-out sums of an evaluation.
    """
    updates = sorted(snapshots)
    return {"updates": updates, "sampled": accuracies(snapshots, n),
            "at": [round(seconds[v - 1], 3) if v else 0.0 for v in updates]}


# ============================================================== the two kinds of runs


def plain(flags: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of a run of the lab's own loop, in one process."""
    lab = load_lab(flags.lab)
    cfg = lab.GRPOConfig(seed=flags.seed, iters=flags.iters, lr=flags.lr)
    policy, ref = (tinylm.load_or_train_sft(TOP / "tinylm_sft.pt") for _ in range(2))
    ref.requires_grad_(False)
    torch.manual_seed(cfg.seed)  # as in train_grpo
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    rng = random.Random(cfg.seed)
    snapshots, seconds, clip = {0: copied(policy)}, [], []
    start = time.perf_counter()
    for update in range(1, cfg.iters + 1):
        stats = lab.grpo_step(policy, ref, opt, *lab.make_batch(cfg.prompts_per_iter, rng), cfg)
        lab15_run.stop_if_nan(stats, policy, cfg, update)
        seconds.append(time.perf_counter() - start)
        clip.append(stats["clip_frac"])
        if update % EVERY == 0 or update == cfg.iters:
            snapshots[update] = copied(policy)
        print(update, flush=True)
    return told(snapshots, seconds, flags.eval_n) | {"clip": windows(clip)}


def copied(policy: Any) -> dict[str, Any]:
    """Return a copy of a model's weights."""
    return {k: v.detach().clone() for k, v in policy.state_dict().items()}


def with_services(flags: argparse.Namespace) -> dict[str, Any]:
    """Return the measurements of a run of beyond.services."""
    from monarch.actor import shutdown_context

    from beyond.services.config import ServicesConfig
    from beyond.services.controller import Services

    exact = {"mode": "async", "staleness": flags.staleness} if flags.staleness else {"mode": "sync"}
    cfg = ServicesConfig(
        **exact, correction=flags.correction, seed=flags.seed, iters=flags.iters, lr=flags.lr,
        eval_every=flags.iters, eval_n=flags.eval_n, save_every=flags.iters + 1)
    try:
        with tempfile.TemporaryDirectory() as folder:
            services = Services(cfg, flags.lab, folder)
            snapshots = asyncio.run(trained(services, Path(folder)))
    finally:
        shutdown_context().get()
    history = services.history
    lag = [-x for x in history["log_ratio_mean"]]
    found = told(snapshots, history["train_seconds"], flags.eval_n)
    if found["sampled"][-1] != history["acc_sampled"][-1]:
        raise RuntimeError("the weights that were kept are not those of the trainer")
    parts = {k: round(v, 2) for k, v in services.seconds.items()}
    return found | {"clip": windows(history["clip_frac"]), "lag": windows(lag),
                    "behind": sum(history["staleness"]) / flags.iters, "parts": parts}


async def trained(services: Any, folder: Path) -> dict[int, dict]:
    """Train with services; return the weights every EVERY updates, and the last ones."""
    snapshots: dict[int, dict] = {}

    def step(version: int) -> None:
        """Keep the weights that this update started from; the generator needs them anyway."""
        if (version - 1) % EVERY == 0:
            snapshots[version - 1] = services.published[version - 1]
        print(version, flush=True)

    async with services:
        await services.run(tell=lambda line: None, step=step)
    if any(replica.restarts for replica in services.replicas):
        raise RuntimeError("a process died and was replaced, so the clock says nothing")
    last = torch.load(folder / "policy.pt", weights_only=True)
    return snapshots | {services.cfg.iters: last}


def main(args: list[str] | None = None) -> int:
    """Make one run; write its measurements; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m beyond.services.staleness_run",
                                     description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--plain", action="store_true", help="the lab's loop in one process")
    parser.add_argument("--staleness", type=int, default=0, help="updates that samples are old")
    parser.add_argument("--correction", default="none", help="none, tis or ratio")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--lr", type=float, default=3e-4, help="learning rate")
    parser.add_argument("--iters", type=int, default=300, help="updates")
    parser.add_argument("--eval-n", type=int, default=500, help="problems of an evaluation")
    parser.add_argument("--lab", default=str(default_path()), help="lab file")
    parser.add_argument("--out", type=Path, required=True, help="JSON file for the results")
    flags = parser.parse_args(args)
    torch.set_num_threads(1)
    start = time.perf_counter()
    found = plain(flags) if flags.plain else with_services(flags)
    found |= {"torch": torch.__version__, "seconds": round(time.perf_counter() - start, 1)}
    tinylm.write_file(flags.out, lambda file: file.write(json.dumps(found).encode()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
