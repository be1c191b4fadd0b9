"""The border: one fresh process per task in which a student's file is loaded and called.

A Box is closed by killing its process namespace, whatever runs in there. bwrap.py has what a
sandbox sees.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field

import torch

from tests.labfile import TASKS

from . import practice, wire
from .bwrap import (
    ENVIRONMENT,
    PREFIX,
    bwrap_command,
    find_bwrap,
    kept_waiting,
    prepare,
    processor,
    resident,
)

PATIENCE = 4  # times its limit that a call may wait for a processor on a busy machine
QUESTIONS = 64  # that the stand-ins may ask in one call


@dataclass
class Limits:
    """Seconds and bytes."""

    start: float = 60.0  # until the sandbox has imported torch; no student code has run yet
    load: float = 15.0  # to load the student's file
    call: float = 10.0
    practice: float = 20.0  # for the public tests, which give no points
    submission: float = 60.0  # for all loads and calls of a file
    memory: int = 3 << 30  # of all processes of a box together
    process: int = 1500 << 20  # of one process, above what torch itself takes
    scratch: int = 64 << 20  # of its /tmp
    file: int = 32 << 20  # of one file there
    processes: int = 24  # and threads
    files: int = 128  # open at a time

    def words(self):
        """Return what the worker needs to know, as one word."""
        names = ("process", "scratch", "file", "processes", "files")
        words = [f"{name}={int(getattr(self, name))}" for name in names]
        return ",".join([*words, f"seconds={int(self.submission + self.practice) + 10}"])


class SandboxError(Exception):
    """The sandbox itself does not work: nobody's fault, and no verdict."""


class Failed(Exception):
    """A box did not give an answer; the text says why, for the student."""


class TooMuchMemory(Failed):
    """All processes of a box together became too large."""


@dataclass
class Clock:
    """How many seconds a submission has left, and how many more on a busy machine.

    `starved`: seconds for which it got no processor, beyond what it has been given for that.
    """

    left: float
    began: float = field(default=0.0)
    credit: float = 0.0
    starved: float = 0.0

    def __post_init__(self):
        self.credit = self.left

    def __enter__(self):
        self.began = time.monotonic()

    def __exit__(self, *_):
        self.left -= time.monotonic() - self.began


# ---------------------------------------------------------------- a box


class Maker:
    """Starts boxes.

    Args:
        limits: a Limits.
        trust: do without bubblewrap.
        secret: folders that no box may see.
        nested: whether a task gets namespaces of its own in its submission's sandbox, which is
            quicker than a sandbox for each; None: if the system allows it.
    """

    def __init__(self, limits, trust=False, secret=(), nested=None):
        self.limits, self.trust, self.secret = limits, trust, secret
        self.bwrap = None if trust else find_bwrap()
        if not trust and self.bwrap is None:
            raise SandboxError("bubblewrap (bwrap) is not installed")
        self.folder = tempfile.mkdtemp(prefix=f"{PREFIX}{os.getpid()}-")
        self.box = prepare(self.folder)
        self.slots, self.lock, self.open_ones, self.stopped = [], threading.Lock(), set(), False
        self.next_slot = 0
        self.processor, self.peak = 0.0, 0  # seconds of all sandboxes; bytes of the largest
        self.nested = not trust and nested is not False
        if self.nested and nested is None:
            self._try_nested()

    def _try_nested(self):
        """Find out whether a child can have namespaces of its own in a sandbox."""
        try:
            with self.open() as sandbox, sandbox.open(3, Clock(30.0)) as box:
                box.load(b"", True)
        except (SandboxError, Failed):
            self.nested = False  # then every task gets a sandbox of its own: slower, as safe

    def stop(self):
        """End all sandboxes, and start no more."""
        self.stopped = True
        with self.lock:
            for sandbox in self.open_ones:
                sandbox.signal()

    def close(self):
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)

    @contextlib.contextmanager
    def open(self):
        """Give a Sandbox for one submission, and end it."""
        with self.lock:
            slot = self.slots.pop() if self.slots else self.next_slot
            self.next_slot += slot == self.next_slot
        try:
            sandbox = Sandbox(self, slot)
            self.open_ones.add(sandbox)
            try:
                yield sandbox
            finally:
                sandbox.kill()
                self.open_ones.discard(sandbox)
        finally:
            with self.lock:
                self.slots.append(slot)

    def command(self, slot, scratch, preload=()):
        """Return (command, environment) of a worker that imports some packages at its start."""
        if self.trust:
            command = [sys.executable, "-s", "-P", "-B", f"{self.box}/worker.py"]
            keep = {"PATH": os.environ.get("PATH", ""), "HOME": scratch, "TMPDIR": scratch}
            keep["LAB15_LIMITS"] = self.limits.words()
            env = ENVIRONMENT | keep
            del env["LAB15_SANDBOX"]
        else:
            command = bwrap_command(self.bwrap, self.box, self.limits, slot, self.secret)
            env = {"PATH": "/usr/bin:/bin"}
        return [*command, "nested" if self.nested else "single", *preload], env


