"""Tests of instructor.check and instructor.mutate, and all variants in the hidden tests."""
