"""Tests of lab files, losses, data and folders that are wrong."""
