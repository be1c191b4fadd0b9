"""Answers to the two bonus exercises of beyond/bonus.py."""

import torch


def dapo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *, clip_high=0.28, G=8):
    """DAPO's loss; see beyond/bonus.py for the arguments."""
    A = adv.unsqueeze(1)  # (B, 1)
    rho = torch.exp(logp - old_logp)  # (B, T)
    unclipped = rho * A
    clipped = rho.clamp(1 - clip_eps, 1 + clip_high) * A
    obj = torch.min(unclipped, clipped)
    of_group = (obj * mask).view(-1, G * mask.shape[1]).sum(1)  # (P,): all tokens of a prompt
    tokens = mask.view(-1, G * mask.shape[1]).sum(1).clamp(min=1)  # (P,)
    loss = -(of_group / tokens).mean()
    with torch.no_grad():
        clip_frac = ((clipped < unclipped) * mask).sum() / mask.sum().clamp(min=1)
        ratio_max = (rho * mask).max()
    return loss, {"kl": mean_k3(logp, ref_logp, mask), "clip_frac": float(clip_frac),
                  "ratio_max": float(ratio_max)}


def gspo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=3e-4, beta=0.0, *, clip_high=4e-4):
    """GSPO's loss; see beyond/bonus.py for the arguments."""
    length = mask.sum(1)  # (B,)
    mean_change = ((logp - old_logp) * mask).sum(1) / length.clamp(min=1)  # the log of s
    s = torch.exp(mean_change)  # (B,)
    unclipped = s * adv
    clipped = s.clamp(1 - clip_eps, 1 + clip_high) * adv
    real = length > 0
    loss = -(torch.min(unclipped, clipped) * real).mean()  # an empty one counts, and adds 0
    with torch.no_grad():
        clip_frac = (clipped < unclipped).float().mean()
        ratio_max = (s * real).max()
    return loss, {"kl": mean_k3(logp, ref_logp, mask), "clip_frac": float(clip_frac),
                  "ratio_max": float(ratio_max)}


@torch.no_grad()
def mean_k3(logp, ref_logp, mask):
    """Return the mean k3 over all real tokens as a float."""
    from beyond.losses.pieces import k3  # yours from Task 3, with an option or two

    return float((k3(logp, ref_logp) * mask).sum() / mask.sum().clamp(min=1))
