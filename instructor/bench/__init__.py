"""Measure the grader: submissions per hour, as instructor/README.md quotes them."""
