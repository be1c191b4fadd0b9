"""Tests of tinylm.py, lab15_run.py and the given part of the lab file."""
