"""The trainer of a real model: train_hf's GRPOTrainer, fed by the other services.

What it does with a batch (losses, metrics, log, evaluation, checkpoints, final/) is GRPOTrainer's
own code; this module only supplies its samples. In mode sync the weights and the log are those of
train_hf --step ours to the bit. With several processes each takes its share of the prompts of every
sampling, and they meet over gloo, as under torchrun.
"""

import contextlib
import dataclasses
import functools
import io
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from monarch.actor import endpoint
from torch import Tensor

from beyond.hf import backend, batches
from beyond.hf.trainer import GRPOTrainer, announce
from beyond.losses.names import described
from beyond.losses.weights import sequence_weights, token_weights
from beyond.parallel import ranks
from beyond.saving import checkpoints
from beyond.saving.logs import RunLog
from beyond.services.actors import Member, Recipe, out_of, rank
from beyond.services.messages import Group, episodes_of, filled, inputs_of
from beyond.student.named import load_reward
from beyond.tasks.data import usable
from beyond.tasks.rewards import combined

REST = "services.pt"  # the controller's state, in a checkpoint


class ServiceTrainer(GRPOTrainer):
    """A GRPOTrainer that gets its samples from outside, and saves when the controller asks.

    Args:
        cfg: a ServicesConfig.
        more: arguments of GRPOTrainer.
    """

    def __init__(self, cfg, **more: Any):
        self.services = cfg
        self.rest: dict[str, Any] = {}
        self.sampler: Tensor | None = None  # of the rollout that a loss is taken of
        super().__init__(config=cfg.hf, **more)
        if self.ref is not None:  # its log-probs come with the samples; no model is kept
            self.ref = self.policy
        if cfg.correction == "tis" and cfg.tis_level == "token":
            self.loss = self.weighted(self.loss)

    def write_model(self, folder: Path) -> None:
        """Write the model, and beside it the controller's state."""
        super().write_model(folder)
        if self.rest and self.world.main:
            torch.save(self.rest, folder / REST)

    def keep(self) -> None:
        """Do nothing: checkpoints are written when the controller asks for one."""

    def ready(self, rows: list[dict]) -> None:
        """Prepare for rows that have their text."""
        self.facts = self.found_now(rows)
        # Checkpoints are written when the controller asks: every save_every updates.
        self.rows = rows
        self.total = announce(len(rows), dataclasses.replace(self.cfg, save_steps=0))
        updates = -(-self.total // self.cfg.inner_steps)
        if self.services.save_every > updates:
            self.say(f"save_every = {self.services.save_every} is more than the {updates} updates "
                     "there are: it happens at the end only. Set save_every lower to lose less "
                     "when the run is killed.")
        self.say(described(self.cfg.loss, self.cfg))
        self.schedule.total = self.total
        self.history: list[dict[str, float]] = []
        batches.check_parts(len(rows), self.cfg, self.data)
        checkpoints.seed_everything(ranks.seed_of(self.cfg.seed, self.data.rank))

    def one_update(self, rollouts: list[dict[str, Any]]) -> dict[str, float]:
        """Make inner_steps optimizer steps on some rollouts, fewer at the end; as run does."""
        for _ in rollouts:
            batches.next_rows(self.place, self.rows, self.cfg)
        self.batch = {"rollouts": rollouts, "inner": 0}
        metrics: dict[str, float] = {}
        while self.batch is not None:
            begun, before = time.perf_counter(), self.done
            metrics = self.update(rollouts)
            self.batch["inner"] += 1
            self.done += 1
            self.measure(metrics, len(self.rows), time.perf_counter() - begun)
            if self.batch["inner"] >= self.cfg.inner_steps or self.done >= self.total:
                self.write_completions()
                self.batch = None
            self.after_step(before, self.total)
        return metrics

    # ---------------------------------------------------------- samples of other policies

    def piece_loss(self, rollout: dict, at: Tensor, totals: dict[str, float]):
        """Return the piece's loss; note which sampler log-probs belong to the rows."""
        self.sampler = rollout["sampler"][at] if "sampler" in rollout else None
        return super().piece_loss(rollout, at, totals)

    def weighted(self, loss: Callable) -> Callable:
        """Return a loss that weights each token by min(old / sampler, cap)."""

        @functools.wraps(loss.func if isinstance(loss, functools.partial) else loss)
        def with_weights(logp, old, ref, adv, mask, **extras):
            assert self.sampler is not None  # set by piece_loss
            sampler = self.sampler[:, : mask.shape[1]]
            weights = token_weights(old, sampler, mask, self.services.tis_cap)
            return loss(logp, old, ref, adv, mask, weights=weights, **extras)

        return with_weights

    def rollout_of(self, groups: list[Group]) -> dict[str, Any]:
        """Return the groups of one sampling, this rank's share of them, as roll_out would.

        Args:
            groups: of all ranks, in the order of the prompts.
        """
        cfg, policy, G = self.cfg, self.policy, self.cfg.group_size
        scores = [e.reward for e in episodes_of(groups)]
        rewards = torch.tensor([float("nan") if s is None else s for s in scores],
                               device=policy.device)
        adv = self.advantages(rewards, G)
        mine = ranks.my_part(self.data, len(groups))
        groups, rows = groups[mine], slice(mine.start * G, mine.stop * G)
        episodes = episodes_of(groups)
        found = inputs_of(groups, policy.pad_id)
        mask = found["padding_mask"]
        out = out_of(policy, found, mask, cfg.temperature) | {"stop": policy.stop}
        with torch.no_grad(), ranks.whole(self.through):
            known: list = [e.completion.entropies for e in episodes]
            out["entropy"] = (
                torch.tensor([filled(e, mask.shape[1], 0.0) for e in known], device=policy.device)
                if all(e is not None for e in known) else backend.token_entropies(policy, out))
            out["state"] = policy.state()
            entropy = backend.token_entropy(policy, out)
            old = backend.sequence_logprobs(policy, out) if self.scores_old else None
        sampler = found["sampler_logprobs"].to(policy.device)
        ref: list = [e.ref_logprobs for e in episodes]
        rollout = {
            "out": out, "adv": adv[rows], "rewards": rewards[rows], "old": old, "entropy": entropy,
            "ref": None if ref[0] is None else torch.tensor(
                [filled(r, mask.shape[1], 0.0) for r in ref], device=policy.device),
            "prompts": [e.prompt for e in episodes],
            "responses": [e.completion.text for e in episodes],
            "parts": columns([e.judged.get("parts", {}) for e in episodes]),
            "notes": columns([e.judged.get("notes", {}) for e in episodes]),
        }
        return self.corrected(rollout, sampler)

    @property
    def scores_old(self) -> bool:
        """Whether old log-probs are computed before the first step, rather than in it."""
        return self.cfg.inner_steps > 1 or self.services.correction == "tis"

    def corrected(self, rollout: dict[str, Any], sampler: Tensor) -> dict[str, Any]:
        """Return the rollout corrected for samples of an older policy, as `correction` says."""
        how, mask = self.services.correction, rollout["out"]["mask"]
        if how == "ratio":
            rollout["old"] = sampler
        elif how == "tis" and self.services.tis_level == "token":
            rollout["sampler"] = sampler
        elif how == "tis":
            weight = sequence_weights(rollout["old"], sampler, mask, self.services.tis_cap).amax(1)
            rollout["adv"] = rollout["adv"] * weight
        return rollout


def columns(rows: list[dict[str, Any]]) -> dict[str, list]:
    """Return rows as {name: values}."""
    return {name: [row.get(name) for row in rows] for name in rows[0]} if rows else {}


class RealTrainerActor(Member):
    """The policy that learns, of a real model.

    Args:
        recipe: how to make it.
        cfg: a ServicesConfig with hf.
        rows: as load_data returns them.
        held: rows for evaluation.
        meeting: path of a file that does not exist yet; the processes find each other by it.
    """

    def __init__(self, recipe: Recipe, cfg, rows: list[dict], held: list[dict], meeting: str):
        self.recipe, self.cfg, self.given, self.held = recipe, cfg, rows, held
        self.meeting, self.say = meeting, io.StringIO()
        self.trainer: Any = None
        self.folder, self.log_open = Path(cfg.hf.output_dir), False

    def build(self) -> None:
        """Make the trainer, after all processes have met.

        Raises:
            OSError, ValueError: what is wrong with model, rows or settings, in one line.
        """
        n = self.cfg.trainer.procs
        self.world = ranks.World(rank(), n, rank(), torch.device(self.recipe.place()))
        if n > 1 and not dist.is_initialized():
            kind = "gloo" if self.recipe.device == "cpu" else "cpu:gloo,cuda:nccl"
            dist.init_process_group(kind, store=dist.FileStore(self.meeting, n), rank=rank(),
                                    world_size=n)
        with contextlib.redirect_stdout(self.say):
            policy = self.recipe.policy()
            reward = load_reward(self.recipe.reward or "exact")
            self.trainer = ServiceTrainer(
                self.cfg, model=policy, reward_fn=combined(reward),
                lab=self.recipe.functions(), eval_dataset=self.held, world=self.world)
            self.trainer.about["files"] = dict(self.recipe.files)
            self.rows = usable(self.given, policy)
            self.trainer.ready(self.rows)

    def told(self) -> str:
        """Return what was printed since the last call."""
        text = self.say.getvalue()
        self.say.seek(0)
        self.say.truncate()
        return text.rstrip("\n")

    @endpoint
    def prepare(self) -> dict[str, Any]:
        """Return the usable rows with their texts, the steps to be made, and what was printed.

        Raises:
            OSError, ValueError: what is wrong with model, rows or settings, in one line.
        """
        if self.trainer is None:
            self.build()
        return {"rows": self.rows, "total": self.trainer.total, "told": self.told()}

    @endpoint
    def train_step(self, groups: list[Group]) -> dict[str, Any]:
        """Make one update on whole groups with rewards; return its numbers."""
        trainer = self.trainer
        with contextlib.redirect_stdout(self.say):
            if not self.log_open:
                self._open(None)
            parts: dict[int, list[Group]] = {}
            for group in groups:
                parts.setdefault(group[0].sampling, []).append(group)
            rollouts = [trainer.rollout_of(part) for _, part in sorted(parts.items())]
            before = len(trainer.history)
            metrics = trainer.one_update(rollouts)
        logged = trainer.history[before:]
        rewards = torch.cat([r["rewards"] for r in rollouts])
        zero = trainer.window[-1] if trainer.window else (logged[-1] if logged else {})
        known = rewards[~rewards.isnan()]
        found = {
            "reward": zero.get("reward", float(known.mean()) if len(known) else 0.0),
            "loss": metrics["loss"], "entropy": zero.get("entropy", 0.0),
            "clip_frac": metrics["clip_ratio/region_mean"],
            "frac_zero_signal": zero.get("frac_reward_zero_std", 0.0),
            "told": self.told(), "done": trainer.done,
        }
        if "kl" in metrics:
            found["kl"] = metrics["kl"]
        evaluated = [h for h in logged if "eval/accuracy" in h]
        if evaluated:
            found["evaluated"] = [evaluated[-1]["eval/accuracy"], evaluated[-1]["eval/greedy"]]
        return found

    def _open(self, resumed_at: int | None) -> None:
        """Open the log, on one rank."""
        if self.world.main:
            self.trainer.log = RunLog(self.trainer.cfg, resumed_at)
        self.log_open = True

    @endpoint
    def weights(self) -> dict[str, Tensor]:
        """Return the weights that are trained, on the CPU; without adapters all of them."""
        policy = self.trainer.policy
        if self.world.many and self.trainer.cfg.parallel != "ddp":
            named = {f"model.{k}": v for k, v in ranks.weights(policy.model).items()}
            return {k: v.cpu() for k, v in named.items()} if self.world.main else {}
        if not self.world.main:
            return {}
        named = policy.state_dict()
        if hasattr(policy.model, "disable_adapter"):
            named = {k: p for k, p in policy.named_parameters() if p.requires_grad}
        return {k: v.detach().cpu() for k, v in named.items()}

    @endpoint
    def evaluate(self) -> tuple[float, float] | None:
        """Return the mean reward on held-out prompts (sampled, greedy); None if there are none."""
        trainer = self.trainer
        if not trainer.eval_rows:
            return None
        with contextlib.redirect_stdout(self.say):
            return trainer.evaluate(), trainer.evaluate(greedy=True)

    @endpoint
    def save(self, path: str, rest: dict) -> None:
        """Write checkpoint-N with the controller's state; older ones are removed.

        Raises:
            OSError: it cannot be written; those before are whole.
        """
        trainer = self.trainer
        trainer.rest = rest
        try:
            with contextlib.redirect_stdout(self.say):
                trainer.save(f"checkpoint-{trainer.done}")
        finally:
            trainer.rest = {}
        if self.world.main:
            checkpoints.prune(self.folder, trainer.cfg.save_total_limit)

    @endpoint
    def load(self, path: str) -> dict:
        """Go back to the newest checkpoint; return the controller's state.

        Raises:
            OSError: it cannot be read.
            ValueError: it is of another model.
        """
        [*_, newest] = checkpoints.found(self.folder) or [Path(path)]
        rest = checkpoints.load_state(newest, REST)
        with contextlib.redirect_stdout(self.say):
            self.trainer.load(str(newest), self.rows)
            self._open(self.trainer.done)
        rest["told"] = self.told()
        return rest

    @endpoint
    def finish(self) -> str:
        """Write final/ if a step was made, close the log; return what was printed."""
        with contextlib.redirect_stdout(self.say):
            if self.trainer.done:
                self.trainer.save("final", whole=False)
            if self.log_open and self.world.main:
                self.trainer.log.close()
                self.log_open = False
        return self.told()
