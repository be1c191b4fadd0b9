# ruff: noqa: F821, D103, E402, I001, UP, B
"""Two helper functions that the student added, and an extra import inside."""
def _population_std(x):
    return ((x - x.mean(1, keepdim=True)) ** 2).mean(1, keepdim=True) ** 0.5


def _group(rewards, G):
    return rewards.reshape(len(rewards) // G, G)


def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    import math

    assert math.isfinite(eps)
    x = _group(rewards, G)
    adv = x - x.mean(1, keepdim=True)
    return (adv / (_population_std(x) + eps) if scale_std else adv).reshape(-1)
