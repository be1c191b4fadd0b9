"""Tests of the nbgrader course."""
