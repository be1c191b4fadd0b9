"""Your grpo_step, unedited, on several processes: data parallelism in one loop.

    torchrun --standalone --nproc-per-node 2 -m beyond.launch.tiny --lab lab15_grpo.py
    torchrun --standalone --nproc-per-node 4 -m beyond.launch.tiny --parallel fsdp --loss dapo
    python -m beyond.launch.tiny               one process: the lab's train_grpo, to the bit

Six things differ from train_grpo, each in one place:

    prompts      all ranks draw the same batch, and each takes whole groups of it      my_part
    samples      each rank has random numbers of its own                               seed_of
    loss         is divided by what ALL ranks have of rows, tokens or groups            Share
    gradients    backward leaves their mean on all ranks, so all make the same step     wrap
    numbers      are added up as sums and counts; a mean of means would be wrong        over_ranks
    files        rank 0 evaluates and writes; checkpoints are everybody's               save, load

OUT gets the lab's files and checkpoint-N; --resume, or a restart by --max-restarts, resumes.
"""

import argparse
import inspect
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import torch
from torch.distributed.elastic.multiprocessing.errors import record

import lab15_run
import tinylm
from beyond.launch.sharded import Policy
from beyond.losses import LOSSES
from beyond.losses.names import VARIANTS, Variant, functions, resolve
from beyond.parallel.ranks import (
    KINDS,
    World,
    agree,
    ctrl_c,
    gather,
    my_part,
    of_all,
    seed_of,
    start,
    stop,
    stopped,
    total,
)
from beyond.saving import checkpoints
from beyond.settings import default_path
from beyond.student.checks import LabError
from beyond.student.plugins import load_student
from lab15_run import counted, piped
from tests.labfile import load_lab

KEEP = 2  # checkpoints
NUMBERS = ("iters", "eval_every", "eval_n")  # a resumed run may change these

# What each number of grpo_step is a mean over. The loss is one share for each rank.
UNITS = {"reward": "rows", "loss": "ranks", "kl": "tokens", "clip_frac": "tokens",
         "frac_zero_signal": "groups", "entropy": "tokens"}


