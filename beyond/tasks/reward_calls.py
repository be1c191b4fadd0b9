"""Call a reward in any of its forms; report what is wrong with it.

Three forms are accepted everywhere, distinguished by the names of the first arguments:

    def mine(prompts, responses, **columns) -> list of float or None     # a whole batch
    def mine(response, answer) -> float                                  # tinylm.reward's form
    def mine(prompt, response, target) -> float                          # one sample

A batch reward gets the columns of the data that it names (or all of them with **columns), one
value for every response; TRL's form, with `completions`, is a batch reward, too (completions are
texts here, also for chat). None means: this cannot be scored; the response is left out of its
group's mean and gets advantage 0. An object may return a RewardOutput instead of a list, a class
is called once to make the object, and an async function is waited for.
"""

import asyncio
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from beyond.tasks.reward_limit import in_thread, in_time
from lab15_run import counted

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

BATCH, SAMPLE = ("prompts", "responses", "completions"), ("prompt", "response", "completion")


def name_of(reward: Callable) -> str:
    """Return the name under which a reward's numbers are logged."""
    inner = reward.func if isinstance(reward, functools.partial) else reward
    return getattr(inner, "__name__", type(inner).__name__)


def _waited(result: Any) -> Any:
    """Return a result, or what an async function's result comes to; works in notebooks, too."""
    if not inspect.isawaitable(result):
        return result

    async def wait() -> Any:
        return await result

    return in_thread(lambda: asyncio.run(wait()))  # this thread may have a loop already


_MADE: dict[Any, Callable] = {}


def _object(kind: Any) -> Callable:
    """Return the object of a reward that was given as a class; always the same."""
    if kind not in _MADE:
        _MADE[kind] = kind()
    return _MADE[kind]


LARGEST = 1e15  # the standard deviation in float32 squares what is compared


def _one(score: Any, name: str, i: int, response: str) -> float | None:
    """Return a score as a float or None; anything else is named."""
    if score is None:
        return None
    try:
        value = float(score)
    except (TypeError, ValueError):
        value = math.nan
    if not abs(value) <= LARGEST:
        raise ValueError(
            f"reward {name}: sample {i} ({response!r:.60}) got {score!r:.40}; a score is a finite "
            f"number (up to {LARGEST:g}), or None for what cannot be scored"
        )
    return value


def each(function: Callable, name: str, responses, columns: dict[str, list]) -> list[Any]:
    """Call a function for every sample with its values by name; an exception names the sample.

    Args:
        function: takes the values of one sample by name.
        name: of the reward, for messages.
        responses: list of texts.
        columns: name -> one value for each response.

    Raises:
        ValueError: the function raised an exception; which sample.
    """
    scores = []
    for i, response in enumerate(responses):
        try:
            scores.append(_waited(function(**{k: v[i] for k, v in columns.items()})))
        except Exception as error:
            raise ValueError(
                f"reward {name}: sample {i} ({response!r:.60}) raised "
                f"{type(error).__name__}: {error}"
            ) from error
    return scores


