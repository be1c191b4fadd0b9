# ruff: noqa: F821, D103, E402, I001, UP, B
"""Computed in float64, unsqueeze instead of keepdim, std_mean."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    x = rewards.double().unflatten(0, (-1, G))
    std, mean = torch.std_mean(x, dim=1, unbiased=False)
    divisor = std.unsqueeze(1) + eps if scale_std else 1.0
    return ((x - mean.unsqueeze(1)) / divisor).to(rewards.dtype).ravel()
