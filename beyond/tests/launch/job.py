"""What the processes of test_launch.py do; writes size1.json, size2.json, size4.json to a folder.

    torchrun --standalone --nproc-per-node 2 -m beyond.tests.launch.job FOLDER     then 4
    python -m beyond.tests.launch.job FOLDER                                       then alone

A job checks many cases: starting a process takes longer than all that it does here. In float64, on
a small random TinyLM, it measures how far losses, gradients and whole trainings on N ranks are from
those of one process. Then two ranks train the real model and write checkpoints, which one and four
ranks read.
"""

import functools
import json
import sys
import zlib
from functools import partial
from pathlib import Path
from unittest import mock

import torch

import tinylm
from beyond.compare.run import merged
from beyond.launch import tiny
from beyond.launch.sharded import Policy
from beyond.losses import LOSSES
from beyond.parallel.ranks import extreme, full, gather, my_part, start, stop, total

P, G, T = 6, 4, 8
GRADIENTS = ("lab", "dapo", "dr_grpo", "dapo_group", "gspo")  # each another denominator or ratio
TRAININGS = ("lab", "dapo", "reinforce_pp")  # the last has advantages whitened over the batch
SHORT = ["--iters", "6", "--eval-every", "2", "--eval-n", "20"]


def model(seed=0):
    """Return a small TinyLM with random weights, in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return tinylm.TinyLM(width=16, layers=2, heads=2, context=32).double()


def sample(policy, prompts, temperature=1.0):
    """Sample with random numbers that depend only on the prompt: every rank draws the same."""
    parts = []
    for prompt in prompts[::G]:
        draw = torch.Generator().manual_seed(zlib.crc32(prompt.encode()))
        out = tinylm.sample(policy, [prompt] * G, temperature, max_new_tokens=T, generator=draw)
        parts.append((out, 0, torch.zeros(G)))
    return merged(parts, G)[0]


@functools.cache
def batch(first, last):
    """Return what a loss needs for some of the P groups, padded no wider than these need.

    Returns: (sample's dict, old_logp, ref_logp, adv, mask).
    """
    rows = slice(first, last)
    prompts = ["1+1=", "23+45=", "7+80=", "9+9=", "12+3=", "60+31="][rows]
    out = sample(model(), [p for p in prompts for _ in range(G)])
    with torch.no_grad():
        old, ref = (tinylm.sequence_logprobs(model(seed), out) for seed in (1, 2))
    adv = torch.randn(P * G, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    return out, old, ref, adv.view(P, G)[rows].flatten(), out["mask"]


def gradients(policy, loss, rows):
    """Return (loss, gradients of all weights in one vector)."""
    out, *rest = batch(rows.start, rows.stop)
    policy.zero_grad()
    value, _ = loss(tinylm.sequence_logprobs(policy, out), *rest)
    value.backward()
    return value.item(), torch.cat([full(p.grad).flatten() for p in policy.parameters()])


def losses(lab):
    """Return name -> loss, with what it needs bound."""
    extras = {"dr_grpo": {"L": T}, "dapo_group": {"G": G}, "gspo": {"clip_eps": 0.1}}
    zoo = {name: partial(LOSSES[name], **extras.get(name, {})) for name in GRADIENTS[1:]}
    return {"lab": lab.grpo_loss, **zoo}


def splits(world):
    """Return name -> this rank's groups: 3 3 and 1 5 of two ranks, 1 2 1 2 of four."""
    cuts = {1: [0, P], 2: [0, 1, P], 4: [0, 1, 3, 4, P]}[world.size]
    found = {"uneven": slice(*cuts[world.rank : world.rank + 2])}
    return found if world.size == 4 else found | {"even": my_part(world, P)}


def compare_gradients(world, lab):
    """Return case -> how far loss and gradients are from those of one process."""
    found, alone = {}, model()
    for how in ("ddp", "fsdp"):
        policy = Policy(model(), world, how)
        for name, loss in losses(lab).items():
            loss0, grad0 = gradients(alone, loss, slice(0, P))
            for split, rows in splits(world).items():
                value, grad = gradients(policy.trained, tiny.Share(loss, world, G), rows)
                mean = total(world, [value])[0] / world.size
                case = {"loss": abs(mean - loss0), "grad": float((grad - grad0).abs().max()),
                        "scale": float(grad0.abs().max())}
                if how == "ddp":  # each rank divides by its own
                    _, wrong = gradients(policy.trained, loss, rows)
                    case["wrong"] = float((wrong - grad0).abs().max()) / case["scale"]
                found[f"{how} {name} {split}"] = dict(zip(case, extreme(world, [*case.values()])))
    return found


# ---------------------------------------------------------------- trainings


def small_run(world, folder, *changes):
    """Return a Run of the small model in float64 that samples the same on any number of ranks."""
    args = ["--iters", "2", "--eval-every", "9", "--eval-n", "2", "--lr", "0.01",
            "--max-grad-norm", "0.05",  # below what it is: clipping, too, must see all ranks
            "--prompts-per-iter", str(P), "--G", str(G), "--out", str(folder / "small"), *changes]
    with mock.patch.object(tinylm, "load_or_train_sft", lambda path: model()):
        run = tiny.Run(tiny.parse(None, args), world)
    run.save = lambda *_: None
    run.lab.sample = lambda policy, *rest, **named: sample(run.policy.whole, *rest, **named)
    run.lab.reward = lambda response, answer: len(response) % 3 / 2  # one that it can get
    return run


def compare_trainings(world, folder):
    """Return case -> (weights, history) of whole trainings."""
    found = {}
    for how in ("ddp", "fsdp"):
        for loss in TRAININGS:
            run = small_run(world, folder, "--parallel", how, "--loss", loss)
            tiny.train(run, None)
            weights = torch.cat([p.detach().flatten() for p in run.policy.whole.parameters()])
            found[f"{how} {loss}"] = weights.tolist(), {k: run.hist[k] for k in tiny.UNITS}
    return found


def seeds(world, folder):
    """Return (what torch was seeded with, the next prompts that are drawn) of each rank."""
    run = small_run(world, folder, "--seed", "7")
    return gather(world, (torch.initial_seed(), tinylm.make_batch(3, run.rng)[0]))


def messages(world, folder):
    """Return what each rank raises: NaN that only the last one has, and too few prompts."""
    def nan():
        run = small_run(world, folder, "--clip-eps", "0.3")
        loss = run.share.loss
        bad = float("nan") if world.rank == world.size - 1 else 1.0
        run.share.loss = lambda *five: (loss(*five)[0] * bad, loss(*five)[1])
        tiny.train(run, None)

    found = {}
    cases = {"nan": nan, "few": lambda: small_run(world, folder, "--prompts-per-iter", "1")}
    for name, case in cases.items():
        said = None
        try:
            case()
        except (FloatingPointError, ValueError) as error:
            said = f"{type(error).__name__}: {error}"
        found[name] = gather(world, said)
    return found


def state(run):
    """Return weights and Adam's numbers, whole, in one vector each."""
    adam = [run.opt.state[p] for p in run.policy.trained.parameters()]
    parts = {"weights": list(run.policy.whole.parameters()),
             "adam": [s[k] for s in adam for k in ("step", "exp_avg", "exp_avg_sq")]}
    return {k: torch.cat([full(x).detach().flatten() for x in v]) for k, v in parts.items()}


def write_runs(world, folder):
    """Train with the real model, each way, and keep weights and Adam's numbers."""
    for how in ("ddp", "fsdp"):
        out = folder / how
        run = tiny.Run(tiny.parse(None, [*SHORT, "--parallel", how, "--out", str(out)]), world)
        tiny.train(run, None)
        kept = state(run)
        if world.main:
            torch.save(kept, folder / f"{how}.pt")


def read_runs(world, folder):
    """Return how far the state is that this number of ranks reads from what two have written."""
    found = {}
    for wrote, how in (("ddp", "fsdp"), ("fsdp", "ddp")):
        args = [*SHORT, "--parallel", how, "--out", str(folder / wrote), "--resume"]
        run = tiny.Run(tiny.parse(None, args), world)
        kept, here = torch.load(folder / f"{wrote}.pt"), state(run)
        found[wrote] = {k: float((kept[k] - here[k]).abs().max()) for k in kept}
        found[wrote]["done"] = len(run.hist["loss"])
        run.step(7)  # and it can continue
    return found


def everything(world, folder):
    """Do all of it; rank 0 writes."""
    lab = tiny.load_student(tiny.default_path(), tinylm)
    found = {"gradients": compare_gradients(world, lab), "messages": messages(world, folder),
             "trainings": compare_trainings(world, folder), "seeds": seeds(world, folder)}
    if world.size == 2:
        write_runs(world, folder)
    else:
        found["read"] = read_runs(world, folder)
    if world.main:
        text = json.dumps(found)
        (folder / f"size{world.size}.json").write_text(text, encoding="utf-8")


def one(folder):
    """Be one of the ranks."""
    torch.set_num_threads(1)
    world = start()
    try:
        everything(world, folder)
    finally:
        stop(world)


if __name__ == "__main__":
    one(Path(sys.argv[1]))
