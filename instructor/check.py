"""Check that the tests accept every right variant of a task, fail and name every wrong one.

    python -m instructor.check                # all: about two minutes on two cores
    python -m instructor.check --task 4       # the variants of one task
    python -m instructor.check --only task2_a01_sample_std     # one variant, with its messages

Right variants ("wheats") are in variants/wheats/, wrong ones ("chaffs") in variants/chaffs.toml.
variants/catalog.py makes the "trivial" ones: they return the result times 0, 2, 1/2 or -1, or an
argument or None instead of it. The exit code is 0 if every wheat was accepted, everything else
failed, no chaff was named wrongly, and at least nine in ten were named.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from lab15_run import piped
from tests.labfile import TASKS

from . import at_least_one
from .variants import runner
from .variants.catalog import CHAFFS, WHEATS, Variant, chaffs, cut_at, trivial, wheats

ENOUGH = 0.9  # the fraction of the chaffs that must be named
GOOD = {"accepted", "caught", "named", "unnamed"}


class Verdict(NamedTuple):
    """The verdict on one variant.

    word: wheats are "accepted" or "rejected"; a wrong variant "lived" or was "caught", and a
    caught chaff is "named", "unnamed" or "misnamed"; "no verdict" if pytest did not finish.
    """

    word: str
    named: list[str]
    variant: Variant
    result: runner.Result


def names_of(result: runner.Result) -> set[str]:
    """Return the ids of the mistakes that the messages name.

    An id counts only if its text is in the message. General ids ("any.shape") describe the
    result but name no mistake, so they are left out.
    """
    from tests.messages.explain import likely

    found = set()
    for failure in result.failures:
        if failure.mistake and not failure.mistake.startswith("any."):
            text, words = " ".join(failure.text.split()), likely(failure.mistake)
            if " ".join(words.split())[:60] in text:
                found.add(_sorted(failure.mistake))
    return found


def _sorted(mistake: str) -> str:
    """Return an id with the parts of a compound one ("task4.a+task4.b") in alphabetical order."""
    return "+".join(sorted(mistake.split("+")))


def judge(variant: Variant, result: runner.Result) -> Verdict:
    """Return the verdict on a variant that was tested."""
    named = names_of(result)
    if result.code not in (0, 1):
        word = "no verdict"
    elif variant.kind == "wheat":
        word = "rejected" if result.code else "accepted"
    elif result.code == 0:
        word = "lived"
    elif variant.kind == "trivial":
        word = "caught"
    else:
        word = _how_named(variant, result, named)
    return Verdict(word, sorted(named), variant, result)


def _how_named(variant: Variant, result: runner.Result, named: set[str]) -> str:
    """Return "named", "unnamed" or "misnamed"."""
    if named - {_sorted(variant.mistake), *map(_sorted, variant.also)}:
        return "misnamed"
    texts = [" ".join(failure.text.split()) for failure in result.failures]
    said = all(any(words in text for text in texts) for words in variant.says)
    if not variant.mistake:  # Python's own message may name the mistake well enough
        return "named" if said and variant.says else "unnamed"
    general = variant.mistake.startswith("any.")
    ids = {failure.mistake for failure in result.failures} if general else named
    return "named" if said and _sorted(variant.mistake) in ids else "unnamed"


def flaws(verdict: Verdict) -> list[str]:
    """Return what is wrong with the form of a variant's messages."""
    from tests.messages.explain import MOST, WIDTH

    body = [line.strip() for line in cut_at(verdict.variant.task)[3].splitlines()]
    secret = [line.split("  #")[0] for line in body if len(line) > 20]
    found = []
    for failure in verdict.result.failures:
        lines = failure.text.splitlines()
        if not any(line.startswith("expected  ") for line in lines):
            continue  # an error in the student's code: the message shows that line
        if len(lines) > MOST or max(map(len, lines)) > WIDTH:
            found.append(f"{failure.test}: more than {MOST} lines or {WIDTH} columns")
        # What came back may hold a line of the student's; the rest must hold none of ours.
        ours = " ".join("\n".join(lines).split("\nyours  ")[0].split())
        ours += " ".join("\n".join(lines).partition("\nlikely  ")[2].split())
        found += [f"{failure.test}: tells {line!r}" for line in secret if line in ours]
    return found


# ---------------------------------------------------------------- what is printed


def count(verdicts: Sequence[Verdict]) -> dict[str, int]:
    """Return the figures."""
    figures = Counter(f"{v.variant.kind} {v.word}" for v in verdicts)
    kinds = Counter(v.variant.kind for v in verdicts)
    lived = figures["chaff lived"] + figures["chaff no verdict"]
    return {
        "wheats": kinds["wheat"],
        "accepted": figures["wheat accepted"],
        "trivial": kinds["trivial"],
        "trivial caught": figures["trivial caught"],
        "chaffs": kinds["chaff"],
        "caught": kinds["chaff"] - lived,
        "named": figures["chaff named"],
        "named wrongly": figures["chaff misnamed"],
    }


def is_good(verdicts: Sequence[Verdict]) -> bool:
    """Return whether the exit code is 0."""
    figures = count(verdicts)
    named = figures["named"] >= ENOUGH * figures["chaffs"]
    return named and all(v.word in GOOD and not flaws(v) for v in verdicts)


