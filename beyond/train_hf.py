"""Train a real language model with your five functions.

    python -m beyond.train_hf --lab lab15_grpo.py                 SmolLM2-135M learns to add
    python -m beyond.train_hf --model FOLDER --data train.jsonl --reward numeric --loss dapo
    python -m beyond.train_hf --config runs/x/run.yaml loss.clip_high=0.28      a run again
    python -m beyond.train_hf --resume --output-dir runs/hf       continue after a kill
    torchrun --nproc-per-node 2 -m beyond.train_hf --parallel fsdp --step ours     2 processes

Settings: beyond/config.py. What it leaves in the output folder: beyond/saving; run.yaml has all
that the run was made of. An earlier run in the folder is renamed to NAME.earlier-1, never
overwritten. Several processes: beyond/parallel/ranks.py.
"""

import argparse
import contextlib
import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from beyond.config import SUMS, GRPOConfig, add_arguments, file_flags, from_flags
from beyond.hf import preflight
from beyond.saving import record
from beyond.saving.folder import RunFolder, continues
from beyond.settings import Parser, default_path, dry_run
from beyond.student.named import REWARDS, load_data, load_reward
from beyond.tasks import data
from lab15_run import counted, piped

if TYPE_CHECKING:  # torch is imported once everything else is checked
    from beyond.hf.trainer import GRPOTrainer
    from beyond.parallel.ranks import World

COMPARING = ("exact", "numeric")  # rewards that score nothing without an answer


# ============================================================== flags


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags; those that a file may have are None until fill_in."""
    parser = Parser(prog="python -m beyond.train_hf", description=__doc__)
    parser.add_argument("--lab", metavar="FILE", help="your lab file (the solutions')")
    parser.add_argument("--model", metavar="FOLDER", help="model (SmolLM2-135M, fetched once)")
    parser.add_argument("--data", metavar="X", help="sums (the default), gsm8k[:FILE], gsm8k_mock, "
                        "reasoning_gym:TASK, or a file")
    parser.add_argument("--eval-data", help="rows for evaluation (sums: 200 others)")
    parser.add_argument("--max-samples", type=int, help="at most so many rows")
    parser.add_argument("--reward", help=f"{', '.join(REWARDS)}, or file.py:function; several "
                        "with weights: exact=1,think=0.5 (exact)")
    parser.add_argument("--threads", type=int, help="processor threads (torch's)")
    parser.add_argument("--resume", action="store_true", help="from the newest checkpoint, with "
                        "the settings of its run.yaml where no others are given")
    add_arguments(parser)
    flags = parser.parse_args(args)
    flags.command = record.command_of("beyond.train_hf", args)
    flags.filled, flags.rows = False, None
    return flags


def fill_in(flags: argparse.Namespace) -> None:
    """Fill in what a file gives: of --config, or of the run that is resumed.

    Raises:
        OSError, ValueError: the file cannot be used.
    """
    if flags.filled:
        return
    usual = GRPOConfig.output_dir if flags.data not in (None, "sums") else SUMS["output_dir"]
    record.take_up(flags, str(flags.output_dir or usual), ("train_hf", "sft"))
    file_flags(flags, "train_hf", data="sums", reward="exact", threads=0)
    flags.filled = True


def settings_of(flags: argparse.Namespace) -> GRPOConfig:
    """Return the config of parsed flags.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    fill_in(flags)
    if flags.data != "sums":
        return from_flags(flags)
    cfg = from_flags(flags, **{k: v for k, v in SUMS.items() if k != "step"})
    try:
        preflight.whole_step(cfg)
    except ValueError:  # another loss, say: a whole grpo_step has no place for it
        return cfg
    return from_flags(flags, **SUMS)


# ============================================================== before torch


