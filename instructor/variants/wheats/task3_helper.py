# ruff: noqa: F821, D103, E402, I001, UP, B
"""A helper that the student added, keyword arguments, math.e."""
import math


def _ratio(numerator, denominator):
    return torch.pow(math.e, numerator - denominator)


def k3_kl(logp, ref_logp):
    r = _ratio(numerator=ref_logp, denominator=logp)
    return r - 1 - (ref_logp - logp)
