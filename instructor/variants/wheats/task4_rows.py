# ruff: noqa
"""Row by row, the real tokens picked by a boolean index."""

def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    total, n = 0.0, logp.size(0)
    ks, cs, rs = [], [], []
    for i in range(n):
        keep = mask[i] > 0
        lp, ol = logp[i][keep], old_logp[i][keep]
        r = torch.exp(lp - ol)
        k = k3_kl(lp, ref_logp[i][keep])
        u = r * adv[i]
        c = torch.clamp(r, min=1 - clip_eps, max=1 + clip_eps) * adv[i]
        total = total + (torch.min(u, c) - beta * k).mean()
        ks.append(k.detach()); cs.append((c < u).float()); rs.append(r.detach())
    return -total / n, {"kl": torch.cat(ks).mean().item(), "clip_frac": torch.cat(cs).mean().item(), "ratio_max": torch.cat(rs).max().item()}
