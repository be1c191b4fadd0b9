"""Rewards for a real model: functions, or objects that are called like functions.

What forms a reward of your own may have: beyond/tasks/reward_calls.py. Here are
those that are ready.
"""

import functools
import math
import re
import warnings
from collections.abc import Callable, Sequence
from typing import Any

from beyond.tasks import math_helper
from beyond.tasks.answers import (
    Value,
    as_reference,
    bare,
    canonical,
    equal,
    find,
    notation,
    said_by,
    score_of,
    shown,
    stated,
    without_thinking,
)
from beyond.tasks.reward_calls import BaseReward, RewardOutput, Scores, call, each, name_of
from lab15_run import counted

# ============================================================== references and responses


def _references(given, column, n: int, who: str) -> list[str | None]:
    """Return one reference for each of n responses, from the call or from the constructor.

    A column of the data that is empty throughout counts as none.
    """
    if column is None or (given is not None and not isinstance(column, str)
                          and all(x is None for x in column)):
        column = given
    if column is None:
        raise ValueError(f"reward {who} needs references: a column of the data, or references=[]")
    single = isinstance(column, str) or not hasattr(column, "__iter__")
    found = [column] if single else list(column)
    if len(found) == 1:
        found *= n
    if len(found) != n:
        raise ValueError(f"reward {who}: {counted(len(found), 'reference')} for "
                         f"{counted(n, 'response')}")
    return [as_reference(x) for x in found]


_OPENED = re.compile(r"<(?:think|thinking|thought|reasoning)>\s*\Z|\[THINK\]\s*\Z", re.I)


def _with_thought(prompts, responses) -> list[str]:
    """Return the responses, with <think> before those whose prompt ends with it."""
    if isinstance(prompts, str) or len(prompts) != len(responses):
        return list(responses)
    return [f"<think>{r}" if isinstance(p, str) and _OPENED.search(p[-50:]) else r
            for p, r in zip(prompts, responses)]


def _warn(who: str, what: str, texts: dict[int, Any], n: int, outcome: str) -> None:
    """Warn of samples that cannot be scored: how many, and the first of them."""
    if texts:
        first, text = next(iter(texts.items()))
        warnings.warn(f"reward {who}: {len(texts)} of {n} {what}, and {outcome}; the first is "
                      f"sample {first}: {text!r:.80}", stacklevel=3)


LEFT_OUT = "their samples are left out (score None)"


# ============================================================== comparing with a reference


def normal(text: Any) -> str:
    """Return a text without case, styles, outer punctuation and repeated blanks."""
    text = bare(notation(bare(str(text)[:5000])))
    return re.sub(r"\s+", " ", text.casefold()).strip(" .,;:!?*`'\"()[]$")


def _as_words(text: str) -> set[str]:
    """Return what a text may state, in words: all of it without its thoughts, or a marked part."""
    kept = without_thinking(text)
    if kept is None:
        return set()
    return {normal(said) for said in (kept, stated(text)) if said} - {""}


class ExactMatchReward(BaseReward):
    """1.0 if the answer that is parsed out of the response is the reference as written, else 0.0.

    Answers are found and read by the rule in tasks/answers.py. Numbers must have the same digits:
    thousands separators, units and styles do not count, but 8.0 is not 8 and 1/2 is not 0.5
    (NumericReward compares values). Words are compared without case, styles and outer punctuation.
    That an answer occurs somewhere inside is not enough. None where there is no reference.
    """

    def __init__(self, references: Sequence[str] | None = None):
        self.references = references

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where there is no reference."""
        wanted = _references(self.references, references, len(responses), "ExactMatchReward")
        responses = _with_thought(prompts, responses)
        found = [find(response) for response in responses]
        scores = [None if reference is None else self._score(response, value, reference)
                  for response, (_, value), reference in zip(responses, found, wanted)]
        missing = {i: reference for i, reference in enumerate(wanted) if reference is None}
        _warn("ExactMatchReward", "references are missing", missing, len(wanted), LEFT_OUT)
        return RewardOutput(scores, {"parsed": [shown(r, *f) for r, f in zip(responses, found)]})

    @staticmethod
    def _score(response: str, given: Value | None, reference: str) -> float | None:
        """Return the score of one response, given its answer's value."""
        right = find(reference)[1]
        if right is not None and given is not None:
            right, given = said_by(right, given), said_by(given, right)
            texts = [normal(canonical(value)).replace(" ", "") for value in (right, given)]
            return float(texts[0] == texts[1] and equal(right, given, lambda a, b: True) is True)
        targets = _as_words(reference)
        if not targets:
            return None
        return float(normal(stated(reference) or reference) in _as_words(response))


