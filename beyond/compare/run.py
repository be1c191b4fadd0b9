"""One run of beyond.compare: the lab's loop with another loss, saved at every evaluation.

The loop draws its random numbers in the order of train_grpo and grpo_step, so that the variant
"grpo" gives their numbers exactly (beyond/tests/compare/test_compare.py). All that is measured
on top has generators of its own.
"""

import hashlib
import json
import os
import random
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from math import comb
from pathlib import Path
from types import ModuleType
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
from torch import Tensor

import lab15_run
import tinylm
from beyond.compare.tasks import TASKS, Task
from beyond.losses.names import Variant, functions
from beyond.losses.shaping import fill_with_informative, informative_groups, overlong_penalty
from tests.labfile import load_lab

SCHEMA = 1
EVAL_N = 500  # held-out problems of an evaluation
SAMPLES = 8  # answers a problem for pass@k, after the last iteration
MAX_DRAWS = 3  # batches that dynamic sampling may draw for one iteration
MEANS = ("reward", "loss", "clip_frac", "frac_zero_signal", "ratio_max")


@dataclass(frozen=True)
class Spec:
    """All that decides the numbers of a run."""

    task: str
    variant: Variant
    seed: int
    iters: int
    eval_every: int
    inner_steps: int
    lab: str  # path of the lab file

    def folder(self, out: Path) -> Path:
        """Return where the runs of this variant are kept."""
        return out / self.task / self.variant.name

    def about(self) -> dict:
        """Return what must be the same for a file to be this run, continued or finished."""
        told = asdict(self) | {"schema": SCHEMA}
        told["variant"].pop("note")
        if self.variant.refill:  # once it was the shaped reward that chose the groups
            told["groups"] = "kept by right and wrong"
        source = Path(self.lab).read_text(encoding="utf-8", errors="replace")
        told["lab"] = hashlib.sha256("\n".join(source.split()).encode()).hexdigest()[:12]
        told["sft"] = TASKS[self.task].model._fingerprint()
        return json.loads(json.dumps(told))


# ============================================================== one iteration


def merged(parts: list[tuple[dict, int, Tensor]], G: int) -> tuple[dict, Tensor]:
    """Return (sample's dict, rewards) of groups that come from several calls of sample_group.

    Args:
        parts: (sample's dict, number of the group in it, (P*G,) rewards) for every group.
        G: group size.
    """
    L = max(out["prompt_len"] for out, _, _ in parts)
    T = max(out["mask"].shape[1] for out, _, _ in parts)
    ids, masks, rewards = [], [], []
    for out, p, scored in parts:
        rows = slice(p * G, (p + 1) * G)
        here = out["ids"][rows]
        pad = (L - out["prompt_len"], T - out["mask"].shape[1])
        ids.append(torch.nn.functional.pad(here, pad, value=tinylm.PAD))
        masks.append(torch.nn.functional.pad(out["mask"][rows], (0, pad[1])))
        rewards.append(scored[rows])
    out = {"ids": torch.cat(ids), "prompt_len": L, "mask": torch.cat(masks)}
    return out, torch.cat(rewards)


