# ruff: noqa: F821, D103, E402, I001, UP, B
"""Loops over groups and over rewards, no view."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    result = []
    for start in range(0, len(rewards), G):
        group = [float(r) for r in rewards[start : start + G]]
        mean = sum(group) / G
        std = (sum((r - mean) ** 2 for r in group) / G) ** 0.5
        for r in group:
            result.append((r - mean) / (std + eps) if scale_std else r - mean)
    return torch.tensor(result)
