"""Which names of mistakes count: they come from a student's side, and are compared with ours.

The public tests name a mistake, in a process with student code in it: a forged file can name any.
Which hidden tests fail is the grader's own finding, and signatures.json says which fail with which
mistake (see instructor/signatures.py). A name that does not fit what failed is not counted; one
that explains all that failed, alone or with one other that was named, is confirmed.
"""

import json
from collections.abc import Iterable, Sequence
from functools import cache
from pathlib import Path

MOST = 3  # names of one task of one file that count


@cache
def signatures() -> dict[str, tuple[frozenset[str], ...]]:
    """Return {"TASK MISTAKE": the sets of hidden tests that fail with it}."""
    text = Path(__file__).with_name("signatures.json").read_text(encoding="utf-8")
    return {key: tuple(map(frozenset, sets)) for key, sets in json.loads(text).items()}


def fits(sets: Sequence[frozenset[str]], failed: frozenset[str]) -> bool:
    """Return whether a mistake can be behind what failed: what always fails with it failed."""
    always = frozenset.intersection(*sets)
    return always <= failed and any(some & failed for some in sets)


def explains(sets: Sequence[frozenset[str]], others: Iterable[frozenset[str]],
             failed: frozenset[str]) -> bool:
    """Return whether a mistake is behind all that failed, alone or with another one.

    Args:
        sets: of the mistake.
        others: sets of the other mistakes that were named.
        failed: names of hidden tests.
    """
    # Two that are named explain it together only if neither does alone.
    halves = [other for other in others if other != failed]
    return any(some == failed or any(some | other == failed for other in halves) for some in sets)


def believed(task: int, names: Sequence[str], failed: Iterable[str]) -> dict[str, bool]:
    """Return {mistake that counts: whether the hidden tests confirm it}, at most MOST.

    Args:
        task: its number.
        names: of the mistakes, as the public tests gave them.
        failed: names of the task's hidden tests that failed.
    """
    from tests.messages.explain import MISTAKES

    known, all_failed = signatures(), frozenset(failed)
    here = [n for n in dict.fromkeys(names) if n in MISTAKES
            and n.startswith((f"task{task}.", "any."))]
    told = frozenset().union(*(s for key in known if key.startswith(f"{task} ")
                               for s in known[key]))
    # Tests of another version of the lab say nothing about these.
    comparable = all_failed <= told
    sets = {name: known.get(f"{task} {name}", ()) if comparable else () for name in here}
    fitting = [n for n in here if not sets[n] or fits(sets[n], all_failed)][:MOST]
    return {
        name: bool(sets[name]) and explains(
            sets[name], (s for n in fitting if n != name for s in sets[n]), all_failed)
        for name in fitting
    }
