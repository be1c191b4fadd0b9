"""Tests of tests/labfile.py and tests/loader: damaged, hostile and endless lab files."""
