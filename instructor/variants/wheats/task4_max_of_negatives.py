# ruff: noqa: F821, D103, E402, I001, UP, B
"""PPO's usual form: the larger of the two negated terms, KL added."""
def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    def masked_mean(x):
        return ((x * mask).sum(dim=1) / mask.sum(dim=1).clamp(min=1.0)).mean()

    rho = torch.exp(logp - old_logp)
    first = -adv.view(-1, 1) * rho
    second = -adv.view(-1, 1) * torch.clamp(rho, min=1.0 - clip_eps, max=1.0 + clip_eps)
    k3 = k3_kl(logp=logp, ref_logp=ref_logp)
    loss = masked_mean(torch.maximum(first, second)) + beta * masked_mean(k3)
    with torch.no_grad():
        n = mask.sum()
        stats = {
            "kl": ((k3 * mask).sum() / n).item(),
            "clip_frac": (((second > first) * mask).sum() / n).item(),
            "ratio_max": rho.masked_fill(mask == 0, float("-inf")).max().item(),
        }
    return loss, stats
