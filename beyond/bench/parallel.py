"""Tokens a second of 1 and 2 processes on the same global batch, by DDP and FSDP2; what is sent.

    python -m beyond.bench.parallel --save beyond/bench/results/parallel.json

The same for all: model, prompts of a step over all processes, group size, tokens a response,
updates, float32, one thread a process. A step is sampling, scoring and update; the first is left
out. Each process also makes the same steps on its share alone, at the same time as the others but
with nothing sent: what the step takes longer together is communication (sending, and waiting for
the slower rank). Tokens are those of prompts and responses.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

from beyond.bench.common import show, side
from lab15_run import about, piped

SIDES = ((1, "ddp"), (2, "ddp"), (2, "fsdp"))


def make_model(flags):
    """Return (model, tokenizer): of a folder, or a random Llama."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from beyond import tiny

    if not flags.model:
        return tiny.model(size=flags.width), tiny.tokenizer()
    tokenizer = AutoTokenizer.from_pretrained(flags.model)
    return AutoModelForCausalLM.from_pretrained(flags.model), tokenizer


def steps_of(flags, world, how: str, prompts: int) -> dict[str, float]:
    """Return seconds a step (median) and tokens a step of a short training.

    Args:
        flags: of the command.
        world: the World.
        how: ddp or fsdp.
        prompts: of a step, over all processes.
    """
    from beyond import GRPOConfig, GRPOTrainer
    from beyond.tasks.data import load_sums

    model, tokenizer = make_model(flags)
    with tempfile.TemporaryDirectory() as out:
        cfg = GRPOConfig(
            prompts_per_step=prompts, group_size=flags.group, max_new_tokens=flags.tokens,
            kl_beta=0.04, loss="dapo", parallel=how, seed=flags.seed, save_steps=0,
            log_completions=0, output_dir=out, shuffle=False)
        made = GRPOTrainer(model, tokenizer, lambda response, reference: float(len(response) % 2),
                           config=cfg, world=world)
        made.save = lambda name, whole=True: None  # nobody's last checkpoint is timed
        rows = load_sums(prompts * (flags.steps + 1), seed=flags.seed)
        history = made.train(rows)
    times = sorted(h["step_time"] for h in history[1:])
    tokens = (history[-1]["num_tokens"] - history[0]["num_tokens"]) / flags.steps
    return {"step_s": times[len(times) // 2], "tokens": tokens}


def one_process(flags) -> int:
    """Measure as one process of flags.side's; rank 0 prints the result."""
    import contextlib

    import torch

    from beyond.parallel import ranks

    torch.set_num_threads(1)
    world = ranks.start()
    with contextlib.redirect_stdout(sys.stderr):
        ranks.gather(world, None)  # all begin together
        alone = steps_of(flags, ranks.World(), flags.how, flags.prompts // world.size)
        slowest = ranks.extreme(world, [alone["step_s"]])[0]
        found = steps_of(flags, world, flags.how, flags.prompts) if world.many else alone
    if world.main:
        share = max(0.0, 1 - slowest / found["step_s"]) if world.many else 0.0
        print("RESULT " + json.dumps({
            "processes": world.size, "parallel": flags.how if world.many else None,
            "median_step_s": round(found["step_s"], 4), "tokens_a_step": found["tokens"],
            "tokens_per_s": round(found["tokens"] / found["step_s"], 1),
            "own_share_alone_s": round(slowest, 4), "communication": round(share, 3)}))
    ranks.stop(world)
    return 0


def all_sides(flags, asked: list[str]) -> dict:
    """Run every side in processes of its own; return the results.

    Raises:
        RuntimeError: a side failed; its last lines.
    """
    begun = time.perf_counter()
    results = about("python -m beyond.bench.parallel " + " ".join(asked)) | {
        "threads": 1, "seeds": [flags.seed], "sides": [], "settings": {
            k: getattr(flags, k) for k in ("prompts", "group", "tokens", "steps", "width")}
        | {"model": Path(flags.model).name if flags.model else "random Llama"}}
    for size, how in SIDES:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size),
                   "-m", "beyond.bench.parallel", *asked, "--how", how]
        results["sides"].append(side(f"{size} x {how}", command))
    return results | {"seconds": round(time.perf_counter() - begun, 1)}


def table(results: dict) -> str:
    """Return the sides as lines, each with its ratio to one process."""
    lines = [f"{'processes':>9} {'':5} {'s/step':>8} {'tokens/s':>9} {'speed-up':>8} communication"]
    first = results["sides"][0]["tokens_per_s"]
    for r in results["sides"]:
        lines.append(f"{r['processes']:9} {r['parallel'] or '-':5} {r['median_step_s']:8.3f} "
                     f"{r['tokens_per_s']:9.0f} {r['tokens_per_s'] / first:8.2f} "
                     f"{r['communication']:.0%}")
    return "\n".join(lines)


def main(args: list[str] | None = None) -> int:
    """Measure; return the exit code."""
    asked = sys.argv[1:] if args is None else args
    parser = argparse.ArgumentParser(prog="python -m beyond.bench.parallel", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="folder (a random Llama of --width)")
    parser.add_argument("--how", help=argparse.SUPPRESS)
    for name, default in (("width", 256), ("prompts", 4), ("group", 8), ("tokens", 16),
                          ("steps", 10), ("seed", 0)):
        parser.add_argument(f"--{name}", type=int, default=default, help=f"({default})")
    parser.add_argument("--save", type=Path, help="write the results to this JSON file")
    flags = parser.parse_args(asked)
    if flags.how:
        return one_process(flags)
    return show(lambda: all_sides(flags, asked), table, flags.save)


if __name__ == "__main__":
    sys.exit(piped(main))
