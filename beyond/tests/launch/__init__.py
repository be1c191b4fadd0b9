"""Tests of beyond.launch: the loop on several ranks, torchrun, settings, the plan."""
