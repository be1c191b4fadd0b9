"""Tests of training with several processes: the cases, and which results must be equal."""
