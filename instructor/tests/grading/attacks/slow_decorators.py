# ruff: noqa
"""Spends what a file may take, in decorators, in defaults and in a class: nothing is left."""

import time


def slowly(function):
    time.sleep(6)
    return function


@slowly
def sample_group(*args, **kwargs):
    return None


@(
    slowly
)
def group_advantages(*args, **kwargs):
    return args[0]


def k3_kl(logp, ref_logp, wait=sum(time.sleep(1) or 1 for _ in range(9))):
    return logp


class Slow:
    sum(iter(int, 1))


grpo_loss = grpo_step = Slow