def _filled(reward: Callable, known: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments, by position and by name, that a reward takes of those there are.

    Raises:
        ValueError: it has a parameter that nothing fills.
    """
    args: list[Any] = []
    named: dict[str, Any] = {}
    for i, (name, p) in enumerate(inspect.signature(reward).parameters.items()):
        if p.kind is p.VAR_KEYWORD:  # the columns; in TRL's form the prompts, too
            hidden = {*BATCH, *named} - ({"prompts"} if "completions" in named else set())
            named |= {k: v for k, v in known.items() if k not in hidden}
        elif p.kind is p.VAR_POSITIONAL:
            args += [known[k] for k in BATCH[:2]] if i == 0 else []
        elif name in known or (i < 2 and p.default is p.empty and BATCH[i] in known):
            value = known[name] if name in known else known[BATCH[i]]  # under a name of its own
            if p.kind is p.POSITIONAL_ONLY:
                args.append(value)
            else:
                named[name] = value
        elif p.default is p.empty:
            raise ValueError(f"reward {name_of(reward)} needs {name!r}, and the data has no such "
                             f"column; there are {', '.join(sorted(known))}")
    return args, named


def call(reward: Callable, prompts, responses, columns: dict[str, list],
         timeout: float = 0) -> RewardOutput:
    """Return the scores of a reward of any of the three forms, checked.

    Args:
        reward: function, object or class.
        prompts: list of texts, one for each response.
        responses: list of texts.
        columns: further columns of the data, name -> one value for each response. "reference" is
            also given as "references", and the other way round.
        timeout: seconds for all of them together; 0 for no limit.

    Raises:
        ValueError: the reward raised, or needs a column that is missing, or gave the wrong number
            of scores, or NaN: which reward and which sample; or it was not ready in time.
    """
    try:
        return in_time(lambda: _call(reward, prompts, responses, columns), timeout)
    except TimeoutError:
        raise ValueError(
            f"reward {name_of(reward)}: no scores for {counted(len(responses), 'response')} within "
            f"{timeout:g} s; does it wait for something? A slower one needs a longer "
            "reward_timeout (0: no limit)") from None


def _of_batch(reward: Callable, known: dict[str, Any]) -> Any:
    """Call a reward once for a whole batch; an exception names the reward."""
    args, named = _filled(reward, known)
    try:
        return _waited(reward(*args, **named))
    except ValueError as error:
        if str(error).startswith("reward "):
            raise  # part of a composite reward, and named
        raise ValueError(f"reward {name_of(reward)} raised ValueError: {error}") from error
    except Exception as error:
        raise ValueError(
            f"reward {name_of(reward)} raised {type(error).__name__}: {error}") from error


def _call(reward: Callable, prompts, responses, columns: dict[str, list]) -> RewardOutput:
    """Return the checked scores of a reward, without a time limit."""
    if not callable(reward):
        raise ValueError(f"the reward is {reward!r:.40}; give a function, an object or a class")
    if inspect.isclass(reward):
        reward = _object(reward)
    name, n = name_of(reward), len(responses)
    columns = dict(columns)
    for one, other in (("reference", "references"), ("references", "reference")):
        if one in columns:
            columns.setdefault(other, columns[one])
    first = next(iter(inspect.signature(reward).parameters), "")
    metadata: dict[str, Any] = {}
    scores: Any
    if first in SAMPLE:
        known = {"prompt": prompts, "response": responses, "completion": responses}
        targets = columns.get("references") or [None] * n
        known |= {k: targets for k in ("answer", "target", "reference", "references")} | columns
        scores = each(reward, name, responses, _filled(reward, known)[1])
    else:
        known = {"prompts": prompts, "responses": responses, "completions": responses} | columns
        scores = _of_batch(reward, known)
        if isinstance(scores, RewardOutput):
            scores, metadata = scores.scores, scores.metadata
    if isinstance(scores, (str, dict)) or not hasattr(scores, "__iter__"):
        raise ValueError(f"reward {name} gave {scores!r:.40}, not a list of {counted(n, 'score')}")
    scores = list(scores)
    if len(scores) != n:
        raise ValueError(f"reward {name} gave {counted(len(scores), 'score')} for "
                         f"{counted(n, 'response')}")
    checked = [_one(s, name, i, r) for i, (s, r) in enumerate(zip(scores, responses))]
    return RewardOutput(checked, metadata)


def try_reward(reward: Callable, rows: list[dict[str, Any]], timeout: float = 0) -> None:
    """Call a reward on a right and a wrong response to the first row, before a model is loaded.

    Args:
        reward: function, object or class.
        rows: of the data, with prompt and reference.
        timeout: seconds; 0 for no limit.

    Raises:
        ValueError: as call does.
    """
    row = rows[0]
    prompt = row["prompt"]
    if not isinstance(prompt, str):  # messages: what a template makes of them is not known yet
        prompt = "\n".join(str(message["content"]) for message in prompt)
    responses = [str(row.get("reference") or "1"), "no answer"]
    columns: dict[str, list] = {k: [row.get(k)] * 2 for k in row if k != "prompt"}
    call(reward, [prompt] * 2, responses, {"completion_ids": [[0], [0]]} | columns, timeout)
