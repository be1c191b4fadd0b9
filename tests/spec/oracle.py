"""The specification of tasks 2, 3 and 4 as plain Python loops over lists of numbers.

Slow, obvious, and without torch. Names are those of the lab: B rows, T positions, logp, old_logp
and ref_logp are B lists of T numbers, mask holds 1.0 at real tokens and 0.0 at padding.
"""

import math


def advantages(rewards, G, scale_std=True, eps=1e-4):
    """Return the group-relative advantages, a list as long as `rewards`.

    Args:
        rewards: list of P*G numbers, group by group.
        G: group size.
        scale_std: whether to divide by the group's population std.
        eps: added to the std.
    """
    result = []
    for start in range(0, len(rewards), G):
        group = rewards[start : start + G]
        mean = sum(group) / G
        std = math.sqrt(sum((r - mean) ** 2 for r in group) / G)
        for r in group:
            result.append((r - mean) / (std + eps) if scale_std else r - mean)
    return result


def k3(logp, ref_logp):
    """Return the k3 estimate of every token."""
    result = []
    for logp_row, ref_row in zip(logp, ref_logp):
        row = []
        for a, b in zip(logp_row, ref_row):
            ratio = math.exp(b - a)  # pi_ref / pi_theta
            row.append(ratio - (b - a) - 1)
        result.append(row)
    return result


def k3_gradient(logp, ref_logp):
    """Return the derivative of every token's k3 with respect to its own logp."""
    result = []
    for logp_row, ref_row in zip(logp, ref_logp):
        result.append([1 - math.exp(b - a) for a, b in zip(logp_row, ref_row)])
    return result


def _tokens(logp, old_logp, adv, mask, clip_eps):
    """Yield (row, position, rho, rho * A, clipped rho * A) of every real token."""
    for i, row in enumerate(mask):
        for t, real in enumerate(row):
            if real:
                rho = math.exp(logp[i][t] - old_logp[i][t])
                clipped = min(max(rho, 1 - clip_eps), 1 + clip_eps)
                yield i, t, rho, rho * adv[i], clipped * adv[i]


def loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """Return the GRPO loss as a number.

    Args:
        logp: (B, T) nested lists.
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,).
        mask: (B, T), 1 for real tokens.
        clip_eps: clip range.
        beta: weight of the KL term.
    """
    kl = k3(logp, ref_logp)
    total = 0.0
    for i, t, _, unclipped, clipped in _tokens(logp, old_logp, adv, mask, clip_eps):
        length = sum(mask[i])  # every response counts alike, however long it is
        total += (min(unclipped, clipped) - beta * kl[i][t]) / length
    return -total / len(mask)


def loss_gradient(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """Return the derivative of the loss with respect to every logp; 0 at padding.

    Args:
        logp: (B, T) nested lists.
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,).
        mask: (B, T), 1 for real tokens.
        clip_eps: clip range.
        beta: weight of the KL term.
    """
    kl_slope = k3_gradient(logp, ref_logp)
    result = [[0.0] * len(row) for row in mask]
    for i, t, rho, unclipped, clipped in _tokens(logp, old_logp, adv, mask, clip_eps):
        # Where the clipped term is the smaller one it is a constant; otherwise the slope of
        # rho * A is rho * A again.
        slope = 0.0 if clipped < unclipped else rho * adv[i]
        result[i][t] = -(slope - beta * kl_slope[i][t]) / sum(mask[i]) / len(mask)
    return result


def stats(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """Return the dict of statistics over all real tokens (beta plays no part).

    Args:
        logp: (B, T) nested lists.
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,).
        mask: (B, T), 1 for real tokens.
        clip_eps: clip range.
        beta: weight of the KL term.
    """
    kl = k3(logp, ref_logp)
    tokens = list(_tokens(logp, old_logp, adv, mask, clip_eps))
    return {
        "kl": sum(kl[i][t] for i, t, *_ in tokens) / len(tokens),
        "clip_frac": sum(clipped < unclipped for *_, unclipped, clipped in tokens) / len(tokens),
        "ratio_max": max(rho for _, _, rho, *_ in tokens),
    }
