"""Tests of what a run leaves behind: its folder, its record."""
