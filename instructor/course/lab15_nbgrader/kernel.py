"""A kernel in bubblewrap: a student's cells see Python, their own folder, and nothing else.

No network, no environment, no file of the course but the submission's own, read-only; limits on
processes, memory, processor time and scratch space. The kernel's sockets are in a folder that
exists only inside; this process reaches them through /proc/PID/root. So not even the way to talk
to the kernel is a place on your disk where it can write.
"""

import contextlib
import functools
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import threading
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

MEMORY = 3 << 30  # bytes of all processes of a kernel together
SCRATCH = 64 << 20  # bytes of its /tmp
FILE_SIZE, OPEN_FILES, PROCESSES, CPU_SECONDS = 32 << 20, 256, 128, 120
FIRST_UID = 62000  # of the kernels where nbgrader runs as root
START = 20.0  # seconds until bubblewrap must have said which process it made
LAUNCH = """
import resource as r
for name, value in {limits}.items():
    r.setrlimit(getattr(r, name), (value, value))
from ipykernel import kernelapp
# -P kept a submission's files from standing in for Python's own; the cells may import them.
kernelapp.launch_new_instance(exec_lines=["import sys; sys.path.insert(0, '')"])
"""
REMEDY = """A student's cells would have all rights of your account. Either install
bubblewrap and let it make namespaces:
    apt-get install bubblewrap        (Debian, Ubuntu; not on macOS or Windows)
    sysctl kernel.apparmor_restrict_unprivileged_userns=0        (Ubuntu 24.04)
or, only if you trust every notebook, set LAB15_TRUST=1."""


class NoSandbox(RuntimeError):
    """Bubblewrap is missing or does not work here."""


def trusted() -> bool:
    """Return whether the teacher has switched the sandbox off (LAB15_TRUST=1)."""
    return os.environ.get("LAB15_TRUST", "") not in ("", "0")


def find_bwrap() -> str | None:
    """Return the path of bubblewrap, or None."""
    return shutil.which("bwrap", path=os.environ.get("PATH", "") + ":/usr/bin:/bin")


@functools.cache
def problem() -> str | None:
    """Return why there is no sandbox here, or None."""
    if sys.platform != "linux":
        return "bubblewrap needs Linux"
    if find_bwrap() is None:
        return "bubblewrap (bwrap) is not installed"
    try:
        return _try_out()
    except (OSError, ValueError, NoSandbox) as error:
        return f"bubblewrap does not start ({error})"


def _try_out() -> str | None:
    """Start a sandbox and look into it, as for a kernel; return what is wrong, or None."""
    said, says = os.pipe()
    command = bwrap_command(tempfile.gettempdir(), ("--info-fd", str(says)))
    command += [sys.executable, "-I", "-c", "print(7, flush=True); input()"]
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    process: Any = subprocess.Popen(command, pass_fds=(says,), **pipes)
    os.close(says)
    with process:
        try:
            pid = child_of(said)
            answers = select.select([process.stdout], [], [], START)[0]
            if answers and process.stdout.readline().strip() == b"7":
                if os.path.isdir(f"/proc/{pid}/root/ipc"):
                    return None
                return f"bubblewrap starts, but /proc/{pid}/root cannot be read"
        except NoSandbox:
            pass
        finally:
            process.kill()
        error = process.stderr.read()[-300:].decode("utf-8", "replace").strip()
    return f"bubblewrap does not start: {error or 'it gives no reason'}"


def child_of(said: int) -> int:
    """Return the process id that bubblewrap writes to a pipe; close the pipe.

    Raises:
        NoSandbox: it writes none.
    """
    text = b""
    with os.fdopen(said, "rb", buffering=0) as file:
        while b"}" not in text:  # to its end: bubblewrap dies of a pipe closed too early
            ready = select.select([file], [], [], START)[0]
            piece = file.read(4096) if ready else b""
            if not piece:
                raise NoSandbox("it ended at once")
            text += piece
    return int(json.loads(text)["child-pid"])


# ---------------------------------------------------------------- the command line


def _inside(path: str, folder: str) -> bool:
    return Path(folder) in [Path(path), *Path(path).parents]


