"""Tests of tests/runner and the commands of tests/."""
