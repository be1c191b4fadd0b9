"""Frames between sandbox and grader: plain data only, and a deadline on everything."""

import os
import random
import struct
import threading
import time

import pytest
import torch

from instructor.box import wire


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, "text", [1, (2, "x")], {"a": {"b": [None]}}, float("inf")],
)
def test_a_frame_gives_the_value_back(value):
    assert wire.decode(wire.encode(value)[4:]) == value


@pytest.mark.parametrize("dtype", list(wire.NAMES))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_a_frame_gives_a_tensor_back(dtype, shape):
    tensor = torch.ones(shape).to(dtype)
    back = wire.decode(wire.encode({"x": tensor})[4:])["x"]
    assert back.dtype == dtype and torch.equal(back, tensor)


def test_other_values_cross_by_name_only():
    assert isinstance(wire.decode(wire.encode([object()])[4:])[0], wire.Opaque)


def test_mutated_frames_raise_one_kind_of_error():
    rng = random.Random(0)
    frame = wire.encode({"out": [torch.ones(3, 4), {"a": 1.5}, "text"], "ok": True})[4:]
    for _ in range(3000):
        data = bytearray(frame)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
        try:
            wire.decode(bytes(data))
        except wire.WireError:
            pass


@pytest.mark.parametrize(
    "head",
    [
        b'{"$t": ["f4", [1000000, 1000000], false]}',
        b'{"$t": ["f4", [-1], false]}',
        b'{"$t": ["zz", [], false]}',
        b'{"$l": [' * 5000 + b"]}" * 5000,
        b"9" * 10000,
        b'{"$l": 5}',
        b"[1, 2]",
        b"{}",
        b"\xff",
    ],
)
def test_hostile_heads_are_no_frames(head):
    with pytest.raises(wire.WireError):
        wire.decode(struct.pack("<I", len(head)) + head)


@pytest.fixture
def pipes():
    """Give (Pipe, write end of what it reads, read end of what it writes)."""
    (a, b), (c, d) = os.pipe(), os.pipe()
    yield wire.Pipe(a, d), b, c
    for fd in (a, b, c, d):
        os.close(fd)


def test_a_silent_other_side_ends_reading_and_writing(pipes):
    pipe, *_ = pipes
    start = time.monotonic()
    with pytest.raises(wire.Silence):
        pipe.receive(start + 0.3)
    with pytest.raises(wire.Silence):  # nobody reads, and it is more than a pipe holds
        pipe.send(torch.zeros(1 << 20), start + 0.6)


def test_what_the_grader_does_meanwhile_is_not_charged(pipes):
    """Another student's bytes may keep the interpreter busy; this one's clock stands still."""
    pipe, write, _ = pipes
    deadline, worked = pipe.now() + 0.3, []

    def tick():
        time.sleep(0.5)  # as if another thread held the interpreter
        worked.append(pipe.spent)
        if len(worked) == 2:
            os.write(write, wire.encode("an answer"))

    pipe.tick = tick
    assert pipe.receive(deadline) == "an answer"
    assert pipe.now() < deadline


def test_every_piece_and_every_byte_has_its_price(pipes):
    pipe, write, _ = pipes
    began = pipe.now()
    frame = wire.encode("x" * 9000)
    os.write(write, frame)
    pipe.receive(began + 1)
    assert pipe.now() - began >= 9000 * wire.PER_BYTE
    began = pipe.now()
    for _ in range(100):
        os.write(write, b"\0")
        pipe._exactly(1, began + 1)
    assert pipe.now() - began >= 99 * wire.PER_WAIT


def test_drops_that_trickle_in_do_not_move_the_deadline(pipes):
    pipe, write, _ = pipes
    stop = threading.Event()

    def trickle():
        os.write(write, struct.pack("<I", 1000))
        while not stop.wait(0.05):
            os.write(write, b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    start = time.monotonic()
    with pytest.raises(wire.Silence):  # and not the end of the 1000 drops, which take 50 s
        pipe.receive(start + 0.5)
    stop.set()
    thread.join()


def test_a_frame_that_claims_too_much_is_not_read(pipes):
    pipe, write, _ = pipes
    os.write(write, struct.pack("<I", 2**32 - 1))
    with pytest.raises(wire.WireError):
        pipe.receive(time.monotonic() + 1)
