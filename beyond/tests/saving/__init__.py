"""Tests of the files of a run: its folder, its record, its checkpoints."""
