# ruff: noqa: F821, D103, E402, I001, UP, B
"""In-place arithmetic, but on a copy."""
@torch.no_grad()
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    adv = rewards.clone().view(-1, G)
    std = adv.std(1, unbiased=False, keepdim=True)
    adv -= adv.mean(1, keepdim=True)
    if scale_std:
        adv /= std.add_(eps)
    return adv.view(-1)
