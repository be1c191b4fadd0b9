"""The former name of beyond/losses/pieces.py, for bonus files that import from here."""

from beyond.losses.pieces import *  # noqa: F403
