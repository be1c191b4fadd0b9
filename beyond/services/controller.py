"""GRPO as services on Monarch: generators, a reference, reward workers and a trainer.

    async with Services(ServicesConfig(mode="async"), "lab15_grpo.py", "runs/x") as services:
        history = await services.run()

Every role (services/actors.py) lives in processes of its own, spawned by Monarch
(services/processes.py); this process only moves messages. Calls of generators are numbered; each
makes the P groups of one update:

    prompts -> generator -> rewards, reference -> buffer -> trainer -> weights -> generator

mode sync: call n waits for the weights of version n. Nothing happens at the same time, and the
numbers are those of the lab's train_grpo to the last bit. mode async with staleness K: call n
takes version n - K, so the generator works while the trainer does; reproducible; the first K
updates, for which there are no weights so old, have rollouts that are 0, 1, ... K - 1 behind.
mode async without staleness: each call takes the newest weights, each update the oldest rollouts
that are not behind by more than max_staleness.

Weights travel as Monarch messages, trainer -> here -> generators, by version. Not torchstore, which
torchforge uses: its newest release (0.1.2) pins torch 2.9.0 and torchmonarch 0.1.2. For TinyLM
(300 kB) a message takes milliseconds; see history["seconds"]["sync"].
"""

import asyncio
import json
import os
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

import lab15_run
from beyond.parallel.ranks import seed_of
from beyond.services.actors import GeneratorActor, Recipe, ReferenceActor, RewardActor, TrainerActor
from beyond.services.config import ROLES, Role, ServicesConfig
from beyond.services.messages import Generator, Group, Prompts, ReplayBuffer, episodes_of
from beyond.services.processes import Dead, MonarchGenerator, Pool, Replica, forgive_faults
from beyond.student.plugins import from_file

CURVES = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")  # as in the lab
MORE = ("staleness", "weight_version", "dropped", "log_ratio_mean", "weight_mean", "train_seconds")
EVALS = ("eval_iter", "acc_sampled", "acc_greedy", "eval_seconds")
PARTS = ("generate", "reward", "reference", "train", "sync", "wait", "evaluate", "save")


