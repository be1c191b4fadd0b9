"""Tests of bad input: lab files, losses, data and folders."""