def _mounts() -> list[str]:
    """Return the folders that Python and its packages need, outermost first."""
    wanted = {"/usr", sys.prefix, sys.base_prefix, sysconfig.get_paths()["purelib"]}
    wanted |= {os.path.realpath(p) for p in wanted}
    link = sys.executable  # of a venv it may be a chain of links
    while os.path.islink(link):
        link = os.path.join(os.path.dirname(link), os.readlink(link))
        prefix = os.path.dirname(os.path.dirname(os.path.abspath(link)))
        # Not every folder with a link in its bin: it could be somebody's home.
        if list(Path(prefix, "lib").glob("python3*")):
            wanted.add(prefix)
    found = sorted({os.path.normpath(p) for p in wanted if os.path.isdir(p)}, key=len)
    if "/" in found:
        raise NoSandbox("Python is installed in the root folder; use a virtual environment")
    return [p for i, p in enumerate(found) if not any(_inside(p, q) for q in found[:i])]


def _system() -> list[str]:
    args = []
    for path in ("/lib", "/lib64", "/lib32", "/bin", "/sbin"):
        if os.path.islink(path):
            args += ["--symlink", os.readlink(path), path]
        elif os.path.isdir(path):
            args += ["--ro-bind", path, path]
    return [*args, "--ro-bind-try", "/etc/ld.so.cache", "/etc/ld.so.cache"]


def _environment(scratch: str) -> dict[str, str]:
    names = ("MPLBACKEND",)
    return {
        "HOME": scratch,
        "IPYTHONDIR": f"{scratch}/ipython",
        "LC_ALL": "C.UTF-8",
        "MKL_NUM_THREADS": "1",
        "MPLCONFIGDIR": f"{scratch}/matplotlib",
        "NBGRADER_EXECUTION": "autograde",
        "OMP_NUM_THREADS": "1",
        "PATH": "/usr/bin:/bin",
        "TMPDIR": scratch,
        **{name: os.environ[name] for name in names if name in os.environ},
    }


