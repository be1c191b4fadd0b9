"""Tests of tinylm.py, lab15_run.py and what is given in the lab file."""
