"""What one grpo_step costs, where the time goes, and how it grows with G and with length.

    python -m beyond.bench.step             prints three tables
    python -m beyond.bench.step --save      also writes beyond/bench/results/step.json

Everything is timed in one process and in turn (step, its floor, its parts, then the next round),
so that other work on the machine slows all of them alike. Medians; one thread; on the CPU.

The floor is what no implementation can avoid: the matrix products of the linear layers and head,
on tensors that are ready, with the results written to tensors that are ready: one cached prefill
and one-token steps, two forwards without gradients, and inner_steps times a forward and twice its
products for the backward. The products inside attention are counted and timed as well, but they
are not in the floor.
"""

import argparse
import copy
import math
import random
import statistics
import sys
import time
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode
from tqdm import tqdm

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # for python beyond/bench/step.py

import tinylm
from beyond.bench.common import save, seconds
from beyond.student.plugins import backend_with
from lab15_run import TOP, about, piped
from tests.labfile import load_lab

RESULTS = Path(__file__).resolve().parent / "results" / "step.json"
GROUPS = (8, 16, 32, 64)
LENGTHS = (4, 8, 16, 32)
AIM = 2.5  # grpo_step over its floor

Work = Callable[[], Any]
Times = dict[str, list[float]]  # seconds per round
Case = tuple[int, int]  # group size, response length
Product = tuple[Tensor, Tensor, Tensor]  # left, right, where the result goes


class Setup(NamedTuple):
    """A lab file, the stand-in for tinylm that it runs on, and the model to start from."""

    lab: Any
    backend: Any
    sft: Any


class Shape(NamedTuple):
    """What sample returned: B rows, prompts of L and responses of T tokens."""

    B: int
    L: int
    T: int


# ============================================================== what is measured


def watched_tinylm() -> Any:
    """Return a copy of tinylm whose sample can be told a length and notes the last Shape."""
    backend = backend_with(tinylm, longest=tinylm.MAX_NEW_TOKENS)

    def sample(*args: Any, **options: Any) -> dict[str, Any]:
        options["max_new_tokens"] = backend.longest
        out = tinylm.sample(*args, **options)
        backend.shape = Shape(len(out["ids"]), out["prompt_len"], out["mask"].shape[1])
        return out

    backend.sample = sample
    return backend


def stepper(setup: Setup, cfg: Any, length: int | None = None) -> Work:
    """Return a function that trains a fresh copy of the SFT model by one grpo_step per call.

    Args:
        setup: where the step comes from.
        cfg: a GRPOConfig.
        length: None, or the length of every response: END is then never sampled.
    """
    policy = copy.deepcopy(setup.sft)
    if length:
        with torch.no_grad():
            policy.head.bias[tinylm.END] -= 30
    ref = copy.deepcopy(policy).requires_grad_(False)
    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)
    rng = random.Random(cfg.seed)

    def step() -> None:
        setup.backend.longest = length or tinylm.MAX_NEW_TOKENS
        prompts, answers = tinylm.make_batch(cfg.prompts_per_iter, rng)
        setup.lab.grpo_step(policy, ref, opt, prompts, answers, cfg)

    return step


def parts(setup: Setup, cfg: Any) -> dict[str, tuple[int, Work]]:
    """Return name -> (calls per grpo_step, function) of the parts of a step, to run in order."""
    lab, policy = setup.lab, copy.deepcopy(setup.sft)
    opt = torch.optim.Adam(policy.parameters(), lr=0.0)  # as slow as any, and T stays the same
    prompts, answers = tinylm.make_batch(cfg.prompts_per_iter, random.Random(cfg.seed))
    groups = lab.sample_group(policy, prompts, answers, cfg.G)
    out, adv = groups["out"], lab.group_advantages(groups["rewards"], cfg.G)
    rows = [(p, a) for p, a in zip(prompts, answers) for _ in range(cfg.G)]

    @torch.no_grad()
    def logprobs() -> Tensor:
        return tinylm.sequence_logprobs(policy, out)

    def score() -> None:
        for response, (_, answer) in zip(tinylm.decode_responses(out), rows):
            tinylm.reward(response, answer)

    def learn() -> None:
        logp = tinylm.sequence_logprobs(policy, out)
        opt.zero_grad()
        lab.grpo_loss(logp, old_logp, old_logp, adv, out["mask"])[0].backward()

    def update() -> None:
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        opt.step()

    old_logp = logprobs()
    return {
        "sample": (1, partial(tinylm.sample, policy, [prompt for prompt, _ in rows])),
        "decode, reward": (1, score),
        "log-probs, no grad": (2, logprobs),
        "token_entropy": (1, partial(lab.token_entropy, policy, out)),
        "forward, backward": (cfg.inner_steps, learn),
        "clip, Adam": (cfg.inner_steps, update),
    }