def collect(run: "Run", prompts: list[str], answers: list[str]) -> tuple[dict, Tensor, float]:
    """Return (sample's dict, rewards, share of groups without signal) of one iteration.

    Args:
        run: the run.
        prompts: P texts; more are drawn where the variant refills.
        answers: P texts.
    """
    lab, cfg, batch = run.lab, run.cfg, (prompts, answers)

    def draw() -> tuple[list, Tensor]:
        nonlocal batch
        groups = lab.sample_group(run.policy, *batch, cfg.G, cfg.temperature)
        batch = run.task.backend.make_batch(cfg.prompts_per_iter, run.refill_rng)
        out, right = groups["out"], groups["rewards"]
        silent.append(float((~informative_groups(right, cfg.G)).float().mean()))
        worth = right
        if run.spec.variant.overlong:
            lengths = out["mask"].sum(1)
            worth = right + overlong_penalty(lengths, run.task.budget, run.task.cache)
        drawn.append((out, worth))
        return [(out, p, worth) for p in range(len(right) // cfg.G)], right

    silent: list[float] = []
    drawn: list[tuple[dict, Tensor]] = []
    if not run.spec.variant.refill:
        draw()
        return *drawn[0], silent[0]
    parts = fill_with_informative(draw, cfg.prompts_per_iter, cfg.G, MAX_DRAWS)
    return *(merged(parts, cfg.G) if parts else drawn[0]), silent[0]


def step(run: "Run", prompts: list[str], answers: list[str]) -> dict[str, float]:
    """Return the statistics of one iteration: the lab's grpo_step with the variant's functions.

    Args:
        run: the run.
        prompts: P texts.
        answers: P texts.
    """
    lab, cfg, policy = run.lab, run.cfg, run.policy
    out, rewards, silent = collect(run, prompts, answers)
    adv = run.advantage(rewards, cfg.G, cfg.scale_std)
    with torch.no_grad():
        old_logp, ref_logp = lab.sequence_logprobs(policy, out), lab.sequence_logprobs(run.ref, out)
    entropy = lab.token_entropy(policy, out)
    for _ in range(cfg.inner_steps):
        logp = lab.sequence_logprobs(policy, out)
        loss, s = run.loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
        run.opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        run.opt.step()
    stats = {k: s[k] for k in ("kl", "clip_frac", "ratio_max")} | {"frac_zero_signal": silent}
    return {"reward": rewards.mean().item(), "loss": loss.item(), "entropy": entropy, **stats}


# ============================================================== evaluation


def ask(task: Task, model: Any, seed: int, greedy: bool = False) -> tuple[dict, list, list]:
    """Return (sample's dict, responses, 1.0 or 0.0 each) for the held-out problems.

    The same problems, the same generator and so the same numbers as the backend's accuracy.

    Args:
        task: the task.
        model: a TinyLM.
        seed: of the generator.
        greedy: take the likeliest tokens.
    """
    pairs = [task.model.EVAL_PAIRS[i % len(task.model.EVAL_PAIRS)] for i in range(EVAL_N)]
    generator = torch.Generator(tinylm.device_of(model)).manual_seed(seed)
    prompts = [f"{a}+{b}=" for a, b in pairs]
    out = task.backend.sample(model, prompts, greedy=greedy, generator=generator)
    responses = task.backend.decode_responses(out)
    right = [task.model.reward(r, str(a + b)) for r, (a, b) in zip(responses, pairs)]
    return out, responses, right


def share(values: list) -> float | None:
    """Return the mean of a list, None if it is empty."""
    return sum(values) / len(values) if values else None


@torch.no_grad()
def evaluate(run: "Run") -> dict:
    """Return one evaluation: accuracy, and what the sampled responses look like."""
    task, policy = run.task, run.policy
    out, responses, right = ask(task, policy, seed=0)
    logp, ref_logp = (run.lab.sequence_logprobs(m, out) for m in (policy, run.ref))
    mask = out["mask"]
    lengths = mask.sum(1).tolist()
    ended = (out["ids"][:, out["prompt_len"] :] == tinylm.END).any(1).tolist()
    told: dict[str, float | None] = {
        "sampled": share(right),
        "greedy": share(ask(task, policy, seed=0, greedy=True)[2]),
        "entropy": run.lab.token_entropy(policy, out),
        "kl": float((run.lab.k3_kl(logp, ref_logp) * mask).sum() / mask.sum()),
        "length": share(lengths),
        "length_right": share([n for n, ok in zip(lengths, right) if ok]),
        "length_wrong": share([n for n, ok in zip(lengths, right) if not ok]),
        "cut": share([not x for x in ended]),
    }
    if hasattr(task.model, "style"):
        written = [task.model.style(r) for r in responses]
        told |= {f"style_{k}": written.count(k) / EVAL_N for k in [*task.model.STYLES, "other"]}
        answers = [str(a + b) for a, b in task.model.EVAL_PAIRS]
        hits = [task.model.reward_anywhere(r, a) for r, a in zip(responses, answers)]
        told["anywhere"] = share(hits)
    return told


def pass_at(task: Task, model: Any) -> dict[str, float]:
    """Return pass@1, 4 and 8: the chance that one of k samples is right, unbiased."""
    counts = torch.zeros(EVAL_N)
    for seed in range(1, SAMPLES + 1):
        counts += torch.tensor(ask(task, model, seed)[2])
    right = counts.int().tolist()
    return {f"pass@{k}": sum(1 - comb(SAMPLES - c, k) / comb(SAMPLES, k) for c in right) / EVAL_N
            for k in (1, 4, 8)}  # fmt: skip


# ============================================================== a run and its state


class Run:
    """A run: models, optimizer, random numbers, and what was measured so far."""

    def __init__(self, spec: Spec):
        self.spec, self.task = spec, TASKS[spec.task]
        self.lab: ModuleType = load_lab(spec.lab, backend=self.task.backend)
        v = spec.variant
        self.cfg = self.lab.GRPOConfig(iters=spec.iters, inner_steps=spec.inner_steps,
                                       clip_eps=v.clip_eps, beta=v.beta, seed=spec.seed)
        self.loss, self.advantage = functions(v, self.lab, self.task.budget, self.cfg.G)
        path = Path(tinylm.__file__).resolve().with_name(self.task.sft)
        self.policy = self.task.model.load_or_train_sft(path)
        self.ref = self.task.model.load_or_train_sft(path)
        for p in self.ref.parameters():
            p.requires_grad_(False)
        torch.manual_seed(spec.seed)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=self.cfg.lr)
        self.rng = random.Random(spec.seed)
        self.refill_rng = random.Random(f"refill {spec.seed}")  # leaves grpo's batches as they are
        self.history: list[dict] = []  # one dict an iteration
        self.records: list[dict] = []  # one dict an evaluation
        self.seconds, self.started = 0.0, time.process_time()  # before, and since then

    def state(self) -> dict:
        """Return everything that a run needs to resume as if it had never stopped."""
        generators = {"torch": torch.get_rng_state(), "rng": self.rng.getstate(),
                      "refill": self.refill_rng.getstate()}  # fmt: skip
        return {"about": json.dumps(self.spec.about()), "policy": self.policy.state_dict(),
                "opt": self.opt.state_dict(), "generators": generators, "history": self.history,
                "records": self.records, "seconds": self.seconds}  # fmt: skip

    def restore(self, state: dict) -> None:
        """Take up a state that state() made."""
        self.policy.load_state_dict(state["policy"])
        self.opt.load_state_dict(state["opt"])
        torch.set_rng_state(state["generators"]["torch"])
        self.rng.setstate(state["generators"]["rng"])
        self.refill_rng.setstate(state["generators"]["refill"])
        self.history, self.records = state["history"], state["records"]
        self.seconds = state["seconds"]

    def add_record(self, since: int) -> None:
        """Evaluate, with the means of the training statistics since that iteration."""
        recent = self.history[since:]
        means = {f"train_{k}": share([s[k] for s in recent]) for k in MEANS}
        told = {"iter": len(self.history)} | evaluate(self) | means
        self.records.append({k: v if v is None else round(v, 6) for k, v in told.items()})


def write_lines(path: Path, lines: list[dict]) -> None:
    """Write one JSON object per line, atomically."""
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    tinylm.write_file(path, lambda file: file.write(data))


def read_lines(path: Path) -> list[dict]:
    """Return the objects of a file of JSON lines; of a damaged file, none."""
    try:
        return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError):
        return []


