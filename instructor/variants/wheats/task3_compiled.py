# ruff: noqa
"""Compiled: judged as it is written."""

@torch.compile
def k3_kl(logp, ref_logp):
    d = ref_logp - logp
    return torch.exp(d) - d - 1
