"""GRPOTrainer: your four functions in a loop for a real model.

    trainer = GRPOTrainer(model, tokenizer, reward_fn=ExactMatchReward(), config=GRPOConfig())
    trainer.train([{"prompt": "2+2=", "reference": "4"}, ...])

One batch is gradient_accumulation_steps samplings of prompts_per_step prompts with group_size
responses each. It is used for inner_steps optimizer steps. A step goes through the batch
micro_batch responses at a time, each loss weighted by its share of the batch, so that the sum of
the gradients is the gradient of the whole batch, however it is cut. The last batch of an epoch may
be smaller; it is a step like the others. Advantages are computed for each sampling separately.

With several processes (beyond/parallel) each takes its share of the prompts, in whole groups; a
step equals the one that a single process would make on all of them.
"""

import contextlib
import functools
import inspect
import time
from pathlib import Path
from typing import Any

import torch

from beyond.config import GRPOConfig
from beyond.foreign import ARGUMENTS
from beyond.hf import backend, batches
from beyond.hf.metrics import (
    CollapseWatch,
    facts_of,
    joined,
    loss_metrics,
    mean_of,
    rollout_metrics,
    tokens_of,
)
from beyond.hf.policy import advice_when_memory_is_out, policy_of, reference_of
from beyond.hf.schedule import Schedule
from beyond.hf.training import Training
from beyond.hf.whole_step import LabStep
from beyond.losses.names import described
from beyond.losses.weights import entropy_bonus
from beyond.parallel import ranks, tensor
from beyond.saving import checkpoints, record
from beyond.saving.folder import RunFolder, continues
from beyond.saving.logs import RunLog
from beyond.settings import default_path
from beyond.student.plugins import advantage_of, load_student, loss_of, with_own
from beyond.tasks.data import listed, usable
from beyond.tasks.rewards import call, combined
from lab15_run import counted


