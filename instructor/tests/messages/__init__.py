"""Tests of tests/messages: the messages that a student reads."""
