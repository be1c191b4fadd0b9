"""What beyond.launch.tiny needs besides its loop: flags, and one line for what is wrong."""

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

import torch

import tinylm
from beyond.compare_variants import VARIANTS, Variant, resolve
from beyond.lab_checks import LabError
from beyond.losses import LOSSES
from beyond.parallel import KINDS
from beyond.plugins import default_path
from tests.labfile import load_lab

NUMBERS = ("iters", "eval_every", "eval_n")  # a run may go on with others of these


def parse(about: str | None, args: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags; those of GRPOConfig are in `cfg`, the row of VARIANTS in `variant`.

    Args:
        about: the text above the flags in --help.
        args: the words of the command line; None: sys.argv's.

    Raises:
        SystemExit: a flag is wrong; argparse has said which.
        ValueError, OSError: there is no such lab file, loss, device or setting.
    """
    first = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    add = first.add_argument
    add("--lab", default=str(default_path()), metavar="FILE", help="your lab file (the solutions')")
    add("--loss", default="lab", metavar="NAME",
        help=f"lab (your grpo_loss), or one of beyond.compare: {', '.join(VARIANTS)}")
    add("--parallel", default="ddp", choices=KINDS, help="ddp: all weights on every rank; "
        "fsdp: weights, gradients and Adam's state in parts (ddp)")
    add("--out", metavar="FOLDER", help="folder for the results (runs/tiny-seedN)")
    add("--resume", action="store_true", help="go on from the newest checkpoint, if there is one")
    add("--device", default="cpu", help="cpu (gloo), or cuda (nccl, one GPU a process)")
    add("--threads", default=1, type=int, help="of each process; more are slower on most CPUs (1)")
    add("--sft", default=str(Path(tinylm.__file__).resolve().with_name("tinylm_sft.pt")),
        help=argparse.SUPPRESS)
    lab = load_lab(first.parse_known_args(args)[0].lab, backend=tinylm)
    parser = argparse.ArgumentParser(
        prog="python -m beyond.launch.tiny", description=about, parents=[first],
        allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, value in vars(lab.GRPOConfig()).items():
        kind: dict = {"action": argparse.BooleanOptionalAction}
        kind = kind if value is True else {"type": type(value)}
        parser.add_argument("--" + name.replace("_", "-"), help=f"({value})", **kind)
    flags = parser.parse_args(args)
    flags.variant = variant_of(flags.loss)
    given = {k: getattr(flags, k) for k in vars(lab.GRPOConfig()) if getattr(flags, k) is not None}
    own = {"clip_eps": flags.variant.clip_eps, "beta": flags.variant.beta}
    flags.cfg = lab.GRPOConfig(**(own | given))
    flags.out = Path(flags.out or f"runs/tiny-seed{flags.cfg.seed}")
    flags.resume = flags.resume or restarts() > 0
    check(flags)
    return flags


def check(flags: argparse.Namespace) -> None:
    """Raise a ValueError for what would only be noticed later, or never."""
    if flags.threads < 1:
        raise ValueError(f"--threads {flags.threads} is not allowed; give 1 or more")
    try:
        there = torch.zeros(0, device=flags.device).device.type in ("cpu", "cuda")
    except (RuntimeError, AssertionError):  # an unknown word; no such device here
        there = False
    if not there:
        raise ValueError(f"--device {flags.device}: torch finds none here; give cpu or cuda")
    at = next(path for path in (flags.out, *flags.out.absolute().parents) if path.exists())
    if not at.is_dir() or not os.access(at, os.W_OK):
        raise ValueError(f"--out {flags.out}: {at} is no folder that can be written to")


def variant_of(name: str) -> Variant:
    """Return the row of a --loss.

    Raises:
        ValueError: there is none, or it needs another loop.
    """
    if name != "lab" and name not in VARIANTS and name not in LOSSES:
        raise ValueError(f"--loss {name!r} is unknown; known: lab, {', '.join(VARIANTS)}")
    [variant] = resolve(["grpo" if name == "lab" else name], [], [])
    if variant.overlong or variant.refill:
        raise ValueError(f"--loss {name} changes rewards or batches: only beyond.compare can")
    return variant


def about(flags: argparse.Namespace) -> dict:
    """Return what must be the same for a run to go on from a checkpoint."""
    settings = {k: v for k, v in vars(flags.cfg).items() if k not in NUMBERS}
    return {"loss": flags.loss, **settings}


def restarts() -> int:
    """Return how often torchrun --max-restarts has started the ranks again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def ended(error: Exception, code: int) -> int:
    """Say what is wrong in one line, and return the exit code.

    Rank 0 says it first. What is wrong on all ranks is then said once: torchrun ends the others as
    soon as one has left. What is wrong on one rank alone, that rank says.

    Raises:
        LabError: on several ranks, so that torchrun names the rank whose function failed.
    """
    if isinstance(error, LabError) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise error
    if int(os.environ.get("RANK", "0")):
        time.sleep(3)
    print(error, flush=True)
    return code
