"""Checkpoints as the page keeps them: float16, the change from one to the next, gzipped.

Of every model the weights are rounded to float16. Of its bit patterns the difference to those of
the model before is stored, modulo 65536: training moves a weight by a few of the smallest steps,
so the differences are small numbers. A sign would spoil that (-1 is 65535), so it goes to the
lowest bit. First all low bytes, then all high bytes, which are nearly all 0, are what gzip packs
best. js/weights.js does the same backwards.
"""

import gzip

import numpy as np
import torch

from tinylm import MODEL, TinyLM


def flat(model):
    """Return all weights of a TinyLM as one float32 array, in the order of its state_dict."""
    parts = [value.detach().cpu().flatten() for value in model.state_dict().values()]
    return torch.cat(parts).numpy()


def model_of(weights):
    """Return the TinyLM with these weights, an array as `flat` returns it."""
    with torch.random.fork_rng(devices=[]):
        made = TinyLM(**MODEL)
    state, start = made.state_dict(), 0
    for name, value in state.items():
        part = np.array(weights[start : start + value.numel()], dtype=np.float32)
        state[name] = torch.from_numpy(part).view(value.shape)
        start += value.numel()
    made.load_state_dict(state)
    return made


def pack(models):
    """Return the bytes that hold these models: a list of float32 arrays of the same length."""
    planes, before = [], np.uint16(0)
    for weights in models:
        bits = weights.astype("<f2").view(np.uint16)
        change = (bits - before).astype(np.uint16).view(np.int16)
        folded = ((change << 1) ^ (change >> 15)).view(np.uint16)  # 0, -1, 1, -2, 2: 0, 1, 2, 3, 4
        planes += [(folded & 255).astype(np.uint8), (folded >> 8).astype(np.uint8)]
        before = bits
    return gzip.compress(b"".join(plane.tobytes() for plane in planes), 9, mtime=0)


def unpack(data, size):
    """Return the float32 arrays, of `size` weights each, that pack has put into these bytes.

    Raises:
        ValueError: the bytes are not whole models of that size.
    """
    planes = np.frombuffer(gzip.decompress(data), np.uint8)
    if len(planes) % (2 * size):
        raise ValueError(f"{len(planes)} bytes are not whole models of {size} weights")
    models, bits = [], np.zeros(size, np.uint16)
    for low, high in planes.reshape(-1, 2, size).astype(np.uint16):
        folded = low | (high << 8)
        bits = bits + ((folded >> 1) ^ (0 - (folded & 1)).astype(np.uint16))
        models.append(bits.astype(np.uint16).view("<f2").astype(np.float32))
    return models
