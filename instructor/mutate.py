"""Make mutants of the solution, and show those that the tests do not catch.

    python -m instructor.mutate               # slow: about 1500 mutants
    python -m instructor.mutate --task 3

A surviving mutant either behaves like the solution, and equivalent.toml gives the reason, or the
tests have a gap, and the exit code is 1.
"""

import argparse
import sys
import tempfile
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from lab15_run import piped
from tests.labfile import ROOT, TASKS

from . import at_least_one
from .variants import runner
from .variants.catalog import Variant
from .variants.mutators import Mutant, mutants

EQUIVALENT = ROOT / "instructor" / "variants" / "equivalent.toml"


Key = tuple[int, str, str]  # task, lines before, lines after


class Outcome(NamedTuple):
    """The outcome for a mutant: "caught", "error", "ended", "equivalent" or "SURVIVED"."""

    word: str
    mutant: Mutant
    result: runner.Result


def equivalents() -> dict[Key, str]:
    """Return the reasons of equivalent.toml.

    Raises:
        ValueError: an entry's lines are not pairs of - and +.
    """
    reasons = {}
    for entry in tomllib.loads(EQUIVALENT.read_text(encoding="utf-8"))["equivalent"]:
        lines = entry["changes"].strip().split("\n")
        for before, after in zip(lines[::2], lines[1::2], strict=True):
            if before[:2] != "- " or after[:2] != "+ ":
                raise ValueError(f"{EQUIVALENT.name}: not a pair of - and +: {before!r}, {after!r}")
            reasons[entry["task"], before[2:], after[2:]] = entry["reason"]
    return reasons


def key(mutant: Mutant) -> Key:
    """Return the key that identifies a mutant."""
    return mutant.task, mutant.before, mutant.after


def outcome(mutant: Mutant, result: runner.Result, reasons: dict[Key, str]) -> Outcome:
    """Return the outcome for a mutant.

    "error": the student's code raised it; easy to catch, so counted separately. "ended"
    is a process that died or had to be stopped.

    Args:
        mutant: a Variant.
        result: of its tests.
        reasons: {(task, line, changed line): why this changes nothing}.
    """
    if result.code == 0:
        word = "equivalent" if key(mutant) in reasons else "SURVIVED"
    elif result.code == 1:
        raised = any(f"{TASKS[mutant.task].name} raised " in f.text for f in result.failures)
        word = "error" if raised else "caught"
    else:
        word = "ended"
    return Outcome(word, mutant, result)


def run(tasks: Sequence[int], jobs: int, reasons: dict[Key, str]) -> list[Outcome]:
    """Make and test the mutants of some tasks.

    Args:
        tasks: numbers.
        jobs: mutants at the same time.
        reasons: {(task, line, changed line): why this changes nothing}.
    """
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread and fork do not go together
    made = {}
    for task in sorted(tasks, reverse=True):
        for i, mutant in enumerate(mutants(task)):
            name = f"task{task}_mutant{i}"
            made[name] = mutant, Variant(name, "mutant", task, mutant.text)
    outcomes = []
    with tempfile.TemporaryDirectory(prefix="lab15-mutate-") as folder:
        variants = [variant for _, variant in made.values()]
        results = runner.run_all(variants, folder, jobs, quick=True)
        for variant, result in tqdm(results, total=len(made), ascii=True, disable=None):
            outcomes.append(outcome(made[variant.id][0], result, reasons))
    return sorted(outcomes, key=lambda o: key(o.mutant))


def report(outcomes: Sequence[Outcome], tasks: Sequence[int], reasons: dict[Key, str]) -> list[str]:
    """Return the lines to print: survivors, explanations that are out of date, figures.

    Args:
        outcomes: what run returned.
        tasks: numbers.
        reasons: {(task, line, changed line): why this changes nothing}.
    """
    lines = []
    for o in outcomes:
        if o.word == "SURVIVED":
            lines += [f"SURVIVED: Task {o.mutant.task}, {o.mutant.kind}"]
            lines += [f"- {o.mutant.before}", f"+ {o.mutant.after}"]
    used = {key(o.mutant) for o in outcomes if o.result.code == 0}
    for task, before, after in set(reasons) - used:
        if task in tasks:
            lines += [f"not needed in {EQUIVALENT.name}: Task {task}", f"- {before}", f"+ {after}"]
    for name, group in [*((f"task {n}", [n]) for n in tasks), ("all", tasks)]:
        words = Counter(o.word for o in outcomes if o.mutant.task in group)
        lines += [
            f"{name:<7}{sum(words.values()):5} made, {words['caught']:5} caught by a comparison, "
            f"{words['error']:4} by an error, {words['ended']} ended the process, "
            f"{words['equivalent']:4} equivalent, {words['SURVIVED']} SURVIVED"
        ]
    return lines


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m instructor.mutate",
        description="Test machine-made mutants of the solution; slow.",
    )
    parser.add_argument("--task", type=int, choices=list(TASKS), help="only the mutants of a task")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=2,
                        help="processes at a time (default 2)")
    flags = parser.parse_args(args)
    start, reasons = time.monotonic(), equivalents()
    tasks = [flags.task] if flags.task else list(TASKS)
    outcomes = run(tasks, flags.jobs, reasons)
    lines = report(outcomes, tasks, reasons)
    for line in lines:
        print(line.encode("ascii", "backslashreplace").decode())
    print(f"{time.monotonic() - start:.0f} s, {flags.jobs} process{'es' * (flags.jobs != 1)} at "
          "a time")
    stale = any(line.startswith("not needed") for line in lines)
    return 1 if stale or any(o.word == "SURVIVED" for o in outcomes) else 0


if __name__ == "__main__":
    sys.exit(piped(main))
