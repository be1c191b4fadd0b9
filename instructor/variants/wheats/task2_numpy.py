# ruff: noqa: F821, D103, E402, I001, UP, B
"""numpy does the arithmetic."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    import numpy as np

    x = rewards.cpu().numpy().reshape(-1, G)
    adv = x - x.mean(axis=1, keepdims=True)
    if scale_std:
        adv = adv / (np.std(x, axis=1, keepdims=True) + eps)
    return torch.from_numpy(adv.reshape(-1)).to(rewards.device)
