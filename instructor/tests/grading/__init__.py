"""Tests of instructor.grade and the packages behind it: submissions, sandbox, points, records."""
