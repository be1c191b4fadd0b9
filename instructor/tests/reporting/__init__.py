"""Tests of instructor.report."""
