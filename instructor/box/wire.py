"""Frames between the grader and the sandbox: a length, JSON, and the raw bytes of tensors.

There is no pickle: a frame yields plain data, whoever made it. This file is used on
both sides of the border; only Pipe, with its deadlines, belongs to the grader alone.
"""

import json
import math
import os
import select
import struct
import time

import torch

from tests.labfile import is_real

LIMIT = 8 << 20  # bytes of a frame
HEAD_LIMIT = 1 << 20  # bytes of the JSON in it
STEP = 0.1  # seconds of a wait, after which the box is looked at
PER_WAIT, PER_BYTE = 2e-4, 3e-7  # seconds that a piece of an answer, and a byte of JSON, cost
DTYPES = {
    "f8": torch.float64,
    "f4": torch.float32,
    "f2": torch.float16,
    "h2": torch.bfloat16,
    "i8": torch.int64,
    "i4": torch.int32,
    "u1": torch.uint8,
    "b1": torch.bool,
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


class WireError(Exception):
    """An invalid frame."""


class Silence(Exception):
    """The other side did not read or answer in time."""


class Gone(Exception):
    """The other side has closed its end."""


class Opaque:
    """A placeholder for a value that cannot cross the border; only its type's name can."""

    def __init__(self, name):
        self.name = name


def encode(value):
    """Return the frame of a value made of tensors, numbers, strings, lists, tuples and dicts."""
    blobs = []
    head = json.dumps(_plain(value, blobs, 0)).encode()
    if len(head) > HEAD_LIMIT:
        raise WireError("the frame is too large")
    size = 4 + len(head) + sum(map(len, blobs))
    if size > LIMIT:
        raise WireError("the frame is too large")
    return struct.pack("<II", size, len(head)) + head + b"".join(blobs)


def _plain(value, blobs, depth):
    """Return a form of the value that JSON can write; the bytes of tensors go to blobs."""
    if depth > 20:
        raise WireError("nested too deeply")
    if value is None or value is True or value is False:
        return value
    if isinstance(value, torch.Tensor):
        return _tensor(value, blobs)
    if isinstance(value, str):
        return str(value)[:20000]
    if isinstance(value, int) and abs(value) < 1 << 62:
        return int(value)
    if isinstance(value, float):
        return float(value)
    if isinstance(value, list | tuple):
        tag = "$u" if isinstance(value, tuple) else "$l"
        return {tag: [_plain(x, blobs, depth + 1) for x in value]}
    if isinstance(value, dict):
        items = [[str(k), _plain(v, blobs, depth + 1)] for k, v in value.items()]
        return {"$d": items}
    if is_real(value) and not isinstance(value, int):  # numpy's, a Fraction
        return float(value)
    return {"$x": type(value).__name__[:60]}


def _tensor(value, blobs):
    if value.dtype not in NAMES or value.layout != torch.strided or value.numel() > LIMIT:
        return {"$x": f"Tensor of {value.dtype}"}
    flat = value.detach().cpu().contiguous().reshape(-1)
    blobs.append(flat.view(torch.uint8).numpy().tobytes() if flat.numel() else b"")
    return {"$t": [NAMES[value.dtype], list(value.shape), bool(value.requires_grad)]}


def decode(body):
    """Return the value in the body of a frame (without its length).

    Raises:
        WireError: it is invalid in any way.
    """
    try:
        (size,) = struct.unpack_from("<I", body)
        if size > HEAD_LIMIT:  # as Python objects it takes many times the room
            raise WireError("the head of a frame is too large")
        head = json.loads(body[4 : 4 + size].decode())
        reader = _Reader(body, 4 + size)
        value = reader.value(head)
        if reader.at != len(body):
            raise WireError("bytes are left over")
        return value
    except WireError:
        raise
    except Exception as error:  # RecursionError, ValueError, struct.error: it is no frame
        raise WireError(type(error).__name__) from None


class _Reader:
    def __init__(self, body, at):
        self.body, self.at = body, at

    def value(self, item):
        """Turn a piece of JSON back into a value."""
        if not isinstance(item, dict):
            if isinstance(item, list):
                raise WireError("a list without a tag")
            return item
        ((tag, content),) = item.items()
        if tag == "$t":
            return self.tensor(*content)
        if tag == "$x":
            return Opaque(str(content)[:60])
        if tag == "$d":
            return {str(k): self.value(v) for k, v in content}
        if tag in ("$l", "$u"):
            values = [self.value(x) for x in content]
            return tuple(values) if tag == "$u" else values
        raise WireError("an unknown tag")

    def tensor(self, name, shape, grad):
        """Read a tensor.

        Args:
            name: of the dtype, a key of DTYPES.
            shape: list of sizes.
            grad: whether it requires a gradient.

        Raises:
            WireError: odd shape, or fewer bytes than it needs.
        """
        if len(shape) > 6 or any(type(n) is not int or not 0 <= n <= LIMIT for n in shape):
            raise WireError("an odd shape")
        size = math.prod(shape) * DTYPES[name].itemsize
        if size > len(self.body) - self.at:
            raise WireError("a tensor is cut off")
        piece = bytearray(self.body[self.at : self.at + size])
        self.at += size
        empty = torch.empty(shape, dtype=DTYPES[name])
        if name == "b1":  # a byte other than 0 or 1 is no bool
            result = (torch.frombuffer(piece, dtype=torch.uint8) != 0) if size else empty
        else:
            result = torch.frombuffer(piece, dtype=DTYPES[name]) if size else empty
        result = result.reshape(shape)
        return result.requires_grad_() if grad and result.is_floating_point() else result


def write_all(fd, data):
    """Write to a blocking file descriptor (the sandbox's side)."""
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def read_all(fd):
    """Read one frame from a blocking file descriptor (the sandbox's side) and decode it."""

    def exactly(n):
        data = b""
        while len(data) < n:
            piece = os.read(fd, n - len(data))
            if not piece:
                raise Gone
            data += piece
        return data

    (size,) = struct.unpack("<I", exactly(4))
    return decode(exactly(size))


class Pipe:
    """The grader's end of the two pipes to a sandbox.

    A deadline is a time on this pipe's own clock, `now`. It runs only while the other side is
    waited for: what the grader does meanwhile, for this student or for another, is not charged.
    So that a student's code cannot keep the grader busy, every wait and every byte of JSON has a
    price as well. A deadline is moved by what `credit` returns, in seconds.

    Args:
        read_fd: to read answers from.
        write_fd: to write questions to.
        tick: called ten times a second while waiting; it may raise.
    """

    def __init__(self, read_fd, write_fd, tick=lambda: None):
        self.read_fd, self.write_fd, self.tick = read_fd, write_fd, tick
        self.credit, self.granted = (lambda: 0.0), 0.0
        self.began, self.spent, self.ticked = time.monotonic(), 0.0, 0.0
        for fd in (read_fd, write_fd):
            os.set_blocking(fd, False)

    def now(self):
        """Return the time on this pipe's clock."""
        return self.began + self.spent

    def _wait(self, fd, event, deadline):
        poll = select.poll()
        poll.register(fd, event)
        while True:
            left = deadline + self.granted - self.now()
            if left <= 0:
                credit = self.credit()
                if credit < self.granted + 0.05:
                    raise Silence
                self.granted = credit
                continue
            step = min(left, STEP)
            before = time.monotonic()
            ready = poll.poll(step * 1000)
            after = time.monotonic()
            # What is beyond the step is the grader's: its other threads held the interpreter.
            self.spent += min(max(after - before, PER_WAIT), max(step, PER_WAIT))
            if after > self.ticked + STEP / 2:
                self.ticked = after
                self.tick()
            if ready:
                return

    def send(self, value, deadline):
        """Write a value; give up at the deadline."""
        view = memoryview(encode(value))
        while view:
            self._wait(self.write_fd, select.POLLOUT, deadline)
            try:
                view = view[os.write(self.write_fd, view[: 1 << 16]) :]
            except BlockingIOError:
                continue
            except OSError:
                raise Gone from None

    def receive(self, deadline):
        """Read a value; give up at the deadline, or at a frame above LIMIT."""
        (size,) = struct.unpack("<I", self._exactly(4, deadline))
        if size > LIMIT:
            raise WireError("the frame is too large")
        body = self._exactly(size, deadline)
        self.spent += PER_BYTE * min(int.from_bytes(body[:4], "little"), size)
        return decode(body)

    def _exactly(self, n, deadline):
        data = bytearray()
        while len(data) < n:
            self._wait(self.read_fd, select.POLLIN, deadline)
            try:
                piece = os.read(self.read_fd, min(n - len(data), 1 << 20))
            except BlockingIOError:
                continue
            except OSError:
                raise Gone from None
            if not piece:
                raise Gone
            data += piece
        return bytes(data)
