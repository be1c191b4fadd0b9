"""Rewards for a real model: functions, or objects that are called like functions.

Three forms are accepted everywhere, told apart by the names of the first arguments:

    def mine(prompts, responses, **columns) -> list of float or None     # a whole batch
    def mine(response, answer) -> float                                  # tinylm.reward's form
    def mine(prompt, response, target) -> float                          # one sample

A batch reward gets the columns of the data that it names (or all of them with **columns), one
value for every response. None means: this cannot be scored; the response is left out of its
group's mean and gets advantage 0. An object may return a RewardOutput instead of a list.
"""

import inspect
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from beyond.data import extract_answer

Scores = list[float | None]


@dataclass
class RewardOutput:
    """Scores, one for each response, and whatever else one wants to look at later."""

    scores: Scores
    metadata: dict[str, Any] = field(default_factory=dict)


class BaseReward:
    """A reward as an object; a subclass defines __call__(prompts, responses, **columns)."""

    def __call__(self, *prompts_and_responses: Any, **columns: Any) -> Any:
        """Return a list of scores or a RewardOutput."""
        raise NotImplementedError(f"{type(self).__name__} must define __call__")


# ============================================================== calling a reward


def name_of(reward: Callable) -> str:
    """Return the name under which a reward's numbers are logged."""
    return getattr(reward, "__name__", type(reward).__name__)


def _one(score: Any, name: str, i: int, response: str) -> float | None:
    """Return a score as a float or None; anything else is named."""
    if score is None:
        return None
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not math.isfinite(value):
        raise ValueError(
            f"reward {name}: sample {i} ({response!r:.60}) got {score!r:.40}; a score is a finite "
            "number, or None for what cannot be scored"
        )
    return value


def _each(reward: Callable, names: list[str], prompts, responses, columns) -> list[Any]:
    """Call a reward of one sample for every sample; an exception names the sample."""
    targets = columns.get("references") or [None] * len(responses)
    known = {"prompt": prompts, "response": responses, "completion": responses}
    known |= {k: targets for k in ("answer", "target", "reference", "references")} | columns
    scores = []
    for i, response in enumerate(responses):
        try:
            scores.append(reward(*(known[n][i] if n in known else None for n in names)))
        except Exception as error:
            raise ValueError(
                f"reward {name_of(reward)}: sample {i} ({response!r:.60}) raised "
                f"{type(error).__name__}: {error}"
            ) from error
    return scores


def call(reward: Callable, prompts, responses, columns: dict[str, list]) -> RewardOutput:
    """Return the scores of a reward of any of the three forms, checked.

    Args:
        reward: function or object.
        prompts: list of texts, one for each response.
        responses: list of texts.
        columns: further columns of the data, name -> one value for each response. "reference" is
            also given as "references", and the other way round.

    Raises:
        ValueError: the reward raised, or gave the wrong number of scores, or NaN: which reward
            and which sample.
    """
    columns = dict(columns)
    for one, other in (("reference", "references"), ("references", "reference")):
        if one in columns:
            columns.setdefault(other, columns[one])
    parameters = inspect.signature(reward).parameters
    kinds = [p.kind for p in parameters.values()]
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [n for n, p in parameters.items() if p.kind in positional]
    name = name_of(reward)
    metadata: dict[str, Any] = {}
    scores: Any
    if names[:1] in (["prompt"], ["response"], ["completion"]):
        needed = [n for n in names if parameters[n].default is inspect.Parameter.empty]
        scores = _each(reward, needed, prompts, responses, columns)
    else:
        everything = inspect.Parameter.VAR_KEYWORD in kinds
        keep = {k: v for k, v in columns.items() if everything or k in parameters}
        try:
            scores = reward(prompts, responses, **keep)
        except ValueError as error:
            if str(error).startswith("reward "):
                raise  # a composite's part has said it already
            raise ValueError(f"reward {name} raised ValueError: {error}") from error
        except Exception as error:
            raise ValueError(f"reward {name} raised {type(error).__name__}: {error}") from error
        if isinstance(scores, RewardOutput):
            scores, metadata = scores.scores, scores.metadata
    scores = list(scores)
    if len(scores) != len(responses):
        raise ValueError(f"reward {name} gave {len(scores)} scores for {len(responses)} responses")
    checked = [_one(s, name, i, r) for i, (s, r) in enumerate(zip(scores, responses))]
    return RewardOutput(checked, metadata)


# ============================================================== rewards


def _references(given, column, n: int, who: str) -> list:
    """Return one reference for each of n responses, from the call or from the constructor."""
    found = column if column is not None else given
    if found is None:
        raise ValueError(f"reward {who} needs references: a column of the data, or references=[]")
    found = [found] * n if isinstance(found, str) else list(found)
    if len(found) == 1:
        found *= n
    if len(found) != n:
        raise ValueError(f"reward {who}: {len(found)} references for {n} responses")
    return found


def normal(text: Any) -> str:
    """Return a text without case, outer punctuation and repeated blanks."""
    return re.sub(r"\s+", " ", str(text).casefold()).strip(" \t\n.,;:!?*`'\"()[]$")