# ============================================================== the floor


def linear_products(model: Any, rows: int, backward: bool = False) -> list[Product]:
    """Return the products of all linear layers for a number of positions.

    Args:
        model: its nn.Linear modules give the sizes.
        rows: positions that go through the layers at once.
        backward: also the two products of every layer's backward (for its input, its weight).
    """
    products = []
    for layer in (m for m in model.modules() if isinstance(m, nn.Linear)):
        x, y = torch.randn(rows, layer.in_features), torch.randn(rows, layer.out_features)
        weight = torch.randn(layer.out_features, layer.in_features)
        products.append((x, weight.t(), torch.empty_like(y)))
        if backward:
            products.append((y, weight, torch.empty_like(x)))
            products.append((y.t(), x, torch.empty_like(weight)))
    return products


def attention_products(model: Any, B: int, queries: int, keys: int) -> list[Product]:
    """Return the two products of every layer's attention: scores, and weighted values.

    Args:
        model: a TinyLM.
        B: rows.
        queries: positions that ask.
        keys: positions that are looked at.
    """
    products = []
    for block in model.blocks:
        pairs, width = B * block.heads, block.proj.in_features // block.heads
        q, k = torch.randn(pairs, queries, width), torch.randn(pairs, keys, width)
        weights = torch.randn(pairs, queries, keys)
        products.append((q, k.transpose(1, 2), torch.empty_like(weights)))
        products.append((weights, k, torch.empty_like(q)))
    return products


def floors(model: Any, shape: Shape, inner: int) -> dict[str, tuple[int, list[Product]]]:
    """Return name -> (how often in a step, products); "attention" is not part of the floor.

    Args:
        model: a TinyLM.
        shape: what sample returned.
        inner: inner_steps.
    """
    B, L, T = shape
    S = L + T - 1  # the last response token is never read
    attention = attention_products(model, B, L, L)
    for t in range(1, T):
        attention += attention_products(model, B, 1, L + t)
    attention += attention_products(model, B, S, S) * (2 + 3 * inner)
    tokens = linear_products(model, B) * (T - 1)
    return {
        "sample": (1, linear_products(model, B * L) + tokens),
        "log-probs, no grad": (2, linear_products(model, B * S)),
        "forward, backward": (inner, linear_products(model, B * S, backward=True)),
        "attention": (1, attention),
    }


def multiply(products: Iterable[Product]) -> None:
    """Do the products, and nothing else."""
    for a, b, out in products:
        torch.matmul(a, b, out=out)


# ============================================================== measuring


def measure_parts(setup: Setup, cfg: Any, rounds: Iterable[int]) -> tuple[Times, Times]:
    """Time step, floor and parts in turn; return the seconds on the clock and on the CPU.

    All are for one whole step; the floor of a part is called "floor: " and its name.

    Args:
        setup: where the step comes from.
        cfg: a GRPOConfig.
        rounds: each times everything once.
    """
    step, of_step = stepper(setup, cfg), parts(setup, cfg)
    clock: Times = {}
    cpu: Times = {}
    ready: dict[Shape, dict[str, tuple[int, list[Product]]]] = {}

    def note(name: str, calls: int, work: Work) -> None:
        for times, value in zip((clock, cpu), seconds(work)):
            times.setdefault(name, []).append(calls * value)

    for _ in range(3):
        step()
    for _ in rounds:
        note("grpo_step", 1, step)
        shape = setup.backend.shape
        if shape not in ready:  # a new length of responses; the first call is a warm-up
            ready[shape] = floors(setup.sft, shape, cfg.inner_steps)
            for _, products in ready[shape].values():
                multiply(products)
        for name, (calls, products) in ready[shape].items():
            note(f"floor: {name}", calls, partial(multiply, products))
        for name, (calls, work) in of_step.items():
            note(name, calls, work)
    for times in (clock, cpu):
        pieces = [v for k, v in times.items() if k.startswith("floor: ") and "attention" not in k]
        times["floor"] = [sum(values) for values in zip(*pieces)]
    return clock, cpu


