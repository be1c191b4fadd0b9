"""Train with services on Monarch: generators, reference, rewards and trainer in their processes.

    python -m beyond.services_run --lab lab15_grpo.py --out runs/services
    python -m beyond.services_run --mode async --max-staleness 4 --correction tis --generators 2
    python -m beyond.services_run --mode async --staleness 16 --seed 1        reproducible
    python -m beyond.services_run --config run.yaml services.generator.replicas=2
    python -m beyond.services_run --resume --out runs/services                after a kill
    python -m beyond.services_run --model FOLDER --data train.jsonl --reward numeric --loss dapo

The output folder holds history.json (the lab's curves, and staleness, weight_version, dropped,
seconds), config.json, policy.pt, curves.png and checkpoint.pt; with --model, in the place of
policy.pt and checkpoint.pt, what train_hf leaves there: the log, checkpoint-N and final. run.yaml
has all that the run was made of: --config OUT/run.yaml repeats it. An earlier run in the folder is
renamed to NAME.earlier-1. Ctrl-C is a normal end.
Settings: beyond/services/config.py. Monarch: pip install -r beyond/requirements-monarch.txt.
"""

import argparse
import asyncio
import dataclasses
import importlib.util
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

from beyond import train_hf
from beyond.config import SUMS, file_flags
from beyond.hf import preflight
from beyond.saving import record
from beyond.saving.folder import RunFolder, spoken
from beyond.services.config import (
    HEADINGS,
    NOT_HERE,
    ROLES,
    SERVICE,
    ServicesConfig,
    add_arguments,
    from_flags,
)
from beyond.settings import Parser, default_path, dry_run
from beyond.student.named import REWARDS
from lab15_run import counted, piped

MISSING = ("beyond.services_run needs Monarch, which there is for Linux and macOS: "
           "pip install -r beyond/requirements-monarch.txt")
PROGRAM = "services_run"


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = Parser(prog="python -m beyond.services_run", description=__doc__)
    parser.add_argument("--lab", metavar="FILE", help="your lab file (the solutions')")
    parser.add_argument("--model", metavar="FOLDER",
                        help="a HuggingFace model, or an adapter (TinyLM after SFT)")
    parser.add_argument("--data", metavar="X", help="with --model: as in train_hf (sums)")
    parser.add_argument("--eval-data", help="with --model: rows for evaluation (sums: 200 others)")
    parser.add_argument("--max-samples", type=int, help="with --model: at most so many rows")
    parser.add_argument("--vllm", metavar="URL", action="append",
                        help="sample with this vLLM server (several: give it again); needs --model")
    parser.add_argument("--reward", metavar="X", help="TinyLM: file.py:function of (response, "
                        f"answer); with --model: {', '.join(REWARDS)}, several with weights, or "
                        "file.py:function (exact)")
    parser.add_argument("--out", "--output-dir", dest="out", default="runs/services",
                        help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="from the checkpoint in --out, with "
                        "the settings of its run.yaml where no others are given")
    add_arguments(parser)
    flags = parser.parse_args(args)
    flags.command = record.command_of("beyond.services_run", args)
    flags.rows, flags.threads = None, None
    return flags


