"""Run your whole grpo_step, unedited, on a real model; record its samples for the log."""

import contextlib
from typing import Any

import torch

from beyond.hf import backend as hf_backend
from beyond.hf import preflight
from beyond.parallel.ranks import extreme, total, whole
from beyond.student.checks import how_to_test
from beyond.student.plugins import backend_with, load_student

NO_REF = torch.nn.Module()  # what your grpo_step is given for ref where kl_beta is 0


class Answer(str):
    """A reference as your sample_group passes it on; it carries the row that it belongs to."""

    row: dict

    @classmethod
    def of(cls, row: dict) -> "Answer":
        """Return the answer of a row."""
        made = cls(row["reference"])
        made.row = row
        return made


class ScheduledOptimizer:
    """Wrap an optimizer; step() sets the learning rate first, the rest is the optimizer's own.

    Args:
        trainer: a GRPOTrainer; its count of steps goes up with every step.
    """

    def __init__(self, trainer):
        self.trainer = trainer

    def __getattr__(self, name):
        return getattr(self.trainer.opt, name)

    def step(self, *args, **kwargs):
        """Make one step at the schedule's rate."""
        trainer = self.trainer
        trainer.rate = trainer.schedule.step(trainer.done)
        result = trainer.opt.step(*args, **kwargs)
        trainer.done += 1
        return result