def checked(flags: argparse.Namespace) -> GRPOConfig:
    """Return the config, after all that can be checked without torch.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    cfg = settings_of(flags)
    preflight.together(cfg)
    preflight.processes(cfg)
    preflight.packages(cfg)
    preflight.file(flags.lab, "--lab")
    rewards_of(flags.reward)
    if flags.model:
        preflight.model(flags.model)
    rows_of(flags, cfg)
    return cfg


def rewards_of(text: str) -> dict[str, str]:
    """Return the files among the rewards of --reward.

    Raises:
        ValueError: one is unknown, or there is no such file.
    """
    found: dict[str, str] = {}
    for part in text.split(","):
        name, mark, weight = part.strip().rpartition("=")
        name = name if mark and ".py:" not in weight else part.strip()
        if ":" in name or name.endswith(".py"):
            key = "reward" if not found else f"reward {len(found) + 1}"
            found[key] = str(preflight.own_file(name, "--reward"))
        elif name:
            load_reward(name)
    return found


def rows_of(flags: argparse.Namespace, cfg: GRPOConfig) -> tuple[list[dict], list[dict]]:
    """Return (training rows, rows held out); report those without an answer.

    Raises:
        OSError, ValueError: they cannot be had, or no row has what its reward compares with.
    """
    if flags.rows is not None:
        return flags.rows
    rows = load_data(flags.data, cfg.seed, flags.max_samples)
    held = load_data(flags.eval_data, cfg.seed, cfg.eval_samples) if flags.eval_data else []
    if flags.data == "sums" and not held:
        held = data.load_sums(cfg.eval_samples, seed=10_000 + cfg.seed)
    for name, some in ((flags.data, rows), (flags.eval_data, held)):
        without = sum(row.get("reference") is None for row in some)
        if some and without == len(some) and flags.reward in COMPARING:
            raise ValueError(f"{name}: none of the {len(some)} rows has an answer "
                             f"({', '.join(data.REFERENCES)}), and --reward {flags.reward} "
                             "compares with it")
    flags.rows = rows, held
    return flags.rows


def report_gaps(rows: list[dict], where: str) -> None:
    """Report how many rows have no answer: what compares answers cannot score them."""
    without = sum(row.get("reference") is None for row in rows)
    if without:
        print(f"{without} of {len(rows)} rows of {where} have no answer "
              f"({', '.join(data.REFERENCES)}): a reward that compares answers does not score them")


# ============================================================== the run


def materials(flags: argparse.Namespace, cfg: GRPOConfig) -> tuple:
    """Return (policy, reward, lab, rows held out, training rows); the model comes last.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    from beyond.hf import backend
    from beyond.hf.policy import load_policy
    from beyond.smollm import model_folder
    from beyond.student.plugins import load_student

    lab = load_student(flags.lab or default_path(), backend)
    rows, held = rows_of(flags, cfg)
    report_gaps(rows, flags.data)
    reward = load_reward(flags.reward)
    return load_policy(flags.model or model_folder(), cfg), reward, lab, held, rows


