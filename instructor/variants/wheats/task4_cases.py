# ruff: noqa: F821, D103, E402, I001, UP, B
"""The min written as cases: where the clip binds, the term is a constant."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    B, T = logp.shape
    A = adv.unsqueeze(-1).expand(B, T)
    rho = torch.exp(logp - old_logp)
    binds = ((A > 0) & (rho > 1 + clip_eps)) | ((A < 0) & (rho < 1 - clip_eps))
    constant = torch.where(A > 0, 1 + clip_eps, 1 - clip_eps) * A
    surrogate = torch.where(binds, constant, rho * A)
    k3 = k3_kl(logp, ref_logp)
    weight = mask / mask.sum(1, keepdim=True) / B
    loss = (weight * (beta * k3 - surrogate)).sum()
    n = mask.sum()
    return loss, {
        "kl": float((k3 * mask).sum().detach() / n),
        "clip_frac": float((binds * mask).sum() / n),
        "ratio_max": float((rho * mask).max().detach()),
    }
