# ruff: noqa: F821, D103, E402, I001, UP, B
"""Groups as columns, sample std corrected by its factor; a group of one is handled apart."""
def group_advantages(rewards, G, scale_std=True, eps=1e-4):
    columns = rewards.view(-1, G).T
    adv = columns - columns.mean(0)
    if scale_std and G > 1:
        adv = adv / (columns.std(0) * ((G - 1) / G) ** 0.5 + eps)
    return adv.T.reshape(-1)