class Services:
    """All services of one run.

    Args:
        cfg: a ServicesConfig.
        lab: path of the lab file.
        out: folder for history.json, config.json, policy.pt and checkpoint.pt.
        model: folder of a HuggingFace model; None: TinyLM after SFT.
        reward: "file.py:function" of (response, answer); None: the backend's reward.
        generators: Generators to use instead of Monarch's, such as vllm.VLLMGenerator.

    Raises:
        FileNotFoundError, ValueError: the lab file is missing or a task is not written.
    """

    def __init__(self, cfg: ServicesConfig, lab: str | Path, out: str | Path,
                 model: str | None = None, reward: str | None = None,
                 generators: list[Generator] | None = None):
        if model is not None and not os.path.isdir(model):
            raise FileNotFoundError(f"{model}: there is no such folder; give that of a model")
        self.cfg, self.out = cfg, Path(out)
        self.checkpoint = self.out / "checkpoint.pt"
        for name in ROLES:
            device = getattr(cfg, name).device
            if device != "cpu" and not getattr(torch, device).is_available():
                raise ValueError(f"{name}.device = {device}: torch finds none here; give cpu")
        recipe = Recipe(os.path.abspath(lab), model)
        self.lab = recipe.functions()  # a broken file is named here, not in five processes
        if reward is not None:
            from_file(reward)
        if model is None:
            recipe.policy()  # trained once, if it is not there yet
        backend = recipe.backend()
        self.prompts = Prompts(backend.make_batch, cfg.prompts_per_iter, cfg.seed)
        self.given = os.path.abspath(lab), model
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

    def _recipe(self, role: Role) -> Recipe:
        """Return how to make a role's models; GPUs are dealt out one after the other."""
        recipe = Recipe(*self.given, role.device, self.gpus)
        self.gpus += role.procs if role.device == "cuda" else 0
        return recipe

    def _make_roles(self, reward: str | None, generators: list[Generator] | None) -> None:
        cfg, limits = self.cfg, (self.cfg.timeout, self.cfg.max_restarts)
        self.trainer = Replica(
            "trainer", 1, TrainerActor, (self._recipe(cfg.trainer), cfg), *limits)
        own, procs = [], cfg.generator.procs
        for i in range(0 if generators else cfg.generator.replicas):
            args = self._recipe(cfg.generator), f"generator{i}", seed_of(cfg.seed, i * procs)
            own.append(Replica(f"generator{i}", procs, GeneratorActor, args, *limits))
        self.ours = [MonarchGenerator(r) for r in own]
        self.generators: list[Generator] = generators or [*self.ours]
        self.rewards = Pool("reward", cfg.reward, RewardActor, [
            (self._recipe(cfg.reward), reward) for _ in range(cfg.reward.replicas)], *limits)
        self.references = Pool("reference", cfg.reference, ReferenceActor, [
            (self._recipe(cfg.reference), cfg.temperature)
            for _ in range(cfg.reference.replicas if cfg.beta else 0)], *limits)
        self.replicas = [self.trainer, *own, *self.rewards.members, *self.references.members]

    @property
    def pids(self) -> dict[str, list[int]]:
        """The process ids of every replica."""
        return {replica.name: replica.pids for replica in self.replicas}

    async def __aenter__(self) -> "Services":
        forgive_faults()
        try:
            await asyncio.gather(*[replica.start() for replica in self.replicas])
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_) -> None:
        await asyncio.gather(*[replica.stop() for replica in self.replicas])

    # ---------------------------------------------------------- the loop

    async def run(self, resume: bool = False, tell: Callable[[str], None] = print,
                  step: Callable[[int], None] = lambda version: None) -> dict:
        """Train until cfg.iters updates are done; return the history.

        Args:
            resume: go on from the checkpoint in the output folder.
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
                if resume:
                    await self._revive()
                else:
                    await asyncio.gather(*[generator.learn_random() for generator in self.ours])
                    await self._save()
                resume = True  # there is a checkpoint
                await self._once()
                await self._write(last=True)
                return self.history
            except Dead as why:  # the trainer: all others are replaced where they are asked
                # Its own count is not enough: from the checkpoint on it may die there every time.
                again, far = (again + 1, far) if self.version <= far else (1, self.version)
                if again > self.cfg.max_restarts:
                    raise RuntimeError(f"gave up at update {far + 1}; {why}") from None
                await self.trainer.restart(why)

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
            prompts, answers = self.prompts.of(number)
            with self.timed("generate"):
                groups = await generator.generate(
                    prompts, answers, cfg.G, cfg.temperature, number)
            await asyncio.gather(self._score(groups), self._refer(groups))
            async with self.changed:
                self.buffer.add(number, groups)
                self.changed.notify_all()

    async def _ticket(self, i: int) -> int | None:
        """Return the number of generator i's next call, when there is room; None: no more."""
        async with self.changed:
            if self.cfg.behind is None:
                await self.changed.wait_for(lambda: len(self.buffer) < self.cfg.buffer_size)
        at = i % len(self.tickets)
        number = self.tickets[at]
        self.tickets[at] += len(self.tickets)
        return None if self.cfg.behind is not None and number >= self.cfg.iters else number

    def _deal(self, first: int) -> None:
        """Set the next call of every generator, from number `first` on.

        Round robin: generator i makes those calls whose number leaves i when divided by how many
        generators there are. Least busy: whoever has finished takes the next, from one counter.
        """
        many = len(self.generators)
        self.tickets = [first + (i - first) % many for i in range(many)]
        if self.cfg.routing == "least_busy":
            self.tickets = [first]

    async def _version_for(self, number: int) -> int:
        """Return the version of the weights for a call, when they are published.

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
        with self.timed("reward"):
            scores = await self.rewards.ask(
                "score", [e.completion.text for e in episodes], [e.target for e in episodes])
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
        """Make the updates that are left."""
        cfg = self.cfg
        while self.version < cfg.iters:
            start = time.perf_counter()
            groups = await self._batch()
            with self.timed("train"):
                stats = (await self.trainer.ask("train_step", groups))[0]
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
            if self.version % cfg.eval_every == 0 or self.version == cfg.iters:
                await self._evaluate()
            if self.version % cfg.save_every == 0 and self.version < cfg.iters:
                await self._save()
            if state is not None:
                await self._publish(state)

    async def _batch(self) -> list[Group]:
        """Return the groups of the next update, when they are there."""
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
        """Publish the trainer's weights to the generators; forget those that are too old."""
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

    async def _evaluate(self) -> None:
        with self.timed("evaluate"):
            sampled, greedy = (await self.trainer.ask("evaluate"))[0]
        found = (self.version, sampled, greedy, round(self.trained, 4))
        for name, value in zip(EVALS, found):
            self.history[name].append(value)
        await self._write()
        self.tell(f"update {self.version:4d} sampled acc {sampled:.3f} greedy acc {greedy:.3f} "
                  f"staleness {(self.history['staleness'] or [0])[-1]} "
                  f"dropped {self.buffer.dropped} ({self.trained:.0f}s)")

    async def _save(self) -> None:
        """Write the checkpoint: all that a new trainer needs, and this process's own place.

        With an exact staleness nothing is being sampled at this moment: what may be sampled
        before the next weights is waited for. So a resume is exact.
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

    async def _revive(self) -> None:
        """Go back to the checkpoint.

        Raises:
            OSError: it cannot be read.
            ValueError: it is of a run with other settings.
        """
        state = (await self.trainer.ask("load", str(self.checkpoint)))[0]
        now, free = asdict(self.cfg), ("iters", "save_every", "timeout", "max_restarts")
        other = [k for k in now if k not in free and now[k] != state["config"].get(k)]
        if other:
            raise ValueError(f"{self.out}: the checkpoint is of a run with another {other[0]} "
                             f"({state['config'].get(other[0])}); give that, or another --out")
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
        """Write what is known now; nothing that was there before is left half written."""
        from tinylm import write_file

        about = {"schema": 1, "torch": torch.__version__, "model": self.given[1] or "TinyLM",
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
