"""Find files that are more alike than the class explains; copies.py finds those that are the same.

Five short functions always look alike, so a fixed threshold means nothing. For each task two files
are compared twice, with copydetect's fingerprints: structure alone (its filter takes names, texts
and comments out) and the text without comments; the contents of the untouched file are subtracted.
Then the class itself is the measure: how many others are at least as like this file as that one
is? The answers of the five tasks are multiplied, as if students wrote tasks independently of each
other. How large that product gets by chance is found by recombining the class: the tasks of
different students are put together at random, again and again, so that no file has a twin.
"""

import importlib.util
import io
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

import numpy as np

from tests.labfile import ROOT, TASKS, cut

from .anonymous import function_tokens

STRUCTURE, TEXT = 25, 20  # characters of a fingerprint, in the filtered and in the plain text
LONGEST = 20_000  # characters of a task that are looked at
FEWEST = 20  # files; in a smaller class there is nothing to measure by
CLASSES = 100  # recombined ones
CHANCE = 0.1  # a recombined class shows a pair beyond the limit this often
SEED = 0


class Pair(NamedTuple):
    """Two files: their places in the list, how odd they are together, how like in each task."""

    one: int
    other: int
    bits: float
    tasks: dict[int, float]


class Similar(NamedTuple):
    """What was found: pairs beyond the limit, the limit, the number of files compared."""

    pairs: list[Pair]
    limit: float
    files: int


def available() -> bool:
    """Return whether the package that compares files is installed."""
    return importlib.util.find_spec("copydetect") is not None


def parts(source: str) -> dict[int, str]:
    """Return the text of each task: its part of the file, with helpers, or its function alone."""
    lines, found = source.split("\n"), {}
    for number, start, end in cut(source):
        text = "\n".join(lines[start:end])
        if number in TASKS and re.search(rf"^def {TASKS[number].name}\b", text, re.M):
            found[number] = text[:LONGEST]
    for number in set(TASKS) - set(found):
        tokens = function_tokens(source, number)
        found[number] = "".join(dict.fromkeys(t.line for t in tokens))[:LONGEST]
    return found


def fingerprints(text: str, length: int, structure: bool) -> frozenset[int]:
    """Return the hashes of all pieces of a text; windows of 1 keep every one of them.

    Python's string hashes differ from run to run. With larger windows they would decide which
    pieces are kept, and the same class would get other figures each time.

    Args:
        text: of a task.
        length: of a piece, in characters.
        structure: whether names, texts and comments are filtered out.
    """
    from copydetect import CodeFingerprint

    if not structure:
        text = re.sub(r"\s+", " ", re.sub(r"#.*", "", text))
    file = io.StringIO(text)
    found = CodeFingerprint("lab.py", length, 1, filter=structure, language="python", fp=file)
    return frozenset(int(h) for h in found.hashes)


def alike(sets: Sequence[frozenset[int]]) -> np.ndarray:
    """Return for every two sets the share of common fingerprints; 0 where both are empty."""
    often = Counter(h for s in sets for h in s)
    column = {h: i for i, h in enumerate(h for h, n in often.items() if n > 1)}
    present = np.zeros((len(sets), max(1, len(column))), np.float32)
    for i, s in enumerate(sets):
        present[i, [column[h] for h in s if h in column]] = 1
    common = present @ present.T
    sizes = np.array([len(s) for s in sets], np.float32)
    return common / np.maximum(sizes[:, None] + sizes[None, :] - common, 1)


def surprise(likeness: np.ndarray) -> np.ndarray:
    """Return -log2 of each pair's empirical p-value; of its two p-values the larger.

    A file's p-value for another one is the share of all others that are at least as similar to it.

    Args:
        likeness: (n, n), 0 to 1; the diagonal is not used.
    """
    n = len(likeness)
    likeness = np.round(likeness, 5)
    np.fill_diagonal(likeness, -1)
    ordered = np.sort(likeness, axis=1)
    share = np.empty((n, n))
    for i in range(n):
        share[i] = n - np.searchsorted(ordered[i], likeness[i], side="left")
    share = np.maximum(share, share.T) / (n - 1)
    return -np.log2(np.clip(share, 1 / (n - 1), 1))


def limit(tasks: Sequence[np.ndarray]) -> float:
    """Return the bits that the oddest pair exceeds in only one of ten recombined classes."""
    draw, n = np.random.default_rng(SEED), len(tasks[0])
    above = np.triu_indices(n, 1)
    tops = []
    for _ in range(CLASSES):
        orders = [draw.permutation(n) for _ in tasks]
        mixed = [bits[np.ix_(order, order)] for bits, order in zip(tasks, orders, strict=True)]
        tops.append(np.sum(mixed, axis=0)[above].max())
    return float(np.quantile(tops, 1 - CHANCE))


def find(
    sources: Sequence[str], progress: Callable[[Iterable[int]], Iterable[int]] = iter
) -> Similar:
    """Return the pairs of a class that stand out.

    Args:
        sources: the files' texts; an empty one is compared with nothing.
        progress: wraps the loop over the tasks (tqdm).
    """
    texts = [parts(source) if source else {} for source in sources]
    kept = [i for i, t in enumerate(texts) if t]
    if len(kept) < FEWEST or not available():
        return Similar([], 0.0, len(kept))
    stub = parts((ROOT / "lab15_grpo.py").read_text(encoding="utf-8"))
    likeness, odd = {}, []
    for number in progress(TASKS):
        both = []
        for length, structure in ((STRUCTURE, True), (TEXT, False)):
            given = fingerprints(stub[number], length, structure)
            cache = {t: fingerprints(t, length, structure) - given
                     for t in {texts[i].get(number, "") for i in kept}}
            both.append(alike([cache[texts[i].get(number, "")] for i in kept]))
        likeness[number] = (both[0] + both[1]) / 2
        odd.append(surprise(likeness[number]))
    bits, bound = np.sum(odd, axis=0), limit(odd)
    pairs = [
        Pair(kept[i], kept[j], float(bits[i, j]),
             {n: max(0.0, float(likeness[n][i, j])) for n in TASKS})
        for i, j in zip(*np.triu_indices(len(kept), 1), strict=True)
        if bits[i, j] > bound
    ]
    pairs.sort(key=lambda p: (-p.bits, p.one, p.other))
    return Similar(pairs, bound, len(kept))
