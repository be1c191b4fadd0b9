"""The actors: each lives in a process spawned by Monarch, with its own model.

    GeneratorActor   a copy of the policy; samples with your sample_group
    RewardActor      scores responses
    ReferenceActor   the frozen model; log-probs
    TrainerActor     the policy that learns; your group_advantages, grpo_loss (and its k3_kl)

Endpoints are plain functions: an actor serves one call at a time, in order of arrival.
"""

import contextlib
import dataclasses
import math
import os
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from monarch.actor import Actor, current_rank, endpoint
from torch import Tensor

from beyond.losses import grpo
from beyond.losses.shaping import informative_groups
from beyond.losses.weights import sequence_weights, tis, token_weights
from beyond.parallel.ranks import World, my_part, seed_of
from beyond.services.messages import Completion, Group, batch_of, episodes_of, groups_of, inputs_of
from beyond.student.checks import Fault, line_of
from beyond.student.named import load_reward
from beyond.student.plugins import backend_with, from_file, load_student
from beyond.tasks.rewards import call, combined
from lab15_run import TOP

SFT = TOP / "tinylm_sft.pt"


@dataclass
class Recipe:
    """Everything that a process needs to make its model and load your functions.

    Args:
        lab: path of the lab file.
        model: folder of a HuggingFace model; None: TinyLM after SFT.
        device: cpu, cuda or mps.
        first: GPU number of the first process made from this recipe.
        hf: a GRPOConfig, for the model; None: TinyLM.
        reward: of --reward; None: the backend's.
        chat: whether prompts are messages.
        files: for a real model: the files that a resume compares, by purpose.
    """

    lab: str
    model: str | None = None
    device: str = "cpu"
    first: int = 0
    hf: Any = None
    reward: str | None = None
    chat: bool = False
    files: Mapping[str, str] = field(default_factory=dict)

    def backend(self):
        """Return the module that has the seven names of tinylm."""
        if self.model is not None:
            from beyond.hf import backend as hf_backend

            return hf_backend
        import tinylm

        return tinylm

    def place(self) -> str:
        """Return the device of this process."""
        if self.device == "cuda":
            return f"cuda:{(self.first + rank()) % torch.cuda.device_count()}"
        return self.device

    def policy(self) -> torch.nn.Module:
        """Return the model at the start, on its device."""
        if self.model is None:
            import tinylm

            return tinylm.load_or_train_sft(SFT).to(self.place())
        from beyond.hf.policy import load_policy

        policy = load_policy(self.model, dataclasses.replace(self.hf, device=self.place()))
        policy.add_special_tokens = not self.chat  # a chat template brings its own
        return policy

    def functions(self, **replaced: Any):
        """Load the lab file as a module; `replaced` overrides names such as reward."""
        backend = self.backend()
        return load_student(self.lab, backend_with(backend, **replaced) if replaced else backend)


def rank() -> int:
    """Return this process's rank within its replica."""
    return current_rank().rank


def share(n: int) -> slice:
    """Return the slice of n prompts that this process of its replica takes."""
    point = current_rank()
    return my_part(World(rank=point.rank, size=point.extent.nelements), n)


def pad_of(policy) -> int:
    """Return the id that pads rows."""
    import tinylm

    return getattr(policy, "pad_id", tinylm.PAD)


def out_of(policy, inputs: dict, mask: Tensor, temperature: float) -> dict:
    """Rebuild the dict that the backend's sample returned.

    Args:
        policy: its device gets the tensors.
        inputs: "tokens" (B, L + T), "prompt_lengths" (B,).
        mask: (B, T).
        temperature: that it was sampled at.
    """
    device = next(policy.parameters()).device
    ids, L = inputs["tokens"].to(device), inputs["tokens"].shape[1] - mask.shape[1]
    out = {"ids": ids, "prompt_len": L, "mask": mask.to(device)}
    if hasattr(policy, "tokenizer"):  # hf_backend reads a prompt once for all rows that share it
        real = (torch.arange(L) >= L - inputs["prompt_lengths"].unsqueeze(1)).long().to(device)
        first: dict[tuple, int] = {}
        rows = [tuple(row) for row in ids[:, :L].tolist()]
        for i, row in enumerate(rows):
            first.setdefault(row, i)
        order = {row: u for u, row in enumerate(first)}
        at = torch.tensor(list(first.values()), device=device)
        known = {"ids": ids[at, :L], "real": real[at]}
        known["row"] = torch.tensor([order[row] for row in rows], device=device)
        out |= {"prompts": known, "temperature": temperature,
                "tokenizer": policy.tokenizer, "ends": policy.ends}
    return out


