"""Figures of the training runs in notebooks/figures/runs; no more is measured for them."""
