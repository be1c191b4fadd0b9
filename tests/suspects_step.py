"""The known mistakes of task 5 that show in the gradient, on a flat list of numbers."""

from . import oracle_step as oracle


def wrong_gradients(raw, vocab, before, limit, n):
    """Return (mistake id, gradient) of the known mistakes in one inner step.

    Args:
        raw: the gradient of the loss, flat.
        vocab: number of output units.
        before: the gradient that the optimizer got in the inner step before, or None.
        limit: max_grad_norm.
        n: inner_steps.
    """
    size, clip = oracle.norm(raw), oracle.clip_norm
    theta, bias = raw[:-vocab], raw[-vocab:]
    wrong = [
        ("task5.not_clipped", raw),
        ("task5.clip_constant", clip(raw, 1.0)),
        ("task5.clip_value", [max(-limit, min(limit, x)) for x in raw]),
        ("task5.clip_largest", [x * min(1.0, limit / max(map(abs, raw))) for x in raw]),
        ("task5.clip_per_parameter", clip(theta, limit) + clip(bias, limit)),
        ("task5.clip_some", clip(theta, limit) + bias),
        ("task5.clip_some", theta + clip(bias, limit)),
        ("task5.clip_always", [x * limit / size for x in raw]),
        ("task5.ascent", clip([-x for x in raw], limit)),
        ("task5.backward_twice", clip([2 * x for x in raw], limit)),
        ("task5.loss_divided", clip([x / n for x in raw], limit)),
    ]
    if before is not None:
        total = [x + y for x, y in zip(raw, before, strict=True)]
        wrong.append(("task5.no_zero_grad", clip(total, limit)))
    return wrong
