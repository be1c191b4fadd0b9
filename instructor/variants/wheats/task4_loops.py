# ruff: noqa: F821, D103, E402, I001, UP, B
"""One response after the other, only its real tokens."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    total = 0.0
    kls, clipped, ratios = [], [], []
    for i in range(logp.shape[0]):
        keep = mask[i] > 0
        rho = torch.exp(logp[i][keep] - old_logp[i][keep])
        k3 = k3_kl(logp[i][keep], ref_logp[i][keep])
        un = rho * adv[i]
        cl = rho.clip(1 - clip_eps, 1 + clip_eps) * adv[i]
        total = total + (torch.minimum(un, cl) - beta * k3).mean()
        kls += k3.tolist()
        clipped += [float(c < u) for c, u in zip(cl, un)]
        ratios += rho.tolist()
    stats = {
        "kl": sum(kls) / len(kls),
        "clip_frac": sum(clipped) / len(clipped),
        "ratio_max": max(ratios),
    }
    return -total / logp.shape[0], stats
