"""Tests of beyond/: python -m pytest -q beyond/tests (the lab's own tests are in tests/)."""
