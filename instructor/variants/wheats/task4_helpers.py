# ruff: noqa: F821, D103, E402, I001, UP, B
"""Helpers that the student added, stats in a function under no_grad, extra keys."""
def _mean_per_response(x, mask):
    return ((x * mask).sum(1) / mask.sum(1)).mean()


@torch.no_grad()
def _stats(rho, k3, un, cl, mask):
    n = mask.sum()
    return dict(
        kl=float((k3 * mask).sum() / n),
        clip_frac=float(((cl < un).float() * mask).sum() / n),
        ratio_max=float(rho[mask == 1].max()),
        ratio_min=float(rho[mask == 1].min()),
    )


def grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps: float = 0.2, beta: float = 0.04):
    rho = torch.exp(logp - old_logp.detach())
    un = torch.einsum("bt,b->bt", rho, adv)
    cl = torch.einsum("bt,b->bt", rho.clamp(1 - clip_eps, 1 + clip_eps), adv)
    k3 = k3_kl(logp, ref_logp.detach())
    loss = beta * _mean_per_response(k3, mask) - _mean_per_response(torch.min(un, cl), mask)
    return loss, _stats(rho, k3, un, cl, mask)
