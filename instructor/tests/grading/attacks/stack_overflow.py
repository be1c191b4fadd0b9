# ruff: noqa
"""Recursion without a limit, in Python and in C: the process ends by a signal."""

import ctypes
import sys

sys.setrecursionlimit(2**31 - 1)
TURN = iter(range(10**9))


def deep(n=0):
    return deep(n + 1) + repr([n])


def cheat(*args, **kwargs):
    turn = next(TURN) % 3
    if turn == 0:
        deep()
    if turn == 1:
        ctypes.string_at(0)
    nested = []
    for _ in range(10**6):
        nested = [nested]
    return nested


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
