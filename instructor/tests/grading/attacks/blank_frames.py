# ruff: noqa
"""Writes frames of its own, with texts of 150,000 blanks wherever a text can be."""

import json
import os
import struct

LONG = ["a" + " " * 150_000 + "b", "\n" * 150_000 + "x", " \n" * 75_000 + "x"]


def frame(value):
    head = json.dumps(value).encode()
    return struct.pack("<II", 4 + len(head), len(head)) + head


for fd in range(3, 300):
    for text in LONG:
        loaded = {"$d": [["kind", "written"], ["texts", {"$l": [text] * 2}],
                         ["problems", {"$l": [text] * 2}], ["slow", {"$l": []}]]}
        ended = {"$d": [["ok", False], ["error", text]]}
        told = {"$d": [["task", 2], ["failures", {"$l": [{"$l": [text, text, text]}]}]]}
        try:
            for value in (loaded, ended, told):
                os.write(fd, frame(value))
        except OSError:
            break


def cheat(*args, **kwargs):
    return None


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
