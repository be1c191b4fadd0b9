"""Tests of instructor.grade and all behind it: who handed in, sandbox, points, records."""
