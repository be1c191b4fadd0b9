"""What grpo_step has to do with a tiny policy, as plain Python loops over lists. No torch.

The policy is a bigram table: the logits after a token are a row of `theta` plus `bias`. Its
parameters are one flat list here: the rows of theta, then bias. A rollout is three nested lists:
`before` (B, T) the token before every response token, `tokens` (B, T) the response
tokens, `mask` (B, T).
"""

import math


def split(flat, vocab):
    """Return (rows of theta, bias) of a flat list of parameters."""
    rows = [flat[i : i + vocab] for i in range(0, len(flat), vocab)]
    return rows[:-1], rows[-1]


def distribution(flat, vocab, token):
    """Return the probabilities of the token that follows `token`.

    Args:
        flat: the policy's parameters in one list.
        vocab: its size, V.
        token: id of the token before.
    """
    theta, bias = split(flat, vocab)
    weights = [math.exp(x + b) for x, b in zip(theta[token], bias, strict=True)]
    total = sum(weights)
    return [w / total for w in weights]


def logprobs(flat, vocab, rollout):
    """Return the log-probabilities of the response tokens, 0 where the mask is 0.

    Args:
        flat: the policy's parameters in one list.
        vocab: its size, V.
        rollout: (tokens before, tokens, mask), each (B, T) nested lists.
    """
    table = {}
    result = []
    for before, tokens, mask in zip(*rollout, strict=True):
        row = []
        for b, token, m in zip(before, tokens, mask, strict=True):
            if b not in table:
                table[b] = distribution(flat, vocab, b)
            row.append(math.log(table[b][token]) if m else 0.0)
        result.append(row)
    return result


def entropy(flat, vocab, rollout):
    """Return the mean entropy over the response positions, and the mean over all positions.

    Args:
        flat: the policy's parameters in one list.
        vocab: its size, V.
        rollout: (tokens before, tokens, mask), each (B, T) nested lists.
    """
    real, everywhere = [], []
    for before, _, mask in zip(*rollout, strict=True):
        for b, m in zip(before, mask, strict=True):
            h = -sum(p * math.log(p) for p in distribution(flat, vocab, b))
            everywhere.append(h)
            if m:
                real.append(h)
    return sum(real) / len(real), sum(everywhere) / len(everywhere)


def gradient(flat, vocab, rollout, weights):
    """Return the gradient of sum(weights * logp) with respect to the flat parameters.

    Args:
        flat: the parameters.
        vocab: number of output units.
        rollout: (before, tokens, mask).
        weights: (B, T) the factor of every log-probability.
    """
    result = [0.0] * len(flat)
    bias = len(flat) - vocab
    for before, tokens, mask, row in zip(*rollout, weights, strict=True):
        for b, token, m, weight in zip(before, tokens, mask, row, strict=True):
            if not m:
                continue
            for v, p in enumerate(distribution(flat, vocab, b)):
                change = weight * ((v == token) - p)
                result[b * vocab + v] += change
                result[bias + v] += change
    return result


def norm(values):
    """Return the Euclidean norm of a flat list."""
    return math.sqrt(sum(x * x for x in values))


def clip_norm(values, limit):
    """Return the list, scaled down so that its norm is at most `limit`."""
    size = norm(values)
    return list(values) if size <= limit else [x * limit / size for x in values]


def zero_signal(groups):
    """Return the fraction of the lists whose numbers are all equal."""
    return sum(1 for group in groups if min(group) == max(group)) / len(groups)
