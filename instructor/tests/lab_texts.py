"""The text of the lab file, of its solution, and of damaged ones."""

from tests.labfile import ROOT, TASKS, cut, read_source, task_state

STUB = read_source(ROOT / "lab15_grpo.py")[0]
RIGHT = read_source(ROOT / "solutions" / "lab15_grpo.py")[0]
BANNER_4 = "# ============================================================== Task 4\n"


def edit(text, *changes):
    """Return the text with each (old, new) replaced; every old must be there exactly once."""
    for old, new in changes:
        assert text.count(old) == 1, f"{old!r} is there {text.count(old)} times"
        text = text.replace(old, new)
    return text


WRONG_SIGN = edit(RIGHT, ("    d = ref_logp - logp\n", "    d = logp - ref_logp\n"))


def section(text, number):
    """Return the lines of one task as text."""
    part = next(part for part in cut(text) if part[0] == number)
    return "\n".join(text.split("\n")[slice(*part[1:])])


def at(text, words):
    """Return "line 62" for the first line of the text that holds the words."""
    return f"line {text[: text.index(words)].count(chr(10)) + 1}"


def kinds(lab):
    """Return the five states' kinds, shortened to one letter each."""
    return "".join(task_state(lab, n).kind[0] for n in TASKS)
