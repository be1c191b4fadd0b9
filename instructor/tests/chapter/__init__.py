"""Tests of chapter.md and solutions/notes.md, and of the code behind their numbers."""
