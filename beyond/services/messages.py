"""The messages between services: completions, episodes, groups, batches; and the buffer.

The names are torchforge's, so that code written for it finds its fields:

    Completion   text, token_ids, logprobs (of the sampler), metadata
    Episode      a prompt with one completion, its reward, advantage, ref_logprobs
    Group        list of the G episodes of one prompt
    batch        inputs [{"tokens"}], targets [{"response", "ref_logprobs", "advantages",
                 "padding_mask"}]; see batch_of

Token ids are kept from sampling to training, never decoded and encoded again.
Shapes: B rows (all episodes of all groups), L prompt positions, T response positions.
"""

import random
from dataclasses import asdict, dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor


@dataclass
class Completion:
    """A sampled response.

    Args:
        text: decoded, without the end token.
        token_ids: everything sampled, the end token included.
        logprobs: log-probability of each under the weights that sampled it.
        metadata: "weight_version", that of the weights that sampled it, and anything else known.
        entropies: of the distribution that each was drawn from; None: not known.
    """

    text: str
    token_ids: list[int]
    logprobs: list[float]
    metadata: dict[str, Any] = field(default_factory=dict)
    entropies: list[float] | None = None


@dataclass
class Episode:
    """A prompt, one completion, and what the services find out about it.

    With a real model also: `row` of the data, the `sampling` of an update that it belongs to, and
    `judged`, the parts and notes of its reward.
    """

    episode_id: str
    prompt: str
    prompt_ids: list[int]
    target: str  # the right answer
    completion: Completion
    reward: float | None = None
    ref_logprobs: list[float] | None = None
    advantage: float | None = None
    row: int | None = None
    sampling: int = 0
    judged: dict[str, Any] = field(default_factory=dict)

    @property
    def weight_version(self) -> int:
        """The number of updates behind the weights that sampled this."""
        return self.completion.metadata["weight_version"]


Group = list[Episode]


class Generator(Protocol):
    """The interface of a sampler: a Monarch actor, a vLLM server, or your own."""

    async def generate(self, prompts: list[str], answers: list[str], G: int, temperature: float,
                       number: int) -> list[Group]:
        """Return a group of G episodes for every prompt, in the order of the prompts.

        Args:
            prompts: list of P texts.
            answers: list of P texts, put into Episode.target.
            G: group size.
            temperature: above 0.
            number: of this call in the run; goes into the episodes' ids.
        """

    async def update_weights(self, version: int, state: dict[str, Tensor]) -> None:
        """Sample with these weights from now on.

        Args:
            version: the number of updates that made them; stamped on every episode.
            state: the policy's state_dict.
        """


def groups_of(rows: list[dict], G: int) -> list[Group]:
    """Return rows of Episode's fields as groups of G."""
    episodes = [Episode(**row) for row in rows]
    return [episodes[i : i + G] for i in range(0, len(episodes), G)]


def episodes_of(groups: list[Group]) -> list[Episode]:
    """Return all episodes, in order."""
    return [episode for group in groups for episode in group]


def plain(groups: list[Group]) -> list[list[dict]]:
    """Return groups as plain data, for a checkpoint."""
    return [[asdict(episode) for episode in group] for group in groups]


def from_plain(groups: list[list[dict]]) -> list[Group]:
    """Undo plain."""
    return [
        [Episode(**(e | {"completion": Completion(**e["completion"])})) for e in group]
        for group in groups
    ]


# ============================================================== tensors


def inputs_of(groups: list[Group], pad: int) -> dict[str, Tensor]:
    """Return the tensors that a model reads: prompts padded on the left, responses on the right.

    Exactly what the sampler returned, if the groups are those of one call.

    Args:
        groups: any number of groups.
        pad: the padding id.

    Returns a dict: "tokens" (B, L + T) int64; "prompt_lengths" (B,) real prompt tokens of each
    row; "padding_mask" (B, T) 1.0 at response tokens; "sampler_logprobs" (B, T), 0 at padding.
    """
    episodes = episodes_of(groups)
    lengths = [len(e.prompt_ids) for e in episodes]
    L, T = max(lengths), max(1, *(len(e.completion.token_ids) for e in episodes))
    rows = [
        [pad] * (L - n) + e.prompt_ids + filled(e.completion.token_ids, T, pad)
        for e, n in zip(episodes, lengths)
    ]
    mask = [filled([1.0] * len(e.completion.token_ids), T, 0.0) for e in episodes]
    logp = [filled(e.completion.logprobs, T, 0.0) for e in episodes]
    return {
        "tokens": torch.tensor(rows),
        "prompt_lengths": torch.tensor(lengths),
        "padding_mask": torch.tensor(mask),
        "sampler_logprobs": torch.tensor(logp),
    }


def filled(row: list, length: int, value) -> list:
    """Return a row padded to a length with a value."""
    return row + [value] * (length - len(row))