class Sandbox:
    """The process (tree) that serves the tasks of one submission. See Maker.open."""

    def __init__(self, maker, slot):
        self.maker, self.slot = maker, slot
        self.process = self.control = self.scratch = None
        self.preload = ()  # names of packages

    def _start(self):
        self.kill()
        if self.maker.stopped:
            raise SandboxError("stopped")
        prefix = f"{PREFIX}{os.getpid()}-"
        self.scratch = tempfile.mkdtemp(prefix=prefix) if self.maker.trust else None
        command, env = self.maker.command(self.slot, self.scratch, self.preload)
        self.control, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                env=env,
                start_new_session=True,
            )
        self._expect(b"r", self.maker.limits.start)

    def _expect(self, word, seconds):
        """Wait for a word of the worker, which has no student's code in it."""
        self.control.settimeout(seconds)
        try:
            got = self.control.recv(1)
        except OSError as error:
            got = type(error).__name__.encode()
        if got != word:
            self.kill()
            raise SandboxError(f"the sandbox does not start ({got.decode() or 'it ended'})")

    def signal(self):
        """Kill its processes."""
        if (process := self.process) is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.kill()

    def kill(self):
        """End it, with everything in it."""
        if self.process is not None:
            used = processor(self.process.pid)
            self.signal()
            self.process.wait()
            with self.maker.lock:
                self.maker.processor += used
            self.control.close()
            self.process = None
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

    @contextlib.contextmanager
    def open(self, task, clock):
        """Give a fresh Box for a task, and end all that has run in it."""
        if self.process is None or self.process.poll() is not None:
            self._start()
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                socket.send_fds(self.control, [b"s"], [theirs.fileno()])
                self._expect(b"k", self.maker.limits.start)
            try:
                yield Box(self, ours, self.maker.limits, clock, task)
            finally:
                self._end()

    def _end(self):
        if not self.maker.nested:
            self.kill()
            return
        try:
            self.control.settimeout(5)
            self.control.send(b"e")
            if self.control.recv(1) == b"d":
                return
        except OSError:
            pass
        self.kill()


