# ruff: noqa: F821, D103, E402, I001, UP, B
"""torch.split into groups and torch.cat."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    parts = []
    for group in rewards.split(G):
        part = group - group.mean()
        if scale_std:
            part = part / (group.std(unbiased=False) + eps)
        parts.append(part)
    return torch.cat(parts)
