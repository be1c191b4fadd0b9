"""Checkpoints as the page keeps them: 16 bits a weight, the change from one to the next, gzipped.

A weight is a whole number of steps; the step, a power of two, is the same for all weights of a
layer and lets the largest of them fit. (float16 has the same size and rounds large weights three
times as much.) Of every model the difference to the model before is stored, modulo 65536: training
moves a weight by few steps. A sign would spoil that (-1 is 65535), so it goes to the lowest bit.
First all low bytes, then all high bytes, which are nearly all 0, are what gzip packs best.
js/weights.js does the same backwards.
"""

import gzip
import math

import numpy as np
import torch

from tinylm import MODEL, TinyLM

MOST = 32767  # steps


def flat(model):
    """Return all weights of a TinyLM as one float32 array, in the order of its state_dict."""
    parts = [value.detach().cpu().flatten() for value in model.state_dict().values()]
    return torch.cat(parts).numpy()


def empty():
    """Return a TinyLM with any weights; the random numbers of the caller stay as they are."""
    with torch.random.fork_rng(devices=[]):
        return TinyLM(**MODEL)


def sizes():
    """Return how many weights each layer has, in the order of the state_dict."""
    return [value.numel() for value in empty().state_dict().values()]


def model_of(weights):
    """Return the TinyLM with these weights, an array as `flat` returns it."""
    made = empty()
    parts = np.split(np.array(weights, dtype=np.float32), np.cumsum(sizes())[:-1])
    state = {name: torch.from_numpy(part).view(value.shape)
             for (name, value), part in zip(made.state_dict().items(), parts)}
    made.load_state_dict(state)
    return made


def steps(exponents, counts):
    """Return the step of every weight.

    Args:
        exponents: of two, one for every layer.
        counts: how many weights each layer has.
    """
    return np.repeat(2.0 ** np.array(exponents), counts)


def pack(models, counts):
    """Return the bytes that hold some models, and the exponent of every layer's step.

    Args:
        models: a list of float32 arrays of the same length.
        counts: how many weights each layer has.
    """
    largest = np.max(np.abs(models), axis=0)
    exponents = [math.ceil(math.log2(max(float(layer.max()), 2.0**-60) / MOST))
                 for layer in np.split(largest, np.cumsum(counts)[:-1])]
    planes, before = [], np.int16(0)
    for weights in models:
        now = np.round(weights / steps(exponents, counts)).astype(np.int16)
        change = now - before  # wraps around
        folded = ((change << 1) ^ (change >> 15)).view(np.uint16)  # 0, -1, 1, -2, 2: 0, 1, 2, 3, 4
        planes += [(folded & 255).astype(np.uint8), (folded >> 8).astype(np.uint8)]
        before = now
    return gzip.compress(b"".join(plane.tobytes() for plane in planes), 9, mtime=0), exponents


def unpack(data, exponents, counts):
    """Return the models, float32 arrays, that pack has put into these bytes.

    Args:
        data: the bytes.
        exponents: as pack returned them.
        counts: how many weights each layer has.

    Raises:
        ValueError: the bytes are not whole models of that size.
    """
    planes, size = np.frombuffer(gzip.decompress(data), np.uint8), sum(counts)
    if len(planes) % (2 * size) or len(exponents) != len(counts):
        raise ValueError(f"{len(planes)} bytes and {len(exponents)} exponents are not whole "
                         f"models of {size} weights in {len(counts)} layers")
    models, now = [], np.zeros(size, np.int16)
    for low, high in planes.reshape(-1, 2, size).astype(np.uint16):
        folded = low | (high << 8)
        now = now + ((folded >> 1) ^ (0 - (folded & 1)).astype(np.uint16)).view(np.int16)
        models.append((now * steps(exponents, counts)).astype(np.float32))
    return models
