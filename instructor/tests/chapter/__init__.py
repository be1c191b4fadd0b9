"""Tests of chapter.md and solutions/notes.md, and what their numbers are made from."""
