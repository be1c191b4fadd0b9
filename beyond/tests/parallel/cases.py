"""Run in parallel/test_ranks.py: several processes check many cases, rank 0 writes what it found.

    python -m beyond.tests.parallel.cases FOLDER 2 4              worlds of 2 and 4, forked
    torchrun --nproc-per-node 2 -m beyond.tests.parallel.cases FOLDER

Forked processes import torch once; to parallel.start() they look like torchrun's. FOLDER/one holds
the checkpoint of a single process; FOLDER/2-ddp and 2-fsdp those that two processes have written
here, which four read. The result is FOLDER/found-N.json: case -> numbers.
"""

import contextlib
import faulthandler
import functools
import importlib.util
import io
import json
import os
import socket
import sys
import traceback
from pathlib import Path

import torch

import tinylm
from beyond import GRPOConfig, GRPOTrainer, tiny, train_hf
from beyond.hf import backend
from beyond.hf.batches import cut, part_of
from beyond.hf.whole_step import LabStep
from beyond.parallel import ranks
from beyond.parallel.ranks import World, full, gather
from beyond.tests.short_runs import KillAt, digits
from beyond.tests.tinylm_hf import TinyLMForCausalLM, tokenizer_of_tinylm

ALONE, LIMIT = World(), 240
COMMON = {"max_new_tokens": 12, "max_grad_norm": 1e9, "kl_beta": 0.1, "group_size": 4,
          "log_completions": 0, "learning_rate": 1e-2}
# name: (settings, prompts for each sampling on 2 processes; on 4 there are two prompts more)
CASES = {
    "dapo": ({"loss": "dapo"}, [3]),
    "lab": ({"loss": "lab"}, [3]),
    "grpo, micro-batches": ({"loss": "grpo", "micro_batch": 3}, [3]),
    "entropy bonus": ({"loss": "dapo", "entropy_coef": 0.3, "micro_batch": 5}, [3]),
    "lab, entropy bonus": ({"loss": "lab", "entropy_coef": 0.3, "micro_batch": 3}, [3]),
    "group mean": ({"loss": "dapo_group", "micro_batch": 5}, [3]),
    "accumulation": ({"loss": "dapo", "micro_batch": 3}, [3, 4]),
    "accumulation, lab": ({"loss": "lab", "micro_batch": 4}, [4, 3]),
    "one token": ({"loss": "dapo", "micro_batch": 4}, [2]),
    "checkpointing": ({"loss": "grpo", "micro_batch": 5, "gradient_checkpointing": True}, [3]),
    "clipped norm": ({"loss": "grpo", "max_grad_norm": 0.01}, [3]),
}

FEW = ["lab", "accumulation", "one token"]  # on 4 processes, unless LAB15_SLOW is set


def trainer(world, folder="", llama=True, **changes):
    """Return a trainer in float64 whose model often ends its responses.

    llama: transformers' Llama, which works in float32 inside (its norms); else TinyLM behind the
    same interface.
    """
    cfg = GRPOConfig(**(COMMON | {"output_dir": str(folder), "prompts_per_step": 8} | changes))
    if llama:
        model = tiny.model().double()
        model.get_output_embeddings().weight.data[2] *= 4
        return GRPOTrainer(model, tiny.tokenizer(), digits, cfg, world=world)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = TinyLMForCausalLM.around(tinylm.TinyLM(width=32)).double()
    return GRPOTrainer(model, tokenizer_of_tinylm(), digits, cfg, world=world)


def sampled(made, counts):
    """Return a batch of one rollout for each count of prompts, in float64, the same on all ranks.

    The last prompt's responses have one token: its rank reads fewer positions.
    """
    torch.manual_seed(1)
    batch, rows = [], [r | {"text": r["prompt"]} for r in tiny.rows(sum(counts))]
    for n in counts:
        rollout = made.roll_out(rows[:n])
        rows = rows[n:]
        out = rollout["out"]
        out["mask"], out["entropy"] = out["mask"].double(), out["entropy"].double()
        out["mask"][-4:, 1:] = 0.0
        rollout["entropy"] = cut(rollout, 0, 4 * n)["entropy"]
        # As after a few steps: ratios that are not 1, some of them clipped.
        rollout["old"] = backend.sequence_logprobs(made.policy, out).detach()
        rollout["old"] += 0.2 * torch.randn_like(rollout["old"]) * out["mask"]
        rollout["ref"] = rollout["old"] + 0.1 * torch.randn_like(rollout["old"]) * out["mask"]
        batch.append(rollout)
    return batch


