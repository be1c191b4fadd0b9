# ruff: noqa
"""Replaces what the worker encodes and sends with: json, struct, wire, torch.save, pickle."""

import json
import pickle
import struct
import sys

import torch

good = {"ok": True, "kept": True, "passed": True, "score": 10.0}
wire = sys.modules.get("wire")
if wire is not None:
    own = wire.encode
    wire.encode = lambda value: own({**good, "out": value})
    wire._plain = lambda value, blobs, depth: {"$d": [["ok", True], ["kept", True]]}
    wire.LIMIT = wire.HEAD_LIMIT = 1 << 40
calls = sys.modules.get("calls")
if calls is not None:
    calls.call = lambda *a: dict(good)
    calls.CALLS.clear()
json.dumps = lambda *a, **k: '{"$d": [["ok", true], ["kept", true], ["out", true]]}'
pickle.dumps = torch.save = lambda *a, **k: b""
struct.pack = lambda *a: b"\x00" * 8


def cheat(*args, **kwargs):
    return good


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