def bwrap_command(
    folder: str, extra: tuple[str, ...] = (), hidden: tuple[str, ...] = ()
) -> list[str]:
    """Return the command line of a sandbox; the program to run in it is to be added.

    Args:
        folder: the submission; it is seen as /lab, read-only.
        extra: further arguments for bubblewrap.
        hidden: folders that must not be seen even if they are inside a folder that Python needs.

    Raises:
        NoSandbox: bubblewrap is missing, or Python is in the root folder.
    """
    bwrap = find_bwrap()
    if bwrap is None:
        raise NoSandbox("bubblewrap (bwrap) is not installed")
    root, mounts = os.geteuid() == 0, _mounts()
    args = [bwrap, "--die-with-parent", "--new-session", "--clearenv", "--unshare-pid"]
    args += ["--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    args += ["--hostname", "lab", "--cap-drop", "ALL"]
    if root:  # the kernel becomes a user of its own, without any right, before it starts
        caps = ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP")
        args += [a for cap in caps for a in ("--cap-add", cap)]
    else:
        args += ["--unshare-user", "--uid", "65534", "--gid", "65534"]
    # An environment in /tmp would be hidden by the sandbox's own /tmp.
    scratch = "/scratch" if any(_inside(p, "/tmp") for p in mounts) else "/tmp"
    for name, value in _environment(scratch).items():
        args += ["--setenv", name, value]
    args += ["--proc", "/proc", "--dev", "/dev", "--size", "1048576", "--tmpfs", "/dev/shm"]
    args += ["--remount-ro", "/dev"]
    for path, size in ((scratch, SCRATCH), ("/ipc", 65536)):
        args += ["--size", str(size), "--perms", "1777", "--tmpfs", path]
    parents = {str(q) for p in mounts for q in Path(p).parents} - {"/", scratch}
    args += [a for q in sorted(parents, key=len) for a in ("--dir", q)]
    args += [a for p in mounts for a in ("--ro-bind", p, p)] + _system()
    for path in sorted({os.path.realpath(h) for h in hidden}):
        if os.path.isdir(path) and any(_inside(path, p) for p in mounts):
            args += ["--size", "65536", "--tmpfs", path, "--remount-ro", path]
    args += ["--ro-bind", folder, "/lab", "--chdir", "/lab", *extra, "--remount-ro", "/"]
    if root:
        uid = str(FIRST_UID + os.getpid() % 1000)
        args += [shutil.which("setpriv") or "/usr/bin/setpriv", "--reuid", uid, "--regid", uid]
        args += ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
    return args


def _launcher() -> str:
    limits = {
        "RLIMIT_AS": MEMORY + (1 << 30),  # torch reserves more than it uses
        "RLIMIT_CORE": 0,
        "RLIMIT_CPU": CPU_SECONDS,
        "RLIMIT_FSIZE": FILE_SIZE,
        "RLIMIT_NOFILE": OPEN_FILES,
        "RLIMIT_NPROC": PROCESSES,
    }
    return LAUNCH.format(limits=limits)


# ---------------------------------------------------------------- the kernel manager


class SandboxKernelManager(AsyncKernelManager):
    """Starts one kernel in a sandbox; no kernel needs to be installed under any name."""

    hidden: tuple[str, ...] = ()  # folders that are never seen, wherever they are
    first: int | None

    def __init__(self, **kwargs: Any):
        super().__init__(**kwargs)
        self.transport, self.ip = "ipc", "/ipc/kernel"
        self.private = tempfile.mkdtemp(prefix="lab15-kernel-")
        self.connection_file = os.path.join(self.private, "kernel.json")
        self.ended, self.first = threading.Event(), None
        # A signal would reach bubblewrap only, and the command is made when all is known.
        self._kernel_spec = KernelSpec(
            argv=["kernel"], display_name="sandbox", language="python", interrupt_mode="message"
        )

    async def _async_launch_kernel(self, kernel_cmd: list[str], **kw: Any) -> None:
        if reason := problem():
            raise NoSandbox(f"{reason}. {REMEDY}")
        os.chmod(self.connection_file, 0o644)  # its folder is closed to everybody else
        said, says = os.pipe()
        # The file alone is bound, not its folder.
        extra = ("--ro-bind", self.connection_file, "/connection.json", "--info-fd", str(says))
        command = bwrap_command(os.path.abspath(kw["cwd"]), extra, self.hidden)
        command += [sys.executable, "-s", "-P", "-B", "-c", _launcher(), "-f", "/connection.json"]
        kw |= {"pass_fds": (says,), "stdout": subprocess.DEVNULL, "cwd": self.private}
        kw |= {"stderr": subprocess.DEVNULL, "env": {"PATH": "/usr/bin:/bin"}}
        try:
            await super()._async_launch_kernel([*command, *kernel_cmd[1:]], **kw)
        finally:
            os.close(says)
        pid = child_of(said)
        self.ip = f"/proc/{pid}/root/ipc/kernel"  # for the client; the kernel has read its own
        self.first = os.pidfd_open(pid)  # not the number, which another process may get
        threading.Thread(target=self._watch, args=(pid,), daemon=True).start()

    def _watch(self, pid: int) -> None:
        """Kill the sandbox when all of its processes together are too large."""
        while not self.ended.wait(0.25):
            if resident(pid) > MEMORY:
                self._kill()
                return

    def _kill(self) -> None:
        """Kill the sandbox's first process, and with it all the others."""
        if self.first is not None:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(self.first, signal.SIGKILL)

    def cleanup_ipc_files(self) -> None:
        """Remove nothing: the sockets end with the sandbox, and their paths lead into it."""

    async def _async_cleanup_resources(self, restart: bool = False) -> None:
        self.ended.set()
        await super()._async_cleanup_resources(restart)
        self._kill()  # bubblewrap has done it, if it lived long enough
        if self.first is not None:
            os.close(self.first)
            self.first = None
        shutil.rmtree(self.private, ignore_errors=True)

    cleanup_resources = _async_cleanup_resources


def resident(pid: int) -> int:
    """Return the memory in use by a process and all that descend from it, in bytes."""
    total, todo = 0, [pid]
    for _ in range(1000):
        if not todo:
            break
        folder = f"/proc/{todo.pop()}"
        with contextlib.suppress(OSError, ValueError, IndexError):
            total += int(Path(folder, "statm").read_text(encoding="ascii").split()[1])
            for thread in os.listdir(f"{folder}/task"):
                children = Path(folder, "task", thread, "children").read_text(encoding="ascii")
                todo += map(int, children.split())
    return total * os.sysconf("SC_PAGE_SIZE")
