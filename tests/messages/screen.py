"""Show failing tests on one screen: one message in full, the others counted by their cause.

One wrong line makes many tests fail. `lines` puts the message that names the cause best in front,
counts the tests that fail for the same reason, and names briefly what else is wrong. conftest.py
(`python -m pytest`), watch.py and notebook.py use it, so all three show the same.
"""

import re
import textwrap
from typing import NamedTuple

from tests.labfile import TASKS

WIDTH, NARROWEST = 80, 40  # columns
LABEL = re.compile(r"(expected|yours|likely) {2,}(?=\S)")
INDENT = 10  # columns of "expected  "
MOST = 8  # other reasons that are shown
PRINTED = 8  # lines of what the student's code printed

# How well a message names its cause, the best first.
ENDLESS = 0  # the time limit stopped the code at this line
NAMED = 1  # a known mistake gives just these numbers
RAISED = 2  # a line of the student's file raised an exception
GENERAL = 3  # None, a wrong type, a wrong shape
UNKNOWN = 4  # wrong numbers that no known mistake gives


class Failure(NamedTuple):
    """A failing test, as plain data, so that it can travel from process to process.

    task: its task, or 0.
    test: its name, such as "test_task1_works_for_other_sizes[3-3]".
    text: the whole message.
    rank: ENDLESS to UNKNOWN.
    cause: the same text for all tests that fail for the same reason.
    short: the cause in a sentence; of an UNKNOWN one the values that differ.
    raised: the `cause` that the student's exception behind a NAMED failure has by itself, or "".
    printed: what the student's code printed during the test.
    """

    task: int
    test: str
    text: str
    rank: int = UNKNOWN
    cause: str = ""
    short: str = ""
    raised: str = ""
    printed: str = ""


# ============================================================== groups


def groups(failures, focus=None):
    """Return lists of failures with the same cause, the one to be shown in full first.

    Args:
        failures: Failures, in the order of the tests.
        focus: the task that comes first; None: the first one that fails.
    """
    names = {f.raised: f.cause for f in failures if f.rank == NAMED and f.raised}
    found = {}
    for failure in failures:
        found.setdefault(names.get(failure.cause, failure.cause), []).append(failure)
    for group in found.values():
        group.sort(key=lambda f: f.rank)  # stable: the first of the best

    def order(group):
        task = min(f.task or len(TASKS) + 1 for f in group)
        return task != focus, task, group[0].rank, -len(group)

    return sorted(found.values(), key=order)


def lines(failures, width=WIDTH, focus=None):
    """Return the lines that report the failures.

    Args:
        failures: Failures, in the order of the tests.
        width: columns of the screen; more than WIDTH are not used.
        focus: as for groups.
    """
    if not failures:
        return []
    width = max(min(width, WIDTH), NARROWEST)
    first, *others = groups(failures, focus)
    told = [_rule(first[0].test, width), *wrap(first[0].text, width)]
    told += printed(first[0].printed, width)
    if len(first) > 1:
        told += _same(first, width)
    sure = {group[0].task for group in [first, *others] if group[0].rank < GENERAL}
    # What a known mistake in the same task may well explain is no reason of its own.
    vague = [g for g in others if g[0].rank == UNKNOWN or
             (g[0].rank == GENERAL and g[0].task in sure)]
    known = [group for group in others if group not in vague]
    more = [line for group in known[:MOST] for line in _other(group, width)]
    if rest := known[MOST:]:
        more.append(f"... {len(rest)} more reason{'s' * (len(rest) != 1)} "
                    f"({_tests(sum(map(len, rest)))}), see -v")
    for task in dict.fromkeys(group[0].task for group in vague):
        chosen = [group for group in vague if group[0].task == task]
        more += _vague(chosen, task, task in sure, width)
    told += [""] * bool(more) + more
    return [part for line in told for part in _wrapped(line, width)]


def _rule(name, width):
    """Return a line as pytest draws it over a failure."""
    return f" {name} ".center(width, "_") if len(name) + 4 <= width else name


def _same(group, width):
    """Return the line that counts the others of the group that is shown."""
    why = "for the same reason"
    if group[0].rank == UNKNOWN:
        why = "with the same result wrong"
    line = f"and {_more(len(group) - 1)}, {why}:"
    names = [short_name(f) for f in group[1:]]
    for count in range(len(names), 0, -1):  # as many as there is room for
        told = f"{line} {', '.join(names[:count])}{', ...' * (count < len(names))}"
        if len(told) <= width:
            return [told]
    return [line[:-1]]


