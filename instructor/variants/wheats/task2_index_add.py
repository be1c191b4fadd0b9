# ruff: noqa
"""Group means by index_add on float32 tensors of its own."""


def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    n = rewards.shape[0]
    gid = torch.div(torch.arange(n), G, rounding_mode="floor")
    mean = torch.zeros(n // G).index_add(0, gid, rewards) / G
    diff = rewards - mean[gid]
    var = torch.zeros(n // G).index_add(0, gid, diff ** 2) / G
    return diff / (var.sqrt()[gid] + eps) if scale_std else diff