def batch_of(groups: list[Group], pad: int, advantages: Tensor) -> tuple[list[dict], list[dict]]:
    """Return torchforge's training batch, (inputs, targets): two lists with one dict each.

    inputs: "tokens" (B, L + T), "prompt_lengths" (B,).
    targets: "response" (B, T) ids, "ref_logprobs" (B, T), "advantages" (B,), "padding_mask"
    (B, T), and "sampler_logprobs" (B, T). Without a reference "ref_logprobs" is missing.

    Args:
        groups: with ref_logprobs, or all without.
        pad: id that fills up.
        advantages: (B,).
    """
    found, episodes = inputs_of(groups, pad), episodes_of(groups)
    mask = found["padding_mask"]
    T = mask.shape[1]
    targets = {
        "response": found["tokens"][:, -T:],
        "advantages": advantages,
        "padding_mask": mask,
        "sampler_logprobs": found["sampler_logprobs"],
    }
    ref = [e.ref_logprobs for e in episodes]
    if all(row is not None for row in ref):
        targets["ref_logprobs"] = torch.tensor([filled(row or [], T, 0.0) for row in ref])
    inputs = {"tokens": found["tokens"], "prompt_lengths": found["prompt_lengths"]}
    return [inputs], [targets]


# ============================================================== prompts and buffer


class Prompts:
    """The lab's make_batch by call number: the same prompts, however calls are distributed.

    Args:
        make_batch: of the backend.
        n: prompts of a call.
        seed: as in train_grpo.
    """

    def __init__(self, make_batch, n: int, seed: int):
        self.make_batch, self.n = make_batch, n
        self.rng, self.drawn = random.Random(seed), 0
        self.early: dict[int, tuple] = {}  # drawn, but not yet asked for

    def of(self, number: int) -> list[tuple]:
        """Return the samplings of a call: (prompts, answers, None), a single one."""
        while self.drawn <= number:
            self.early[self.drawn] = self.make_batch(self.n, self.rng)
            self.drawn += 1
        return [(*self.early.pop(number), None)]

    def state(self) -> dict[str, Any]:
        """Return the place in the stream of prompts."""
        return {"rng": self.rng.getstate(), "drawn": self.drawn, "early": dict(self.early)}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what state returned."""
        self.rng.setstate(state["rng"])
        self.drawn, self.early = state["drawn"], dict(state["early"])


class RowPrompts:
    """The rows of a data set, by number of call, in train_hf's order.

    Args:
        rows: with "text" and "reference".
        cfg: a GRPOConfig.
    """

    def __init__(self, rows: list[dict], cfg):
        self.rows, self.cfg = rows, cfg
        self.place, self.drawn = {"epoch": 0, "row": 0}, 0
        self.early: dict[int, list[list[int]]] = {}  # drawn, but not yet asked for

    def _draw(self) -> list[list[int]]:
        """Return the row numbers of the next call's samplings; a call never spans two epochs."""
        from beyond.hf.batches import next_rows

        found = []
        for _ in range(self.cfg.gradient_accumulation_steps):
            found.append(next_rows(self.place, list(range(len(self.rows))), self.cfg))
            if self.place["row"] == 0:
                break
        return found

    def of(self, number: int) -> list[tuple]:
        """Return the samplings of a call: (prompts, answers, numbers of their rows)."""
        while self.drawn <= number:
            self.early[self.drawn] = self._draw()
            self.drawn += 1
        return [([self.rows[i]["text"] for i in at], [str(self.rows[i]["reference"]) for i in at],
                 at) for at in self.early.pop(number)]

    def state(self) -> dict[str, Any]:
        """Return the place in the data."""
        return {"place": dict(self.place), "drawn": self.drawn, "early": dict(self.early),
                "rows": len(self.rows)}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what state returned.

        Raises:
            ValueError: the data has another number of rows now.
        """
        if state["rows"] != len(self.rows):
            raise ValueError(f"the checkpoint is of a run on {state['rows']} usable rows, and now "
                             f"there are {len(self.rows)}; give the same data, or another --out")
        self.place, self.drawn = dict(state["place"]), state["drawn"]
        self.early = dict(state["early"])


class ReplayBuffer:
    """Sampled groups that wait for the trainer; drops those that become too old.

    It lives in the controller's process, which waits for it. A separate process would copy every
    rollout twice more, and would be one more that can die.

    Args:
        max_staleness: groups whose weights are more versions behind than this are dropped.
    """

    def __init__(self, max_staleness: int):
        self.max_staleness = max_staleness
        self.dropped = 0  # groups, since the start
        self.waiting: dict[int, list[Group]] = {}

    def __len__(self) -> int:
        return len(self.waiting)

    def add(self, number: int, groups: list[Group]) -> None:
        """Store the result of the generate call with this number."""
        self.waiting[number] = groups

    def take(self, version: int, number: int | None = None) -> list[Group] | None:
        """Take out the groups of one call; None if there are none yet.

        Args:
            version: of the trainer's weights.
            number: the call wanted, whatever its age; None: the oldest that is not too old.
        """
        if number is not None:
            return self.waiting.pop(number, None)
        # By weights first: the calls of a fast generator have larger numbers, and would only wait.
        age = {n: (groups[0][0].weight_version, n) for n, groups in self.waiting.items()}
        for found in sorted(age, key=age.__getitem__):
            groups = self.waiting.pop(found)
            if version - groups[0][0].weight_version <= self.max_staleness:
                return groups
            self.dropped += len(groups)
        return None

    def state(self) -> dict[str, Any]:
        """Return the whole buffer as plain data."""
        return {"dropped": self.dropped, "waiting": {n: plain(g) for n, g in self.waiting.items()}}

    def restore(self, state: dict[str, Any]) -> None:
        """Put back what state returned."""
        self.dropped = state["dropped"]
        self.waiting = {n: from_plain(groups) for n, groups in state["waiting"].items()}