def summary(verdicts: Sequence[Verdict]) -> list[str]:
    """Return the lines at the end: what went wrong, what was not named, the figures."""
    lines = []
    for word in ("no verdict", "rejected", "lived", "misnamed"):
        for v in (v for v in verdicts if v.word == word):
            lines += [f"{word}: {v.variant.kind} {v.variant.id}: {v.variant.cause}"]
            lines += [f"    wanted {v.variant.mistake}"] if v.variant.mistake else []
            lines += [f"    named  {', '.join(v.named)}"] if v.named else []
            lines += [f"    {line}" for line in first_message(v).splitlines()]
    lines += [f"message of {v.variant.id}: {flaw}" for v in verdicts for flaw in flaws(v)]
    unnamed = [v.variant for v in verdicts if v.word == "unnamed"]
    lines += [f"unnamed: {variant.id}: {variant.cause}" for variant in unnamed]
    for name, chosen in [
        *((f"task {n}", [v for v in verdicts if v.variant.task == n]) for n in TASKS),
        ("all", verdicts),
    ]:
        f = count(chosen)
        lines += [
            f"{name:<7}wheats accepted {f['accepted']} of {f['wheats']}, "
            f"trivial caught {f['trivial caught']} of {f['trivial']}, "
            f"chaffs caught {f['caught']} of {f['chaffs']}, "
            f"named {f['named']} of {f['chaffs']}, wrongly {f['named wrongly']}"
        ] * bool(chosen)
    return lines


def first_message(verdict: Verdict) -> str:
    """Return the first message (of those that name a mistake, if there are any)."""
    failures = sorted(verdict.result.failures, key=lambda failure: not failure.mistake)
    return failures[0].text if failures else verdict.result.output


def messages(verdict: Verdict) -> str:
    """Return all messages of the tests about one variant."""
    lines = [f"{verdict.variant.kind} {verdict.variant.id}: {verdict.word}"]
    lines += [f"cause: {verdict.variant.cause}", f"wanted: {verdict.variant.mistake or 'no name'}"]
    for failure in verdict.result.failures:
        lines += ["", f"-- {failure.test}: {failure.mistake or 'no name'}", failure.text]
    return "\n".join([*lines, verdict.result.output])


def as_json(verdicts: Sequence[Verdict], seconds: float, jobs: int) -> dict:
    """Return all figures and verdicts in a form that json can write.

    Args:
        verdicts: one for each variant.
        seconds: of the whole run.
        jobs: variants tested in parallel.
    """
    import torch

    return {
        "schema": 1,
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cores": os.cpu_count(),
        "jobs": jobs,
        "fork": runner.can_fork(),
        "seconds": round(seconds, 1),
        "good": is_good(verdicts),
        **count(verdicts),
        "variants": [
            {
                "id": v.variant.id,
                "kind": v.variant.kind,
                "task": v.variant.task,
                "cause": v.variant.cause,
                "verdict": v.word,
                "wanted": v.variant.mistake,
                "named": v.named,
                "failed": [failure.test for failure in v.result.failures],
                "message": first_message(v),
                "seconds": round(v.result.seconds, 3),
            }
            for v in verdicts
        ],
    }


# ---------------------------------------------------------------- the command


def arguments(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(
        prog="python -m instructor.check",
        description="Run right and wrong variants of the solution through the tests.",
    )
    parser.add_argument("--task", type=int, choices=list(TASKS), help="only the variants of a task")
    parser.add_argument("--only", metavar="ID", help="only one variant; shows all its messages")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=2,
                        help="processes at a time (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the verdicts to FILE")
    parser.add_argument("--wheats", type=Path, default=WHEATS, help=argparse.SUPPRESS)
    parser.add_argument("--chaffs", type=Path, default=CHAFFS, help=argparse.SUPPRESS)
    return parser.parse_args(args)


def chosen(flags: argparse.Namespace) -> list[Variant]:
    """Return the variants to test, the slow Task 4 and 5 first."""
    found = [*wheats(flags.wheats), *trivial(), *chaffs(flags.chaffs)]
    found = [v for v in found if flags.task in (None, v.task) and flags.only in (None, v.id)]
    return sorted(found, key=lambda v: -v.task)


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code."""
    flags = arguments(args)
    try:
        variants = chosen(flags)
    except (OSError, ValueError) as error:
        print(error)
        return 2
    if not variants:
        print("there is no such variant")
        return 2
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread and fork do not go together
    start, verdicts = time.monotonic(), []
    with tempfile.TemporaryDirectory(prefix="lab15-check-") as folder:
        results = runner.run_all(variants, folder, flags.jobs)
        for variant, result in tqdm(results, total=len(variants), ascii=True, disable=None):
            verdicts.append(judge(variant, result))
    seconds = time.monotonic() - start
    verdicts.sort(key=lambda v: (v.variant.task, v.variant.kind, v.variant.id))
    lines = map(messages, verdicts) if flags.only else summary(verdicts)
    for line in "\n".join(lines).splitlines():
        print(line.encode("ascii", "backslashreplace").decode())
    print(f"{seconds:.0f} s, {flags.jobs} process{'es' * (flags.jobs != 1)} at a time")
    if flags.json:
        text = json.dumps(as_json(verdicts, seconds, flags.jobs), indent=1)
        flags.json.write_text(text + "\n", encoding="utf-8")
    return 0 if is_good(verdicts) else 1


if __name__ == "__main__":
    sys.exit(piped(main))
