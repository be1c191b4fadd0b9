"""Reading answers: how many a second, against math-verify alone, on 300 answers of two kinds.

    python -m beyond.bench.answers            prints a table
    python -m beyond.bench.answers --save     also writes beyond/bench/results/answers.json

The answers are those of beyond/tests/data/answers.jsonl. Ours is NumericReward with its helper
process, which is started before the clock is; math-verify alone is its parse of both sides and its
verify, without a time limit, after a first pass over the same answers. Wall clock, one after the
other: the helper is another process, so CPU time of this one would flatter ours.
"""

import argparse
import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))  # python beyond/bench/answers.py

from beyond.tasks import math_helper
from beyond.tasks.rewards import NumericReward
from lab15_run import commit, machine, piped

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results" / "answers.json"
DATA = HERE.parent / "tests" / "data" / "answers.jsonl"

Rows = list[dict[str, str]]


def ours(rows: Rows) -> list[float | None]:
    """Return NumericReward's scores."""
    return NumericReward()([""] * len(rows), [row["response"] for row in rows],
                           references=[row["reference"] for row in rows]).scores


def theirs(rows: Rows) -> list[float | None]:
    """Return the scores of math-verify alone; None where it cannot read the reference."""
    from math_verify import parse, verify

    scores: list[float | None] = []
    for row in rows:
        gold = parse(f"${row['reference']}$", parsing_timeout=None)
        given = parse(row["response"], parsing_timeout=None)
        right = verify(gold, given, timeout_seconds=None) if gold and given else False
        scores.append(float(right) if gold else None)
    return scores


def measure(way: Callable[[Rows], list[float | None]], rows: Rows, rounds: int) -> dict:
    """Return answers a second (the best round's) and how many are right, wrong and not read."""
    found = way(rows)  # warm up
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        way(rows)
        seconds.append(time.perf_counter() - start)
    return {"per_second": round(len(rows) / min(seconds), 1), "right": found.count(1.0),
            "wrong": found.count(0.0), "not_read": found.count(None)}


def main() -> None:
    """Measure and print; with --save also keep."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="each way so many times")
    parser.add_argument("--save", action="store_true", help=f"write {RESULTS.name}")
    flags = parser.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.CRITICAL)
    rows = [json.loads(line) for line in DATA.read_text(encoding="utf-8").splitlines()]
    results = {}
    for style in ("gsm8k", "math"):
        part = [row for row in rows if row["style"] == style]
        results[style] = {"answers": len(part), "ours": measure(ours, part, flags.rounds),
                          "math_verify": measure(theirs, part, flags.rounds)}
    math_helper.stop()
    for style, result in results.items():
        for way in ("ours", "math_verify"):
            print(f"{style:6} {way:12} {result[way]}")
    if flags.save:
        found = {"command": "python -m beyond.bench.answers --save", "commit": commit(),
                 "machine": machine(), "rounds": flags.rounds, "results": results}
        RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        print(f"written: {RESULTS}")


if __name__ == "__main__":
    piped(main)