class Share:
    """A loss as this rank's share of the loss of the whole batch, times the number of ranks.

    DDP and FSDP2 leave the MEAN over ranks of the gradients in p.grad, so it is the mean over ranks
    of what is returned here that must be the loss of the whole batch. A loss that takes its
    denominator (rows, tokens, groups) is given the whole batch's, divided by the number of ranks.
    One that takes none, such as your grpo_loss, is a mean over its rows; it is multiplied by the
    rows here / the average rows of a rank. (bnpo takes none; its token mean is local on purpose.)

    Args:
        loss: a function with the arguments of grpo_loss.
        world: the ranks.
        G: group size.
    """

    def __init__(self, loss: Callable, world: World, G: int):
        self.loss, self.world, self.G = loss, world, G
        self.counts: dict[str, float] = {}  # what this rank had at the last call

    def __call__(self, logp, old_logp, ref_logp, adv, mask, *args, **kwargs):
        """Return (loss, stats); the stats are of this rank's rows. Every rank must call it."""
        here = {"rows": len(mask), "tokens": float(mask.sum()), "groups": len(mask) // self.G}
        a_rank = [n / self.world.size for n in total(self.world, list(here.values()))]  # on average
        takes = inspect.signature(self.loss).parameters
        given = {name: n for name, n in zip(here, a_rank) if name in takes}
        loss, stats = self.loss(logp, old_logp, ref_logp, adv, mask, *args, **kwargs, **given)
        self.counts = {**here, "ranks": 1}
        return (loss if given else loss * (len(mask) / a_rank[0])), stats


def over_ranks(s: dict[str, float], counts: dict[str, float], world: World) -> dict[str, float]:
    """Return the statistics of all ranks together: the sum of sums / the sum of counts.

    Args:
        s: this rank's, from grpo_step.
        counts: what they are means over, from Share.
        world: the World.
    """
    if not world.many:
        return s  # s * n / n may differ from s in the last bit
    if not counts:
        raise LabError("your grpo_step does not call grpo_loss, where the ranks are added up")
    n = [counts[UNITS[k]] for k in UNITS]
    sums = total(world, [s[k] * m for k, m in zip(UNITS, n)] + n)
    return {k: sums[i] / sums[i + len(n)] for i, k in enumerate(UNITS)}


class Run:
    """What one rank holds: the same on all of them but for `part`, the samples, and the writing.

    Args:
        flags: of parse.
        world: the ranks.

    Raises:
        ValueError, OSError: what is wrong, the same on every rank.
    """

    def __init__(self, flags: argparse.Namespace, world: World):
        self.world, self.lab = world, (lab := load_student(flags.lab, tinylm))
        self.cfg = cfg = lab.GRPOConfig(**vars(flags.cfg))
        self.part = my_part(world, cfg.prompts_per_iter)
        model, self.ref = (tinylm.load_or_train_sft(flags.sft).to(world.device) for _ in range(2))
        self.ref.requires_grad_(False)
        self.policy = Policy(model, world, flags.parallel)
        torch.manual_seed(seed_of(cfg.seed, world.rank))
        self.opt = torch.optim.Adam(self.policy.trained.parameters(), lr=cfg.lr)
        self.rng = random.Random(cfg.seed)  # the same on all ranks, so they draw the same batch
        loss, advantage = functions(flags.variant, lab, tinylm.MAX_NEW_TOKENS, cfg.G)
        lab.grpo_loss = self.share = Share(loss, world, cfg.G)  # grpo_step calls it by name
        if flags.variant.advantage != "group":  # groups are whole: group_advantages is right as is
            lab.group_advantages = partial(of_all, world, advantage)
        lab.sample = self.policy.sample
        evals = ("eval_iter", "acc_sampled", "acc_greedy")
        self.hist: dict[str, list] = {k: [] for k in (*UNITS, *evals)}
        self.out, self.about = flags.out, about(flags)
        self.load(flags.resume)
        for _ in self.hist["loss"]:  # take rng to where it was
            tinylm.make_batch(cfg.prompts_per_iter, self.rng)

    def step(self, it: int) -> None:
        """Make one iteration."""
        lab, cfg = self.lab, self.cfg
        prompts, answers = (x[self.part] for x in tinylm.make_batch(cfg.prompts_per_iter, self.rng))
        s = lab.grpo_step(self.policy.trained, self.ref, self.opt, prompts, answers, cfg)
        s = over_ranks(s, self.share.counts, self.world)
        self.policy.refresh()
        # The same numbers everywhere: all ranks stop, or none.
        lab15_run.stop_if_nan(s, self.policy.whole, cfg, it)
        for k in UNITS:
            self.hist[k].append(s[k])

    def evaluate(self, it: int) -> None:
        """Measure the accuracy on rank 0 only: the same random numbers on any number of ranks."""
        if self.world.main:
            self.hist["eval_iter"].append(it)
            for name, greedy in (("acc_sampled", False), ("acc_greedy", True)):
                self.hist[name].append(
                    tinylm.accuracy(self.policy.whole, n=self.cfg.eval_n, greedy=greedy))


    def save(self, it: int) -> None:
        """Write checkpoint-it, and remove all but the newest; every rank must call it.

        What cannot be written is reported, and training continues: those before are whole.
        """
        name = f"checkpoint-{it}"
        try:
            checkpoints.save(
                self.out / name, self.world, model=self.policy.model, opt=self.opt,
                state={"about": self.about, "history": self.hist},
                own={"random": checkpoints.random_state()})
            if self.world.main:
                checkpoints.prune(self.out, KEEP)
        except OSError as error:
            if self.world.main:
                print(f"{name} was not saved: {error}. Those before are whole.", flush=True)

    def load(self, resume: bool) -> None:
        """Take up the newest checkpoint, if there is one; every rank must call it.

        Args:
            resume: False: there must be none, or a restart would take up another run's.

        A rank continues with its own random numbers. One that was not there then (there are
        more ranks now) starts at its seed, and those of ranks that are gone are dropped.

        Raises:
            ValueError: there is one though resume is False, or it has other settings, or an
                earlier version wrote it; which.
            OSError: it is damaged.
        """
        kept = gather(self.world, checkpoints.found(self.out))[0]
        if not kept:
            if old := gather(self.world, sorted(Path(self.out).glob("checkpoint-*/run.json")))[0]:
                raise ValueError(f"{old[-1].parent} was written by an earlier version, which this "
                                 "one cannot resume; give another --out")
            return
        last = kept[-1]
        if not resume:
            raise ValueError(f"{last} is of another run: continue it with --resume, or give "
                             "another --out")
        before = checkpoints.load_state(last)["about"]
        for name, value in self.about.items():
            if before.get(name) != value:
                raise ValueError(f"{last} was made with {name} = {before.get(name)!r}, not "
                                 f"{value!r}: give that, or another --out")
        state = checkpoints.load(last, self.world, self.policy.model, self.opt)
        self.policy.refresh()
        self.hist.update(state["history"])
        if self.world.rank < state["processes"]:
            own = checkpoints.load_state(last, checkpoints.RANK.format(self.world.rank))
            checkpoints.set_random_state(own["random"])


def train(run: Run, out: Path | None) -> None:
    """Train as lab.train_grpo does.

    Args:
        run: this rank's.
        out: where the lab's files go, on rank 0; None on the others.

    Raises:
        FloatingPointError: NaN; on all ranks in the same iteration.
    """
    cfg, world, hist = run.cfg, run.world, run.hist
    lab, policy = vars(run.lab), run.policy.whole
    with lab15_run.unwatched():
        files = lab15_run.Run(lab, cfg, policy, hist, out, fresh=False)
    with ctrl_c(world) as pressed, files:
        if not hist["loss"]:
            run.evaluate(0)
        left = range(len(hist["loss"]) + 1, cfg.iters + 1)
        for it in files.progress(left, world.main):
            run.step(it)
            leave = stopped(world, pressed)  # if one rank left alone, the others would hang
            if it % cfg.eval_every == 0 or it == cfg.iters or leave:
                run.evaluate(it)
                run.save(it)
                files.save()
                if world.main:
                    shown = [f"{k} {v[-1]:.3f}" for k, v in hist.items() if k != "eval_iter"]
                    files.print(f"iter {it:4d} {' '.join(shown)}")
            if leave:
                break


# ============================================================== the command


def parse(text: str | None, args: Sequence[str] | None = None) -> argparse.Namespace:
    """Return the flags; those of GRPOConfig are in `cfg`, the row of VARIANTS in `variant`.

    Args:
        text: the text above the flags in --help.
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
    add("--resume", action="store_true", help="resume from the newest checkpoint, if there is one")
    add("--device", default="cpu", help="cpu (gloo), or cuda (nccl, one GPU a process)")
    add("--threads", default=1, type=int, help="of each process; more are slower on most CPUs (1)")
    add("--sft", default=str(Path(tinylm.__file__).resolve().with_name("tinylm_sft.pt")),
        help=argparse.SUPPRESS)
    lab = load_lab(first.parse_known_args(args)[0].lab, backend=tinylm)
    parser = argparse.ArgumentParser(
        prog="python -m beyond.launch.tiny", description=text, parents=[first],
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
    """Return what must be the same for a run to resume from a checkpoint."""
    settings = {k: v for k, v in vars(flags.cfg).items() if k not in NUMBERS}
    return {"loss": flags.loss, **settings}


def restarts() -> int:
    """Return how often torchrun --max-restarts has started the ranks again."""
    return int(os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"))


def ended(error: Exception, code: int) -> int:
    """Say what is wrong in one line, and return the exit code.

    Rank 0 says it first. What is wrong on all ranks is then said once: torchrun ends the others as
    soon as one has left. An error on a single rank is printed by that rank.

    Raises:
        LabError: on several ranks, so that torchrun names the rank whose function failed.
    """
    if isinstance(error, LabError) and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise error
    if int(os.environ.get("RANK", "0")):
        time.sleep(3)
    print(error, flush=True)
    return code


@record  # torchrun shows the traceback of the rank that failed
def main(args: Sequence[str] | None = None) -> int:
    """Train; return the exit code."""
    try:
        flags = parse(__doc__, args)
        torch.set_num_threads(flags.threads)
        world = start(flags.device)
    except (ValueError, OSError) as error:
        return ended(error, 2)
    try:
        run = agree(world, lambda: Run(flags, world))
    except (ValueError, OSError) as error:
        if world.main:
            ended(error, 2)
        gather(world, None)  # a rank that ends first has torchrun end the others
        stop(world)
        return 2
    try:
        train(run, flags.out if world.main else None)
        if world.main:
            done = len(run.hist["loss"])
            rest = f" (stopped after {counted(done, 'iteration')}; --resume continues)"
            rest *= done < run.cfg.iters
            print(f"{flags.out}{rest}: {lab15_run.verdict(run.cfg, run.hist)}")
    except (FloatingPointError, LabError) as error:
        return ended(error, 1)
    finally:
        stop(world)
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