class ExactMatchReward(BaseReward):
    """1.0 if the answer that is parsed out of the response equals the reference, else 0.0.

    Parsed: the whole response, or what extract_answer finds in it. That an answer occurs
    somewhere inside is not enough: "18" does not answer 8, nor does a list of all digits.
    """

    def __init__(self, references: Sequence[str] | None = None):
        self.references = references

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where there is no reference."""
        wanted = _references(self.references, references, len(responses), "ExactMatchReward")
        found = [extract_answer(r) for r in responses]
        scores: Scores = []
        for response, parsed, reference in zip(responses, found, wanted):
            right = normal(reference) in (normal(response), normal(parsed or ""))
            scores.append(float(right) if normal(reference or "") else None)
        return RewardOutput(scores, {"parsed": found})


class NumericReward(BaseReward):
    r"""1.0 if the answer has the reference's value, else 0.0: 1/2, 0.5, 50%, \boxed{\frac12}.

    By the package math-verify, which also knows units, thousands and LaTeX.
    """

    def __init__(self, references: Sequence[str] | None = None):
        self.references = references

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where the reference is None or no number."""
        from math_verify import parse, verify

        wanted = _references(self.references, references, len(responses), "NumericReward")
        scores: Scores = []
        found = [extract_answer(r) for r in responses]
        for response, short, reference in zip(responses, found, wanted):
            gold = [] if reference is None else parse(str(reference), parsing_timeout=None)
            if not gold:
                scores.append(None)
                continue
            texts = [t for t in (short, response) if t]
            given: Any = next((p for t in texts if (p := parse(t, parsing_timeout=None))), [])
            scores.append(float(bool(given) and verify(gold, given, timeout_seconds=None)))
        return RewardOutput(scores, {"parsed": found})


class FormatReward(BaseReward):
    """1.0 if format_fn(response) is true, else 0.0."""

    def __init__(self, format_fn: Callable[[str], Any]):
        self.format_fn = format_fn

    def __call__(self, prompts, responses) -> RewardOutput:
        """Return 1.0 or 0.0."""
        return RewardOutput([float(bool(self.format_fn(r))) for r in responses])


class ThinkTagReward(FormatReward):
    """1.0 for exactly one <think>...</think> with text in it, at the start, and text after it."""

    def __init__(self):
        super().__init__(self.fits)

    @staticmethod
    def fits(response: str) -> bool:
        """Return whether a response has the form."""
        once = response.count("<think>") == response.count("</think>") == 1
        return once and bool(re.fullmatch(r"\s*<think>\s*\S.*</think>\s*\S.*", response, re.S))


class LengthPenaltyReward(BaseReward):
    """1.0 at optimal_length words, falling in straight lines to 0.0 at min_length and max_length.

    Raises:
        ValueError: not 0 <= min_length < optimal_length < max_length.
    """

    def __init__(self, optimal_length: int = 200, min_length: int = 50, max_length: int = 500):
        if not 0 <= min_length < optimal_length < max_length:
            raise ValueError(
                "LengthPenaltyReward: 0 <= min_length < optimal_length < max_length must hold, got "
                f"{min_length}, {optimal_length}, {max_length}"
            )
        self.optimal, self.low, self.high = optimal_length, min_length, max_length

    def __call__(self, prompts, responses) -> RewardOutput:
        """Return scores from 0 to 1."""
        words = [len(r.split()) for r in responses]
        up = [(n - self.low) / (self.optimal - self.low) for n in words]
        down = [(self.high - n) / (self.high - self.optimal) for n in words]
        return RewardOutput([max(0.0, min(a, b)) for a, b in zip(up, down)], {"words": words})


class CompositeReward(BaseReward):
    """The weighted mean of several rewards, which may be composites themselves.

    Args:
        rewards_and_weights: list of (reward, weight); weights are made to sum to 1.

    A response that one of them cannot score (None) cannot be scored.

    Raises:
        ValueError: no rewards, a negative weight, or all weights 0.
    """

    def __init__(self, rewards_and_weights: Sequence[tuple[Callable, float]]):
        weights = [w for _, w in rewards_and_weights]
        if not weights or min(weights) < 0 or sum(weights) <= 0:
            raise ValueError(f"CompositeReward: weights must be 0 or more, not all 0: {weights}")
        self.parts = [(reward, w / sum(weights)) for reward, w in rewards_and_weights]

    def __call__(self, prompts, responses, **columns) -> RewardOutput:
        """Return the weighted means; metadata has the scores of each part."""
        outputs = [call(reward, prompts, responses, columns) for reward, _ in self.parts]
        total: Scores = []
        for scores in zip(*(out.scores for out in outputs)):
            unknown = any(s is None for s in scores)
            pairs = zip(scores, self.parts)
            total.append(None if unknown else sum((s or 0.0) * w for s, (_, w) in pairs))
        parts = {}
        for (reward, _), out in zip(self.parts, outputs):
            name, n = name_of(reward), 1
            while name in parts:
                n += 1
                name = f"{name_of(reward)}{n}"
            parts[name] = out.scores
        return RewardOutput(total, {"parts": parts})
