"""What a call of each loss costs, forward and backward, against the lab's own grpo_loss.

    python -m beyond.bench.losses             prints a table
    python -m beyond.bench.losses --save      also writes beyond/bench/results/losses.json

All losses take turns in one process, so that other work on the machine slows all of them alike;
each number is the median over the rounds of a loss's time divided by grpo_loss's in the same round.
One thread, on the CPU, float32, with all extras at their defaults and the same clip_eps and beta.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # python beyond/bench/losses.py

from beyond.bench.common import save, seconds
from beyond.losses import LOSSES, Loss
from lab15_run import TOP, about, piped
from tests.labfile import load_lab

RESULTS = Path(__file__).resolve().parent / "results" / "losses.json"
SHAPES = ((128, 4), (64, 512))
AIM = {(128, 4): 2.0, (64, 512): 1.5}  # times grpo_loss
G = 8
SECONDS = 0.01  # a turn repeats the call for about so long, or the clock is too coarse


def inputs(B: int, T: int, seed: int = 0) -> list[Tensor]:
    """Return random logp (with grad), old_logp, ref_logp, adv and mask of ragged responses.

    Args:
        B: responses.
        T: positions.
        seed: of the random numbers.
    """
    rng = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng)

    old_logp = -normal(B, T).abs()
    logp = (old_logp + 0.2 * normal(B, T)).requires_grad_()
    lengths = torch.randint(1, T + 1, (B, 1), generator=rng)
    mask = (torch.arange(T) < lengths).float()
    return [logp, old_logp, old_logp + 0.3 * normal(B, T), normal(B), mask]


def call(loss: Loss, given: list[Tensor], times: int) -> None:
    """Compute the loss and its gradient, so many times.

    Args:
        loss: a function of grpo_loss's arguments.
        given: what inputs returned.
        times: how often.
    """
    logp = given[0]
    for _ in range(times):
        torch.autograd.grad(loss(*given, 0.2, 0.04)[0], logp)


def measure(losses: dict[str, Loss], base: Loss, shape: tuple[int, int],
            rounds: Iterable[int]) -> dict[str, dict[str, float]]:
    """Return name -> microseconds of a call, and its ratio to base; "grpo_loss" is base itself.

    Args:
        losses: by name.
        base: grpo_loss; the others are divided by it.
        shape: (B, T).
        rounds: one pass over all losses for each.
    """
    given = inputs(*shape)
    once = max(seconds(partial(call, base, given, 3))[1] for _ in range(3)) / 3
    times = max(1, round(SECONDS / max(once, 1e-6)))
    cases = {"grpo_loss": base, **losses}
    found: dict[str, list[float]] = {name: [] for name in cases}
    for loss in cases.values():  # warm up
        call(loss, given, times)
    for _ in rounds:
        for name, loss in cases.items():
            found[name].append(seconds(partial(call, loss, given, times))[1] / times)
    first = found["grpo_loss"]
    return {name: {"us": 1e6 * statistics.median(values),
                   "ratio": statistics.median(a / b for a, b in zip(values, first))}
            for name, values in found.items()}


def run(rounds: int, names: list[str]) -> dict[str, Any]:
    """Measure everything; return the numbers as they go into the JSON file."""
    start = time.perf_counter()
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    bind = {"dapo_group": {"G": G}}
    losses: dict[str, Loss] = {name: partial(f, **bind.get(name, {})) for name, f in LOSSES.items()
              if not names or name in names}
    found = {}
    for shape in SHAPES:
        bar = tqdm(range(rounds), "x".join(map(str, shape)), leave=False, disable=None, ascii=True)
        found["x".join(map(str, shape))] = measure(losses, lab.grpo_loss, shape, bar)
    return {
        "schema": 1, **about(" ".join(["python -m beyond.bench.losses", *sys.argv[1:]])),
        "rounds": rounds, "seed": 0,
        "aim": {"x".join(map(str, shape)): AIM[shape] for shape in SHAPES}, "shapes": found,
        "seconds": round(time.perf_counter() - start, 1),
    }


def print_table(result: dict[str, Any]) -> None:
    """Print microseconds and ratio of each loss at each shape, and what is above the aim."""
    shapes, aim = result["shapes"], result["aim"]
    print("forward and backward" + "".join(f"{s:>11s} us   ratio" for s in shapes))
    for name in next(iter(shapes.values())):
        cells = (f"{shapes[s][name]['us']:14.0f}{shapes[s][name]['ratio']:8.2f}" for s in shapes)
        print(f"{name:20s}{''.join(cells)}")
    for shape, table in shapes.items():
        slow = [name for name, row in table.items() if row["ratio"] > aim[shape]]
        said = f"above: {', '.join(slow)}" if slow else "met"
        print(f"{shape}: aim {aim[shape]} or less: {said}")


def main() -> None:
    """Read the flags, measure, print, save."""
    parser = argparse.ArgumentParser(description="Time each loss against the lab's grpo_loss.")
    parser.add_argument("--rounds", type=int, default=40, help="default 40")
    parser.add_argument("--losses", default="", help="names, separated by commas; default all")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(TOP)}")
    flags = parser.parse_args()
    names = [name for name in flags.losses.split(",") if name]
    if flags.rounds < 5:
        parser.error("--rounds must be 5 or more")
    if unknown := set(names) - set(LOSSES):
        parser.error(f"no such loss: {', '.join(sorted(unknown))}; there are {', '.join(LOSSES)}")
    torch.set_num_threads(1)
    result = run(flags.rounds, names)
    print(f"{result['machine']}, torch {result['torch']}, {result['threads']} thread")
    print_table(result)
    if flags.save:
        save(RESULTS, result)
        print(f"saved {RESULTS.relative_to(TOP)}")


if __name__ == "__main__":
    piped(main)
