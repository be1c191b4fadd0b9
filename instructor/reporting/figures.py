"""The figures of the class report, as plain data for the template."""

import statistics
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.labfile import TASKS

from ..submissions.intake import NOTHING
from . import anonymous, copies, doubt, similar
from .load import Found, Record, lab_text

SLOWEST = 10  # students listed by name (or label) with their time
MOST_PAIRS, MOST_NAMES = 30, 100


def bars(counts: Sequence[tuple[str, int]], whole: int | None = None) -> list[dict]:
    """Return the lines of a chart: what it is, how many, its length from 0 to 100, its share.

    The longest bar is the largest count, or whole.
    """
    top = whole or max([n for _, n in counts], default=0) or 1
    total = whole or sum(n for _, n in counts) or 1
    return [{"name": name, "count": n, "length": round(100 * n / top, 1),
             "note": f"{100 * n / total:.0f}%"} for name, n in counts]


def spread(values: Sequence[float]) -> dict[str, str]:
    """Return mean, median and the like of some points, as text; {} if there are none."""
    if not values:
        return {}
    quarters = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else []
    names = ["lower quarter", "median", "upper quarter"]
    found = dict(zip(names, quarters or [values[0]] * 3, strict=True))
    found = {"lowest": min(values), **found, "highest": max(values),
             "mean": statistics.fmean(values)}
    return {name: f"{value:.4g}" for name, value in found.items()}


def totals(records: Sequence[Record], most: float) -> dict[str, Any]:
    """Return the distribution of the total points, a line for each point."""
    steps = range(int(most) + 1)
    counts = Counter(min(int(r.score), int(most)) for r in records)
    names = {i: f"{i} to below {i + 1}" for i in steps} | {int(most): f"{most:g} (all)"}
    return {"bars": bars([(names[i], counts[i]) for i in steps]),
            "spread": spread([r.score for r in records])}


def of_task(records: Sequence[Record], number: int) -> dict[str, Any]:
    """Return the distribution of a task's points: none, four steps between, all."""
    task, most = TASKS[number], max(r.tasks[number].most for r in records)
    edges = ["none", "up to a quarter", "up to half", "up to three quarters", "below all", "all"]
    counts: Counter = Counter()
    for r in records:
        score = r.tasks[number].score
        share = score / most if most else 0
        step = 0 if share <= 0 else 5 if share >= 1 else 1 + min(3, int(share * 4 - 1e-9))
        counts[edges[step]] += 1
    states = Counter(r.tasks[number].state or "not said" for r in records)
    return {
        "number": number, "name": task.name, "most": f"{most:g}", "section": task.section,
        "bars": bars([(e, counts[e]) for e in edges], len(records)),
        "spread": spread([r.tasks[number].score for r in records]),
        "states": dict(sorted(states.items())),
    }


# ---------------------------------------------------------------- mistakes


def known(name: str) -> tuple[str, int | None]:
    """Return (text, chapter section or None) of a mistake."""
    from tests.messages.explain import MISTAKES

    return MISTAKES[name].text, MISTAKES[name].section


def lost(record: Record, number: int) -> bool:
    """Return whether a student has lost points in a task."""
    return record.tasks[number].score < record.tasks[number].most


def believed(record: Record, number: int) -> dict[str, bool]:
    """Return {a task's mistake that counts: whether the hidden tests confirm it}.

    They come out of the sandbox, where a student's file can invent any; see doubt.py.
    """
    task = record.tasks[number]
    if not lost(record, number):
        return {}
    return doubt.believed(number, task.mistakes, [n for n, good in task.hidden.items() if not good])


def by_mistake(records: Sequence[Record]) -> dict[tuple[str, int], list[tuple[Record, bool]]]:
    """Return who made which mistake in which task, and whether the hidden tests confirm it."""
    found: dict[tuple[str, int], list[tuple[Record, bool]]] = {}
    for r in records:
        for number in r.tasks:
            for name, sure in believed(r, number).items():
                found.setdefault((name, number), []).append((r, sure))
    return found