def measure_growth(setup: Setup, rounds: Iterable[int]) -> dict[Case, tuple[float, int]]:
    """Return (G, length) -> (CPU seconds of a step, positions that one forward reads)."""
    cases = [(G, LENGTHS[0]) for G in GROUPS] + [(GROUPS[0], T) for T in LENGTHS[1:]]
    steps = {case: stepper(setup, setup.lab.GRPOConfig(G=case[0]), case[1]) for case in cases}
    times: dict[Case, list[float]] = {case: [] for case in cases}
    positions = {}
    for i in rounds:
        for case, step in steps.items():
            value = seconds(step)[1]
            if i > 0:  # round 0 is the warm-up
                times[case].append(value)
            B, L, T = setup.backend.shape
            positions[case] = B * (L + T - 1)
    return {case: (statistics.median(times[case]), positions[case]) for case in cases}


def count_flops(setup: Setup, cfg: Any) -> dict[str, Any]:
    """Return the FLOPs of a step's linear layers, counted as it runs, and those of its floor."""
    step = stepper(setup, cfg)
    with FlopCounterMode(display=False) as counter:
        step()
    counts = counter.get_flop_counts()["Global"]  # torch cannot count attention on the CPU
    linear = sum(counts.get(op, 0) for op in (torch.ops.aten.mm, torch.ops.aten.addmm))
    floor = {
        name: calls * sum(2 * a.numel() * b.shape[-1] for a, b, _ in products)
        for name, (calls, products) in floors(
            setup.sft, setup.backend.shape, cfg.inner_steps
        ).items()
    }
    attention = floor.pop("attention")
    shape = setup.backend.shape._asdict()
    return {**shape, "step": linear, "floor": sum(floor.values()), "attention": attention}


# ============================================================== results


def exponent(sizes: Iterable[float], times: Iterable[float]) -> float:
    """Return e of the least-squares fit time ~ size^e (a line in logarithms)."""
    x, y = [math.log(v) for v in sizes], [math.log(v) for v in times]
    return statistics.linear_regression(x, y).slope


def growth_table(cases: dict[int, tuple[float, int]]) -> dict[str, Any]:
    """Return what print_growth prints, from size -> (seconds, positions)."""
    ms = [1e3 * value for value, _ in cases.values()]
    positions = [value for _, value in cases.values()]
    return {"sizes": list(cases), "positions": positions, "cpu_ms": ms,
            "exponent": exponent(cases, ms), "exponent_positions": exponent(positions, ms)}


def print_growth(title: str, table: dict[str, Any]) -> None:
    """Print how the time of a step grows with one size."""
    print(f"\n{title:26s}positions      ms  growth  us per position")
    last = None
    for size, positions, ms in zip(table["sizes"], table["positions"], table["cpu_ms"]):
        growth = f"{ms / last:.2f}" if last else ""
        print(f"{size:<26d}{positions:9d}{ms:8.1f}{growth:>8s}{1e3 * ms / positions:17.1f}")
        last = ms
    print(f"ms ~ size^{table['exponent']:.2f}, ms ~ positions^{table['exponent_positions']:.2f} "
          "(least squares; 1 is linear)")