class GRPOTrainer(Training):
    """Train a causal LM on prompts with a reward.

    Args:
        model: a HuggingFace causal LM (it is trained in place), or an hf.backend.Policy.
        tokenizer: its tokenizer; it may have no PAD token. None with a Policy.
        reward_fn: any of the three forms of beyond/tasks/reward_calls.py; a list of rewards or
            of (reward, weight) is their weighted mean.
        config: a GRPOConfig; None: the defaults.
        lab: the module of a lab file from load_lab(path, backend=hf_backend); None: the
            solutions' file, or lab15_grpo.py where there is none.
        eval_dataset: rows for evaluation; None: no evaluation.
        callbacks: objects with any of the methods on_rollout, on_advantages, on_loss,
            on_step_end, on_eval, on_save; each is called as method(trainer, ...), with
            keywords, on every rank. HF's TrainerCallback has other arguments and is refused.
        world: a parallel.World; None: torchrun's, or a world of one.
        peft_config: adapters to train (peft's LoraConfig), instead of lora_rank and the like.

    Raises:
        ValueError: settings that do not go together.
    """

    program = "hf.trainer"

    def __init__(
        self, model, tokenizer=None, reward_fn=backend.reward, config: GRPOConfig | None = None,
        lab=None, eval_dataset=None, callbacks=(), world: ranks.World | None = None,
        peft_config=None, **others,
    ):
        refuse(others, callbacks)
        if config is not None and not isinstance(config, GRPOConfig):
            raise ValueError(f"config must be beyond's GRPOConfig, not {type(config)}")
        self.lab = lab or load_student(default_path(), backend)
        given = config or GRPOConfig()
        cfg = with_own(given, self.lab)
        self.by_name = [k for k, v in vars(given).items() if v is None and v != getattr(cfg, k)]
        world = world or ranks.start(cfg.device, only_torchrun=True)
        if world.many:
            cfg = ranks.settings(cfg, world)
        self.data = tensor.one_of(world, cfg.parallel)  # who shares the prompts
        own = isinstance(model, backend.Policy)
        super().__init__(
            model if own else policy_of(model, tokenizer, cfg, peft_config), cfg, world)
        if self.world.many and cfg.parallel != "ddp" and hasattr(
                self.policy.model, "disable_adapter"):
            raise ValueError(f"parallel = {cfg.parallel} does not go with adapters, which are "
                             "small: take parallel = ddp")
        self.reward_fn, self.callbacks = combined(reward_fn), list(callbacks)
        self.eval_rows = list(listed(() if eval_dataset is None else eval_dataset))
        # guide_custom measures its ratio against the reference, whatever its KL weighs.
        needed = bool(cfg.kl_beta) or cfg.loss == "guide_custom"
        self.ref = reference_of(self.policy) if needed else None
        self.loss, self.advantages = loss_of(cfg, self.lab), advantage_of(cfg, self.lab)
        self.through = tensor.scorer(self.policy, self.ref, self.world, cfg.parallel)
        trained = [p for p in self.policy.parameters() if p.requires_grad]
        self.opt = torch.optim.AdamW(
            trained, cfg.learning_rate, weight_decay=cfg.weight_decay,
            fused=self.policy.device.type in ("cpu", "cuda"),
        )
        self.schedule = Schedule(cfg, self.opt)
        self.tokens = 0
        self.batch: Any = None  # the samples in use, and how many steps were made on them
        self.place = {"epoch": 0, "row": 0}
        self.collapsed = CollapseWatch()
        self.whole = LabStep(self) if cfg.step == "lab" else None

    def score(self, out: dict, entropies: bool = False):
        """Return batches.scored(policy, ...), with gradients that all ranks will share."""
        with self.policy.dropping(self.cfg.seed ^ self.done * 1000003 ^ int(out["ids"].sum())):
            if not self.data.many:
                return batches.scored(self.policy, out, entropies)
            return self.through(batches.scored, out, entropies, self.cfg.parallel == "fsdp")

    # ---------------------------------------------------------------- one batch

    @torch.no_grad()
    def roll_out(self, rows: list[dict]) -> dict[str, Any]:
        """Sample and score responses to this rank's rows; return everything that a loss needs."""
        cfg, lab = self.cfg, self.lab
        with ranks.whole(self.through):
            groups = lab.sample_group(
                self.policy, [row["text"] for row in rows], [str(r["reference"]) for r in rows],
                cfg.group_size, cfg.temperature,
            )
            out, responses = groups["out"], groups["responses"]
            # With one step on a batch, old is what the step computes anyway.
            old = backend.sequence_logprobs(self.policy, out) if cfg.inner_steps > 1 else None
            ref = backend.sequence_logprobs(self.ref, out) if self.ref else None
            entropy = backend.token_entropy(self.policy, out)
        shown = [row["text"] for row in rows for _ in range(cfg.group_size)]
        columns = columns_of([row for row in rows for _ in range(cfg.group_size)], out)
        scores, parts, notes = self.judged(shown, responses, columns)
        rewards = torch.tensor(
            [float("nan") if s is None else s for s in scores], device=out["ids"].device
        )
        self.tell("on_rollout", rows=rows, responses=responses, rewards=rewards)
        # Some kinds of advantages need the rewards of all ranks.
        adv = ranks.of_all(self.data, self.advantages, rewards, cfg.group_size)
        self.tell("on_advantages", rewards=rewards, adv=adv)
        return {
            "out": out, "adv": adv, "old": old, "ref": ref, "rewards": rewards,
            "prompts": shown, "responses": responses, "parts": parts, "notes": notes,
            "entropy": entropy,
        }

    def judged(self, prompts: list[str], responses: list[str], columns: dict[str, list]) -> tuple:
        """Return (scores, {part: scores}, notes) of the reward.

        Args:
            prompts: the prompt of each response.
            responses: the texts.
            columns: of columns_of, or some of them.
        """
        def ask() -> tuple:
            found = call(
                self.reward_fn, prompts, responses, columns, self.cfg.reward_timeout
            )
            notes = notes_of(found.metadata, len(responses))
            return found.scores, found.metadata.get("parts", {}), notes

        return tensor.once(self.world, self.cfg.parallel, ask)

    def pieces(self, batch: list[dict]):
        """Yield (rollout, rows) of a batch, micro_batch rows at a time."""
        for rollout in batch:
            n = len(rollout["adv"])
            size = self.cfg.micro_batch or n
            if "groups" in inspect.signature(self.loss).parameters:  # a loss of whole groups
                size = max(1, size // self.cfg.group_size) * self.cfg.group_size
            for start in range(0, n, size):
                yield rollout, torch.arange(start, min(start + size, n))

    def piece_loss(self, rollout: dict, at: torch.Tensor, totals: dict[str, float]):
        """Return (this micro-batch's part of the batch's loss, its metrics).

        Args:
            rollout: as roll_out returns it.
            at: (rows,) indices of the micro-batch.
            totals: rows, tokens and groups of the whole batch, over all ranks.
        """
        cfg = self.cfg
        out = backend.rows_of(rollout["out"], at)
        at = at.to(rollout["adv"].device)
        mask, adv = out["mask"], rollout["adv"][at]
        logp, entropy = self.score(out, bool(cfg.entropy_coef))
        old, ref = (logp.detach() if rollout[name] is None else rollout[name][at, :mask.shape[1]]
                    for name in ("old", "ref"))
        takes = {k: v for k, v in totals.items() if k in inspect.signature(self.loss).parameters}
        # A loss that takes no denominator is a mean over its rows.
        share = 1.0 if takes else len(at) / totals["rows"]
        loss = functools.partial(self.loss, **takes)
        if cfg.entropy_coef:
            value, stats = entropy_bonus(
                logp, old, ref, adv, mask, entropy=entropy, coef=cfg.entropy_coef / share,
                tokens=max(1.0, totals["tokens"]), loss=lambda *five: loss(*five[:5]))
        else:
            value, stats = loss(logp, old, ref, adv, mask)
        if self.ref is None:
            stats = {k: v for k, v in stats.items() if k != "kl"}
        value = value * share
        return value, loss_metrics(value.detach(), stats, logp, old, adv, mask, cfg)

    def update(self, batch: list[dict]) -> dict[str, float]:
        """Make one optimizer step on a batch; return its metrics."""
        cfg, found, world = self.cfg, [], self.data
        rows, tokens = ranks.total(world, [
            sum(len(r["adv"]) for r in batch), sum(float(r["out"]["mask"].sum()) for r in batch)])
        totals = {"rows": int(rows), "tokens": tokens, "groups": int(rows) // cfg.group_size}
        self.opt.zero_grad(set_to_none=True)
        pieces = list(self.pieces(batch))
        for i, (rollout, at) in enumerate(ranks.turns(world, pieces, cfg.parallel)):
            with ranks.syncing(self.through, i + 1 >= len(pieces)):
                loss, metrics = self.piece_loss(rollout, at, totals)
                # DDP and FSDP2 take the mean over the ranks, but the loss is a sum of shares.
                (loss * (world.size if i < len(pieces) else 0)).backward()
            found += [metrics] if i < len(pieces) else []
        norm = ranks.full(torch.nn.utils.clip_grad_norm_(
            [p for g in self.opt.param_groups for p in g["params"]], cfg.max_grad_norm))
        self.tell("on_loss", losses=found)
        if not torch.isfinite(norm):
            raise FloatingPointError(
                f"step {self.done + 1}: the gradient is {float(norm)}. Lower learning_rate "
                f"(now {cfg.learning_rate:g}) or inner_steps (now {cfg.inner_steps}); with a loss "
                "of yours, test it: python -m pytest -q -k task4."
            )
        rate = self.schedule.step(self.done)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        parts = [part for rank in ranks.gather(world, found) for part in rank]
        return joined(parts) | {"grad_norm": float(norm), "learning_rate": rate}

    # ---------------------------------------------------------------- the loop

    def train(self, dataset, eval_dataset=None, resume: str | bool = False,
              folder: RunFolder | None = None) -> list[dict]:
        """Train on rows with prompt and reference (more columns go to the reward); return the log.

        Args:
            dataset: list of dicts; a prompt is text or a list of chat messages.
            eval_dataset: replaces the one given to the constructor.
            resume: True for the newest checkpoint of output_dir, or a checkpoint's folder.
            folder: the folder of the run, entered already; None: output_dir. An earlier run in it
                is renamed before the first step; one that another process uses is refused.

        Ctrl-C is a normal end: the current step is finished, then a checkpoint to resume from and
        final/ are written. A second Ctrl-C does not wait and writes only final/. If no step was
        made, nothing is left behind.
        """
        with quiet(self.world):
            rows = usable(dataset, self.policy)
            total = announce(len(rows), self.cfg)
        self.say(described(self.cfg.loss, self.cfg))
        batches.check_parts(len(rows), self.cfg, self.data)
        if eval_dataset is not None:
            self.eval_rows = list(listed(eval_dataset))
        self.schedule.total = total
        begun = time.perf_counter()
        with contextlib.ExitStack() as stack:
            if folder is None:
                self.folder = RunFolder(self.cfg.output_dir, continues(self.cfg.output_dir, resume))
                self.on_main(lambda: stack.enter_context(self.folder))
            else:
                self.folder = folder
            checkpoints.seed_everything(ranks.seed_of(self.cfg.seed, self.data.rank))
            self.facts = self.found_now(rows)
            if resume:
                self.load(resume, rows)
                if self.done >= total:
                    self.say(f"all steps are made ({total}); raise max_steps or num_train_epochs")
            self.on_main(lambda: self.begin(
                processes=self.world.size, loss=described(self.cfg.loss, self.cfg),
                by_name=self.by_name))
            self.train_in_folder(rows, total)
            if folder is None and self.world.main and self.folder.kept:
                self.say(self.report(time.perf_counter() - begun))
        return self.history

    def files(self) -> dict[str, Any]:
        """Return the files that the run is made of: the lab's, those of Training, own functions."""
        files = {"lab": self.lab.__file__} if hasattr(self.lab, "__file__") else {}
        files |= super().files()
        if ":" in self.cfg.loss:
            files["loss"] = self.cfg.loss.rpartition(":")[0]
        if "reward" not in files and (source := record.source_of(self.reward_fn)):
            files["reward"] = source
        return files

    def train_in_folder(self, rows: list[dict], total: int) -> None:
        """Make the remaining steps and log them; save final/ if a step was made."""
        start = self.done
        if self.world.main:
            self.log = RunLog(self.cfg, None if self.folder.fresh else self.done)
        self.history: list[dict[str, float]] = []
        failed = True
        try:
            with advice_when_memory_is_out(self.cfg, self.opt):
                if self.run(rows, total):
                    self.keep()
                    raise KeyboardInterrupt
            failed = False
        except KeyboardInterrupt:
            failed = False
            self.say(f"Stopped by Ctrl-C after {self.done} of {total} steps"
                     f"{self.place_to_go_on(start)}")
        finally:
            # After an error the other ranks are not here to save with: torchrun ends them.
            if not (failed and self.world.many):
                final = (Path(self.cfg.output_dir) / "final").is_dir()
                if self.done > (start if ranks.gather(self.world, final)[0] else 0):
                    self.save("final", whole=False)
            if self.world.main:
                self.log.close()

    def place_to_go_on(self, start: int) -> str:
        """Return the end of the line that says what is kept after Ctrl-C.

        Args:
            start: the steps that were made before this run.
        """
        kept = checkpoints.found(self.cfg.output_dir)
        if self.done == start:
            return ": there is nothing to keep." if not kept else f"; {kept[-1].name} is as it was."
        place = kept[-1].name if kept else "the start"
        return f". final/ has the model; a resume continues from {place}."

    def run(self, rows: list[dict], total: int) -> bool:
        """Make all remaining optimizer steps; return whether Ctrl-C ended them early."""
        from tqdm import tqdm

        off = None if self.world.main else True
        with (tqdm(total=total, initial=self.done, ascii=True, disable=off) as bar,
              ranks.ctrl_c(self.world) as pressed):
            while self.done < total:
                begun, before = time.perf_counter(), self.done
                if self.whole:  # your grpo_step: sampling and all inner steps in one call
                    metrics, rollouts = self.whole(self.mine(rows))
                    self.batch = {"rollouts": rollouts, "inner": self.cfg.inner_steps}
                else:
                    if self.batch is None:
                        self.batch = {"rollouts": self.next_batch(rows), "inner": 0}
                    metrics = self.update(self.batch["rollouts"])
                    self.batch["inner"] += 1
                    self.done += 1
                self.measure(metrics, len(rows), time.perf_counter() - begun)
                if self.batch["inner"] >= self.cfg.inner_steps:
                    self.write_completions()
                    self.batch = None
                if self.world.main and self.folder is not None:
                    self.folder.keep()
                self.after_step(before, total)
                bar.update(self.done - bar.n)
                if ranks.stopped(self.world, pressed):
                    return True
        return False

    def measure(self, metrics: dict[str, float], n: int, seconds: float) -> None:
        """Add further metrics of a step; keep them until the next log.

        Args:
            metrics: of update, or of lab_step.
            n: prompts of an epoch.
            seconds: of the step.
        """
        cfg, place, ends = self.cfg, self.place, self.policy.ends
        mine = [facts_of(rollout, ends) for rollout in self.batch["rollouts"]]
        facts = batches.in_order(ranks.gather(self.data, mine))
        if not self.batch.get("counted"):
            self.batch["counted"] = True
            self.tokens += tokens_of(facts)
        found = metrics | rollout_metrics(facts, cfg, self.reward_fn)
        epoch = place["epoch"] + place["row"] / n
        self.window.append(
            found | {"num_tokens": self.tokens, "epoch": epoch, "step_time": seconds})
        if warning := self.collapsed(found, cfg):
            self.say(warning)

    def mine(self, rows: list[dict]) -> list[dict]:
        """Return this rank's share of the next prompts_per_step rows."""
        part = batches.next_rows(self.place, rows, self.cfg)
        return part[ranks.my_part(self.data, len(part))]

    def next_batch(self, rows: list[dict]) -> list[dict]:
        """Sample the responses of the next batch; an epoch's last batch may be smaller."""
        rollouts = []
        for _ in range(self.cfg.gradient_accumulation_steps):
            rollouts.append(self.roll_out(self.mine(rows)))
            if self.place["row"] == 0:
                break
        return rollouts

    def after_step(self, before: int, total: int) -> None:
        """Log, evaluate and save when they are due."""
        cfg, last = self.cfg, self.done == total
        found: dict[str, float] = {}

        def due(every: int) -> bool:  # your grpo_step makes several steps at a time
            return every > 0 and self.done // every > before // every

        if self.eval_rows and (last or due(cfg.eval_steps)):
            found = {"eval/accuracy": self.evaluate(), "eval/greedy": self.evaluate(greedy=True)}
            self.tell("on_eval", metrics=found)
        if last or found or due(cfg.logging_steps):
            metrics = mean_of(self.window) | found
            self.window = []
            self.history.append({"step": self.done} | metrics)
            if self.world.main:
                self.log.metrics(self.done, metrics)
        if last or due(cfg.save_steps):  # so that a finished run can be continued later
            self.keep()
        self.tell("on_step_end", step=self.done)

    def write_completions(self) -> None:
        """Write the responses of all ranks to the last batch, in the order of the prompts."""
        cfg, mine = self.cfg, [completion_rows(r) for r in self.batch["rollouts"]]
        rows = [row for part in batches.in_order(ranks.gather(self.data, mine)) for row in part]
        if self.world.main:
            shown = cfg.log_completions if self.done % cfg.logging_steps == 0 else 0
            self.log.completions(self.done, rows, shown)

    @torch.no_grad()
    def evaluate(self, greedy: bool = False) -> float:
        """Return the mean reward of one response per evaluation prompt; uses its own generator.

        Each rank answers its share of the prompts; drawn ones differ with the number of processes.
        """
        policy, cfg, world = self.policy, self.cfg, self.data
        with quiet(self.world):
            rows = usable(self.eval_rows, policy)[: cfg.eval_samples]
        n = len(rows)  # perhaps fewer than processes
        rows = rows[n * world.rank // world.size : n * (world.rank + 1) // world.size]
        seed = ranks.seed_of(cfg.seed, world.rank)
        generator = torch.Generator(policy.device).manual_seed(seed)
        scores: list[float | None] = []
        with ranks.whole(self.through):
            for start in range(0, len(rows), 64):
                part = rows[start : start + 64]
                texts = [r["text"] for r in part]
                out = backend.sample(policy, texts, cfg.temperature, greedy, generator=generator)
                responses = backend.decode_responses(out)
                scores += self.judged(texts, responses, columns_of(part, out))[0]
        known = [s for s in scores if s is not None]
        got, answered = ranks.total(world, [sum(known), len(known)])
        return got / max(1, answered)

    # ---------------------------------------------------------------- saving

    def state(self) -> dict[str, Any]:
        """Return what all ranks share, for a checkpoint."""
        return super().state() | {
            "place": self.place, "tokens": self.tokens, "batches": self.data.size}

    def own(self) -> dict[str, Any]:
        """Return what this rank has, for a checkpoint: samples in use, too."""
        return super().own() | {"batch": checkpoints.plain(self.batch)}

    def load(self, resume: str | bool, rows: list[dict] | None = None) -> None:
        """Go back to where a checkpoint was written.

        Args:
            resume: True for the newest of output_dir, or a checkpoint's folder.
            rows: those that are trained on; None: not compared.

        Raises:
            OSError: it cannot be read.
            ValueError: it is of another model, or of other rows.
        """
        kept = ranks.gather(self.world, checkpoints.found(self.cfg.output_dir))[0]
        if resume is True and not kept:
            self.say(f"no checkpoint in {self.cfg.output_dir}: starting at step 0")
            return
        folder = Path(kept[-1] if isinstance(resume, bool) else resume)
        facts = checkpoints.load_state(folder).get("facts", {})
        record.check_resume(facts, self.facts, rows)
        state = checkpoints.load(folder, self.world, self.policy.model, self.opt)
        parts = state["batches"]  # with tensor parallelism all ranks have the same samples
        same = (state["processes"], parts) == (self.world.size, self.data.size)
        kept = [checkpoints.load_state(folder, checkpoints.RANK.format(rank))
                for rank in ([self.world.rank] if same else range(parts))]
        batch = kept[0]["batch"]
        if batch and not same:
            rollouts = batches.in_order([k["batch"]["rollouts"] for k in kept])
            batch["rollouts"] = batches.part_of(rollouts, self.data, self.cfg.group_size)
        self.done, self.place, self.window = state["step"], state["place"], state["window"]
        self.tokens = state["tokens"]
        self.batch = checkpoints.as_sampled(batch, self.policy)
        if checkpoints.odd(state, self.cfg, ("group_size", "kl_beta", "inner_steps", "loss")):
            self.batch = None  # it lacks what these settings need, or has another form
        checkpoints.seed_everything(ranks.seed_of(self.cfg.seed + self.done, self.data.rank))
        if same:
            checkpoints.set_random_state(kept[0]["random"])
        self.kept_at = self.done if continues(self.cfg.output_dir, resume) else None
        changes = checkpoints.changed(state, self.cfg, record.changes(facts, self.facts))
        self.say(f"resumed at step {self.done}{changes}")


# ============================================================== what others are used to


EVENTS = "on_rollout, on_advantages, on_loss, on_step_end, on_eval, on_save"


def refuse(others: dict[str, Any], callbacks) -> None:
    """Raise an error in one line for arguments or callbacks of other libraries' trainers.

    Args:
        others: arguments that GRPOTrainer does not have.
        callbacks: its callbacks.

    Raises:
        TypeError: such an argument; names what to give instead.
        ValueError: a callback of HF, or one without a method that is ever called.
    """
    for name in others:
        instead = ARGUMENTS.get(name)
        raise TypeError(f"GRPOTrainer has no argument {name!r}" + (
            f"; here it is {instead}" if instead else
            "; it has model, tokenizer, reward_fn, config, lab, eval_dataset, callbacks, world, "
            "peft_config"))
    for callback in callbacks:
        kind = callback if inspect.isclass(callback) else type(callback)
        if any(cls.__name__ == "TrainerCallback" for cls in kind.__mro__):
            raise ValueError(f"the callback {kind.__name__} is one of HF's Trainer, which is "
                             "called with (args, state, control); here it is any object with some "
                             f"of the methods {EVENTS}, each called with (trainer, ...)")
        if inspect.isclass(callback):
            raise ValueError(f"the callback {kind.__name__} is a class; give an object: "
                             f"{kind.__name__}()")


# ============================================================== what is printed and written


def quiet(world):
    """Return a context in which only rank 0 prints."""
    return contextlib.nullcontext() if world.main else contextlib.redirect_stdout(None)


def announce(n: int, cfg) -> int:
    """Return the number of optimizer steps; warn about what so few steps would never reach.

    As in HF, max_steps overrides num_train_epochs: the data is repeated as often as needed.
    """
    batches = -(-n // (cfg.prompts_per_step * cfg.gradient_accumulation_steps))
    steps = cfg.max_steps or batches * cfg.inner_steps * cfg.num_train_epochs
    print(f"{counted(n, 'prompt')}, {counted(steps, 'optimizer step')}")
    for name in ("logging_steps", "save_steps", "eval_steps"):
        if getattr(cfg, name) > steps:
            print(f"{name} = {getattr(cfg, name)} is more than the {steps} steps there are: "
                  f"it happens at the end only. Set {name} lower to see more.")
    if cfg.warmup_steps > steps:
        print(f"warmup_steps = {cfg.warmup_steps} of {steps} steps: the learning rate never "
              "reaches its peak")
    return steps


def notes_of(metadata: dict[str, Any], n: int) -> dict[str, list]:
    """Return what a reward noted of each of n responses, as plain text and numbers."""
    plain = (str, int, float, type(None))
    return {
        f"metadata/{k}": [x if isinstance(x, plain) else str(x) for x in v]
        for k, v in metadata.items() if k != "parts" and isinstance(v, list) and len(v) == n
    }


def columns_of(rows: list[dict], out: dict[str, Any]) -> dict[str, list]:
    """Return a reward's inputs besides prompts and responses: the data's columns, the ids.

    Args:
        rows: the data's row of each response.
        out: what sample returned for them.
    """
    names = {k for row in rows for k in row} - {"prompt", "text"}
    ids = {"completion_ids": backend.response_ids(out)}
    return ids | {k: [row.get(k) for row in rows] for k in names}


def completion_rows(rollout: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the responses of a rollout as rows of completions.jsonl."""
    ids, parts, rows = backend.response_ids(rollout["out"]), rollout["parts"], []
    for i, text in enumerate(rollout["responses"]):
        reward = float(rollout["rewards"][i])
        rows.append({
            "prompt": rollout["prompts"][i], "completion": text, "ids": ids[i],
            "reward": None if reward != reward else reward,
            "advantage": float(rollout["adv"][i]),
        } | {f"rewards/{k}": v[i] for k, v in parts.items()} | {
            k: v[i] for k, v in rollout.get("notes", {}).items()})
    return rows
