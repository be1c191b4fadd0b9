"""GRPO as services on Monarch: generators, a reference, reward workers and a trainer.

    async with Services(ServicesConfig(mode="async"), "lab15_grpo.py", "runs/x") as services:
        history = await services.run()

Every role (services/actors.py) lives in processes of its own, spawned by Monarch
(services/processes.py); this process only moves messages. Calls of generators are numbered; each
makes the P groups of one update:

    prompts -> generator -> rewards, reference -> buffer -> trainer -> weights -> generator

mode sync: call n waits for the weights of version n. Nothing runs in parallel, and the
numbers equal those of the lab's train_grpo bit for bit. mode async with staleness K: call n
takes version n - K, so the generator works while the trainer does; reproducible; the first K
updates, when no weights are that old yet, have rollouts that are 0, 1, ... K - 1 behind.
mode async without staleness: each call takes the newest weights, each update the oldest rollouts
that are at most max_staleness behind.

A real model (ServicesConfig.hf) has train_hf's data, rewards, losses and settings: its trainer is
train_hf's (services/real.py), and writes the log, the checkpoints and final/. In mode sync the
numbers are those of train_hf --step ours.

Weights travel as Monarch messages, trainer -> here -> generators, by version. Not torchstore, which
torchforge uses: its newest release (0.1.2) pins torch 2.9.0 and torchmonarch 0.1.2. For TinyLM
(300 kB) a message takes milliseconds; see history["seconds"]["sync"].
"""

import asyncio
import dataclasses
import inspect
import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import lab15_run
from beyond.hf import preflight
from beyond.hf.policy import ADAPTER
from beyond.parallel.ranks import seed_of
from beyond.services.actors import GeneratorActor, Recipe, ReferenceActor, RewardActor, TrainerActor
from beyond.services.config import ROLES, Role, ServicesConfig
from beyond.services.messages import (
    Generator,
    Group,
    Prompts,
    ReplayBuffer,
    RowPrompts,
    episodes_of,
)
from beyond.services.processes import Dead, MonarchGenerator, Pool, Replica, forgive_faults
from beyond.student.named import load_reward
from beyond.student.plugins import advantage_of, find_loss, from_file, loss_of, with_own
from beyond.tasks.data import is_chat
from beyond.tasks.rewards import combined

CURVES = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")  # as in the lab
MORE = ("staleness", "weight_version", "dropped", "log_ratio_mean", "weight_mean", "train_seconds")
EVALS = ("eval_iter", "acc_sampled", "acc_greedy", "eval_seconds")
LAST_SECONDS = 60.0  # for the current update and final/, after Ctrl-C
PARTS = ("generate", "reward", "reference", "train", "sync", "wait", "evaluate", "save")


def takes_weights(loss: str, lab: Any) -> bool:
    """Return whether a loss takes a weight for every token."""
    known = inspect.signature(find_loss(loss, lab)).parameters
    return "weights" in known or any(p.kind is p.VAR_KEYWORD for p in known.values())