def _other(group, width):
    """Return the lines for a group with a cause of its own."""
    more = f" and {_more(len(group) - 1)}" if len(group) > 1 else ""
    head = textwrap.wrap(f"for another reason: {group[0].test}{more}", width,
                         subsequent_indent="    ", break_on_hyphens=False)
    return head + _clipped(group[0].short, width, 3)


def _vague(chosen, task, sure, width):
    """Return the lines for failures without a known cause: the values that differ, counted.

    Args:
        chosen: groups of one task.
        task: its number, or 0.
        sure: whether another failure of the task has a known cause.
        width: columns of the screen.
    """
    count = sum(map(len, chosen))
    head = f"{_more(count)} {f'of task{task} ' * bool(task)}fail{'s' * (count == 1)}"
    told = [head + ("; perhaps for the same reason:" if sure
                    else "; which mistake it is, or which two, is not known here:")]
    for group in chosen[: MOST // 2]:
        told += _clipped(f"{_tests(len(group))}: {group[0].short}", width, 1 if sure else 2)
    if rest := chosen[MOST // 2:]:
        told.append(f"    ... {_more(sum(map(len, rest)))}, see -v")
    return told


def _clipped(text, width, most):
    """Return text as at most so many indented lines."""
    found = textwrap.wrap(text, width, initial_indent="    ", subsequent_indent="    ",
                          break_on_hyphens=False, max_lines=most, placeholder=" ...")
    return found or ["    (no message)"]


def _tests(count):
    return f"{count} test" + "s" * (count != 1)


def _more(count):
    return f"{count} more test" + "s" * (count != 1)


def short_name(failure):
    """Return the test's name without "test_task1_"."""
    return re.sub(r"^test_(task\d_)?", "", failure.test)


# ============================================================== lines


def wrap(text, width=WIDTH):
    """Return a message's lines, each at most `width` characters wide.

    A part with a label ("expected  ...") keeps its column, any other line is continued with an
    indent; lines that continue a part are joined first, so that no line is broken raggedly.
    """
    if max(map(len, text.split("\n"))) <= width:
        return text.split("\n")
    found, label = [], False
    for line in text.split("\n"):
        continues = label and line.startswith(" " * INDENT)
        label = continues or LABEL.match(line) is not None
        if continues:
            found[-1] += " " + line.strip()
        else:
            found.append(line)
    return [part for line in found for part in _wrapped(line, width)]


def _wrapped(line, width):
    if len(line) <= width:
        return [line]
    indent = len(line) - len(line.lstrip(" "))
    hanging = INDENT if LABEL.match(line) else min(indent + 4, width // 2)
    return textwrap.wrap(line, width, subsequent_indent=" " * hanging, break_on_hyphens=False,
                         drop_whitespace=True)


def printed(text, width=WIDTH):
    """Return the lines that show the end of what the student's code printed."""
    text = text.expandtabs(4).rstrip()
    if not text:
        return []
    every = text.split("\n")
    last = every[-PRINTED:]
    part = f" (the last {PRINTED} of {len(every)} lines)" if len(every) > PRINTED else ""
    return ["", f"your code printed{part}", *(f"    {_cut(plain(s), width - 4)}" for s in last)]


def _cut(line, room):
    return line if len(line) <= room else line[: room - 4] + " ..."


def plain(line):
    """Return a line with what no terminal can show, or what moves its cursor, as Python has it."""
    return re.sub("[^ -~]", lambda match: ascii(match[0])[1:-1], line)


def reading(n):
    """Return the line that says what to read for a task."""
    return f"Read: chapter.md section {TASKS[n].section}"


def lab_option(path):
    """Return " --lab=FILE" as it has to be typed, or "" for None."""
    if path is None:
        return ""
    return f' --lab="{path}"' if " " in str(path) else f" --lab={path}"


def more_messages(failures, options=""):
    """Return the line that says how to see the messages that `lines` leaves out, or no line."""
    count, tasks = len(failures) - 1, {failure.task for failure in failures}
    if count < 1:
        return []
    chosen = f" -k task{tasks.pop()}" if len(tasks) == 1 and 0 not in tasks else ""
    words = f"{count} more message{'s' * (count != 1)}"
    return [f"{words}:  python -m pytest -v{chosen}{options}"]


def next_step(n, failures=(), options="", width=WIDTH):
    """Return the lines that say what to read and what to run next.

    Args:
        n: the task.
        failures: the Failures that `lines` reported.
        options: more of pytest's options, as typed.
        width: columns of the screen.
    """
    read = f"Read chapter.md section {TASKS[n].section}, then run:"
    run = f"python -m pytest -q -k task{n}{options}"
    both = [f"{read}  {run}"] if len(read) + len(run) + 2 <= width else [read, f"    {run}"]
    return both + more_messages(failures, options)