class Box:
    """One process with one student's file in it, for one task. See Sandbox.open."""

    def __init__(self, sandbox, ours, limits, clock, task):
        self.sandbox, self.limits, self.clock, self.task = sandbox, limits, clock, task
        self.skip = []  # lines of the file to leave out, as [first, last]
        self.pipe = wire.Pipe(ours.fileno(), ours.fileno(), self._watch)
        try:
            ready = self.pipe.receive(time.monotonic() + limits.start)
        except (wire.Gone, wire.Silence, wire.WireError) as error:
            ready = error
        if ready != {"ready": True}:
            raise SandboxError(f"the sandbox gives no sign of life ({type(ready).__name__})")

    def _watch(self):
        used = resident(self.sandbox.process.pid)
        self.sandbox.maker.peak = max(self.sandbox.maker.peak, used)
        if used > self.limits.memory:
            raise TooMuchMemory("it took more memory than it may")

    def _exchange(self, question, seconds, answer=None):
        """Send a question; return the reply, or raise Failed."""
        if self.clock.left <= 0:
            self._excuse(-self.clock.left, self.clock.starved)
            raise Failed(f"the file had used up its {self.limits.submission:g} s in all")
        seconds, starved = min(seconds, self.clock.left), self.clock.starved
        deadline = time.monotonic() + seconds
        try:
            with self._fairly(seconds):
                self.pipe.send(question, deadline)
                for _ in range(QUESTIONS):
                    reply = self.pipe.receive(deadline)
                    if not isinstance(reply, dict):
                        break
                    if answer is None or "ask" not in reply:
                        return reply
                    try:
                        answered = answer(reply)
                    except Exception:  # a question that no stand-in asks
                        break
                    self.pipe.send({"answer": answered}, deadline)
        except wire.Silence:
            self._excuse(0.2 * seconds, self.clock.starved - starved)
            raise Failed(f"it took longer than {seconds:.0f} s") from None
        except wire.Gone:
            raise Failed("its process ended (exit, crash, or out of memory)") from None
        except wire.WireError:
            pass
        raise Failed("what came back was no answer")

    def _excuse(self, seconds, starved):
        """Give no verdict on a file that got no processor for longer than these seconds."""
        if starved > seconds:
            raise SandboxError("the machine is too busy to judge a file on it; use fewer jobs (-j)")

    @contextlib.contextmanager
    def _fairly(self, seconds):
        """Charge the clock, but not for the time that a busy machine has kept the box waiting."""
        pid, began = self.sandbox.process.pid, time.monotonic()
        before, used = kept_waiting(pid), processor(pid)

        def credit():
            waited = kept_waiting(pid) - before
            return max(0.0, min(waited, PATIENCE * seconds, self.clock.credit))

        self.pipe.credit, self.pipe.granted = credit, 0.0
        try:
            with self.clock:
                yield
        finally:
            took = time.monotonic() - began
            given = min(credit(), 0.9 * took)
            # A processor's time is not waited for: many threads keep each other waiting.
            waited = min(kept_waiting(pid) - before, took - (processor(pid) - used))
            self.clock.left += given
            self.clock.credit -= given
            self.clock.starved += max(0.0, waited - given)

    def load(self, source, definitions_only):
        """Load a student's file (bytes); return what the worker says of it."""
        question = self._question(source, definitions_only)
        return self._exchange(question, self.limits.load)

    def _question(self, source, definitions_only):
        data = torch.frombuffer(bytearray(source or b"\n"), dtype=torch.uint8)
        question = {"source": data, "task": self.task, "skip": self.skip}
        return question | {"definitions_only": definitions_only}

    def practise(self, source, definitions_only, numbers):
        """Yield (task, reply) of the public tests of some tasks, as they come."""
        question = self._question(source, definitions_only) | {"files": practice.files()}
        question["tests"] = [practice.tests_of(n) for n in numbers]
        deadline = time.monotonic() + min(self.limits.practice, self.clock.left)
        seconds = deadline - time.monotonic()
        with self._fairly(seconds), contextlib.suppress(wire.Gone, wire.Silence, wire.WireError):
            self.pipe.send(question, deadline)
            for _ in range(2 * len(TASKS)):
                reply = self.pipe.receive(deadline)
                if not isinstance(reply, dict) or type(reply.get("task")) is not int:
                    return
                yield reply["task"], reply

    def call(self, case, answer=None):
        """Call the task's function; return the worker's reply."""
        return self._exchange(case, self.limits.call, answer)
