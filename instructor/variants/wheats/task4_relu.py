# ruff: noqa: F821, D103, E402, I001, UP, B
"""The min as the first term minus what it exceeds the second by; a list is returned."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    A = adv.reshape(len(adv), 1)
    rho = torch.exp(logp) / torch.exp(old_logp)
    un = rho * A
    cl = torch.max(torch.min(rho, torch.tensor(1 + clip_eps)), torch.tensor(1 - clip_eps)) * A
    k3 = k3_kl(logp, ref_logp)
    obj = un - F.relu(un - cl) - beta * k3
    counts = mask.sum(1)
    losses = [-(obj[i] * mask[i]).sum() / counts[i] for i in range(len(adv))]
    loss = torch.stack(losses).mean()
    n = counts.sum().item()
    stats = {"kl": (k3 * mask).sum().item() / n, "ratio_max": (rho * mask).max().item()}
    stats["clip_frac"] = ((cl - un) * mask < 0).sum().item() / n
    return [loss, stats]
