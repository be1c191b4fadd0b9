"""The border: one fresh process per task in which a student's file is loaded and called.

With bubblewrap it sees a read-only system, Python and this lab's given files, nothing else: no
network, no environment, no other process, no file of the grader. A Box is closed by killing its
process namespace, whatever runs in there.
"""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import torch

from tests.labfile import ROOT

from . import wire

# What a box holds; all of it may be read by any student.
CONTENTS = {
    "worker.py": ROOT / "instructor" / "worker.py",
    "isolate.py": ROOT / "instructor" / "isolate.py",
    "wire.py": ROOT / "instructor" / "wire.py",
    "standins.py": ROOT / "instructor" / "hidden" / "standins.py",
    "tinylm.py": ROOT / "tinylm.py",
    "tests/__init__.py": ROOT / "tests" / "__init__.py",
    # Of the public tests only what loads a file: the others know what is right.
    **{f"tests/{n}.py": ROOT / "tests" / f"{n}.py" for n in ("labfile", "limits", "surroundings")},
}
ENVIRONMENT = {
    "LAB15_SANDBOX": "1",
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
}
FIRST_UID = 61000  # of the sandboxes where the grader runs as root; one for each job
QUESTIONS = 64  # that the stand-ins may ask in one call


@dataclass
class Limits:
    """Seconds and bytes."""

    start: float = 60.0  # until the sandbox has imported torch; no student code has run yet
    load: float = 10.0  # to load the student's file
    call: float = 10.0
    submission: float = 60.0  # for all loads and calls of a file
    memory: int = 3 << 30  # of all processes of a box together
    scratch: int = 64 << 20  # of its /tmp


class SandboxError(Exception):
    """The sandbox itself does not work: nobody's fault, and no verdict."""


class Failed(Exception):
    """A box did not give an answer; the text says why, for the student."""


class TooMuchMemory(Failed):
    """All processes of a box together became too large."""


@dataclass
class Clock:
    """How many seconds a submission has left."""

    left: float
    began: float = field(default=0.0)

    def __enter__(self):
        self.began = time.monotonic()

    def __exit__(self, *_):
        self.left -= time.monotonic() - self.began


# ---------------------------------------------------------------- how to start one


def prepare(folder):
    """Copy what a box holds to a folder and return it; later edits cannot disturb a run."""
    for name, source in CONTENTS.items():
        target = Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for path in (Path(folder), Path(folder, "tests")):
        path.chmod(0o755)
    return str(folder)


def find_bwrap():
    """Return the path of bubblewrap, or None."""
    return shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/bin")


def _mounts():
    """Return the folders that Python and torch need, outermost first."""
    wanted = {"/usr", sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"]}
    wanted |= {str(Path(torch.__file__).parents[1])}
    wanted |= {os.path.realpath(p) for p in wanted}
    # A venv's interpreter may be a chain of links.
    link = sys.executable
    while os.path.islink(link):
        link = os.path.join(os.path.dirname(link), os.readlink(link))
        prefix = os.path.dirname(os.path.dirname(os.path.abspath(link)))
        # Not every folder with a link in its bin: it could be somebody's home.
        if list(Path(prefix, "lib").glob("python3*")):
            wanted.add(prefix)
    found = sorted({os.path.normpath(p) for p in wanted if os.path.isdir(p)}, key=len)
    if "/" in found:
        raise SandboxError("Python lies in the root folder; use a virtual environment")
    return [p for i, p in enumerate(found) if not any(_inside(p, q) for q in found[:i])]


def _inside(path, folder):
    return Path(folder) in [Path(path), *Path(path).parents]


def _system():
    """Return the arguments for /lib, /bin and the like, links where they are links."""
    args = []
    for path in ("/lib", "/lib64", "/lib32", "/bin", "/sbin"):
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    return [*args, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]


def bwrap_command(bwrap, box, limits, slot, secret=()):
    """Return the command line that starts a worker; how it serves is to be added.

    Args:
        bwrap: path of bubblewrap.
        box: folder made by prepare.
        limits: a Limits.
        slot: number of the job, from 0.
        secret: folders that must not be seen even if they lie inside of what Python needs.
    """
    root = os.geteuid() == 0
    mounts = _mounts()
    args = [bwrap, "--die-with-parent", "--new-session", "--clearenv", "--chdir", "/"]
    args += ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts"]
    args += ["--unshare-cgroup-try", "--hostname", "box", "--cap-drop", "ALL"]
    if root:  # the worker becomes a user of its own, without any right, before it starts
        caps = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
        args += [a for cap in caps for a in ("--cap-add", cap)]
    else:
        args += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    # A venv in /tmp would be hidden by a child's own /tmp.
    scratch = "/scratch" if any(_inside(p, "/tmp") for p in mounts) else "/tmp"
    more = {"HOME": scratch, "TMPDIR": scratch, "LAB15_SCRATCH_BYTES": str(limits.scratch)}
    for name, value in (ENVIRONMENT | more).items():
        args += ["--setenv", name, value]
    args += ["--proc", "/proc", "--dev", "/dev", "--size", "65536", "--tmpfs", "/dev/shm"]
    args += ["--remount-ro", "/dev"]
    args += ["--size", str(limits.scratch), "--perms", "1777", "--tmpfs", scratch]
    parents = {str(q) for p in mounts for q in Path(p).parents} - {"/", scratch}
    args += [a for q in sorted(parents, key=len) for a in ("--dir", q)]
    args += [a for p in mounts for a in ("--ro-bind", p, p)]
    args += [*_system(), "--ro-bind", box, "/box"]
    hidden = {str(Path(s).resolve()) for s in (ROOT, *secret)}
    for path in sorted(hidden):
        if any(_inside(path, p) for p in mounts) and os.path.isdir(path):
            args += ["--size", "65536", "--tmpfs", path, "--remount-ro", path]
    args += ["--remount-ro", "/"]
    if root:
        uid = str(FIRST_UID + slot)
        args += [shutil.which("setpriv") or "/usr/bin/setpriv", "--reuid", uid, "--regid", uid]
        args += ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    return [*args, sys.executable, "-s", "-P", "-B", "/box/worker.py"]


def resident(pid):
    """Return the memory in use by a process and all that descend from it, in bytes."""
    total, todo = 0, [pid]
    while todo and len(todo) < 1000:
        folder = f"/proc/{todo.pop()}"
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(folder, "statm").read_text(encoding="ascii").split()[1])
            for thread in os.listdir(f"{folder}/task"):
                children = Path(folder, "task", thread, "children").read_text(encoding="ascii")
                todo += map(int, children.split())
    return total * os.sysconf("SC_PAGE_SIZE")


