"""Supervised fine-tuning on JSONL with prompt and answer: the loss is on the response alone.

    python -m beyond.sft --data train.jsonl --model FOLDER --output-dir runs/sft
    python -m beyond.sft --config runs/sft/run.yaml               the same run again

Checkpoints, logs and run.yaml are those of train_hf, so GRPO continues from OUT/final with --model.
"""

import argparse
import sys
import time
from pathlib import Path
from typing import Any

from beyond.config import GRPO_ONLY, add_arguments, file_flags, from_flags, put_sft
from beyond.hf import preflight
from beyond.saving import record
from beyond.saving.folder import RunFolder, continues
from beyond.settings import Parser, dry_run
from beyond.tasks.data import load_rows
from lab15_run import piped

OUT = "runs/sft"


def __getattr__(name: str) -> Any:
    """Return a name of hf/supervised.py, which imports torch."""
    from beyond.hf import supervised

    return getattr(supervised, name)


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = Parser(prog="python -m beyond.sft", description=__doc__)
    parser.add_argument("--data", help="JSONL or parquet with prompt and answer")
    parser.add_argument("--model", metavar="FOLDER", help="model (SmolLM2-135M, fetched once)")
    parser.add_argument("--max-samples", type=int, help="at most so many rows")
    parser.add_argument("--resume", action="store_true", help="from the newest checkpoint, with "
                        "the settings of its run.yaml where no others are given")
    add_arguments(parser)
    for action in parser._actions:  # known, so that each is refused by its name
        if action.dest in GRPO_ONLY:
            action.help = argparse.SUPPRESS
    flags = parser.parse_args(args)
    flags.command = record.command_of("beyond.sft", args)
    return flags


def main(args: list[str] | None = None) -> int:
    """Train; return the exit code."""
    flags = arguments(args)
    if flags.dry_run:
        return dry_run(flags, lambda: from_flags(flags, put_sft, output_dir=OUT), "sft")
    try:
        return train(flags)
    except (OSError, ValueError, FloatingPointError) as error:
        print(error)
        return 2
    except MemoryError as error:
        print(error)
        return 3
    except KeyboardInterrupt:
        print("Stopped by Ctrl-C before the first step: there is nothing to keep.")
        return 130


def train(flags: argparse.Namespace) -> int:
    """Train with parsed flags; return the exit code.

    Raises:
        OSError, ValueError, FloatingPointError, MemoryError: what is wrong, in one line.
    """
    begun = time.perf_counter()
    record.take_up(flags, flags.output_dir or OUT, ("train_hf", "sft"))
    file_flags(flags, "sft")
    cfg = from_flags(flags, put_sft, output_dir=OUT, prompts_per_step=16)
    if not flags.data:
        raise ValueError("--data FILE is missing: JSONL or parquet with prompt and answer")
    preflight.packages(cfg)
    preflight.file(flags.data, "--data")
    if flags.model:
        preflight.model(flags.model)
    rows = load_rows(flags.data, flags.max_samples)
    with RunFolder(cfg.output_dir, continues(cfg.output_dir, flags.resume)) as folder:
        from beyond.hf.policy import load_policy
        from beyond.hf.supervised import SFTTrainer
        from beyond.smollm import model_folder

        model = str(Path(flags.model or model_folder()))
        trainer = SFTTrainer(load_policy(model, cfg), cfg)
        whole = str(Path(model).absolute()) if Path(model).is_dir() else model
        data = str(Path(flags.data).absolute())
        trainer.about = {
            "settings": {"model": whole, "data": data, "max_samples": flags.max_samples},
            "files": {"data": data}, "run": {"program": "sft", "command": flags.command}}
        trainer.train(rows, flags.resume, folder)
        if folder.kept:
            folder.draw()
            print(trainer.report(time.perf_counter() - begun))
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
