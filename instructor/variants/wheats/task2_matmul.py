# ruff: noqa
"""Group means by a float32 matrix product."""


def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    P = len(rewards) // G
    M = torch.kron(torch.eye(P), torch.ones(G, G)) / G
    c = rewards - M @ rewards
    return c / ((M @ c.square()).sqrt() + eps) if scale_std else c
