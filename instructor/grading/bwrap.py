"""Bubblewrap: what a sandbox sees, as a command line, and what it uses.

It sees a read-only system, Python and this lab's given files, nothing else: no network, no
environment, no other process, no file of the grader.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import torch

from tests.labfile import ROOT

from .engine import closure

# Of the public tests, a box holds only the loader: the rest gives right answers away.
LATER = ("instructor/box/public_tests.py",)  # runs them once they have arrived through the pipe
# The contents of a box, {name in it: file}; any student may read all of it.
CONTENTS = {
    name.removeprefix("instructor/box/"): ROOT / name
    # A lab file imports lab15_run for its training loop.
    for name in closure(["instructor/box/worker.py", "lab15_run.py"], leaves=LATER)
}
ENVIRONMENT = {
    "LAB15_SANDBOX": "1",
    "LC_ALL": "C.UTF-8",
    "MKL_NUM_THREADS": "1",
    "MPLBACKEND": "agg",  # no window opens
    "OMP_NUM_THREADS": "1",
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
    "TORCHDYNAMO_DISABLE": "1",  # torch.compile leaves a function as it is: no compiler in a box
}
PREFIX = "lab15-box-"  # of the folder that holds them, and then the grader's process id
AT_REST = 8  # threads of a sandbox without any of a student's
FIRST_UID = 61000  # of the sandboxes where the grader runs as root; one for each job


def prepare(folder):
    """Copy what a box holds to a folder and return it; later edits cannot disturb a run."""
    for name, source in CONTENTS.items():
        target = Path(folder, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source, target)
        target.chmod(0o644)
    for path in (Path(folder), *Path(folder).rglob("*")):
        if path.is_dir():
            path.chmod(0o755)
    return str(folder)


def sweep():
    """Remove what killed graders have left behind."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*"):
        pid = path.name[len(PREFIX) :].partition("-")[0]
        if pid.isdecimal() and not os.path.exists(f"/proc/{pid}") and os.path.isdir("/proc/self"):
            shutil.rmtree(path, ignore_errors=True)  # leave those of other users


def find_bwrap():
    """Return the path of bubblewrap, or None."""
    return shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/bin")


def complaint(bwrap):
    """Return bubblewrap's error when it makes namespaces, or "" if it can."""
    command = [bwrap, "--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/", "/"]
    try:
        done = subprocess.run(
            [*command, "true"], capture_output=True, timeout=20, stdin=subprocess.DEVNULL
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return type(error).__name__
    words = done.stderr.decode("ascii", "backslashreplace").strip().splitlines()
    return (words or ["it ends at once"])[-1][:200] if done.returncode else ""


def python():
    """Return this Python's path without ".." and without links among its folders.

    Its own link stays: by its place a virtual environment is known.
    """
    folder, name = os.path.split(os.path.join(os.getcwd(), sys.executable))
    return os.path.join(os.path.realpath(folder), name)


def _mounts():
    """Return the folders that Python and torch need, outermost first."""
    wanted = {"/usr", sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"]}
    wanted |= {str(Path(torch.__file__).parents[1])}
    wanted |= {os.path.realpath(p) for p in wanted}
    # A venv's interpreter may be a chain of links.
    link = python()
    while os.path.islink(link):
        link = os.path.join(os.path.dirname(link), os.readlink(link))
        prefix = os.path.dirname(os.path.dirname(os.path.abspath(link)))
        # Not every folder with a link in its bin: it could be a home folder.
        if list(Path(prefix, "lib").glob("python3*")):
            wanted.add(prefix)
    found = sorted({os.path.normpath(p) for p in wanted if os.path.isdir(p)}, key=len)
    if "/" in found:
        raise OSError("Python is installed in the root folder; use a virtual environment")
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
        secret: folders that must not be seen even if they are inside a folder that Python needs.
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
    more = {"HOME": scratch, "TMPDIR": scratch, "LAB15_LIMITS": limits.words()}
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
    return [*args, python(), "-s", "-P", "-B", "/box/worker.py"]


def tree(pid):
    """Yield the process ids of a process and of all that descend from it."""
    todo, seen = [pid], 0
    while todo and seen < 1000:
        seen += 1
        yield (pid := todo.pop())
        with contextlib.suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                children = Path(f"/proc/{pid}/task/{thread}/children")
                todo += map(int, children.read_text(encoding="ascii").split())


def resident(pid):
    """Return the memory in use by a process and all that descend from it, in bytes."""
    pages = 0
    for one in tree(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            pages += int(Path(f"/proc/{one}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


def processor(pid):
    """Return the seconds of processor time of a process and all that descend from it."""
    ticks = 0
    for one in tree(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            words = Path(f"/proc/{one}/stat").read_text(encoding="utf-8", errors="replace")
            ticks += sum(map(int, words.rpartition(")")[2].split()[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


def kept_waiting(pid):
    """Return the seconds for which a process tree was ready to run and got no processor.

    None are counted for one with many processes or threads: they keep each other waiting.
    """
    nanoseconds, count = 0, 0
    for one in tree(pid):
        with contextlib.suppress(OSError, ValueError, IndexError):
            for thread in os.listdir(f"/proc/{one}/task"):
                words = Path(f"/proc/{one}/task/{thread}/schedstat").read_text(encoding="ascii")
                nanoseconds += int(words.split()[1])
                count += 1
    return nanoseconds / 1e9 if count <= AT_REST else 0.0
