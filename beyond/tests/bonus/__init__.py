"""Tests of the bonus exercises in beyond/bonus.py: python -m pytest -q beyond/tests/bonus."""
