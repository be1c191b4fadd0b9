# ruff: noqa: F821, D103, E402, I001, UP, B
"""From the ratio of probabilities and its log."""
def k3_kl(logp, ref_logp):
    ratio = ref_logp.exp() / logp.exp()
    return ratio - torch.log(ratio) - 1
