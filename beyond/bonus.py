"""Two bonus exercises, after the five tasks: DAPO's and GSPO's loss, from the papers' formulas.

Not graded. Each is marked WRITE HERE; both are your grpo_loss with two or three lines changed.
Test one at a time, from the top folder:

    python -m pytest -q beyond/tests/bonus -k bonus1
    python -m pytest -q beyond/tests/bonus -k bonus2

Another file: add --bonus=FILE. Answers: solutions/bonus.py. All others: beyond/losses/variants.py.
"""

import torch


# ============================================================== Bonus 1
def dapo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.0, *, clip_high=0.28, G=8):
    """DAPO's loss (arXiv 2503.14476, eq. 8, negated so we can minimize it).

    Args:
        logp: (B, T) log-probs of the sampled tokens under the current policy (with grad).
        old_logp: (B, T) log-probs under the policy that sampled them (no grad).
        ref_logp: (B, T) log-probs under the frozen reference; only for stats["kl"].
        adv: (B,) one advantage per response, shared by all its tokens.
        mask: (B, T) 1.0 for real response tokens, 0.0 for padding.
        clip_eps: the lower clip range.
        beta: not used; DAPO has no KL term. It is here so that the function fits grpo_loss's place.
        clip_high: the upper clip range ("clip-higher"): a token may become more likely by more.
        G: group size. Rows 0..G-1 answer prompt 0, rows G..2G-1 prompt 1, and so on.

    Per token:
        rho = exp(logp - old_logp)
        obj = min(rho * A, clip(rho, 1 - clip_eps, 1 + clip_high) * A)
    Aggregate: average obj over all real tokens of a prompt's G responses together, so that every
    token of the group weighs the same; then average over the prompts. loss = -that.

    Returns (loss, stats) where stats is a dict of floats:
        "kl": mean_k3(logp, ref_logp, mask), given below,
        "clip_frac": fraction of real tokens where the clipped term was the smaller one,
        "ratio_max": the largest rho over real tokens.
    """
    # WRITE HERE (bonus1): start from your grpo_loss. What changes: the upper bound of the clip,
    # no KL term, and the mean.
    raise NotImplementedError("Bonus 1: dapo_loss")


# ============================================================== Bonus 2
def gspo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=3e-4, beta=0.0, *, clip_high=4e-4):
    """GSPO's loss (arXiv 2507.18071, eq. 5 to 7, negated so we can minimize it).

    Args:
        logp: (B, T) log-probs of the sampled tokens under the current policy (with grad).
        old_logp: (B, T) log-probs under the policy that sampled them (no grad).
        ref_logp: (B, T) log-probs under the frozen reference; only for stats["kl"].
        adv: (B,) one advantage per response.
        mask: (B, T) 1.0 for real response tokens, 0.0 for padding.
        clip_eps: the lower clip range.
        beta: not used; GSPO has no KL term. It is here so that the function fits grpo_loss's place.
        clip_high: the upper clip range.

    Per response:
        s = exp( 1/|y| * sum over its real tokens of (logp - old_logp) )
        obj = min(s * A, clip(s, 1 - clip_eps, 1 + clip_high) * A)
    Aggregate: average obj over the B responses. loss = -that. The gradient flows through s to
    every token of the response. A response without a real token has nothing to learn from: it
    counts in B and its obj is 0.

    Returns (loss, stats) where stats is a dict of floats:
        "kl": mean_k3(logp, ref_logp, mask), given below,
        "clip_frac": fraction of the RESPONSES where the clipped term was the smaller one,
        "ratio_max": the largest s.
    """
    # WRITE HERE (bonus2): one ratio per response, (B,), in the place of one per token.
    raise NotImplementedError("Bonus 2: gspo_loss")


# ============================================================== given
@torch.no_grad()
def mean_k3(logp, ref_logp, mask):
    """Return the mean k3 over all real tokens as a float."""
    from beyond.losses.pieces import k3  # yours from Task 3, with an option or two

    return float((k3(logp, ref_logp) * mask).sum() / mask.sum().clamp(min=1))
