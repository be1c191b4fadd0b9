"""Tests of a HuggingFace model: backend, trainer, settings, files, commands."""
