"""Nested lists and tensors of numbers: shape, gradient, and whether two of them agree."""

import math
import numbers

import torch


def values(x):
    """Return a tensor, list or number as nested lists of Python numbers; None where unreadable."""
    if isinstance(x, torch.Tensor):
        if x.device.type == "meta":
            return None
        return x.detach().to("cpu").tolist()
    if isinstance(x, (list, tuple)):
        return [values(v) for v in x]
    return x if isinstance(x, numbers.Real) else None


def shape(values):
    """Return the shape of nested lists, None if they are ragged or hold something but numbers."""
    if not isinstance(values, list):
        return () if isinstance(values, numbers.Real) else None
    inner = {shape(v) for v in values}
    if None in inner or len(inner) > 1:
        return None
    return (len(values), *(inner.pop() if inner else ()))


def slope(result, logp):
    """Return the gradient of the sum of a result to logp, zeros where there is none."""
    if not result.requires_grad:
        return torch.zeros_like(logp)
    (grad,) = torch.autograd.grad(result.sum(), logp, allow_unused=True)
    return torch.zeros_like(logp) if grad is None else grad


def flat(values):
    """Return the numbers of nested lists in one list."""
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def near(a, b, atol, rtol):
    """Return whether two numbers agree; NaN equals NaN.

    Args:
        a: number.
        b: number that rtol refers to.
        atol: absolute tolerance.
        rtol: relative tolerance.
    """
    if math.isnan(a) or math.isnan(b):
        return math.isnan(a) and math.isnan(b)
    return a == b or abs(a - b) <= atol + rtol * abs(b)


def same(a, b, atol=1e-4, rtol=1e-4):
    """Return whether two nested lists or tensors have one shape and agree; NaN equals NaN.

    Args:
        a: nested lists of numbers, or a tensor.
        b: the same, to which rtol refers.
        atol: absolute tolerance.
        rtol: relative tolerance.
    """
    a, b = values(a), values(b)
    if shape(a) is None or shape(a) != shape(b):
        return False
    return all(near(x, y, atol, rtol) for x, y in zip(flat(a), flat(b)))