# ---------------------------------------------------------------- a box


class Maker:
    """Starts boxes.

    Args:
        limits: a Limits.
        trust: do without bubblewrap.
        secret: folders that no box may see.
    """

    def __init__(self, limits, trust=False, secret=()):
        self.limits, self.trust, self.secret = limits, trust, secret
        self.bwrap = None if trust else find_bwrap()
        if not trust and self.bwrap is None:
            raise SandboxError("bubblewrap (bwrap) is not installed")
        self.folder = tempfile.mkdtemp(prefix="lab15-box-")
        self.box = prepare(self.folder)
        self.slots, self.lock = [], threading.Lock()
        self.next_slot = 0
        self.nested = not trust
        if self.nested:
            self._try_nested()

    def _try_nested(self):
        """Find out whether a child can have namespaces of its own in a sandbox."""
        try:
            with self.open() as sandbox, sandbox.open(3, Clock(30.0)) as box:
                box.load(b"", True)
        except (SandboxError, Failed):
            self.nested = False  # then every task gets a sandbox of its own: slower, as safe

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
            try:
                yield sandbox
            finally:
                sandbox.kill()
        finally:
            with self.lock:
                self.slots.append(slot)

    def command(self, slot, scratch):
        """Return (command, environment) of a worker."""
        if self.trust:
            command = [sys.executable, "-s", "-P", "-B", f"{self.box}/worker.py"]
            keep = {"PATH": os.environ.get("PATH", ""), "HOME": scratch, "TMPDIR": scratch}
            env = ENVIRONMENT | keep
            del env["LAB15_SANDBOX"]
        else:
            command = bwrap_command(self.bwrap, self.box, self.limits, slot, self.secret)
            env = {"PATH": "/usr/bin:/bin"}
        return [*command, "nested" if self.nested else "single"], env


class Sandbox:
    """The process (tree) that serves the tasks of one submission. See Maker.open."""

    def __init__(self, maker, slot):
        self.maker, self.slot = maker, slot
        self.process = self.control = self.scratch = None

    def _start(self):
        self.kill()
        self.scratch = tempfile.mkdtemp(prefix="lab15-scratch-") if self.maker.trust else None
        command, env = self.maker.command(self.slot, self.scratch)
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

    def kill(self):
        """End it, with everything in it."""
        if self.process is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
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
        self.pipe = wire.Pipe(ours.fileno(), ours.fileno(), self._watch)
        try:
            ready = self.pipe.receive(time.monotonic() + limits.start)
        except (wire.Gone, wire.Silence, wire.WireError) as error:
            ready = error
        if ready != {"ready": True}:
            raise SandboxError(f"the sandbox gives no sign of life ({type(ready).__name__})")

    def _watch(self):
        if resident(self.sandbox.process.pid) > self.limits.memory:
            raise TooMuchMemory("it took more memory than it may")

    def _exchange(self, question, seconds, answer=None):
        """Send a question; return the reply, or raise Failed."""
        if self.clock.left <= 0:
            raise Failed(f"the file had used up its {self.limits.submission:g} s in all")
        seconds = min(seconds, self.clock.left)
        deadline = time.monotonic() + seconds
        try:
            with self.clock:
                self.pipe.send(question, deadline)
                for _ in range(QUESTIONS):
                    reply = self.pipe.receive(deadline)
                    if not isinstance(reply, dict):
                        break
                    if answer is None or "ask" not in reply:
                        return reply
                    self.pipe.send({"answer": answer(reply)}, deadline)
        except wire.Silence:
            raise Failed(f"it took longer than {seconds:.0f} s") from None
        except wire.Gone:
            raise Failed("its process ended (exit, crash, or out of memory)") from None
        except wire.WireError:
            pass
        raise Failed("what came back was no answer")

    def load(self, source, definitions_only):
        """Load a student's file (bytes); return what the worker says of it."""
        data = torch.frombuffer(bytearray(source), dtype=torch.uint8) if source else None
        data = torch.empty(0, dtype=torch.uint8) if data is None else data
        question = {"source": data, "task": self.task, "definitions_only": definitions_only}
        return self._exchange(question, self.limits.load)

    def call(self, case, answer=None):
        """Call the task's function; return the worker's reply."""
        return self._exchange(case, self.limits.call, answer)
