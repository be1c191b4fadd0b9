# ruff: noqa
"""Thousands of statements, one endless iterator, and a call that lasts as long as it may."""

import itertools
import time

exec("a=1\n" * 9000)
try:
    found = list(itertools.count())
except MemoryError:
    pass


def cheat(*args, **kwargs):
    time.sleep(4.9)
    return args[0] if args else None


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
