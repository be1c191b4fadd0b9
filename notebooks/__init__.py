"""Notebooks of Lab 15, the experiments they show, and the figures."""
