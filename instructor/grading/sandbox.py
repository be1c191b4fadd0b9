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
from dataclasses import dataclass

import torch

from tests.labfile import TASKS, ascii_line

from ..box import wire
from . import practice
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

PATIENCE = 4  # times its limit that a call, or a file, may take on a busy machine
QUESTIONS = 64  # that the stand-ins may ask in one call


@dataclass
class Limits:
    """Seconds and bytes."""

    start: float = 60.0  # until the sandbox has imported torch; no student code has run yet
    load: float = 10.0  # to load the student's file
    call: float = 5.0
    practice: float = 15.0  # for the public tests, which give no points
    submission: float = 40.0  # the budget of a file: all loads, calls and public tests
    memory: int = 3 << 30  # of all processes of a box together
    process: int = 1500 << 20  # of one process, above what torch itself takes
    scratch: int = 64 << 20  # of its /tmp
    file: int = 32 << 20  # of one file there
    processes: int = 24  # and threads
    files: int = 128  # open at a time
    entries: int = 4096  # files and folders in its /tmp: empty ones take the kernel's memory, too

    def words(self):
        """Return what the worker needs to know, as one word."""
        names = ("process", "scratch", "file", "processes", "files", "entries")
        words = [f"{name}={int(getattr(self, name))}" for name in names]
        return ",".join([*words, f"seconds={int(self.submission + self.practice) + 10}"])


BUSY = "The machine may be too busy: run fewer jobs (-j), or start again when less runs on it"


class SandboxError(Exception):
    """The sandbox failed, not the submission: there is no verdict.

    `remedy`: what to do about it, where that is known.
    """

    remedy: str


class Failed(Exception):
    """A box gave no answer; the message tells the student why."""


class TooMuch(Failed):
    """All processes of a box together took too much memory, or made too many files."""


@dataclass
class Clock:
    """The seconds that a submission has left, and the extra ones on a busy machine.

    `share`: seconds of them that the task at hand may take, so that it leaves the others theirs.
    `starved`: seconds for which it got no processor, beyond what it has been given for that.
    """

    left: float
    share: float = 0.0
    credit: float = 0.0
    starved: float = 0.0

    def __post_init__(self):
        self.share, self.credit = self.left, (PATIENCE - 1) * self.left

    def divide(self, tasks):
        """Give the current task an equal share of what is left for this many tasks."""
        self.share = self.left / tasks

    def charge(self, seconds):
        """Subtract the seconds for which a box has worked."""
        self.left -= seconds
        self.share -= seconds


# ---------------------------------------------------------------- a box


