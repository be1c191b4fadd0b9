"""Rewards for a real model: functions, or objects that are called like functions.

What forms a reward of your own may have: beyond/reward_calls.py. Here are those that are ready.
"""

import functools
import logging
import math
import os
import re
import threading
from collections.abc import Callable, Sequence
from typing import Any

from beyond.answers import (
    EXPRESSION,
    NUMBER,
    answer_values,
    clean_number,
    extract_answer,
    plain,
    same_value,
    stated,
    values,
)
from beyond.data import gsm8k_answer
from beyond.reward_calls import BaseReward, RewardOutput, Scores, call, each, name_of

__all__ = [
    "BaseReward", "CompositeReward", "ExactMatchReward", "FormatReward", "LengthPenaltyReward",
    "NumericReward", "ReasoningGymReward", "RewardOutput", "Scores", "ThinkTagReward", "call",
    "name_of",
]

def _references(given, column, n: int, who: str) -> list:
    """Return one reference for each of n responses, from the call or from the constructor.

    A column of the data that is empty throughout counts as none. Of a solution in GSM8K's manner
    the number behind "####" is taken.
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
        raise ValueError(f"reward {who}: {len(found)} references for {n} responses")
    return [gsm8k_answer(x) if isinstance(x, str) and re.search(r"####.*\d", x) else x
            for x in found]


def normal(text: Any) -> str:
    """Return a text without case, outer punctuation and repeated blanks; a number as digits."""
    text = re.sub(r"\s+", " ", str(text).casefold()).strip(" \t\n.,;:!?*`'\"()[]$")
    number = plain(text).strip()
    return (clean_number(number) or text) if re.fullmatch(NUMBER, number) else text


class ExactMatchReward(BaseReward):
    """1.0 if the answer that is parsed out of the response equals the reference, else 0.0.

    Parsed: the whole response, what it states behind "Answer:" or in a box, or what extract_answer
    finds in it. That an answer occurs somewhere inside is not enough: "18" does not answer 8, nor
    does a list of all digits. Case, blanks and thousands separators do not count; 8.0 is not 8
    here, NumericReward compares values.
    """

    def __init__(self, references: Sequence[str] | None = None):
        self.references = references

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where there is no reference."""
        wanted = _references(self.references, references, len(responses), "ExactMatchReward")
        found = [extract_answer(r) for r in responses]
        scores: Scores = []
        for response, parsed, reference in zip(responses, found, wanted):
            target = "" if reference is None else normal(reference)
            said = {normal(text) for text in (response, stated(response), parsed) if text}
            scores.append(float(target in said) if target else None)
        return RewardOutput(scores, {"parsed": found})


TAIL, SECONDS = 1000, 2  # of a response that math-verify reads; for one answer


def _by_math_verify(texts: list[str], gold: Any, seconds: int | None) -> bool:
    """Return whether the first of some texts that math-verify can read equals the gold answer.

    Its time limit is a signal, so it is for a main thread that has signals. Without one, what could
    take for ever (9^9^9^9, factorials, sums) is not read.
    """
    from math_verify import parse, verify

    for text in texts:
        if seconds is None and re.search(r"\^|\*\*|!|\\(?:sum|prod|int|binom)|[({]{9}", text):
            continue
        if given := parse(text[-TAIL:], parsing_timeout=seconds):
            return bool(verify(gold, given, timeout_seconds=seconds))
    return False


class NumericReward(BaseReward):
    r"""1.0 if the answer has the reference's value, else 0.0: 1/2, 0.5, 50%, \boxed{\frac12}.

    Plain numbers are compared as fractions; units are read over. Formulas are left to the package
    math-verify, two seconds at most.
    """

    def __init__(self, references: Sequence[str] | None = None):
        self.references = references

    def __call__(self, prompts, responses, references=None) -> RewardOutput:
        """Return 1.0, 0.0, or None where the reference is None or no number."""
        from math_verify import parse

        logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns of every timeout
        main = threading.current_thread() is threading.main_thread()
        seconds = SECONDS if main and os.name == "posix" else None
        wanted = _references(self.references, references, len(responses), "NumericReward")
        found = [extract_answer(r) for r in responses]
        scores: Scores = []
        for response, reference in zip(responses, wanted):
            right = [] if reference is None else values(str(reference))
            given = answer_values(response)
            if right and given:
                scores.append(float(same_value(right, given)))
                continue
            target = "" if reference is None else str(reference)
            if re.search(EXPRESSION, target) and not re.search(r"\$|boxed", target):
                target = rf"\boxed{{{target}}}"
            gold = parse(target, parsing_timeout=seconds) if target else []
            said = stated(response)
            texts = [rf"\boxed{{{said}}}", response] if said else [response]
            scores.append(float(_by_math_verify(texts, gold, seconds)) if gold else None)
        return RewardOutput(scores, {"parsed": found})


@functools.cache
def _task(name: str) -> Any:
    import reasoning_gym

    return reasoning_gym.create_dataset(name, size=1, seed=0)


class ReasoningGymReward(BaseReward):
    """What a reasoning-gym task itself says of an answer, 0 to 1; for load_reasoning_gym's rows.

    It is given what is behind the last "Answer:", which may be several lines, else the response.
    """

    def __call__(self, prompts, responses, task, entry) -> RewardOutput:
        """Return one score a response."""
        said = [re.split(r"\banswer:", r, flags=re.I)[-1].strip() for r in responses]
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