class NumericReward(BaseReward):
    r"""1.0 if the answer has the reference's value, else 0.0: 1/2, 0.5, 50%, \boxed{\frac12}.

    The rule is in tasks/answers.py. Numbers are compared exactly; other mathematics is left to
    math-verify, in a process of its own.

    Args:
        references: one for each response, or a single one; None: the data's column.
        seconds: time limit for one answer that math-verify compares.
    """

    def __init__(self, references: Sequence[str] | None = None,
                 seconds: float = math_helper.SECONDS):
        self.references, self.seconds = references, seconds

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where the reference or the answer cannot be read."""
        wanted = _references(self.references, references, len(responses), "NumericReward")
        responses = _with_thought(prompts, responses)
        read = {text: find(text)[1] for text in wanted if text is not None}
        found = [find(response) for response in responses]
        scores: Scores = []
        lost: dict[str, dict[int, Any]] = {"references": {}, "answers": {}}
        for i, ((said, value), text) in enumerate(zip(found, wanted)):
            reference = None if text is None else read[text]
            if reference is None:
                lost["references"][i] = text
                scores.append(None)
                continue
            scores.append(score_of(said, value, reference, self._ask))
            if scores[-1] is None:
                lost["answers"][i] = said
        for what, texts in lost.items():
            _warn("NumericReward", f"{what} cannot be read as numbers or formulas", texts,
                  len(wanted), LEFT_OUT)
        return RewardOutput(scores, {"parsed": [shown(r, *f) for r, f in zip(responses, found)]})

    def _ask(self, gold: str, given: str) -> bool | None:
        """Return whether two formulas are equal."""
        return math_helper.same(gold, given, self.seconds)


@functools.cache
def _task(name: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(name, size=1, seed=0)


class ReasoningGymReward(BaseReward):
    """A reasoning-gym task's own score of an answer, 0 to 1, for load_reasoning_gym's rows.

    It is given what is behind the last "Answer:", which may be several lines, else the response.
    """

    def __call__(self, prompts, responses, task, entry) -> RewardOutput:
        """Return one score a response."""
        texts = [without_thinking(r) or "" for r in _with_thought(prompts, responses)]
        said = [re.split(r"\banswer:", r, flags=re.I)[-1].strip() for r in texts]
        scores: Scores = [
            float(_task(name).score_answer(answer=text, entry=one))
            for text, name, one in zip(said, task, entry)
        ]
        return RewardOutput(scores, {"parsed": said})


class FormatReward(BaseReward):
    """1.0 if format_fn(response) is true, else 0.0; an exception in it names the sample."""

    def __init__(self, format_fn: Callable[[str], Any]):
        self.format_fn = format_fn

    def __call__(self, prompts, responses) -> RewardOutput:
        """Return 1.0 or 0.0."""
        name = f"{type(self).__name__} ({name_of(self.format_fn)})"
        fits = each(lambda response: self.format_fn(response), name, responses,
                     {"response": responses})
        return RewardOutput([float(bool(x)) for x in fits])


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

    A response that one of them cannot score (None) cannot be scored, unless its weight is 0: such a
    reward is only logged.

    Raises:
        ValueError: no rewards, a weight that is negative or no number, or all weights 0.
    """

    def __init__(self, rewards_and_weights: Sequence[tuple[Callable, float]]):
        weights = [w for _, w in rewards_and_weights]
        numbers = all(isinstance(w, (int, float)) and 0 <= w < math.inf for w in weights)
        if not numbers or sum(weights) <= 0:
            raise ValueError(f"CompositeReward: weights must be 0 or more, not all 0: {weights}")
        self.parts = [(reward, w / sum(weights)) for reward, w in rewards_and_weights]

    def __call__(self, prompts, responses, **columns) -> RewardOutput:
        """Return the weighted means; metadata has the scores of each part."""
        outputs = [call(reward, prompts, responses, columns) for reward, _ in self.parts]
        total: Scores = []
        for scores in zip(*(out.scores for out in outputs)):
            pairs = [(s, w) for s, (_, w) in zip(scores, self.parts) if w > 0]
            unknown = any(s is None for s, _ in pairs)
            total.append(None if unknown else sum((s or 0.0) * w for s, w in pairs))
        parts = {}
        for (reward, _), out in zip(self.parts, outputs):
            name, n = name_of(reward), 1
            while name in parts:
                n += 1
                name = f"{name_of(reward)}{n}"
            parts[name] = out.scores
        return RewardOutput(total, {"parts": parts})


def combined(given: Any) -> Any:
    """Return a reward; of a list, the weighted mean of its rewards.

    Args:
        given: a reward of any form, or a list of rewards or of (reward, weight); without a weight
            it is 1.

    Raises:
        ValueError: an empty list, or weights that CompositeReward does not take.
    """
    if not isinstance(given, (list, tuple)):
        return given
    if not given:
        raise ValueError("the list of rewards is empty; give at least one")
    pairs = [one if isinstance(one, tuple) and len(one) == 2 else (one, 1.0) for one in given]
    alone = len(pairs) == 1 and pairs[0][1] == 1
    return pairs[0][0] if alone else CompositeReward(pairs)