def judged(reward: Any, prompts: list[str], responses: list[str], columns: dict[str, list],
           timeout: float) -> list[dict[str, Any]]:
    """Return score, parts and notes of every response, as in train_hf.

    Args:
        reward: of combined.
        prompts: the prompt of each response.
        responses: the texts.
        columns: further columns, a value for each response.
        timeout: seconds; 0: no limit.

    Raises:
        ValueError: the reward failed; names the sample.
    """
    from beyond.hf.trainer import notes_of

    found = call(reward, prompts, responses, columns, timeout)
    parts, notes = found.metadata.get("parts", {}), notes_of(found.metadata, len(responses))
    return [{"score": score, "parts": {k: v[i] for k, v in parts.items()},
             "notes": {k: v[i] for k, v in notes.items()}}
            for i, score in enumerate(found.scores)]


class Member(Actor):
    """What all actors share."""

    @endpoint
    def pid(self) -> tuple[int, int]:
        """Return (this process, its parent)."""
        return os.getpid(), os.getppid()


class GeneratorActor(Member):
    """Sample groups with a copy of the policy.

    Args:
        recipe: how to make the policy.
        name: of this replica, for the episodes.
        seed: process r of the replica draws from seed_of(seed, r), the first from seed itself.
        scores: whether to return the log-probs of its samples.
    """

    def __init__(self, recipe: Recipe, name: str, seed: int, scores: bool = True):
        # Scores are the reward actors' work; your sample_group gets a reward that costs nothing.
        self.lab = recipe.functions(reward=lambda response, answer: 0.0)
        with contextlib.redirect_stdout(None):  # the trainer prints it, too
            self.backend, self.policy = recipe.backend(), recipe.policy()
        self.name, self.version, self.scores = name, 0, scores
        torch.manual_seed(seed_of(seed, rank()))

    @endpoint
    def update_weights(self, version: int, state: dict[str, Tensor]) -> None:
        """Sample with these weights from now on."""
        whole = len(state) == len(self.policy.state_dict())  # or what is trained of it: adapters
        self.policy.load_state_dict(state, strict=whole)
        self.version = version

    @endpoint
    def random_state(self) -> Tensor:
        """Return the state of its random numbers."""
        return torch.get_rng_state()

    @endpoint
    def set_random(self, states: list[Tensor]) -> None:
        """Restore the random state of every process of the replica."""
        torch.set_rng_state(states[rank()])

    @endpoint
    def generate(self, prompts: list[str], answers: list[str], G: int, temperature: float,
                 number: int) -> tuple[list[Group], Tensor]:
        """Return (groups of this process's share of the prompts, its random state after it)."""
        mine = share(len(prompts))
        prompts, answers = prompts[mine], answers[mine]
        if not prompts:  # the last prompts of an epoch may be fewer than the processes
            return [], torch.get_rng_state()
        found = self.lab.sample_group(self.policy, prompts, answers, G, temperature)
        out, responses = found["out"], found["responses"]
        with torch.no_grad():
            logp = (self.backend.sequence_logprobs(self.policy, out).tolist() if self.scores else
                    [[]] * len(responses))
        entropies = out["entropy"].tolist() if "entropy" in out else None
        about = {"weight_version": self.version, "generator": f"{self.name}.{rank()}"}
        ids, L = out["ids"].tolist(), out["prompt_len"]
        lengths, given = out["mask"].sum(1).int().tolist(), self._prompts(out)
        rows = [
            {"episode_id": f"{number}.{mine.start * G + i}", "prompt": prompts[i // G],
             "prompt_ids": given[i], "target": answers[i // G],
             "completion": Completion(responses[i], ids[i][L : L + n], logp[i][:n], dict(about),
                                      entropies and entropies[i][:n])}
            for i, n in enumerate(lengths)
        ]
        return groups_of(rows, G), torch.get_rng_state()

    def _prompts(self, out: dict) -> list[list[int]]:
        """Return the real prompt ids of every row."""
        ids = out["ids"][:, : out["prompt_len"]]
        if "prompts" in out:
            real = out["prompts"]["real"][out["prompts"]["row"]].bool()
        else:
            real = ids != pad_of(self.policy)
        return [row[on].tolist() for row, on in zip(ids, real)]


class RewardActor(Member):
    """Score responses.

    Args:
        recipe: for the backend's reward.
        function: "file.py:function" of (response, answer), or None for the backend's reward.
    """

    def __init__(self, recipe: Recipe, function: str | None = None):
        self.recipe, self.name = recipe, function or "the backend's"
        if recipe is not None and recipe.hf is not None:
            self.reward = combined(load_reward(recipe.reward or "exact"))
        else:
            self.reward = from_file(function) if function else recipe.backend().reward

    @endpoint
    def judge(self, prompts: list[str], responses: list[str], columns: dict[str, list]
              ) -> list[dict[str, Any]]:
        """Return score, parts and notes of the responses of this process's share of the groups."""
        G, timeout = self.recipe.hf.group_size, self.recipe.hf.reward_timeout
        groups = share(len(responses) // G)
        at = slice(groups.start * G, groups.stop * G)
        mine = {name: values[at] for name, values in columns.items()}
        if not responses[at]:
            return []
        return judged(self.reward, prompts[at], responses[at], mine, timeout)

    @endpoint
    def score(self, responses: list[str], answers: list[str]) -> list[float]:
        """Return the rewards of this process's share.

        Raises:
            Fault: the function failed, or did not return a finite number.
        """
        mine = share(len(responses))
        return [self.one(r, a) for r, a in zip(responses[mine], answers[mine])]

    def one(self, response: str, answer: str) -> float:
        """Return the reward of a response."""
        try:
            value = float(self.reward(response, answer))
        except Exception as error:
            raise Fault(f"reward {self.name}, called with ({response!r}, {answer!r}): "
                        f"{line_of(error)}") from None
        if not math.isfinite(value):
            raise Fault(f"reward {self.name}, called with ({response!r}, {answer!r}), returned "
                        f"{value}; give a finite number")
        return value


class ReferenceActor(Member):
    """Score with the model as it was before training.

    Args:
        recipe: how to make it.
        temperature: of sampling, for backends that score at it.
    """

    def __init__(self, recipe: Recipe, temperature: float):
        with contextlib.redirect_stdout(None):
            self.backend, self.policy = recipe.backend(), recipe.policy().requires_grad_(False)
        self.temperature = temperature

    @endpoint
    def logprobs(self, groups: list[Group]) -> list[list[float]]:
        """Return the log-probs of the responses of this process's share, a list for each."""
        groups = groups[share(len(groups))]
        if not groups:
            return []
        found = inputs_of(groups, pad_of(self.policy))
        out = out_of(self.policy, found, found["padding_mask"], self.temperature)
        with torch.no_grad():
            logp = self.backend.sequence_logprobs(self.policy, out).tolist()
        return [row[: len(e.completion.token_ids)] for row, e in zip(logp, episodes_of(groups))]


class TrainerActor(Member):
    """The policy that learns.

    Args:
        recipe: how to make it.
        cfg: a ServicesConfig.
    """

    def __init__(self, recipe: Recipe, cfg):
        self.lab, self.backend, self.policy = recipe.functions(), recipe.backend(), recipe.policy()
        self.cfg, self.version = cfg, 0
        torch.manual_seed(cfg.seed)
        random.seed(cfg.seed)
        self.opt = torch.optim.Adam(self.policy.parameters(), lr=cfg.lr)

    @endpoint
    def train_step(self, groups: list[Group]) -> dict[str, float]:
        """Make one update on whole groups with rewards; return the dict of your grpo_step."""
        cfg = self.cfg
        rewards = torch.tensor([e.reward for e in episodes_of(groups)], dtype=torch.float32)
        adv = self.lab.group_advantages(rewards, cfg.G, cfg.scale_std)
        stats = self.update(*batch_of(groups, pad_of(self.policy), adv))
        zero = (~informative_groups(rewards, cfg.G)).float().mean()
        stats |= {"reward": rewards.mean().item(), "frac_zero_signal": float(zero)}
        self._check(stats)
        self.version += 1
        return stats

    def update(self, inputs: list[dict], targets: list[dict]) -> dict[str, float]:
        """Make cfg.inner_steps gradient steps on a batch of torchforge's form; see batch_of.

        The old policy of the loss: with correction none and tis, the trainer's weights when the
        batch arrives, whatever sampled it; with ratio, the sampler's. tis then weights the policy
        term by min(old / sampler, cap). Ratio and weights together would correct the lag twice.
        """
        given = {k: v.to(next(self.policy.parameters()).device) for k, v in targets[0].items()}
        out = out_of(self.policy, inputs[0], given["padding_mask"], self.cfg.temperature)
        with torch.no_grad():
            now = self.backend.sequence_logprobs(self.policy, out)
        entropy = self.lab.token_entropy(self.policy, out)
        sampler = given["sampler_logprobs"]
        old = sampler if self.cfg.correction == "ratio" else now
        ref = given.get("ref_logprobs", now)  # without a reference kl is that to the old policy
        for _ in range(self.cfg.inner_steps):
            logp = self.backend.sequence_logprobs(self.policy, out)
            loss, s = self.loss(logp, old, ref, given["advantages"], out["mask"], sampler)
            self.opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.cfg.max_grad_norm)
            self.opt.step()
        lag = (now - sampler).sum() / out["mask"].sum().clamp(min=1)
        kept = {k: s[k] for k in ("kl", "clip_frac", "weight_mean") if k in s}
        return {"loss": loss.item(), "entropy": entropy, "log_ratio_mean": float(lag), **kept}

    def loss(self, logp, old, ref, adv, mask, sampler):
        """Return (loss, stats) of your grpo_loss, except with weights per token, which it lacks.

        Those need beyond.losses.grpo, the same formula with weights. A weight per response is
        above 0, so it can be multiplied into the advantage.

        Args:
            logp: (B, T) under the current weights, with grad.
            old: (B, T) under the old policy.
            ref: (B, T) under the reference.
            adv: (B,) advantages.
            mask: (B, T) 1.0 at response tokens.
            sampler: (B, T) under the weights that sampled.
        """
        cfg = self.cfg
        common = (mask, cfg.clip_eps, cfg.beta)
        if cfg.correction != "tis":
            return self.lab.grpo_loss(logp, old, ref, adv, *common)
        if cfg.tis_level == "token":
            return tis(logp, old, ref, adv, *common, sampler_logp=sampler, cap=cfg.tis_cap,
                       level=token_weights, loss=grpo)
        weight = sequence_weights(old, sampler, mask, cfg.tis_cap).amax(1)  # (B,)
        loss, stats = self.lab.grpo_loss(logp, old, ref, adv * weight, *common)
        return loss, stats | {"weight_mean": float(weight.mean())}

    def _check(self, stats: dict[str, float]) -> None:
        """Raise a FloatingPointError if a number or a weight is not finite."""
        numbers = torch.tensor([*stats.values(), *(p.data.sum() for p in self.policy.parameters())])
        if not numbers.isfinite().all():
            raise FloatingPointError(
                f"update {self.version + 1}: NaN or infinite loss or weights. Lower lr (now "
                f"{self.cfg.lr:g}); or a mistake in tasks 2-4: run their tests"
            )

    @endpoint
    def weights(self) -> dict[str, Tensor]:
        """Return the policy's state_dict, on the CPU."""
        return {k: v.detach().cpu() for k, v in self.policy.state_dict().items()}

    @endpoint
    def evaluate(self) -> tuple[float, float]:
        """Return held-out accuracy (sampled, greedy); uses its own generator."""
        n = self.cfg.eval_n
        return (self.backend.accuracy(self.policy, n=n, greedy=False),
                self.backend.accuracy(self.policy, n=n, greedy=True))

    @endpoint
    def save(self, path: str, rest: dict) -> None:
        """Write policy, optimizer, random numbers, version and the controller's state.

        Raises:
            OSError: it cannot be written; the previous file is intact.
        """
        from tinylm import write_file

        state = {"policy": self.policy.state_dict(), "optimizer": self.opt.state_dict(),
                 "random": torch.get_rng_state(), "version": self.version, "controller": rest}
        write_file(path, lambda file: torch.save(state, file))

    @endpoint
    def load(self, path: str) -> dict:
        """Load what save wrote; return the controller's state.

        Raises:
            OSError: it cannot be read.
        """
        if not Path(path).is_file():
            raise FileNotFoundError(f"{path}: there is no checkpoint")
        try:
            state = torch.load(path, map_location="cpu", weights_only=True)
            self.policy.load_state_dict(state["policy"])
            self.opt.load_state_dict(state["optimizer"])
            torch.set_rng_state(state["random"])
            self.version = state["version"]
            return state["controller"]
        except Exception as error:
            raise OSError(f"{path} cannot be read, or is of another model: {line_of(error)}"
                          ) from None
