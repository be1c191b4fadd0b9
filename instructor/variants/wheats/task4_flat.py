# ruff: noqa: F821, D103, E402, I001, UP, B
"""Flat lists of the real tokens with the row of each, collected by index_add."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    rows, columns = mask.nonzero(as_tuple=True)
    new, old, ref = (x[rows, columns] for x in (logp, old_logp, ref_logp))
    rho = (new - old).exp()
    a = adv[rows]
    un, cl = rho * a, rho.clamp(1 - clip_eps, 1 + clip_eps) * a
    k3 = k3_kl(new.unsqueeze(0), ref.unsqueeze(0)).squeeze(0)
    obj = torch.min(un, cl) - (beta * k3 if beta else 0.0)
    sums = torch.zeros(len(adv), dtype=obj.dtype, device=obj.device).index_add(0, rows, obj)
    loss = (sums / torch.bincount(rows, minlength=len(adv))).mean().neg()
    return loss, {
        "kl": k3.mean().item(),
        "clip_frac": cl.lt(un).float().mean().item(),
        "ratio_max": rho.max().item(),
    }
