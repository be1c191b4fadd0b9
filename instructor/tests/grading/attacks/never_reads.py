# ruff: noqa
"""Says it is ready, then neither reads nor answers."""

import time


def cheat(*args, **kwargs):
    while True:
        time.sleep(1)


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
time.sleep(3600)
