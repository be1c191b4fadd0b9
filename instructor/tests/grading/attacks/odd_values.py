# ruff: noqa
"""NaN, infinity, huge shapes and endless lists, where numbers are expected."""

import torch

TURN = iter(range(10**9))


def cheat(*args, **kwargs):
    values = [float("nan"), torch.full((6,), float("nan")), torch.zeros(0).expand(0, 10**9)]
    values += [torch.zeros(()).expand(10**9), 10**4000, {"out": None}, (torch.tensor(0.0), {})]
    loop = []
    loop.append(loop)
    values += [loop, [0] * 10**6, torch.zeros(3, dtype=torch.complex64), "x" * 10**8, b"x"]
    return values[next(TURN) % len(values)]


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
