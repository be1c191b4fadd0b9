"""Tests of tests/messages: what a student reads."""
