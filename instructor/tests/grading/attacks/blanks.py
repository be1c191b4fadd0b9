# ruff: noqa
"""Says things of 150,000 blanks, newlines and accents: what works on them must be linear."""

SIZE = 150_000
WORDS = [" " * SIZE + "\n", "\n" * SIZE, "a" + "\u0301" * SIZE, "-" * SIZE, "[" * SIZE, " \n" * SIZE]


class Long(Exception):
    def __str__(self):
        return "".join(WORDS)


def cheat(*args, **kwargs):
    raise type(WORDS[0][:999] + "Error", (Exception,), {})("".join(WORDS))


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
import sys

frame = sys._getframe()
while frame is not None:  # the worker's own reply, with words of that length in it
    for value in list(frame.f_locals.values()):
        if type(value).__name__ == "_Source":
            for word in WORDS:
                problem = type("P", (), {"task": None, "line": None, "text": word + "x" + word})
                value.problems.append(problem())
    frame = frame.f_back
raise Long
