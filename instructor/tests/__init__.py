"""Tests of the lab's own tools."""
