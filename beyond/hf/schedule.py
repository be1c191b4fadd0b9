"""The learning rate over optimizer steps, warm-up first."""

import math

import torch


def factor(step: int, total: int, warmup: int, kind: str) -> float:
    """Return the fraction of the peak learning rate at a step; steps count from 0.

    The first step of a warm-up over n steps has 1/n of the peak, never 0: it would do nothing.
    "cosine" and "linear" would reach 0 one step after the last.

    Args:
        step: 0 or more.
        total: optimizer steps of the whole training.
        warmup: steps in which the rate rises.
        kind: constant, cosine or linear.
    """
    if step < warmup:
        return (step + 1) / warmup
    if kind == "constant":
        return 1.0
    left = (step - warmup) / max(1, total - warmup)
    return 0.5 * (1 + math.cos(math.pi * left)) if kind == "cosine" else 1 - left


class Schedule:
    """Set an optimizer's learning rate before each step.

    Args:
        cfg: a GRPOConfig.
        opt: the optimizer.
        total: optimizer steps of the whole training.
    """

    def __init__(self, cfg, opt: torch.optim.Optimizer, total: int = 1):
        self.cfg, self.opt, self.total = cfg, opt, total

    def step(self, done: int) -> float:
        """Set and return the learning rate of the step after `done` steps."""
        cfg = self.cfg
        rate = cfg.learning_rate * factor(done, self.total, cfg.warmup_steps, cfg.schedule)
        for group in self.opt.param_groups:
            group["lr"] = rate
        return rate