def after(made, batch, steps):
    """Return (gradients of the first step, weights after the last, metrics of the last)."""
    grads, step = [], made.opt.step

    def keep():
        if not grads:
            grads.extend(full(p.grad).clone() for p in made.policy.parameters())
        step()

    made.opt.step = keep
    for _ in range(steps):
        metrics = made.update(batch)
    made.batch = {"rollouts": batch}
    made.measure(metrics, 10, 0.0)
    return grads, weights(made), made.window[-1] | metrics


def weights(made):
    """Return all weights, each as a whole."""
    return [full(p.detach()).clone() for p in made.policy.parameters()]


def apart(some, others):
    """Return the largest difference of two lists of tensors, or of two dicts of floats."""
    if isinstance(some, dict):
        assert some.keys() == others.keys(), (some.keys(), others.keys())
        return max(abs(some[k] - others[k]) for k in some)
    return max(float((a - b).abs().max()) for a, b in zip(some, others, strict=True))


@contextlib.contextmanager
def float64():
    """Keep logits in float64, which hf_backend turns into float32."""
    original = torch.Tensor.float
    torch.Tensor.float = lambda x: x if x.dtype == torch.float64 else original(x)
    try:
        yield
    finally:
        torch.Tensor.float = original


@functools.cache
def wanted_of(name, size):
    """Return (batch, what one process makes of it) of a case, with prompts for so many ranks."""
    settings, counts = CASES[name]
    alone = trainer(ALONE, llama=settings.get("gradient_checkpointing", False), **settings)
    batch = sampled(alone, [n + max(0, size - 2) for n in counts])
    return batch, after(alone, batch, 2)


def gradients(world, how, name):
    """Return how far a case on all ranks is from the same on one."""
    settings = CASES[name][0]
    with float64():
        batch, wanted = wanted_of(name, world.size)
        made = trainer(world, parallel=how, llama=name == "checkpointing", **settings)
        mine = []
        for rollout in batch:
            mine += part_of([rollout], world, 4)
        found = after(made, mine, 2)
    size = max(float(g.abs().max()) for g in wanted[0])
    return {"gradient": apart(found[0], wanted[0]), "largest": size,
            "weights": apart(found[1], wanted[1]), "metrics": apart(found[2], wanted[2]),
            "rows": gather(world, sum(len(r["adv"]) for r in mine))}


def lab_step(world, how):
    """Return how far your whole grpo_step on all ranks is from the same on one."""
    prompts = [r | {"text": r["prompt"]} for r in tiny.rows(4)]
    drawn = sampled(trainer(ALONE), [4])[0]["out"]
    texts = [row["text"] for row in prompts for _ in range(4)]

    def sample(self, policy, wanted, *_, **__):
        at = torch.tensor([i for i, text in enumerate(texts) if text in wanted])
        return backend.rows_of(drawn, at) | {"state": None}

    ends, original = [], LabStep.sample
    LabStep.sample = sample
    for one, part in ((ALONE, prompts), (world, prompts[ranks.my_part(world, 4)])):
        made = trainer(one, parallel=how, step="lab", inner_steps=2, prompts_per_step=4)
        metrics, rollouts = made.whole(part)
        made.batch = {"rollouts": rollouts}
        made.measure(metrics, 4, 0.0)
        ends.append((weights(made), made.window[-1]))
    LabStep.sample = original
    return {"weights": apart(ends[0][0], ends[1][0]), "metrics": apart(ends[0][1], ends[1][1])}


def not_finite(world, how):
    """Return what each rank raises when the gradient of the last one is not finite."""
    made = trainer(world, parallel=how, loss="dapo")
    [mine] = part_of(sampled(trainer(ALONE), [world.size]), world, 4)
    if world.rank == world.size - 1:
        mine["adv"] = mine["adv"] + float("inf")
    try:
        made.update([mine])
    except FloatingPointError as error:
        return {"said": gather(world, str(error))}


# ---------------------------------------------------------------- checkpoints


def runner(world, folder, stop=99, **changes):
    """Return a trainer of a run of 4 steps, two on each batch, that saves every step.

    stop: the step after which all ranks end, perhaps between two steps on the same samples.
    """
    made = trainer(world, folder, prompts_per_step=4, inner_steps=2, save_steps=1, micro_batch=3,
                   save_total_limit=9, max_grad_norm=1.0, **({"loss": "dapo"} | changes))
    made.callbacks.append(KillAt(stop, KeyboardInterrupt))
    return made


def resumed(world, how, kept, **changes):
    """Return (weights, next gradient, steps done) of a run that resumes from a checkpoint."""
    made = runner(world, kept.parent / f"resumed-{world.size}", parallel=how, **changes)
    made.schedule.total = 4
    made.load(str(kept))
    start = weights(made)
    grads, _, _ = after(made, made.batch["rollouts"], 1)
    return start, grads, made.done


