# ruff: noqa
"""Prints a gigabyte, by Python and past it."""

import os

for _ in range(1000):
    print("x" * 1_000_000)


def cheat(*args, **kwargs):
    for _ in range(1000):
        os.write(1, b"x" * 1_000_000)
        os.write(2, b"x" * 1_000_000)


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