class LabStep:
    """Calls the grpo_step of a trainer's lab file.

    Args:
        trainer: a GRPOTrainer.

    Raises:
        ValueError: settings that a whole grpo_step cannot use.
    """

    def __init__(self, trainer):
        cfg, self.trainer = trainer.cfg, trainer
        preflight.whole_step(cfg)
        backend = backend_with(
            hf_backend, reward=self.reward, sample=self.sample, sequence_logprobs=self.logprobs,
            token_entropy=self.entropy)
        self.lab = load_student(trainer.lab.__file__, backend)
        self.seen: dict[str, Any] = {}
        self.told = False
        self.rows: list[dict] = []  # of the iteration, and how many rewards it has asked for
        self.calls = 0
        for name in ("sample_group", "group_advantages"):
            setattr(self.lab, name, self.recorded(name, getattr(self.lab, name)))
        self.settings = self.lab.GRPOConfig(
            prompts_per_iter=cfg.prompts_per_step, G=cfg.group_size, inner_steps=cfg.inner_steps,
            lr=cfg.learning_rate, clip_eps=cfg.clip_epsilon, beta=cfg.kl_beta,
            temperature=cfg.temperature, scale_std=cfg.scale_std, max_grad_norm=cfg.max_grad_norm,
            seed=cfg.seed,
        )

    def recorded(self, name: str, function):
        """Return a function that also keeps what it returns."""
        def recorder(*args, **kwargs):
            self.seen[name] = function(*args, **kwargs)
            return self.seen[name]

        return recorder

    def logprobs(self, model, out):
        """Return sequence_logprobs; NO_REF has those of the policy, which are known already."""
        policy = model  # tinylm's name: your file may give it by keyword
        if policy is NO_REF:
            old = self.seen.get("logp")
            policy = self.trainer.policy
            if old is not None and old[0] is out:
                return old[1]
        trainer = self.trainer
        if policy is trainer.policy and torch.is_grad_enabled():
            logp, _ = trainer.score(out)
        else:
            with whole(trainer.through) if policy is trainer.policy else contextlib.nullcontext():
                logp = hf_backend.sequence_logprobs(policy, out)
        if policy is self.trainer.policy:
            self.seen["logp"] = (out, logp.detach())
        return logp

    def sample(self, model, *args, **kwargs):
        """Return hf.backend.sample's dict."""
        with whole(self.trainer.through):
            out = hf_backend.sample(model, *args, **kwargs)
        return out | {"step": self.trainer.done}

    def entropy(self, model, out):
        """Return token_entropy; recompute it after a step (DTensors hide that they changed)."""
        if out.get("step") != self.trainer.done:
            out = out | {"state": None}
        with whole(self.trainer.through):
            return hf_backend.token_entropy(model, out)

    def row_of(self, answer: str) -> dict:
        """Return the row of an answer; an answer copied as plain text no longer carries it.

        Raises:
            ValueError: no row of this batch has the answer.
        """
        at, self.calls = self.calls // self.trainer.cfg.group_size, self.calls + 1
        if isinstance(answer, Answer):
            return answer.row
        rows = self.rows[at : at + 1] + self.rows  # try the row whose turn it is first
        for row in rows:
            if str(row["reference"]) == str(answer):
                return row
        raise ValueError(f"your sample_group asks for the reward of the answer {answer!r:.40}, "
                         f"which no prompt has. Test: {how_to_test(1, self.trainer.lab.__file__)}")

    def reward(self, response, answer):
        """Return the trainer's reward for a response; one that cannot be scored counts as 0."""
        row = self.row_of(answer)
        columns = {k: [v] for k, v in row.items() if k not in ("prompt", "text")}
        [score], *_ = self.trainer.judged([row["text"]], [response], columns)
        if score is None and not self.told:
            self.told = True
            self.trainer.say("the reward cannot score some response (None): your grpo_step counts "
                             "it as 0; with step = ours it is left out of its group")
        return 0.0 if score is None else score

    def finite(self) -> bool:
        """Return whether all weights are finite, on all ranks."""
        own = [getattr(p, "to_local", lambda p=p: p)() for p in self.trainer.policy.parameters()]
        bad = float(not all(torch.isfinite(p).all() for p in own))
        return extreme(self.trainer.world, [bad])[0] == 0

    def shared(self, metrics: dict[str, float], tokens: float) -> dict[str, float]:
        """Return the metrics over all ranks: the loss is a mean over rows, the rest over tokens."""
        world = self.trainer.data
        if not world.many:
            return metrics
        weights = [1.0 if name == "loss" else tokens for name in metrics]
        sums = total(world, [v * w for v, w in zip(metrics.values(), weights)])
        return {name: s / max(1.0, n) for name, s, n in zip(metrics, sums, total(world, weights))}

    def __call__(self, rows: list[dict]) -> tuple[dict[str, float], list[dict]]:
        """Make one iteration on some rows; return (metrics, what was sampled as rollouts)."""
        trainer = self.trainer
        self.rows, self.calls = rows, 0
        stats = self.lab.grpo_step(
            trainer.policy, trainer.ref or NO_REF, ScheduledOptimizer(trainer),
            [row["text"] for row in rows], [Answer.of(row) for row in rows], self.settings,
        )
        if not self.finite():
            raise FloatingPointError(
                f"step {trainer.done}: a weight is NaN or infinite. Lower learning_rate (now "
                f"{trainer.cfg.learning_rate:g}); or task 4 or 5 is wrong: run their tests."
            )
        missing = [k for k in ("loss", "kl", "clip_frac", "entropy")
                   if not isinstance(stats, dict) or k not in stats]
        missing += [k for k in ("sample_group", "group_advantages") if k not in self.seen]
        if missing or not hasattr(trainer, "rate"):
            what = f"misses {', '.join(missing)}" if missing else "never called opt.step()"
            raise ValueError(f"your grpo_step {what}. Test: "
                             f"{how_to_test(5, trainer.lab.__file__)}")
        groups, adv = self.seen["sample_group"], self.seen["group_advantages"]
        shown = [row["text"] for row in rows for _ in range(trainer.cfg.group_size)]
        rollout = {
            "out": groups["out"], "responses": groups["responses"], "prompts": shown, "parts": {},
            "rewards": groups["rewards"], "adv": adv, "entropy": stats["entropy"],
        }
        kept = {"loss": "loss", "kl": "kl", "clip_frac": "clip_ratio/region_mean"}
        metrics = {ours: float(stats[theirs]) for theirs, ours in kept.items()}
        metrics = self.shared(metrics, float(groups["out"]["mask"].sum()))
        metrics |= {"learning_rate": trainer.rate}
        trainer.tell("on_rollout", rows=rows, responses=groups["responses"],
                     rewards=groups["rewards"])
        return metrics, [rollout]