def try_own(flags: argparse.Namespace, cfg: GRPOConfig) -> None:
    """Try what the user wrote, each loaded for itself, before minutes are spent on a model.

    Args:
        flags: parsed.
        cfg: its config.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    from beyond.hf import backend
    from beyond.student import plugins
    from beyond.tasks.reward_calls import try_reward

    lab = plugins.load_student(flags.lab or default_path(), backend)
    if flags.lab:
        for line in plugins.differences(lab, cfg):
            print(line)
    plugins.try_losses(cfg, lab)
    rows, _ = rows_of(flags, cfg)
    if rewards_of(flags.reward):
        given = load_reward(flags.reward)
        for reward in given if isinstance(given, list) else [given]:
            try_reward(reward[0] if isinstance(reward, tuple) else reward, rows,
                       cfg.reward_timeout)


def build(flags: argparse.Namespace,
          world: "World | None" = None) -> tuple["GRPOTrainer", list[dict]]:
    """Return (trainer, training rows) of parsed flags; every rank must call it.

    Raises:
        OSError, ValueError: what is wrong, in one line; on all ranks.
    """
    from beyond.hf.batches import check_parts
    from beyond.hf.trainer import GRPOTrainer, quiet
    from beyond.parallel import ranks
    from beyond.parallel.tensor import one_of
    from beyond.smollm import model_folder

    cfg, world = settings_of(flags), world or ranks.World()
    if world.many:
        cfg = ranks.settings(cfg, world)
        with quiet(world):  # one process of each machine fetches the model, the others wait
            fetch = not flags.model and world.local_rank == 0
            ranks.agree(world, lambda: model_folder() if fetch else None)
    ranks.agree(world, lambda: try_own(flags, cfg) if world.main else None)
    with quiet(world):
        policy, reward, lab, held, rows = ranks.agree(world, lambda: materials(flags, cfg))
    check_parts(len(rows), cfg, one_of(world, cfg.parallel))
    trainer = GRPOTrainer(policy, None, reward, cfg, lab, held, world=world)
    trainer.about = about(flags)
    return trainer, rows


def about(flags: argparse.Namespace) -> dict[str, Any]:
    """Return what run.yaml says beside the settings: flags that can be given back, files, command.

    Paths are absolute, so that the file can be given back from any folder.
    """
    def whole(text: str | None) -> str | None:
        """Return the path in "FILE", "gsm8k:FILE" or "file.py:function" made absolute."""
        if text is None or Path(text).exists():
            return text and str(Path(text).absolute())
        before, mark, after = text.partition(":")
        if mark and Path(after).is_file():
            return f"{before}:{Path(after).absolute()}"
        file, mark, name = text.rpartition(":")
        return f"{Path(file).absolute()}:{name}" if mark and Path(file).is_file() else text

    from beyond.smollm import FOLDER

    names = ("lab", "model", "data", "eval_data", "max_samples", "reward", "threads")
    given = {name: getattr(flags, name) for name in names}
    given |= {"lab": flags.lab or str(default_path()), "model": flags.model or str(FOLDER)}
    given |= {k: whole(given[k]) for k in ("lab", "model", "data", "eval_data")}
    given["reward"] = ",".join(map(str, map(whole, flags.reward.split(","))))
    files = {"lab": given["lab"], "model": given["model"], **rewards_of(flags.reward)}
    for name in ("data", "eval_data"):
        path = str(given[name] or "")
        path = path if Path(path).is_file() else path.partition(":")[2]
        files |= {name: path} if path and Path(path).is_file() else {}
    files = {name: path for name, path in files.items() if Path(path).exists()}
    return {"settings": given, "files": files,
            "run": {"program": "train_hf", "command": flags.command}}


def main(args: list[str] | None = None) -> int:
    """Train, alone or as one process of torchrun; return the exit code."""
    flags = arguments(args)
    if flags.dry_run:
        return dry_run(flags, lambda: settings_of(flags), "train_hf")
    main_rank = os.environ.get("RANK", "0") == "0"
    try:
        cfg = checked(flags)
        for line in flags.notices if main_rank else ():
            print(line)
        import torch

        from beyond.parallel.ranks import World
    except (OSError, ValueError) as error:
        if main_rank:
            print(error)
        return 2
    except KeyboardInterrupt:
        return stopped_early()
    if flags.threads > 0:
        torch.set_num_threads(flags.threads)
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return train(flags, World())
    from torch.distributed.elastic.multiprocessing.errors import record as recorded

    return recorded(train_as_one_of_many)(flags, cfg.device) or 0


def stopped_early() -> int:
    """Report Ctrl-C before the first step; return the exit code."""
    print("Stopped by Ctrl-C before the first step: there is nothing to keep.")
    return 130


def train_as_one_of_many(flags: argparse.Namespace, device: str | None) -> int:
    """Train as one process of torchrun; return the exit code."""
    from beyond.parallel import ranks

    try:
        world = ranks.start(device)
    except (OSError, ValueError) as error:
        if os.environ.get("RANK") == "0":
            print(error)
        return 2
    code = train(flags, world)
    ranks.stop(world)
    return code


def train(flags: argparse.Namespace, world: "World") -> int:
    """Train and write summary.json; return the exit code.

    Raises:
        Exception: with several processes, any error after the start: torchrun shows whose it was.
    """
    from beyond.parallel import ranks

    begun, training, trainer = time.perf_counter(), False, None
    try:
        out = settings_of(flags).output_dir
        folder = RunFolder(out, continues(out, flags.resume))
        with contextlib.ExitStack() as stack:
            ranks.agree(world, lambda: stack.enter_context(folder) if world.main else None)
            trainer, rows = build(flags, world)
            training = world.many
            before = trainer.evaluate() if trainer.eval_rows else None
            history = trainer.train(rows, resume=flags.resume, folder=folder)
            if world.main and folder.kept:
                summarize(trainer, before, history)
                folder.draw()
                print(trainer.report(time.perf_counter() - begun))
    except (OSError, ValueError, FloatingPointError, MemoryError) as error:
        if world.main:
            print(error)
            if trainer is not None and trainer.done and trainer.folder:
                print(f"stopped after {counted(trainer.done, 'step')}; what is kept is in "
                      f"{trainer.folder.shown}")
        if training:
            raise
        return 3 if isinstance(error, MemoryError) else 2
    except KeyboardInterrupt:
        return stopped_early() if world.main else 130
    return 0


def summarize(trainer: "GRPOTrainer", before: float | None, history: list[dict]) -> None:
    """Write summary.json and print the gain, if there was an evaluation at both ends."""
    if before is None or not history:
        return
    from tinylm import write_file

    after = history[-1].get("eval/accuracy")
    summary = json.dumps({"before": before, "after": after}).encode()
    write_file(Path(trainer.cfg.output_dir) / "summary.json", lambda file: file.write(summary))
    if after is not None:
        print(f"mean reward on {len(trainer.eval_rows)} held-out prompts: "
              f"{before:.3f} -> {after:.3f}")


if __name__ == "__main__":
    sys.exit(piped(main))