@functools.cache
def read_alone(kept):
    """Return what one process makes of a checkpoint."""
    return resumed(ALONE, "ddp", kept)


def reading(world, how, kept):
    """Return how far a checkpoint read on all ranks is from the same read by one process."""
    found, wanted = resumed(world, how, kept), read_alone(kept)
    return {"weights": apart(found[0], wanted[0]), "gradient": apart(found[1], wanted[1]),
            "largest": max(float(g.abs().max()) for g in wanted[1]), "step": found[2]}


def resume_to_the_bit(world, how, folder, name="", **changes):
    """Return the difference between a run and one that was stopped and resumed."""
    changes |= {"parallel": how}
    made = runner(world, folder / f"{world.size}-{how}{name}", **changes)
    made.train(tiny.rows(8), tiny.rows(5))
    kept = folder / f"{world.size}-{how}{name}-again"
    runner(world, kept, stop=3, **changes).train(tiny.rows(8))
    again = runner(world, kept, **changes)
    again.load(True)
    start = again.done
    again = runner(world, kept, **changes)
    again.train(tiny.rows(8), tiny.rows(5), resume=True)
    draws = gather(world, float(torch.rand(1)))
    return {"weights": apart(weights(again), weights(made)), "from": start, "to": again.done,
            "drawn": len(set(draws))}


# What parallel/test_ranks.py also starts with torchrun, and disturbs.
COMMAND = ["--data", "FOLDER/rows.jsonl", "--model", "FOLDER/model", "--reward",
           "FOLDER/reward.py:score", "--step", "ours", "--loss", "dapo", "--prompts-per-step", "3",
           "--group-size", "4", "--max-new-tokens", "5", "--num-train-epochs", "5",
           "--save-steps", "1", "--save-total-limit", "20", "--learning-rate", "1e-3",
           "--log-completions", "0", "--parallel", "fsdp"]


def command(folder, out):
    """Return the arguments of a run of 10 steps on 6 prompts."""
    return [x.replace("FOLDER", str(folder)) for x in [*COMMAND, "--output-dir", f"FOLDER/{out}"]]


def check(world, folder, names):
    """Return all cases by name."""
    found = {}
    for how in ("ddp", "fsdp"):
        for name in names:
            found[f"{how}: {name}"] = gradients(world, how, name)
        found[f"{how}: lab step"] = lab_step(world, how)
        if how == "ddp" or names != FEW:
            found[f"{how}: resume"] = resume_to_the_bit(world, how, folder)
        found[f"{how}: not finite"] = not_finite(world, how)
        kept = ["one"] if world.size == 2 else ["one", "2-ddp", "2-fsdp"]
        if names == FEW:
            kept = ["2-fsdp" if how == "ddp" else "2-ddp"]
        for name in kept:
            found[f"{how}: read {name}"] = reading(world, how, folder / name / "checkpoint-3")
    if world.size == 2 and importlib.util.find_spec("peft"):
        found["ddp: lora"] = resume_to_the_bit(world, "ddp", folder, "-lora", lora_rank=2)
    return found


def one_rank(folder):
    """Check all cases as one process of several; rank 0 writes the result."""
    world = ranks.start()
    names = list(CASES) if world.size == 2 or "LAB15_SLOW" in os.environ else FEW
    with contextlib.redirect_stdout(io.StringIO()):
        found = check(world, folder, names)
        if (folder / "reward.py").exists() and world.size == 2:
            train_hf.train(train_hf.arguments(command(folder, "undisturbed")), world)
    if world.main:
        path = folder / f"found-{world.size}.json"
        path.write_text(json.dumps(found, indent=1), encoding="utf-8")
    ranks.stop(world)


def fork(folder, size, job=one_rank):
    """Start processes as torchrun does; raise if one of them fails."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        place = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free.getsockname()[1])}
    children = []
    for rank in range(size):
        if child := os.fork():
            children.append(child)
            continue
        code = 1
        os.environ |= place | {
            "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(size)}
        try:
            faulthandler.dump_traceback_later(LIMIT, exit=True)  # rather than wait forever
            job(folder)
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    ends = [os.waitpid(child, 0)[1] for child in children]
    if any(ends):
        raise SystemExit(f"a process of {size} failed")


def main():
    """Check all cases; with torchrun in its world, else in worlds of the sizes given."""
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    if "TORCHELASTIC_RUN_ID" in os.environ:
        one_rank(folder)
        return
    with contextlib.redirect_stdout(io.StringIO()):
        runner(ALONE, folder / "one", stop=3).train(tiny.rows(8))
    for size in sys.argv[2:]:
        fork(folder, int(size))


if __name__ == "__main__":
    main()
