# ruff: noqa
"""Writes frames of its own to every open file, as if it were the worker."""

import json
import os
import struct


def frame(value):
    head = json.dumps(value).encode()
    return struct.pack("<II", 4 + len(head), len(head)) + head


good = {"$d": [["kind", "written"], ["ok", True], ["points", 10], ["out", {"$x": "Tensor"}]]}
for fd in range(3, 30):
    try:
        for _ in range(50):
            os.write(fd, frame(good))
    except OSError:
        pass


def cheat(*args, **kwargs):
    return None


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