def finished(spec: Spec, out: Path) -> bool:
    """Return whether this very run is done already."""
    lines = read_lines(spec.folder(out) / f"seed{spec.seed}.jsonl")
    return bool(lines) and lines[0].get("run") == spec.about() and "done" in lines[-1]


def train(spec: Spec, out: Path, tell: Callable[[int], bool] = lambda iteration: True) -> Run:
    """Train one run to its end, or until tell says stop; return it.

    Args:
        spec: the run.
        out: results go to OUT/TASK/VARIANT/seedN.jsonl, the state beside it until the run is done.
        tell: called with the number of iterations done; False: save and stop.
    """
    run = Run(spec)
    lines_path = spec.folder(out) / f"seed{spec.seed}.jsonl"
    state_path = lines_path.with_suffix(".pt")

    def save(done: dict | None = None) -> None:
        run.seconds += time.process_time() - run.started
        run.started = time.process_time()
        if done is None:
            tinylm.write_file(state_path, lambda file: torch.save(run.state(), file))
        end = [] if done is None else [{"done": done | {"seconds": round(run.seconds, 1)}}]
        write_lines(lines_path, [{"run": spec.about()}, *run.records, *end])

    try:
        state = torch.load(state_path, weights_only=True)
        if state["about"] == json.dumps(spec.about()):
            run.restore(state)
    except Exception:  # none yet, or damaged: from the start
        pass
    run.started = time.process_time()
    if not run.records:
        run.add_record(0)
        save()
    try:
        if not _iterate(run, save, tell):
            return run
        save(pass_at(run.task, run.policy))
    except FloatingPointError as error:
        save({"failed": str(error)})
    state_path.unlink(missing_ok=True)
    return run


def _iterate(run: Run, save: Callable, tell: Callable[[int], bool]) -> bool:
    """Run the iterations that are left; return False if tell stopped them."""
    since = run.records[-1]["iter"]
    for it in range(len(run.history) + 1, run.cfg.iters + 1):
        batch = run.task.backend.make_batch(run.cfg.prompts_per_iter, run.rng)
        stats = step(run, *batch)
        lab15_run.stop_if_nan(stats, run.policy, run.cfg, it)
        run.history.append(stats)
        if it % run.spec.eval_every == 0 or it == run.cfg.iters:
            run.add_record(since)
            since = it
            save()
        if not tell(it) and it < run.cfg.iters:
            if since != it:
                save()
            return False
    return True
