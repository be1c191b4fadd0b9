"""A measurement that instructor/README.md quotes."""
