"""Train with services on Monarch: generators, reference, rewards and trainer in their processes.

    python -m beyond.services_run --lab lab15_grpo.py --out runs/services
    python -m beyond.services_run --mode async --max-staleness 4 --correction tis --generators 2
    python -m beyond.services_run --mode async --staleness 16 --seed 1        reproducible
    python -m beyond.services_run --config run.yaml services.generator.replicas=2
    python -m beyond.services_run --resume --out runs/services                after a kill

The output folder holds history.json (the lab's curves, and staleness, weight_version, dropped,
seconds), config.json, policy.pt, curves.png and checkpoint.pt. Ctrl-C is a normal end.
Settings: beyond/services/config.py. Monarch: pip install -r beyond/requirements-monarch.txt.
"""

import argparse
import asyncio
import importlib.util
import os
import sys
from pathlib import Path

from beyond.services.config import add_arguments, from_flags
from beyond.settings import Parser, default_path

MISSING = ("beyond.services_run needs Monarch, which there is for Linux and macOS: "
           "pip install -r beyond/requirements-monarch.txt")
FILES = ("history.json", "config.json", "policy.pt", "curves.png", "checkpoint.pt")
UNFINISHED = "history.json, config.json, checkpoint.pt (--resume goes on from it)"


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = Parser(
        prog="python -m beyond.services_run", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("--lab", metavar="FILE", default=str(default_path()), help="your lab file")
    parser.add_argument("--model", metavar="FOLDER", help="a HuggingFace model (TinyLM after SFT)")
    parser.add_argument("--vllm", metavar="URL", action="append",
                        help="sample with this vLLM server (several: give it again); needs --model")
    parser.add_argument("--reward", metavar="FILE.py:NAME", help="function of (response, answer)")
    parser.add_argument("--out", default="runs/services", help="folder for the results")
    parser.add_argument("--resume", action="store_true", help="from the checkpoint in --out")
    add_arguments(parser)
    return parser.parse_args(args)


def servers(flags: argparse.Namespace) -> list | None:
    """Return the vLLM servers to sample with, or None.

    Raises:
        ValueError: there is no model that they could have.
    """
    if not flags.vllm:
        return None
    if not flags.model:
        raise ValueError("--vllm needs --model, the folder that the server was started with")
    from beyond.services.vllm import VLLMGenerator

    return [VLLMGenerator(url, flags.model, Path(flags.out) / f"weights{i}")
            for i, url in enumerate(flags.vllm)]


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
        services = Services(from_flags(flags), flags.lab, flags.out, flags.model, flags.reward,
                            servers(flags))
        if flags.resume and not services.checkpoint.is_file():
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
        if services.history["eval_iter"]:
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
    accuracy = f"{found['acc_sampled'][0]:.3f} -> {found['acc_sampled'][-1]:.3f}"
    staleness = sum(found["staleness"]) / max(1, len(found["staleness"]))
    return (f"sampled accuracy {accuracy}; mean staleness {staleness:.2f}, "
            f"{services.buffer.dropped} groups dropped, {per_sync:.1f} ms a weight sync\n"
            f"{services.out}: {', '.join(FILES) if whole else UNFINISHED}")


if __name__ == "__main__":
    sys.exit(main())
