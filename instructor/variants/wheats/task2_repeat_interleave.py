# ruff: noqa: F821, D103, E402, I001, UP, B
"""Flat all the time: the group's mean and std are repeated for each of its rewards."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    P = rewards.numel() // G
    mean = rewards.view(P, G).mean(1).repeat_interleave(G)
    adv = rewards - mean
    scale = (adv.square().view(P, G).sum(1) / G).sqrt().repeat_interleave(G) + eps
    return torch.where(torch.tensor(scale_std, device=rewards.device), adv / scale, adv)
