# ruff: noqa: F821, D103, E402, I001, UP, B
"""k3 written out; min of the two terms by where; stats from detached copies."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    d = ref_logp - logp
    k3 = torch.exp(d) - d - 1
    rho = (logp - old_logp).exp()
    a = adv[:, None]
    one = rho * a
    two = torch.clamp(rho, 1 - clip_eps, 1 + clip_eps) * a
    obj = torch.where(one < two, one, two) - beta * k3
    loss = -((obj * mask).sum(-1) / mask.sum(-1)).mean()
    real = mask.bool()
    stats = {
        "kl": k3.detach()[real].mean().item(),
        "clip_frac": (two < one)[real].float().mean().item(),
        "ratio_max": rho.detach()[real].max().item(),
    }
    return loss, stats
