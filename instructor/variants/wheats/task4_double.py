# ruff: noqa: F821, D103, E402, I001, UP, B
"""float64 inside, padding set to harmless numbers first."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    keep = mask > 0.5
    logp = torch.where(keep, logp.double(), 0.0)
    old_logp = torch.where(keep, old_logp.double(), 0.0)
    ref_logp = torch.where(keep, ref_logp.double(), 0.0)
    A = adv.double()[:, None]
    rho = torch.exp(logp - old_logp)
    terms = torch.stack([rho * A, rho.clamp(1 - clip_eps, 1 + clip_eps) * A])
    k3 = k3_kl(logp, ref_logp)
    per_token = terms.min(dim=0).values
    per_token = torch.where(keep, per_token - beta * k3, 0.0)
    lengths = keep.sum(1)
    loss = -(per_token.sum(1) / lengths).sum() / len(lengths)
    n = int(lengths.sum())
    return loss.float(), {
        "kl": float(k3.sum().detach()) / n,
        "clip_frac": int(((terms[1] < terms[0]) & keep).sum()) / n,
        "ratio_max": float(rho[keep].max().detach()),
    }
