"""Tests of beyond.compare."""
