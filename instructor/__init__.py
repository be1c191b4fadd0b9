"""Tools for teachers: grading, reports, checks of the lab. Students do not need this folder."""

import argparse


def at_least_one(text: str) -> int:
    """Read a whole number above 0, for argparse.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if text.isdecimal() and 1 <= int(text) <= 1_000_000:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r}: give a whole number above 0")
