# ruff: noqa: F821, D103, E402, I001, UP, B
"""One expression with logp - ref_logp."""
def k3_kl(logp: torch.Tensor, ref_logp: torch.Tensor) -> torch.Tensor:
    return (logp - ref_logp) + (-(logp - ref_logp)).exp() - 1.0
