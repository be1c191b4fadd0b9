# ruff: noqa: F821, D103, E402, I001, UP, B
"""expm1(d) - d."""
def k3_kl(logp, ref_logp):
    d = ref_logp - logp
    return torch.expm1(d) - d