def example(name: str, number: int, who: Sequence[Record], label: Mapping[str, str]) -> dict:
    """Return one student's message and function: of one with few other mistakes and lines.

    Args:
        name: id of the mistake.
        number: of the task.
        who: records of the students who made it.
        label: {student: what the page calls them}.
    """
    text = " ".join(known(name)[0].split())[:40]

    def shown(r: Record) -> tuple:
        return (len(r.tasks[number].mistakes), label[r.student])

    best: dict = {}
    for r in sorted(who, key=shown)[:8]:
        code = anonymous.code(lab_text(r), number, r.student)
        blocks = [b for b in r.tasks[number].public.split("\n\n") if b.strip()]
        blocks.sort(key=lambda b: text not in " ".join(b.split()))
        message = anonymous.message(blocks[0], r.student) if blocks else ""
        found = {"student": label[r.student], "code": code, "message": message}
        better = bool(code) > bool(best.get("code"))
        if not best or better or (code and len(code) < len(best["code"])):
            best = found
    return best


def mistakes(records: Sequence[Record], label: Mapping[str, str]) -> list[dict]:
    """Return the mistakes, the most frequent first."""
    found = []
    for (name, number), those in by_mistake(records).items():
        text, section = known(name)
        who = [r for r, sure in those if sure] or [r for r, _ in those]
        found.append({
            "name": name, "text": text, "count": len(those), "task": number,
            "sure": sum(sure for _, sure in those),
            "function": TASKS[number].name, "section": section or TASKS[number].section,
            "length": round(100 * len(those) / len(records), 1),
            "example": example(name, number, who, label),
        })
    return sorted(found, key=lambda m: (-m["count"], m["task"], m["name"]))


def lesson(records: Sequence[Record], listed: Sequence[dict]) -> dict[str, Any]:
    """Return what to teach again: the task in which most students lost points, and why.

    Args:
        records: of those who handed in a file.
        listed: see mistakes.
    """
    count = {n: sum(lost(r, n) for r in records) for n in TASKS}
    points = {n: sum(r.tasks[n].most - r.tasks[n].score for r in records) for n in TASKS}
    number = max(TASKS, key=lambda n: (count[n], points[n]))
    if not count[number]:
        return {}
    causes = [{k: m[k] for k in ("name", "text", "count", "sure")} for m in listed
              if m["task"] == number]
    states = Counter(r.tasks[number].state for r in records if lost(r, number))
    without = sum(not believed(r, number) and r.tasks[number].state in ("written", "")
                  for r in records if lost(r, number))
    words = {"unwritten": "not written", "missing": "function missing", "broken": "broken file"}
    rest = [(words[s], states[s]) for s in words if states[s]]
    rest += [("a mistake without a name", without)] * bool(without)
    behind = [f"{m['name']}: {m['count']}" for m in causes[:3]]
    behind += [f"{len(causes) - 3} more mistake{'s' * (len(causes) > 4)}"] * (len(causes) > 3)
    behind += [f"{name}: {n}" for name, n in rest]
    return {"section": TASKS[number].section, "task": number, "count": count[number],
            "function": TASKS[number].name, "text": "; ".join(behind), "causes": causes,
            "rest": rest}


# ---------------------------------------------------------------- the rest


def hidden(records: Sequence[Record]) -> list[dict]:
    """Return every hidden test with how many passed it; the hardest first in each task."""
    found = []
    for number in TASKS:
        passed: Counter = Counter()
        asked: Counter = Counter()
        for r in records:
            if r.tasks[number].state in ("written", ""):
                for name, good in r.tasks[number].hidden.items():
                    asked[name] += 1
                    passed[name] += good
        for name in sorted(asked, key=lambda n: (passed[n] / asked[n], n)):
            word = {0: "nobody passes", asked[name]: "everybody passes"}.get(passed[name], "")
            found.append({"task": number, "name": name, "passed": passed[name],
                          "asked": asked[name], "word": word,
                          "length": round(100 * passed[name] / asked[name], 1)})
    return found