class Maker:
    """Start boxes.

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
        """Find out whether a child can get its own namespaces inside a sandbox."""
        try:
            with self.open() as sandbox, sandbox.open(3, Clock(30.0)) as box:
                box.load(b"", True)
        except (SandboxError, Failed):
            self.nested = False  # then every task gets its own sandbox: slower, but as safe

    def stop(self):
        """Stop all sandboxes, and start no more."""
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
        """Return (command, environment) of a worker that imports some packages at its start.

        Args:
            slot: number of the job, from 0.
            scratch: the folder that becomes its home, without bubblewrap.
            preload: names of packages.
        """
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
        self.process = self.control = self.scratch = self.errors = None
        self.preload, self.loaded = (), ()  # names of packages: wanted, and there
        self.folders = []  # descriptors of what it can write to, where nothing limits the entries

    def _start(self):
        self.kill()
        if self.maker.stopped:
            raise SandboxError("stopped")
        prefix = f"{PREFIX}{os.getpid()}-"
        self.scratch = tempfile.mkdtemp(prefix=prefix) if self.maker.trust else None
        command, env = self.maker.command(self.slot, self.scratch, self.preload)
        self.control, theirs = socket.socketpair()
        self.errors, self.loaded = tempfile.TemporaryFile(), self.preload
        with theirs:
            self.process = subprocess.Popen(
                command,
                stdin=theirs,
                stdout=subprocess.DEVNULL,
                stderr=self.errors,  # of the start alone: a student's code has no way to it
                env=env,
                start_new_session=True,
            )
        self._expect(b"r", self.maker.limits.start)

    def _expect(self, word, seconds):
        """Wait for a message from the worker, which holds no student code yet."""
        self.control.settimeout(seconds)
        try:
            got, fds, _, _ = socket.recv_fds(self.control, 1, 2)
            self.folders += fds
        except OSError as error:
            got = type(error).__name__.encode()
        if got != word:
            said, late = self._complaint(), got == b"TimeoutError"
            self.kill()
            why = said or got.decode("ascii", "replace") or "it ended"
            if said or not late:
                raise SandboxError(f"the sandbox does not start ({why})")
            busy = SandboxError(f"the sandbox does not start within {seconds:g} s")
            busy.remedy = BUSY
            raise busy

    def _complaint(self):
        """Return the last line that setpriv, bubblewrap or Python have written, or ""."""
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):
            self.process.wait(1)
        size = self.errors.seek(0, os.SEEK_END)
        self.errors.seek(max(0, size - 4000))
        words = self.errors.read(4000).decode("utf-8", "replace").strip().splitlines()
        return ascii_line(words[-1], 200) if words else ""

    def entries(self):
        """Return the largest number of files and folders in one place that it can write to."""
        found = [os.fstatvfs(fd) for fd in self.folders]
        return max([s.f_files - s.f_ffree for s in found], default=0)

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
            self.errors.close()
            while self.folders:
                os.close(self.folders.pop())
            self.process = None
        if self.scratch:
            shutil.rmtree(self.scratch, ignore_errors=True)

    @contextlib.contextmanager
    def open(self, task, clock):
        """Give a fresh Box for a task, and end all that has run in it."""
        ready = self.process is not None and self.process.poll() is None
        if not ready or set(self.preload) - set(self.loaded):
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


class Stopwatch:
    """Measure a process tree from now on: seconds of wall time, of processor time, of waiting.

    Args:
        pid: the first process.
        now: the clock for wall time.
    """

    def __init__(self, pid, now):
        self.pid, self.now = pid, now
        self.start, self.had_waited, self.had_used = now(), kept_waiting(pid), processor(pid)

    def wall(self):
        """Return the wall time."""
        return self.now() - self.start

    def waited(self):
        """Return for how long the tree was ready to run and got no processor."""
        return kept_waiting(self.pid) - self.had_waited

    def processor(self):
        """Return the processor time."""
        return processor(self.pid) - self.had_used


class Box:
    """One process with one student's file in it, for one task. See Sandbox.open."""

    def __init__(self, sandbox, ours, limits, clock, task):
        self.sandbox, self.limits, self.clock, self.task = sandbox, limits, clock, task
        self.skip = []  # lines of the file to leave out, as [first, last]
        self.pipe = wire.Pipe(ours.fileno(), ours.fileno(), self._watch)
        try:
            ready = self.pipe.receive(self.pipe.now() + limits.start)
        except (wire.Gone, wire.Silence, wire.WireError) as error:
            ready = error
        if ready != {"ready": True}:
            raise SandboxError(f"the sandbox gives no sign of life ({type(ready).__name__})")

    def _watch(self):
        used = resident(self.sandbox.process.pid)
        self.sandbox.maker.peak = max(self.sandbox.maker.peak, used)
        if used > self.limits.memory:
            raise TooMuch("it took more memory than it may")
        if self.sandbox.entries() > self.limits.entries:
            raise TooMuch("it made more files than it may")

    def _exchange(self, question, most, left, answer=None):
        """Send a question; return the reply, or raise Failed.

        No message gives the time that was left: a file could use that to report what it has seen.

        Args:
            question: what to send.
            most: seconds that this may take.
            left: seconds that the file still has for it.
            answer: gives the stand-ins' answers.
        """
        whole = f"{self.limits.submission:g} s that a file may take in all"
        if left <= 0:
            self._excuse(self.limits.submission - self.clock.left, self.clock.starved)
            raise Failed(f"nothing was left for it of the {whole}")
        seconds, starved = min(most, left), self.clock.starved
        deadline = self.pipe.now() + seconds
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
            self._excuse(seconds, self.clock.starved - starved)
            if most <= left:
                raise Failed(f"it took longer than {most:g} s") from None
            raise Failed(f"it took longer than its part of the {whole}") from None
        except wire.Gone:
            raise Failed("its process ended (exit, crash, or out of memory)") from None
        except wire.WireError:
            pass
        raise Failed("what came back was no answer")

    def _excuse(self, seconds, starved):
        """Refuse a verdict on a file that waited for a processor for a fifth of these seconds."""
        if starved > max(1.0, 0.2 * seconds):
            raise SandboxError("the machine is too busy to judge a file on it; use fewer jobs (-j)")

    @contextlib.contextmanager
    def _fairly(self, seconds):
        """Charge the clock for the block, but not for time that a busy machine made the box wait.

        Granted is min(time waited, PATIENCE * seconds, what is left of the clock's credit); the
        pipe may extend its deadline by that. Time waited beyond it is added to clock.starved.
        """
        watch = Stopwatch(self.sandbox.process.pid, self.pipe.now)

        def granted():
            return max(0.0, min(watch.waited(), PATIENCE * seconds, self.clock.credit))

        self.pipe.credit, self.pipe.granted = granted, 0.0
        try:
            yield
        finally:
            took = watch.wall()
            given = min(granted(), 0.9 * took)
            # While it has a processor it does not wait: many threads keep each other waiting.
            starved = min(watch.waited(), took - watch.processor())
            self.clock.charge(took - given)
            self.clock.credit -= given
            self.clock.starved += max(0.0, starved - given)

    def load(self, source, definitions_only):
        """Load a student's file (bytes); return the worker's reply."""
        question = self._question(source, definitions_only)
        return self._exchange(question, self.limits.load, self.clock.left / 2)

    def _question(self, source, definitions_only):
        data = torch.frombuffer(bytearray(source or b"\n"), dtype=torch.uint8)
        question = {"source": data, "task": self.task, "skip": self.skip}
        return question | {"definitions_only": definitions_only}

    def practise(self, source, definitions_only, numbers):
        """Yield (task, reply) of the public tests of some tasks, as they come.

        Args:
            source: the student's file, bytes.
            definitions_only: whether to leave out what does more than define.
            numbers: of the tasks.
        """
        question = self._question(source, definitions_only) | {"files": practice.files()}
        question["tests"] = [practice.tests_of(n) for n in numbers]
        seconds = min(self.limits.practice, self.clock.left)
        deadline = self.pipe.now() + seconds
        with self._fairly(seconds), contextlib.suppress(wire.Gone, wire.Silence, wire.WireError):
            self.pipe.send(question, deadline)
            for _ in range(2 * len(TASKS)):
                reply = self.pipe.receive(deadline)
                if not isinstance(reply, dict) or type(reply.get("task")) is not int:
                    return
                yield reply["task"], reply

    def call(self, case, answer=None):
        """Call the task's function; return the worker's reply."""
        left = min(self.clock.left, self.clock.share)
        return self._exchange(case, self.limits.call, left, answer)
