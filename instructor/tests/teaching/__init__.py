"""Tests of the teacher's pages, quiz and slides."""
