# ruff: noqa: F821, D103, E402, I001, UP, B
"""The std as the root of the variance, reshape instead of view, an early return."""
def group_advantages(rewards: torch.Tensor, G: int, scale_std: bool = True, eps: float = 1e-4):
    x = rewards.reshape(-1, G)
    centred = x - x.mean(-1, keepdim=True)
    if not scale_std:
        return centred.flatten()
    return (centred / (x.var(-1, keepdim=True, correction=0).sqrt() + eps)).flatten()
