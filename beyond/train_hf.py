"""Train a real language model with your five functions.

    python -m beyond.train_hf --lab lab15_grpo.py                 SmolLM2-135M learns to add
    python -m beyond.train_hf --model FOLDER --data train.jsonl --reward numeric --loss dapo
    python -m beyond.train_hf --config run.yaml loss.clip_high=0.28
    python -m beyond.train_hf --resume --output-dir runs/hf       go on after a kill
    torchrun --nproc-per-node 2 -m beyond.train_hf --parallel fsdp --step ours     2 processes

Settings: beyond/hf/config.py. What it leaves in the output folder: beyond/saving. Several
processes: beyond/parallel/ranks.py.
"""

import argparse
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import torch

from beyond.hf import backend
from beyond.hf.batches import check_parts
from beyond.hf.config import SUMS, GRPOConfig, add_arguments, from_flags, read_file
from beyond.hf.policy import load_policy
from beyond.hf.trainer import GRPOTrainer, quiet
from beyond.parallel import ranks
from beyond.parallel.tensor import one_of
from beyond.settings import Parser, dry_run
from beyond.smollm import model_folder
from beyond.student.named import REWARDS, load_data, load_reward
from beyond.student.plugins import default_lab, load_student, loss_differs
from beyond.tasks import data
from tinylm import write_file


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = Parser(
        prog="python -m beyond.train_hf", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--lab", metavar="FILE", help="your lab file (the solutions')")
    parser.add_argument("--model", metavar="FOLDER", help="model (SmolLM2-135M, fetched once)")
    parser.add_argument("--data", metavar="X",
                        help="sums, gsm8k[:FILE], gsm8k_mock, reasoning_gym:TASK, or a file")
    parser.add_argument("--eval-data", help="rows for evaluation (sums: 200 others)")
    parser.add_argument("--max-samples", type=int, help="at most so many rows")
    parser.add_argument("--reward", default="exact",
                        help=f"{', '.join(REWARDS)}, or file.py:function; several with weights: "
                             "exact=1,think=0.5")
    parser.add_argument("--threads", type=int, default=0, help="processor threads (0: torch's)")
    parser.add_argument("--resume", action="store_true", help="from the newest checkpoint")
    add_arguments(parser)
    return parser.parse_args(args)


def settings_of(flags: argparse.Namespace) -> GRPOConfig:
    """Return the config of parsed flags; model and data may be in the file, too.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    found = read_file(flags.config) if flags.config else {}
    for name in ("model", "data"):
        if getattr(flags, name) is None:
            setattr(flags, name, found.get(name, "sums" if name == "data" else None))
    return from_flags(flags, **(SUMS if flags.data == "sums" else {}))


def materials(flags: argparse.Namespace, cfg: GRPOConfig) -> tuple:
    """Return (policy, reward, lab, rows held out, training rows).

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    lab = load_student(flags.lab, backend) if flags.lab else default_lab()
    if flags.lab and (warning := loss_differs(lab)):
        print(warning)
    rows = load_data(flags.data, cfg.seed, flags.max_samples)
    held = load_data(flags.eval_data, cfg.seed, cfg.eval_samples) if flags.eval_data else []
    if flags.data == "sums" and not held:
        held = data.load_sums(cfg.eval_samples, seed=10_000 + cfg.seed)
    reward = load_reward(flags.reward)
    return load_policy(flags.model or model_folder(), cfg), reward, lab, held, rows


def build(
    flags: argparse.Namespace, world: ranks.World | None = None
) -> tuple[GRPOTrainer, list[dict]]:
    """Return (trainer, training rows) of parsed flags; every rank must call it.

    Raises:
        OSError, ValueError: what is wrong, in one line; on all ranks.
    """
    cfg, world = settings_of(flags), world or ranks.World()
    if world.many:
        cfg = ranks.settings(cfg, world)
        with quiet(world):  # one process of each machine fetches the model, the others wait
            fetch = not flags.model and world.local_rank == 0
            ranks.agree(world, lambda: model_folder() if fetch else None)
    with quiet(world):
        policy, reward, lab, held, rows = ranks.agree(world, lambda: materials(flags, cfg))
    check_parts(len(rows), cfg, one_of(world, cfg.parallel))
    return GRPOTrainer(policy, None, reward, cfg, lab, held, world=world), rows


def main(args: list[str] | None = None) -> int:
    """Train, alone or as one process of torchrun; return the exit code."""
    flags = arguments(args)
    if flags.dry_run:
        return dry_run(flags, lambda: settings_of(flags), "train_hf")
    if flags.threads > 0:
        torch.set_num_threads(flags.threads)
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return train(flags, ranks.World())
    from torch.distributed.elastic.multiprocessing.errors import record

    return record(train_as_one_of_many)(flags) or 0


def train_as_one_of_many(flags: argparse.Namespace) -> int:
    """Train as one process of torchrun; return the exit code."""
    try:
        world = ranks.start(settings_of(flags).device)
    except (OSError, ValueError) as error:
        if os.environ.get("RANK") == "0":
            print(error)
        return 2
    code = train(flags, world)
    ranks.stop(world)
    return code


def train(flags: argparse.Namespace, world: ranks.World) -> int:
    """Train and write summary.json; return the exit code.

    Raises:
        Exception: with several processes, any error after the start: torchrun shows whose it was.
    """
    training = False
    try:
        trainer, rows = build(flags, world)
        for line in flags.notices if world.main else ():
            print(line)
        training = world.many
        before = trainer.evaluate() if trainer.eval_rows else None
        history = trainer.train(rows, resume=flags.resume)
    except (OSError, ValueError, FloatingPointError, MemoryError) as error:
        if world.main:
            print(error)
        if training:
            raise
        return 3 if isinstance(error, MemoryError) else 2
    except KeyboardInterrupt:
        if world.main:
            print("Stopped by Ctrl-C before the first step: there is nothing to keep.")
        return 130
    if world.main and before is not None and history:
        after = history[-1].get("eval/accuracy")
        summary = json.dumps({"before": before, "after": after}).encode()
        write_file(Path(trainer.cfg.output_dir) / "summary.json", lambda file: file.write(summary))
        if after is not None:
            print(f"mean reward on {len(trainer.eval_rows)} held-out prompts: "
                  f"{before:.3f} -> {after:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
