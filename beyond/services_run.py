"""Train with services on Monarch: generators, reference, rewards and trainer in their processes.

    python -m beyond.services_run --lab lab15_grpo.py --out runs/services
    python -m beyond.services_run --mode async --max-staleness 4 --correction tis --generators 2
    python -m beyond.services_run --mode async --staleness 16 --seed 1        reproducible
    python -m beyond.services_run --config run.yaml services.generator.replicas=2
    python -m beyond.services_run --resume --out runs/services                after a kill
    python -m beyond.services_run --model FOLDER --data train.jsonl --reward numeric --loss dapo

The output folder holds history.json (the lab's curves, and staleness, weight_version, dropped,
seconds), config.json, policy.pt, curves.png and checkpoint.pt; with --model, in the place of
policy.pt and checkpoint.pt, what train_hf leaves there: the log, checkpoint-N and final. Ctrl-C is
a normal end.
Settings: beyond/services/config.py. Monarch: pip install -r beyond/requirements-monarch.txt.
"""

import argparse
import asyncio
import importlib.util
import os
import sys
from pathlib import Path

from beyond.hf.config import SUMS, read_file
from beyond.services.config import HEADINGS, ServicesConfig, add_arguments, from_flags
from beyond.settings import Parser, default_path, dry_run
from beyond.student.named import REWARDS, load_data
from beyond.tasks.data import load_sums

MISSING = ("beyond.services_run needs Monarch, which there is for Linux and macOS: "
           "pip install -r beyond/requirements-monarch.txt")
FILES = ("history.json", "config.json", "policy.pt", "curves.png", "checkpoint.pt")


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = Parser(
        prog="python -m beyond.services_run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--lab", metavar="FILE", default=str(default_path()), help="your lab file")
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
    parser.add_argument("--resume", action="store_true", help="from the checkpoint in --out")
    add_arguments(parser)
    return parser.parse_args(args)


def from_file(flags: argparse.Namespace) -> None:
    """Fill in model, data and reward from the file of --config, where the flags are not given.

    Raises:
        OSError, ValueError: the file cannot be read, or TinyLM is given what it has no use for.
    """
    found = read_file(flags.config, "services") if flags.config else {}
    for name in ("model", "data", "eval_data", "max_samples", "reward"):
        if getattr(flags, name) is None:
            setattr(flags, name, found.get(name))
    for name in ("data", "eval_data", "max_samples"):
        if getattr(flags, name) is not None and not flags.model:
            raise ValueError(f"--{name.replace('_', '-')} needs --model: TinyLM is trained on "
                             "one-digit sums")
    sums = {k: v for k, v in SUMS.items() if k not in ("step", "output_dir", "save_steps")}
    flags.defaults = sums if flags.model and flags.data in (None, "sums") else {}


def config_of(flags: argparse.Namespace) -> ServicesConfig:
    """Return the config of parsed flags.

    Raises:
        OSError, ValueError: what is wrong, in one line.
    """
    from_file(flags)
    return from_flags(flags)


def materials(flags: argparse.Namespace, cfg: ServicesConfig) -> dict[str, list]:
    """Return rows and rows held out of a real model; nothing for TinyLM.

    Raises:
        OSError, ValueError: they cannot be had.
    """
    if cfg.hf is None:
        return {}
    hf, name = cfg.hf, flags.data or "sums"
    rows = load_data(name, hf.seed, flags.max_samples)
    held = load_data(flags.eval_data, hf.seed, hf.eval_samples) if flags.eval_data else []
    if name == "sums" and not held:
        held = load_sums(hf.eval_samples, seed=10_000 + hf.seed)
    return {"rows": rows, "held": held}


def servers(flags: argparse.Namespace, cfg: ServicesConfig) -> list | None:
    """Return the vLLM servers to sample with, or None.

    Raises:
        ValueError: there is no model that they could have.
    """
    if not flags.vllm:
        return None
    if not flags.model or cfg.hf is None:
        raise ValueError("--vllm needs --model, the folder that the server was started with")
    from beyond.services.vllm import VLLMGenerator

    stop = (cfg.hf.stop,) if cfg.hf.stop else ()
    return [VLLMGenerator(url, flags.model, Path(flags.out) / f"weights{i}", cfg.hf.max_new_tokens,
                          stop) for i, url in enumerate(flags.vllm)]


async def train(services, resume: bool) -> None:
    """Start the services, train with a bar, and stop them."""
    from tqdm import tqdm

    async with services:
        pids = "; ".join(f"{name} {', '.join(map(str, p))}" for name, p in services.pids.items())
        print(f"processes: {pids}")
        with tqdm(total=services.cfg.iters, leave=False, ascii=True, disable=None) as bar:

            def step(version: int) -> None:
                bar.update(version - bar.n)  # back to an older version after a restart

            await services.run(resume, tqdm.write, step)


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
    from monarch.actor import shutdown_context

    from beyond.services.controller import Services

    try:
        cfg = config_of(flags)
        for line in flags.notices:
            print(line)
        services = Services(cfg, flags.lab, flags.out, flags.model, flags.reward,
                            servers(flags, cfg), **materials(flags, cfg))
        if flags.resume and not services.resumable():
            raise FileNotFoundError(f"{services.checkpoint}: there is no checkpoint to resume from")
        if not flags.resume:
            put_aside(services.out)
    except (OSError, ValueError) as error:
        print(str(error).splitlines()[0])
        return 2
    whole = False
    try:
        asyncio.run(train(services, flags.resume))
        whole = True
    except KeyboardInterrupt:
        print(f"Stopped by Ctrl-C after {services.version} updates; what was measured is kept.")
        if services.version:
            services.write_files()
    except (OSError, ValueError, RuntimeError, FloatingPointError) as error:
        print(str(error).splitlines()[0] if str(error) else type(error).__name__)
        return 2
    finally:
        shutdown_context().get()
    if services.version:
        print(summary(services, whole))
    return 0


def put_aside(out: Path) -> None:
    """Move the files of a run that this one does not resume to OUT/earlier-N.

    Raises:
        OSError: it cannot be done.
    """
    from beyond.saving import logs

    if (out / "checkpoint.pt").is_file():
        logs.put_aside(out, [out / name for name in FILES],
                       "a run that this one does not go on from (--resume does): it is")


def summary(services, whole: bool) -> str:
    """Return what came out, in two lines; whole: it was not stopped."""
    found, seconds = services.history, services.seconds
    per_sync = 1000 * seconds["sync"] / max(1, seconds["syncs"])
    what, curve = ("sampled accuracy", found["acc_sampled"]) if found["acc_sampled"] else (
        "reward", found["reward"])
    accuracy = f"{curve[0]:.3f} -> {curve[-1]:.3f}"
    staleness = sum(found["staleness"]) / max(1, len(found["staleness"]))
    return (f"{what} {accuracy}; mean staleness {staleness:.2f}, "
            f"{services.buffer.dropped} groups dropped, {per_sync:.1f} ms a weight sync\n"
            f"{services.out}: {', '.join(services.files(whole))}")


if __name__ == "__main__":
    sys.exit(main())
