"""Tests of notebooks/: the notebooks, experiments, figures, the book."""
