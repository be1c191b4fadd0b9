"""Tests of notebooks/explore: its numbers equal Python's, in node and in a real browser."""
