"""Figures of the training runs in notebooks/figures/runs; they need no other measurements."""
