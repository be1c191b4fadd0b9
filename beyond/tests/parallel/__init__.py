"""Tests of several processes: the cases that they run, and what must be equal."""
