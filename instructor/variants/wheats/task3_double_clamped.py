# ruff: noqa: F821, D103, E402, I001, UP, B
"""Computed in float64; rounding below 0 is clamped away."""
def k3_kl(logp, ref_logp):
    d = ref_logp.double() - logp.double()
    return (torch.exp(d) - d - 1).clamp(min=0).to(logp.dtype)
