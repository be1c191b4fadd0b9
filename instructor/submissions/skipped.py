"""Count what was not looked at in a student's files, so that every note gives a number."""

from collections import Counter
from collections.abc import Iterable, Sequence

from lab15_run import counted

from . import exports
from .listing import DEPTH, Item

DEEPEST = DEPTH + 2  # parts of a path in which litter is looked for
OTHERS = 6  # names of litter in a line


def words(skipped: Counter) -> str:
    """Return {(noun, what sets it apart): how many} as words for a student's note, or ""."""
    parts = [f"{counted(n, noun)} {rest}" for (noun, rest), n in sorted(skipped.items())]
    return f"not looked at: {', '.join(parts)}" if parts else ""


def without_litter(items: Sequence[Item], top: int = 1) -> tuple[list[Item], Counter]:
    """Return (the items that a student can have made, {name: how many} of the others).

    A folder that an operating system has made counts once, whatever is in it.

    Args:
        items: of a folder or a zip.
        top: the first part of a path that is looked at, 0 or 1; 1 leaves the names at the top.
    """
    beside: dict[tuple[str, ...], set[str]] = {}
    for item in items:
        beside.setdefault(item.parts[:-1], set()).add(item.parts[-1])
    kept, inside = [], set()
    litter: Counter = Counter()
    for item in items:
        parts = item.parts
        # A name in a zip can be of thousands of parts.
        if any(parts[:end] in inside for end in range(top + 1, min(len(parts), DEEPEST))):
            continue
        if top < len(parts) <= DEEPEST and exports.is_litter(parts[-1], beside[parts[:-1]]):
            litter[parts[-1] if parts[-1].lower() in exports.LITTER else "._*"] += 1
            inside.add(parts)
        else:
            kept.append(item)
    return kept, litter


def told(litter: Counter) -> list[str]:
    """Return the line that counts what was left out in the students' folders, if anything."""
    if not litter:
        return []
    names = [f"{name} ({n})" for name, n in litter.most_common(OTHERS)]
    more = len(litter) - len(names)
    return [f"left out in students' folders, as systems make them: {sum(litter.values())}: "
            f"{', '.join(names)}" + f" and {counted(more, 'other name')}" * (more > 0)]


def of_class(counts: Iterable[tuple[str, int]], shown) -> list[str]:
    """Return the line that counts what was not looked at in a class, if anything.

    Args:
        counts: (student, how many).
        shown: makes one text of names.
    """
    some = [(student, n) for student, n in counts if n]
    if not some:
        return []
    return [f"not looked at, as the notes of {counted(len(some), 'student')} say: "
            f"{sum(n for _, n in some)} files, folders or zips: {shown([s for s, _ in some])}"]
