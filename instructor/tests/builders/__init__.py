"""Tests of what instructor.build makes: the bundle, the zip for Gradescope."""
