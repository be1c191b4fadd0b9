"""The tests of Lab 15. Run them with: python -m pytest -q -k task1 (up to task5)."""
