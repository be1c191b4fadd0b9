"""Tests of services on Monarch, and beyond.staleness."""