def config_of(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config of parsed flags; lab, model, data and reward may be in the file, too.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    record.take_up(flags, flags.out, (PROGRAM,))
    file_flags(flags, PROGRAM, lab=str(default_path()))
    for name in ("data", "eval_data", "max_samples"):
        if getattr(flags, name) is not None and not flags.model:
            raise ValueError(f"--{name.replace('_', '-')} needs --model: TinyLM is trained on "
                             "one-digit sums")
    flags.defaults = {}
    if flags.model:
        flags.data, flags.reward = flags.data or "sums", flags.reward or "exact"
        if flags.data == "sums":
            flags.defaults = {k: v for k, v in SUMS.items()
                              if k not in ("step", "output_dir", "save_steps")}
    return from_flags(flags)


def checked(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config, after all that can be checked before a process is started.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    cfg, out = config_of(flags), Path(flags.out)
    if flags.vllm and not flags.model:
        raise ValueError("--vllm needs --model, the folder that the server was started with")
    preflight.file(flags.lab, "--lab")
    if flags.resume and not (out / "checkpoint.pt").is_file() and not [
            *out.glob("checkpoint-*/state.pt")]:
        raise FileNotFoundError(f"{out}: there is no checkpoint to resume from")
    if cfg.hf is not None:
        preflight.together(cfg.hf)
        preflight.packages(cfg.hf)
        preflight.model(flags.model)
        train_hf.rewards_of(flags.reward)
        train_hf.rows_of(flags, cfg.hf)
    return cfg


def about(flags: argparse.Namespace, cfg: ServicesConfig) -> tuple[dict, dict]:
    """Return (settings, run) for run.yaml: what can be given back, and what happened."""
    roles = {name: dataclasses.asdict(getattr(cfg, name)) for name in ROLES}
    if cfg.hf is None:
        settings = {"lab": str(Path(flags.lab).absolute()), "reward": flags.reward}
        settings |= {k: v for k, v in dataclasses.asdict(cfg).items() if k not in (*ROLES, "hf")}
        run = record.about_run(PROGRAM, flags.command, {"lab": flags.lab})
        return settings | {"services": roles}, run
    given = train_hf.about(flags)
    settings = {k: v for k, v in given["settings"].items() if k != "threads"}
    left = (*NOT_HERE, "save_steps", "step")
    settings |= {k: v for k, v in vars(cfg.hf).items() if k not in left}
    settings |= {name: getattr(cfg, name) for name in SERVICE}
    run = record.about_run(PROGRAM, flags.command, given["files"], flags.rows[0])
    return settings | {"services": roles}, run


def servers(flags: argparse.Namespace, cfg: ServicesConfig) -> list | None:
    """Return the vLLM servers to sample with, or None."""
    if not flags.vllm:
        return None
    assert cfg.hf is not None  # checked
    from beyond.services.vllm import VLLMGenerator

    stop = (cfg.hf.stop,) if cfg.hf.stop else ()
    return [VLLMGenerator(url, flags.model, Path(flags.out) / f"weights{i}", cfg.hf.max_new_tokens,
                          stop) for i, url in enumerate(flags.vllm)]


async def train(services, resume: bool, begin: Callable[[], None],
                keep: Callable[[], None]) -> None:
    """Start the services, train with a bar, and stop them.

    Args:
        services: a Services.
        resume: from its checkpoint.
        begin: called before anything is written.
        keep: called when an update is made.
    """
    from tqdm import tqdm

    async with services:
        begin()
        pids = "; ".join(f"{name} {', '.join(map(str, p))}" for name, p in services.pids.items())
        print(f"processes: {pids}")
        with tqdm(total=services.cfg.iters, leave=False, ascii=True, disable=None) as bar:

            def step(version: int) -> None:
                keep()
                bar.total = services.cfg.iters
                bar.update(version - bar.n)  # back to an older version after a restart

            try:
                await services.run(resume, tqdm.write, step)
            except BaseException:  # Ctrl-C, too: asyncio cancels this task, then raises it
                await services.stopped()
                raise


def main(args: list[str] | None = None) -> int:
    """Train; return the exit code."""
    flags = arguments(args)
    if flags.dry_run:
        return dry_run(flags, lambda: config_of(flags), "services", HEADINGS)
    if importlib.util.find_spec("monarch") is None:
        print(MISSING)
        return 2
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # one thread in each of many processes
    try:
        return run(flags)
    except ImportError as error:  # it is there, but not for this Python, torch or system
        print(f"{MISSING} ({error})".replace("\n", " "))
        return 2
    except KeyboardInterrupt:
        print("Stopped by Ctrl-C before the first update.")
        return 0


def run(flags: argparse.Namespace) -> int:
    """Train with parsed flags; return the exit code."""
    try:
        cfg = checked(flags)
        for line in flags.notices:
            print(line)
        with RunFolder(flags.out, flags.resume, "--out") as folder:
            return run_in(folder, flags, cfg)
    except (OSError, ValueError) as error:
        print(str(error).splitlines()[0])
        return 2


def run_in(folder: RunFolder, flags: argparse.Namespace, cfg: ServicesConfig) -> int:
    """Train in a folder that no other run uses; return the exit code.

    Raises:
        OSError, ValueError: what is wrong before a process is started.
    """
    from monarch.actor import shutdown_context

    from beyond.services.controller import Services

    rows, held = flags.rows or ((), ())
    if rows:
        train_hf.report_gaps(rows, flags.data)
    services = Services(cfg, flags.lab, flags.out, flags.model, flags.reward, servers(flags, cfg),
                        rows, held, train_hf.about(flags)["files"] if cfg.hf is not None else None)
    begun, code, whole = time.perf_counter(), 2, False
    try:
        asyncio.run(train(services, flags.resume, lambda: folder.begin(*about(flags, services.cfg)),
                          folder.keep))
        code, whole = 0, True
    except KeyboardInterrupt:
        code = 0
        print(f"Stopped by Ctrl-C after {counted(services.version, 'update')}; what was "
              "measured is kept."
              if services.version else "Stopped by Ctrl-C before the first update.")
        if services.version:
            services.write_files()
    except (OSError, ValueError, RuntimeError, FloatingPointError) as error:
        print(str(error).splitlines()[0] if str(error) else type(error).__name__)
    finally:
        shutdown_context().get()
    if not folder.kept and not flags.resume and folder.begun:
        services.forget()
    if services.version and code == 0:
        if cfg.hf is not None:
            folder.draw()
        print(summary(services, whole, time.perf_counter() - begun))
    return code


def summary(services, whole: bool, seconds: float) -> str:
    """Return what came out, in two lines.

    Args:
        services: a Services.
        whole: it was not stopped.
        seconds: how long it took.
    """
    found, parts = services.history, services.seconds
    per_sync = 1000 * parts["sync"] / max(1, parts["syncs"])
    what, curve = ("sampled accuracy", found["acc_sampled"]) if found["acc_sampled"] else (
        "reward", found["reward"])
    accuracy = f"{curve[0]:.3f} -> {curve[-1]:.3f}"
    staleness = sum(found["staleness"]) / max(1, len(found["staleness"]))
    return (f"{what} {accuracy}; mean staleness {staleness:.2f}, "
            f"{counted(services.buffer.dropped, 'group')} dropped, {per_sync:.1f} ms a weight "
            f"sync\n{services.out}: {counted(services.version, 'update')} in {spoken(seconds)}; "
            f"run.yaml, {', '.join(services.files(whole))}")


if __name__ == "__main__":
    sys.exit(piped(main))
