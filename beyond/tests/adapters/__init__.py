"""Tests of our losses in TRL and verl."""
