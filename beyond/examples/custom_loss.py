"""A loss of your own, in the two forms that --loss takes.

    python -m beyond.train_hf --loss beyond/examples/custom_loss.py:clipped_with_k1
    python -m beyond.train_hf --loss beyond/examples/custom_loss.py:CustomLoss --step ours

The second is the shape that guides to torchforge show. One of them adds beta * (ref - logp), which
is the wrong way round: it makes every sampled token likelier, whatever it was worth. The KL's
estimate is logp - ref. Both forms below are against the policy that sampled (old), not against ref.
"""

import torch
import torch.nn as nn


def clipped_with_k1(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.1):
    """Return (loss, stats): the clipped objective and beta times k1, averaged over all tokens.

    The trainer gives clip_eps and beta, and any of rows, tokens, groups that are named: here the
    number of tokens of the whole batch is not, so micro-batches are weighted by their rows.
    """
    rho = torch.exp(torch.where(mask.bool(), logp - old_logp, 0.0))
    A = adv.unsqueeze(1)
    objective = torch.min(rho * A, rho.clamp(1 - clip_eps, 1 + clip_eps) * A)
    k1 = torch.where(mask.bool(), logp - ref_logp, 0.0)
    loss = ((-objective + beta * k1) * mask).sum() / mask.sum().clamp(min=1)
    return loss, {"kl": float((k1.detach() * mask).sum() / mask.sum().clamp(min=1))}


class CustomLoss(nn.Module):
    """The same as a module with torchforge's names; advantages are (B, 1)."""

    def __init__(self, clip_range: float = 0.2, beta: float = 0.1):
        super().__init__()
        self.clip_range, self.beta = clip_range, beta

    def forward(self, logprobs, old_logprobs, ref_logprobs, advantages, padding_mask):
        """Return the loss."""
        loss, _ = clipped_with_k1(logprobs, old_logprobs, ref_logprobs, advantages.squeeze(1),
                                  padding_mask, self.clip_range, self.beta)
        return loss
