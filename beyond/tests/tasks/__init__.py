"""Tests of problems, answers, rewards, and the longer task."""
