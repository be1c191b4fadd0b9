"""Replacements for the functions of other tasks, used in the sandbox.

The student's code can read this file, so nothing in it resembles a solution: the loss, the k3
and the optimizer are odd on purpose, and known to the grader as well.
"""

import types
from collections import defaultdict

import torch
import torch.nn.functional as F


class Momentum(torch.optim.Optimizer):
    """SGD with momentum and a factor per parameter: no student would build the same.

    A step that makes its own optimizer instead of using the given one is noticed.

    Args:
        params: of the model.
        lr: learning rate, another one than cfg.lr.
    """

    def __init__(self, params, lr):
        # Not super().__init__: it imports torch's compiler, which takes a second.
        self.defaults, self.state = {"lr": lr}, defaultdict(dict)
        self.param_groups = [{"params": list(params), "lr": lr}]
        self.speed = [torch.zeros_like(p) for p in self.param_groups[0]["params"]]

    def zero_grad(self, set_to_none=True):
        """Clear the gradients."""
        for p in self.param_groups[0]["params"]:
            if set_to_none:
                p.grad = None
            elif p.grad is not None:
                p.grad.zero_()

    @torch.no_grad()
    def step(self, closure=None):
        """Do a step; return what the closure returns, if there is one."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        group = self.param_groups[0]
        for i, p in enumerate(group["params"]):
            if p.grad is not None:
                self.speed[i].mul_(0.6).add_(p.grad, alpha=1 + 0.1 * (i % 4))
                p -= group["lr"] * self.speed[i]
        return loss


def odd_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """Return (a number that depends on all seven arguments, a dict of three more).

    Args:
        logp: (B, T).
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,).
        mask: (B, T), 0 or 1.
        clip_eps: number.
        beta: number.
    """
    n = mask.sum() + 1.7
    old, ref = (logp - old_logp) * mask, (logp - ref_logp) * mask
    places = torch.arange(1, mask.shape[1] + 1) * mask
    value = (adv * (logp * mask).sum(1)).sum() - 7 * (clip_eps * old * old).sum()
    loss = (value + 3 * beta * (ref * ref).sum() + 0.1 * places.sum()) / n
    with torch.no_grad():
        kl = (ref.abs() * places).sum() / n + beta
        share = (old.abs().sum() + 0.3 * clip_eps) / n
        top = adv.abs().max() + mask.sum()
    return loss, {"kl": kl.item(), "clip_frac": share.item(), "ratio_max": top.item()}


def odd_reward(k):
    """Return an arbitrary rule for rewards; k is a number above 0."""

    def reward(response, answer):
        total = k + 3 * sum(map(ord, response)) + 5 * sum(map(ord, answer))
        return 1.0 if total % 7 < 3 else 0.0

    return reward


def odd_k3(a, b):
    """Return a function of two tensors, entry by entry; a and b are its two numbers."""

    def k3_kl(logp, ref_logp):
        d = logp - ref_logp
        return a * d * d + b * d * d * d

    return k3_kl


@torch.no_grad()
def token_entropy(model, out):
    """Return what the lab's token_entropy returns, for files that have lost theirs."""
    ids, L = out["ids"], out["prompt_len"]
    logp = F.log_softmax(model(ids[:, :-1])[:, L - 1 :], -1)
    entropy = -(logp.exp() * logp).sum(-1)
    return float((entropy * out["mask"]).sum() / out["mask"].sum().clamp(min=1.0))


def config(values):
    """Return a GRPOConfig with these values, which no version of the file can reject."""
    return types.SimpleNamespace(**values)


def model(tinylm, shape, state):
    """Return a TinyLM of this shape with these parameters; no random number is drawn for good.

    Args:
        tinylm: the module.
        shape: arguments of TinyLM.
        state: its state_dict.
    """
    with torch.random.fork_rng(devices=[]):
        result = tinylm.TinyLM(**shape)
    result.load_state_dict(state)
    return result
