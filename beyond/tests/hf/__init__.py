"""Tests of training a HuggingFace model: backend, trainer, settings, files, commands."""