def print_parts(result: dict[str, Any]) -> None:
    """Print the table of the parts, the FLOPs and the ratio to the floor."""
    ms, calls, ratio = result["cpu_ms"], result["calls"], result["ratio"]
    print("\nCPU ms of one grpo_step calls      ms   share   floor   ratio")
    for name in [*calls, "sum of the parts", "grpo_step"]:
        floor = ms.get(f"floor: {name}" if name in calls else "floor")
        last = f"{floor:8.2f}{ms[name] / floor:8.2f}" if floor else ""
        share = f"{ms[name] / ms['grpo_step']:8.0%}"
        print(f"{name:23s}{calls.get(name, ''):>6}{ms[name]:8.2f}{share}{last}")
    step, floor, attention = (result["flops"][k] / 1e9 for k in ("step", "floor", "attention"))
    print(f"\nlinear layers and head: step {step:.3f} GFLOP, floor {floor:.3f} GFLOP")
    print(f"products inside attention, not in the floor: {attention:.3f} GFLOP, "
          f"{ms['floor: attention']:.2f} ms")
    print(f"grpo_step / floor: {ratio['cpu']:.2f} by CPU time, {ratio['clock']:.2f} by the clock "
          f"(aim: {AIM} or less);\n{ratio['cpu_with_attention']:.2f} if the products inside "
          "attention count as floor too")


def run(lab_path: str, rounds: int) -> dict[str, Any]:
    """Measure everything; return the numbers as they go into the JSON file."""
    start, backend = time.perf_counter(), watched_tinylm()
    sft = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt")
    setup = Setup(load_lab(lab_path, backend), backend, sft)
    cfg = setup.lab.GRPOConfig()
    torch.manual_seed(cfg.seed)
    bar = partial(tqdm, leave=False, disable=None)
    clock, cpu = measure_parts(setup, cfg, bar(range(rounds), "step and parts"))
    grown = measure_growth(setup, bar(range(1 + rounds // 5), "growth"))
    calls = {name: n for name, (n, _) in parts(setup, cfg).items()}
    cpu["sum of the parts"] = [sum(values) for values in zip(*(cpu[name] for name in calls))]
    cpu["floor and attention"] = [sum(x) for x in zip(cpu["floor"], cpu["floor: attention"])]

    def ratio(times: Times, floor: str) -> float:
        return statistics.median(a / b for a, b in zip(times["grpo_step"], times[floor]))

    return {
        "schema": 1, **about(" ".join(["python -m beyond.bench.step", *sys.argv[1:]])),
        "lab": Path(lab_path).name,
        "config": vars(cfg), "model": tinylm.MODEL, "rounds": rounds, "calls": calls,
        "cpu_ms": {k: 1e3 * statistics.median(v) for k, v in cpu.items()},
        "clock_ms": {k: 1e3 * statistics.median(v) for k, v in clock.items()},
        "flops": count_flops(setup, cfg),
        "ratio": {"cpu": ratio(cpu, "floor"), "clock": ratio(clock, "floor"),
                  "cpu_with_attention": ratio(cpu, "floor and attention")},
        "by_group_size": growth_table({G: grown[G, LENGTHS[0]] for G in GROUPS}),
        "by_length": growth_table({T: grown[GROUPS[0], T] for T in LENGTHS}),
        "seconds": round(time.perf_counter() - start, 1),
    }


def main() -> None:
    """Read the flags, measure, print, save."""
    parser = argparse.ArgumentParser(description="Time one grpo_step, its parts and its floor.")
    parser.add_argument("--lab", default=str(TOP / "solutions" / "lab15_grpo.py"),
                        help="a lab file with all five tasks; default the solution")
    parser.add_argument("--rounds", type=int, default=30, help="default 30; a fifth for growth")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.relative_to(TOP)}")
    flags = parser.parse_args()
    if flags.rounds < 5:
        parser.error("--rounds must be 5 or more")
    torch.set_num_threads(1)
    result = run(flags.lab, flags.rounds)
    print(f"{result['machine']}, torch {result['torch']}, {result['threads']} thread")
    print_parts(result)
    print_growth("G (responses of 4)", result["by_group_size"])
    print_growth("response length (G = 8)", result["by_length"])
    print(f"\nmeasured in {result['seconds']} s")
    if flags.save:
        save(RESULTS, result)
        print(f"saved {RESULTS.relative_to(TOP)}")


if __name__ == "__main__":
    piped(main)
