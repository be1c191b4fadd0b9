"""Tests of notebooks/explore: its numbers are Python's, in node and in a real browser."""