def times(records: Sequence[Record], label: Mapping[str, str]) -> dict[str, Any]:
    """Return the distribution of the seconds that grading took, and who took longest."""
    taken = sorted(((r.seconds, label[r.student]) for r in records if r.seconds is not None),
                   reverse=True)
    edges = [1, 2, 5, 10, 30, 60]
    between = [f"{a} to below {b} s" for a, b in zip(edges, edges[1:])]
    names = ["below 1 s", *between, "60 s or more"]
    counts = Counter(sum(s >= e for e in edges) for s, _ in taken)
    return {
        "bars": bars([(names[i], counts[i]) for i in range(len(names))]),
        "spread": spread([s for s, _ in taken]),
        "sum": f"{sum(s for s, _ in taken):.0f}",
        "slowest": [{"student": who, "seconds": f"{s:.1f}"} for s, who in taken[:SLOWEST]],
    }


def rows(records: Sequence[Record], label: Mapping[str, str]) -> list[dict]:
    """Return a line for every student: points by task, total, seconds."""
    return sorted(({
        "student": label[r.student], "points": [f"{r.tasks[n].score:g}" for n in TASKS],
        "total": f"{r.score:g}", "final": f"{r.final:g}",
        "seconds": "" if r.seconds is None else f"{r.seconds:.1f}",
    } for r in records), key=lambda row: row["student"])


def states(found: Found, label: Mapping[str, str]) -> list[dict]:
    """Return who handed in nothing, a broken file, late, and what else needs a look."""
    here = [r for r in found.records if r.handed_in]
    without = [r for r in found.records if not r.handed_in]
    nothing = [r for r in without if not r.notes or any(NOTHING in note for note in r.notes)]

    def who(records: Iterable[Record]) -> list[str]:
        return sorted(label[r.student] for r in records)

    def other(students: Sequence[str]) -> list[str]:
        return [label.get(s, "(see the command's output)") for s in students]

    return [
        {"name": "nothing handed in", "who": who(nothing)},
        {"name": "handed in, but there was no file to grade (reasons in scores.csv)",
         "who": who(r for r in without if r not in nothing)},
        {"name": "no result yet: not graded, or the grader could not look",
         "who": other(found.ungraded)},
        {"name": "in the class no more; not counted on this page", "who": other(found.withdrawn)},
        {"name": "handed in, nothing written in it",
         "who": who(r for r in here if all(t.state == "unwritten" for t in r.tasks.values()))},
        {"name": "broken file (an error in at least one task)",
         "who": who(r for r in here if any(t.state == "broken" for t in r.tasks.values()))},
        {"name": "a function is missing or has another name",
         "who": who(r for r in here if any(t.state == "missing" for t in r.tasks.values()))},
        {"name": "late", "who": who(r for r in found.records if r.late)},
        {"name": "found in more than one place; one result counts",
         "who": sorted(label[s] for s in found.repeated)},
    ]


def by_hand(records: Sequence[Record], label: Mapping[str, str], names: bool) -> dict[str, Any]:
    """Return what was changed by hand, which no other figure of the page contains.

    Args:
        records: of all students.
        label: what they are called on the page.
        names: whether reasons, which an instructor has written, may be shown.
    """
    lines = [
        {"student": label[r.student], "where": h.where, "before": f"{h.before:g}",
         "after": f"{h.after:g}", "reason": h.reason if names else ""}
        for r in records for h in r.by_hand
    ]
    late = [r.penalty for r in records if r.penalty]
    return {
        "lines": sorted(lines, key=lambda line: (line["student"], line["where"])),
        "students": sum(bool(r.by_hand) for r in records),
        "up": sum(h.after > h.before for r in records for h in r.by_hand),
        "down": sum(h.after < h.before for r in records for h in r.by_hand),
        "late": len(late), "off": f"{sum(late):g}",
    }


