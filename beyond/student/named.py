"""Data and rewards by the names that --data and --reward take."""

from pathlib import Path
from typing import Any

from beyond.settings import nearest
from beyond.tasks import data, rewards

REWARDS = {
    "exact": rewards.ExactMatchReward,
    "numeric": rewards.NumericReward,
    "think": rewards.ThinkTagReward,
    "length": rewards.LengthPenaltyReward,
    "reasoning_gym": rewards.ReasoningGymReward,
}


def load_data(name: str, seed: int, limit: int | None) -> list[dict]:
    """Return the rows of sums, gsm8k, gsm8k_mock, reasoning_gym:TASK, or a JSONL or parquet file.

    Args:
        name: of --data.
        seed: of rows that are drawn.
        limit: at most so many rows, 1 or more; None: the data set's own number.

    Raises:
        OSError, ValueError: it cannot be had, or the name is unknown.
    """
    if limit is not None and limit < 1:
        raise ValueError(f"--max-samples {limit} is not possible; give 1 or more")
    if name == "sums":
        return data.load_sums(limit or 100, seed=seed)
    if name == "gsm8k":
        return data.load_gsm8k(max_samples=limit or 500)
    if name.startswith("gsm8k:"):
        return data.load_gsm8k(max_samples=limit or 500, path=name.partition(":")[2])
    if name == "gsm8k_mock":
        return data.load_gsm8k_mock(limit or 20)
    if name.startswith("reasoning_gym:"):
        return data.load_reasoning_gym(name.partition(":")[2], limit or 100, seed)
    if Path(name).suffix in (".jsonl", ".json", ".parquet") or Path(name).exists():
        if not Path(name).is_file():
            raise FileNotFoundError(f"{name}: there is no such file of rows")
        return data.load_rows(name, limit)
    known = ["sums", "gsm8k", "gsm8k:FILE", "gsm8k_mock", "reasoning_gym:TASK"]
    raise ValueError(f"--data {name!r} is no file and no data set{nearest(name, known)}")


def load_reward(text: str) -> Any:
    """Return a reward by its name, or a list of (reward, weight) for several with commas.

    Args:
        text: a name of REWARDS or file.py:function; each may have a weight: exact=1,think=0.5.

    Raises:
        ValueError: an unknown name, or a weight that is no number.
    """
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if len(parts) < 2 and "=" not in text:
        return _one_reward(text)
    found = []
    for part in parts:
        name, mark, weight = part.rpartition("=")
        try:
            found.append((_one_reward(name if mark else part), float(weight) if mark else 1.0))
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError(f"--reward {part!r}: the weight is {weight!r}; give a number, as in "
                             "exact=1,think=0.5") from None
    return found


def _one_reward(name: str) -> Any:
    """Return a reward by name, or the function of file.py:function."""
    if ":" in name:
        from beyond.student.plugins import from_file

        return from_file(name)
    if name not in REWARDS:
        raise ValueError(f"--reward {name!r} is unknown{nearest(name, list(REWARDS))}")
    return REWARDS[name]()
