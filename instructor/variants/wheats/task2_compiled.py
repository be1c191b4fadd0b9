# ruff: noqa
"""Compiled: judged as it is written."""

@torch.compile(fullgraph=True)
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    groups = rewards.view(-1, G)
    adv = groups - groups.mean(1, keepdim=True)
    if scale_std:
        adv = adv / (torch.std(groups, 1, unbiased=False, keepdim=True) + eps)
    return adv.view(-1)