def groups(records: Sequence[Record], label: Mapping[str, str]) -> tuple[dict, list[int]]:
    """Return (groups of files that are the same, one place of each group and of each other)."""
    found = copies.find([lab_text(r) for r in records])

    def who(places: Sequence[int]) -> str:
        names = sorted(label[records[i].student] for i in places)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return ", ".join(names[:MOST_NAMES]) + more

    def shown(group: copies.Group) -> dict[str, Any]:
        return {"count": len(group.members), "who": who(group.members), "room": group.room,
                "identical": group.identical, "exact": [who(some) for some in group.exact],
                "tasks": "unknown" if group.tasks == [0] else ", ".join(map(str, group.tasks))}

    doubles = {i for group in found.groups for i in group.members[1:]}
    single = [i for i in range(len(records)) if i not in doubles]
    return {"groups": [shown(g) for g in found.groups], "small": [shown(g) for g in found.small],
            "room": copies.ROOM}, single


def pairs(records: Sequence[Record], label: Mapping[str, str],
          progress: Callable = iter) -> dict[str, Any]:
    """Return the files that are the same, and pairs that are more alike than the class explains.

    Args:
        records: of the class.
        label: {student: what the page calls them}.
        progress: wraps the loop over the tasks (tqdm).
    """
    same, single = groups(records, label)
    records = [records[i] for i in single]  # of files that are the same, one is compared
    found = similar.find([lab_text(r) for r in records], progress)
    listed = [
        {"one": label[records[p.one].student], "other": label[records[p.other].student],
         "bits": f"{p.bits:.0f}", "tasks": {n: f"{100 * v:.0f}" for n, v in p.tasks.items()}}
        for p in found.pairs[:MOST_PAIRS]
    ]
    return same | {"pairs": listed, "more": len(found.pairs) - len(listed), "files": found.files,
                   "limit": f"{found.limit:.0f}", "fewest": similar.FEWEST,
                   "available": similar.available(),
                   "count": found.files * (found.files - 1) // 2}


def everything(found: Found, label: Mapping[str, str], progress: Callable = iter,
               names: bool = False) -> dict:
    """Return all that the page shows.

    Args:
        found: the results.
        label: what each student is called on the page.
        progress: wraps the loop that takes longest (tqdm).
        names: whether the page may tell who is who.
    """
    here = [r for r in found.records if r.handed_in]
    most = sum(t.most for t in found.records[0].tasks.values()) if found.records else 10
    context: dict[str, Any] = {
        "students": len(found.records), "files": len(here), "most": f"{most:g}",
        "unreadable": len(found.broken), "states": states(found, label),
        "reasons": sorted(Counter(why for _, why in found.broken).items()),
        "versions": sorted(Counter(r.version or "not said" for r in here).items()),
        "hand": by_hand(found.records, label, names), "lesson": {},
        "mixed": len({r.hidden_hash for r in found.records}) > 1,
    }
    if here:
        listed = mistakes(here, label)
        named = sum(len(set(r.tasks[n].mistakes)) for r in here for n in TASKS)
        counted, sure = (sum(m[key] for m in listed) for key in ("count", "sure"))
        tests = hidden(here)
        context |= {
            "mistakes": listed, "invented": named - counted, "counted": counted, "sure": sure,
            "share": f"{100 * sure / max(1, counted):.0f}%", "most_names": doubt.MOST,
            "lesson": lesson(here, listed), "totals": totals(here, most),
            "tasks": [of_task(here, n) for n in TASKS], "hidden": tests,
            "nobody": sum(t["passed"] == 0 for t in tests),
            "everybody": sum(t["passed"] == t["asked"] for t in tests),
            "times": times(here, label), "similar": pairs(here, label, progress),
            "rows": rows(found.records, label),
        }
    return context
