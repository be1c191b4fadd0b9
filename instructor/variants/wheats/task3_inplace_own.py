# ruff: noqa
"""Works in place on tensors of its own."""

def k3_kl(logp, ref_logp):
    d = ref_logp - logp
    k3 = d.exp()
    k3 = k3 - d
    k3 -= 1
    return k3
