# ruff: noqa
"""Ignores every signal that can be ignored, and catches everything."""

import signal

for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGHUP, signal.SIGXCPU):
    signal.signal(number, signal.SIG_IGN)


def cheat(*args, **kwargs):
    while True:
        try:
            while True:
                pass
        except BaseException:
            pass


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