class Services:
    """All services of one run.

    Args:
        cfg: a ServicesConfig.
        lab: path of the lab file.
        out: folder for history.json, config.json, policy.pt and checkpoint.pt; of a real model
            also the log, checkpoint-N and final.
        model: a real model, cfg.hf its settings; None: TinyLM after SFT.
        reward: TinyLM: "file.py:function" of (response, answer), None: the backend's reward. A
            real model: of --reward.
        generators: Generators to use instead of Monarch's, such as vllm.VLLMGenerator.
        rows: of a real model, as load_data returns them.
        held: rows for its evaluation.
        files: the files behind the run, by purpose; a resume reports which have changed.

    Raises:
        FileNotFoundError, ValueError: the lab file is missing or a task is not written.
    """

    def __init__(self, cfg: ServicesConfig, lab: str | Path, out: str | Path,
                 model: str | None = None, reward: str | None = None,
                 generators: list[Generator] | None = None, rows: Sequence[dict] = (),
                 held: Sequence[dict] = (), files: Mapping[str, str] | None = None):
        self.cfg, self.out = cfg, Path(out)
        if (model is None) != (cfg.hf is None):
            raise ValueError("a real model needs ServicesConfig.real(GRPOConfig(...)), and TinyLM "
                             "ServicesConfig(...)")
        self.checkpoint = self.out / "checkpoint.pt"
        for name in ROLES:
            device = getattr(cfg, name).device
            if device != "cpu" and not getattr(torch, device).is_available():
                raise ValueError(f"{name}.device = {device}: torch finds none here; give cpu")
        chat = bool(rows) and is_chat(rows[0].get("prompt"))
        self.recipe = Recipe(os.path.abspath(lab), model, reward=reward, chat=chat,
                             files=dict(files or {}))
        self.lab = self.recipe.functions()  # a broken file is named here, not in five processes
        self.rows, self.held = list(rows), list(held)
        self.used: list[dict] = []  # of a real model: the rows that the trainer can use
        self.prompts: Any = None
        self.meetings: list[str] = []  # folders at which the trainer's processes find each other
        if cfg.hf is not None:
            self._get_real(generators)
        else:
            if reward is not None:
                from_file(reward)
            self.recipe.policy()  # trained once, if it does not exist yet
            make_batch = self.recipe.backend().make_batch
            self.prompts = Prompts(make_batch, cfg.prompts_per_iter, cfg.seed)
        self.gpus = 0
        self._make_roles(reward, generators)
        self.buffer = ReplayBuffer(cfg.max_staleness)
        self.changed = asyncio.Condition()
        self.version = 0
        self.published: dict[int, dict] = {}  # version: weights
        self._deal(0)
        self.history: dict[str, Any] = {k: [] for k in (*CURVES, *MORE, *EVALS)}
        self.seconds = dict.fromkeys(PARTS, 0.0) | {"syncs": 0}
        self.trained = 0.0  # seconds of updates, without evaluation and checkpoints

    def _get_real(self, generators: list[Generator] | None) -> None:
        """Check what a real model needs, and fill in the settings that its loss implies.

        Raises:
            ValueError: no rows, an unknown reward or loss, or what does not go together.
        """
        assert self.cfg.hf is not None
        cfg, hf = self.cfg, with_own(self.cfg.hf, self.lab)
        preflight.model(str(self.recipe.model))
        if not self.rows:
            raise ValueError("there is no row to train on; give --data")
        loss_of(hf, self.lab)
        advantage_of(hf, self.lab)
        combined(load_reward(self.recipe.reward or "exact"))
        self.recipe.reward = self.recipe.reward or "exact"
        if cfg.correction == "tis" and cfg.tis_level == "token" and (
                hf.loss == "lab" or not takes_weights(hf.loss, self.lab)):
            raise ValueError(f"correction = tis weighs tokens, which the loss {hf.loss!r} cannot "
                             "take; give tis_level=sequence, or another loss, such as grpo")
        if generators and (hf.lora_rank or (Path(str(self.recipe.model)) / ADAPTER).is_file()):
            raise ValueError("a vLLM server is given whole models here, and this run trains "
                             "adapters; leave --vllm or the adapters out")
        hf = dataclasses.replace(hf, output_dir=str(self.out))
        needed = bool(hf.kl_beta) or hf.loss == "guide_custom"
        self.cfg = dataclasses.replace(cfg, hf=hf, beta=float(needed))
        self.recipe.hf = hf

    def _recipe(self, role: Role) -> Recipe:
        """Return the Recipe of a role's models; GPUs are assigned in turn."""
        recipe = dataclasses.replace(self.recipe, device=role.device, first=self.gpus)
        self.gpus += role.procs if role.device == "cuda" else 0
        return recipe

    def _trainer_args(self) -> tuple:
        """Return the arguments of a new trainer's processes; several meet at a new file."""
        if self.cfg.hf is None:
            return self.trainer_recipe, self.cfg
        if self.cfg.trainer.procs > 1:
            self.meetings.append(tempfile.mkdtemp(prefix="lab15-"))
        meeting = os.path.join(self.meetings[-1], "meeting") if self.meetings else ""
        return self.trainer_recipe, self.cfg, self.rows, self.held, meeting

    def _make_roles(self, reward: str | None, generators: list[Generator] | None) -> None:
        cfg, limits = self.cfg, (self.cfg.timeout, self.cfg.max_restarts)
        kind: Any = TrainerActor
        if cfg.hf is not None:
            from beyond.services.real import RealTrainerActor

            kind = RealTrainerActor
        self.trainer_recipe = self._recipe(cfg.trainer)
        self.trainer = Replica("trainer", cfg.trainer.procs, kind, self._trainer_args, *limits)
        scores = cfg.hf is None or cfg.mode == "async" or cfg.correction != "none"
        own, procs = [], cfg.generator.procs
        for i in range(0 if generators else cfg.generator.replicas):
            seed = seed_of(cfg.seed, i * procs)
            args = self._recipe(cfg.generator), f"generator{i}", seed, scores
            own.append(Replica(f"generator{i}", procs, GeneratorActor, args, *limits))
        self.ours = [MonarchGenerator(r) for r in own]
        self.generators: list[Generator] = generators or [*self.ours]
        slow = cfg.timeout if cfg.hf is None else cfg.timeout + (cfg.hf.reward_timeout or 1e9)
        self.rewards = Pool("reward", cfg.reward, RewardActor, [
            (self._recipe(cfg.reward), reward) for _ in range(cfg.reward.replicas)],
            slow, cfg.max_restarts)  # a reward that exceeds it is reported as the reward's error
        self.references = Pool("reference", cfg.reference, ReferenceActor, [
            (self._recipe(cfg.reference), cfg.temperature)
            for _ in range(cfg.reference.replicas if cfg.beta else 0)], *limits)
        self.replicas = [self.trainer, *own, *self.rewards.members, *self.references.members]

    def forget(self) -> None:
        """Remove what was written before the first update; nothing is worth keeping."""
        for name in ("history.json", "config.json", "checkpoint.pt"):
            (self.out / name).unlink(missing_ok=True)
        shutil.rmtree(self.out / "checkpoint-0", ignore_errors=True)

    def files(self, whole: bool) -> list[str]:
        """Return the names of a run's files; `whole`: it was not stopped."""
        if self.cfg.hf is None:
            last = ["policy.pt", "curves.png", "checkpoint.pt"] if whole else [
                "checkpoint.pt (--resume continues from it)"]
            return ["history.json", "config.json", *last]
        last = ["final/", "curves.png"]
        last += [] if whole else ["checkpoint-N (--resume continues from the newest)"]
        return ["history.json", "config.json", "training_log.jsonl", "completions.jsonl", *last]

    @property
    def pids(self) -> dict[str, list[int]]:
        """The process ids of every replica."""
        return {replica.name: replica.pids for replica in self.replicas}

    async def __aenter__(self) -> "Services":
        forgive_faults()
        for replica in self.replicas:
            replica.tell = print
        try:
            await asyncio.gather(*[replica.begin() for replica in self.replicas])
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_) -> None:
        await asyncio.gather(*[replica.stop() for replica in self.replicas])
        for folder in self.meetings:
            shutil.rmtree(folder, ignore_errors=True)

    # ---------------------------------------------------------- the loop

    async def run(self, resume: bool = False, tell: Callable[[str], None] = print,
                  step: Callable[[int], None] = lambda version: None) -> dict:
        """Train until cfg.iters updates are done; return the history.

        Args:
            resume: continue from the checkpoint in the output folder.
            tell: gets a line at each evaluation, and when the trainer was replaced.
            step: gets the number of updates after each.

        Raises:
            FloatingPointError, ValueError, OSError: from your functions, or from saving.
            RuntimeError: a process died again and again.
        """
        self.tell, self.step = tell, step
        for replica in self.replicas:
            replica.tell = self.tell
        far, again = -1, 0  # the last update in which the trainer died, and how often
        while True:
            try:
                if self.cfg.hf is not None:
                    await self._prepare()
                if resume:
                    await self._revive()
                else:
                    await asyncio.gather(*[generator.learn_random() for generator in self.ours])
                    await self._save()
                resume = True  # there is a checkpoint
                await self._once()
                await self.finish()
                return self.history
            except Dead as why:  # only the trainer: all others are replaced where they are called
                # Its own count is not enough: after each resume it may die at the same update.
                again, far = (again + 1, far) if self.version <= far else (1, self.version)
                if again > self.cfg.max_restarts:
                    raise RuntimeError(f"gave up at update {far + 1}; {why}") from None
                await self.trainer.restart(why)

    async def _prepare(self) -> None:
        """Ask the trainer which rows are usable and how many updates to make."""
        answer = (await self.trainer.ask("prepare"))[0]
        self._tell(answer["told"])
        self.cfg.iters = -(-answer["total"] // self.cfg.inner_steps)
        self.used = answer["rows"]
        self.prompts = RowPrompts(self.used, self.cfg.hf)
        self._deal(0)

    def _tell(self, text: str) -> None:
        """Pass on what another process has printed, if anything."""
        if text:
            self.tell(text)

    async def finish(self) -> None:
        """Write what remains at the end: final/ of a real model."""
        if self.cfg.hf is None:
            await self._write(last=True)
        else:
            self._tell((await self.trainer.ask("finish"))[0])
            self.write_files()

    async def stopped(self) -> None:
        """Save what a real model has learned, after Ctrl-C or an error: final/ and the log."""
        if self.cfg.hf is not None and self.version:
            with suppress(Exception):
                told = await asyncio.wait_for(self.trainer.ask("finish"), LAST_SECONDS)
                self._tell(told[0])

    async def _once(self) -> None:
        """Sample and train at the same time until training ends, or something raises."""
        if not self.history["eval_iter"]:
            await self._evaluate()
        await self._publish()
        train = asyncio.create_task(self._train())
        tasks = {train, *[asyncio.create_task(self._sample(i)) for i in
                          range(len(self.generators))]}
        try:
            while not train.done():
                waiting = [task for task in tasks if not task.done()]
                await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for task in tasks:
                    if task.done():
                        task.result()  # raises what it raised
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _sample(self, i: int) -> None:
        """Generate, score, and put into the buffer, with generator i."""
        generator, cfg = self.generators[i], self.cfg
        mine = None  # the version of its weights
        while (number := await self._ticket(i)) is not None:
            version = await self._version_for(number)
            if version != mine:
                with self.timed("sync"):
                    await generator.update_weights(version, self.published[version])
                mine = version
                self.seconds["syncs"] += 1
            made: list[Group] = []
            for sampling, (prompts, answers, at) in enumerate(self.prompts.of(number)):
                with self.timed("generate"):
                    groups = await generator.generate(
                        prompts, answers, cfg.G, cfg.temperature, number)
                for i, group in enumerate(groups if at else []):
                    for episode in group:
                        episode.row, episode.sampling = at[i], sampling
                await asyncio.gather(self._score(groups), self._refer(groups))
                made += groups
            async with self.changed:
                self.buffer.add(number, made)
                self.changed.notify_all()

    async def _ticket(self, i: int) -> int | None:
        """Wait for room; return the number of generator i's next call, None if there is none."""
        async with self.changed:
            if self.cfg.behind is None:
                await self.changed.wait_for(lambda: len(self.buffer) < self.cfg.buffer_size)
        at = i % len(self.tickets)
        number = self.tickets[at]
        self.tickets[at] += len(self.tickets)
        return None if self.cfg.behind is not None and number >= self.cfg.iters else number

    def _deal(self, first: int) -> None:
        """Set the next call of every generator, from number `first` on.

        Round robin: generator i makes the calls whose number modulo the number of generators is i.
        Least busy: the first to finish takes the next number of one counter.
        """
        many = len(self.generators)
        self.tickets = [first + (i - first) % many for i in range(many)]
        if self.cfg.routing == "least_busy":
            self.tickets = [first]

    async def _version_for(self, number: int) -> int:
        """Wait until the weights for a call are published; return their version.

        After a resume with more iters than before, what is older than the checkpoint is gone.
        """
        if self.cfg.behind is None:
            return max(self.published)
        version = max(0, number - self.cfg.behind, min(self.published))
        async with self.changed:
            await self.changed.wait_for(lambda: version in self.published)
        return version

    async def _score(self, groups: list[Group]) -> None:
        episodes = episodes_of(groups)
        texts = [e.completion.text for e in episodes]
        with self.timed("reward"):
            if self.cfg.hf is not None:
                rows = [self.used[e.row] for e in episodes if e.row is not None]
                names = {k for row in rows for k in row} - {"prompt", "text"}
                more = {k: [row.get(k) for row in rows] for k in names}
                more["completion_ids"] = [e.completion.token_ids for e in episodes]
                judged = await self.rewards.ask("judge", [e.prompt for e in episodes], texts, more)
                for episode, one in zip(episodes, judged):
                    episode.reward = one.pop("score")
                    episode.judged = one
                return
            scores = await self.rewards.ask("score", texts, [e.target for e in episodes])
        for episode, score in zip(episodes, scores):
            episode.reward = score

    async def _refer(self, groups: list[Group]) -> None:
        if not self.references.members:
            return
        with self.timed("reference"):
            rows = await self.references.ask("logprobs", groups)
        for episode, row in zip(episodes_of(groups), rows):
            episode.ref_logprobs = row

    async def _train(self) -> None:
        """Make the remaining updates."""
        cfg = self.cfg
        while self.version < cfg.iters:
            start = time.perf_counter()
            groups = await self._batch()
            with self.timed("train"):
                stats = (await self.trainer.ask("train_step", groups))[0]
            self._tell(stats.pop("told", ""))
            evaluated = stats.pop("evaluated", None)
            sampled_by = groups[0][0].weight_version
            stats |= {"staleness": self.version - sampled_by, "weight_version": sampled_by}
            self.version += 1
            synced = self.version % cfg.sync_interval == 0 and self.version < cfg.iters
            state = await self._weights() if synced else None
            self.trained += time.perf_counter() - start
            stats |= {"dropped": self.buffer.dropped, "train_seconds": round(self.trained, 4)}
            for name in (*CURVES, *MORE):
                if name in stats:
                    self.history[name].append(stats[name])
            self.step(self.version)
            if cfg.hf is not None:
                self._note(evaluated)
            elif self.version % cfg.eval_every == 0 or self.version == cfg.iters:
                await self._evaluate()
            if self.version % cfg.save_every == 0 or self.version == cfg.iters:
                await self._save()  # so that a finished run can be continued later
            if state is not None:
                await self._publish(state)

    async def _batch(self) -> list[Group]:
        """Wait for the groups of the next update; return them."""
        number = None if self.cfg.behind is None else self.version
        with self.timed("wait"):
            async with self.changed:
                while (groups := self.buffer.take(self.version, number)) is None:
                    self.changed.notify_all()  # there is room
                    await self.changed.wait()
                self.changed.notify_all()
        return groups

    async def _weights(self) -> dict:
        with self.timed("sync"):
            return (await self.trainer.ask("weights"))[0]

    async def _publish(self, state: dict | None = None) -> None:
        """Publish the trainer's weights to the generators; drop those that are too old."""
        state = await self._weights() if state is None else state
        async with self.changed:
            self.published[self.version] = state
            oldest = self.version - (self.cfg.behind or 0)
            self.published = {v: s for v, s in self.published.items() if v >= oldest}
            self.changed.notify_all()

    # ---------------------------------------------------------- measuring and keeping

    @contextmanager
    def timed(self, part: str):
        """Add the seconds of a block to a part."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.seconds[part] += time.perf_counter() - start

    def _note(self, evaluated: list[float] | None) -> None:
        """Record the result of an evaluation: sampled and greedy accuracy."""
        if evaluated:
            for name, value in zip(EVALS, (self.version, *evaluated, round(self.trained, 4))):
                self.history[name].append(value)
            self.write_files()

    async def _evaluate(self) -> None:
        with self.timed("evaluate"):
            shares = (await self.trainer.ask("evaluate"))[0]
        if not shares:  # there are no rows held out
            self.write_files()
            return
        sampled, greedy = shares
        self._note([sampled, greedy])
        self.tell(f"update {self.version:4d} sampled acc {sampled:.3f} greedy acc {greedy:.3f} "
                  f"staleness {(self.history['staleness'] or [0])[-1]} "
                  f"dropped {self.buffer.dropped} ({self.trained:.0f}s)")

    async def _save(self) -> None:
        """Write the checkpoint: everything that a new trainer needs, and this process's progress.

        With an exact staleness, first wait for everything that may be sampled before the next
        weights: nothing is in flight then, and a resume is exact.
        """
        if self.cfg.behind is not None:
            last = min(self.version + self.cfg.behind, self.cfg.iters) if self.published else 0
            async with self.changed:
                await self.changed.wait_for(lambda: all(
                    n in self.buffer.waiting for n in range(self.version, last)))
        randoms = [getattr(generator, "random", None) for generator in self.generators]
        state = {"version": self.version, "prompts": self.prompts.state(), "randoms": randoms,
                 "buffer": self.buffer.state(), "history": self.history,
                 "trained": self.trained, "seconds": self.seconds, "config": asdict(self.cfg)}
        with self.timed("save"):
            await self.trainer.ask("save", str(self.checkpoint), state)
        if self.cfg.hf is not None:
            self.write_files()

    async def _revive(self) -> None:
        """Go back to the checkpoint.

        Raises:
            OSError: it cannot be read.
            ValueError: it is of a run with other settings.
        """
        state = (await self.trainer.ask("load", str(self.checkpoint)))[0]
        now, free = asdict(self.cfg), ("iters", "save_every", "timeout", "max_restarts", "hf")
        other = [k for k in now if k not in free and now[k] != state["config"].get(k)]
        if other:
            raise ValueError(f"{self.out}: the checkpoint is of a run with another {other[0]} "
                             f"({state['config'].get(other[0])}); give that, or another --out")
        self._tell(state.get("told", ""))
        self.version, self.history = state["version"], state["history"]
        self.trained, self.seconds = state["trained"], state["seconds"]
        self.prompts.restore(state["prompts"])
        self.buffer.restore(state["buffer"])
        self.published = {}
        self._deal(self.prompts.drawn)
        for generator, numbers in zip(self.ours, state["randoms"]):
            await generator.set_random(numbers)

    async def _write(self, last: bool = False) -> None:
        """Write history.json and config.json; at the end policy.pt and curves.png, too."""
        self.write_files((await self.trainer.ask("weights"))[0] if last else None)

    def write_files(self, policy: dict | None = None) -> None:
        """Write the current state; no file is left half written."""
        from tinylm import write_file

        about = {"schema": 1, "torch": torch.__version__, "model": self.recipe.model or "TinyLM",
                 "restarts": {r.name: r.restarts for r in self.replicas if r.restarts}}
        kept = {k: v for k, v in self.history.items() if v or k in (*CURVES, *EVALS)}
        seconds = {k: round(v, 3) for k, v in self.seconds.items()}
        for name, content in (("history", kept | {"seconds": seconds}),
                              ("config", asdict(self.cfg))):
            data = json.dumps(about | content).encode()
            write_file(self.out / f"{name}.json", lambda file, data=data: file.write(data))
        if policy is not None:
            write_file(self.out / "policy.pt", lambda file: torch.save(policy, file))
            write_file(self.out / "curves.png", lab15_run.plot_curves(self.history).savefig)
