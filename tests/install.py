"""Make .venv beside lab15_grpo.py and install what the lab needs into it.

    python3 -m tests.install                    (Windows: py -m tests.install)
    python3 -m tests.install --all              the optional packages too, for make test-all
    python3 -m tests.install --offline wheels   from a folder of wheels, without network
    python3 -m tests.install --clean            take .venv and the caches away

Before pip starts, one line reports a Python or a system that does not fit. If requirements.txt has
not changed since the last time, nothing is done. After a failure, run it again: it continues.

Only the standard library, and no syntax that Python 2.7 cannot read: an old Python must be able to
report that it is too old.
"""

from __future__ import print_function

import argparse
import hashlib
import os
import platform
import shutil
import struct
import subprocess
import sys
import sysconfig
import time

OLDEST, NEWEST = (3, 11), (3, 14)  # the Pythons that the pinned torch has wheels for
GLIBC, MACOS = (2, 28), (14,)  # the oldest systems that these wheels run on
ROOM_GB = 2.0  # .venv with torch's CPU build takes 1.4 GB
ROOM_CUDA_GB = 9.0  # with the CUDA libraries that torch brings by default on Linux
TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STAMP = "lab15_installed.txt"


def say(text):
    """Print a line, whatever the terminal can show (a folder's name may be in any language)."""
    print(text.encode("ascii", "backslashreplace").decode("ascii"))
    sys.stdout.flush()


def dotted(version):
    """Return (3, 11) as '3.11'."""
    return ".".join(str(part) for part in version)


def numbers(text):
    """Return '2.36' or '14.5.1' as (2, 36) or (14, 5, 1); () if there is none."""
    parts = []
    for part in text.split("."):
        if not part.isdigit():
            break
        parts.append(int(part))
    return tuple(parts)


def has_module(name):
    """Return whether a module of the standard library is installed (Debian splits some off)."""
    try:
        __import__(name)
    except ImportError:
        return False
    return True


def facts():
    """Return what decides whether the lab can be installed here, as a dict."""
    windows = os.name == "nt"
    libc, version = platform.libc_ver()
    return {
        "version": tuple(sys.version_info[:2]),
        "implementation": platform.python_implementation(),
        "free_threaded": bool(sysconfig.get_config_var("Py_GIL_DISABLED")),
        "bits": 8 * struct.calcsize("P"),
        "system": platform.system(),
        # On Windows the Python counts, not the processor: an x86-64 one runs on ARM too.
        "machine": sysconfig.get_platform() if windows else platform.machine(),
        "libc": numbers(version) if libc == "glibc" else (),  # () on Alpine
        "macos": numbers(platform.mac_ver()[0]),
        "venv": has_module("venv") and has_module("ensurepip"),
    }


def problem(f):
    """Return why the lab cannot run on a machine with these facts, in one line, or None."""
    machine = f["machine"].lower()
    linux, mac, windows = (f["system"] == name for name in ("Linux", "Darwin", "Windows"))
    checks = [
        (f["version"] < OLDEST,
         "{here} is too old: the lab needs {wanted}. Install one, then run python3.12 -m"
         " tests.install (Windows: py -3.12 -m tests.install; with make: make PYTHON=python3.12"
         " train)"),
        (f["version"] > NEWEST,
         "{here} is too new: {torch} has no build for it yet. Use {wanted}."),
        (f["free_threaded"],
         "this is a free-threaded Python: the lab needs the ordinary {wanted} (CPython)."),
        (f["implementation"] != "CPython",
         "this is {implementation}: the lab needs the ordinary {wanted} (CPython)."),
        (f["bits"] != 64, "this is a 32-bit Python: PyTorch needs a 64-bit {wanted}."),
        (not f["venv"],
         "{here} has no venv module here. On Debian and Ubuntu: apt install python{number}-venv"
         " (elsewhere: install the complete Python), then run this again."),
        (not (linux or mac or windows),
         "{torch} has no build for {system}: use Linux, macOS or Windows."),
        (linux and machine not in ("x86_64", "amd64", "aarch64", "arm64"),
         "{torch} has no build for Linux on {machine}, only for x86-64 and ARM64."),
        (linux and not f["libc"],
         "this Linux has no GNU C library (Alpine, musl), and {torch} has no build without it. Use"
         " Debian, Ubuntu or Fedora, for example in a container."),
        (linux and f["libc"] < GLIBC,
         "this Linux is too old for {torch}: glibc {libc} here, {glibc} or newer needed."),
        (mac and machine != "arm64",
         "{torch} has no build for Intel Macs or Intel Pythons. On an Apple silicon Mac install an"
         " arm64 Python; on an Intel Mac use another machine."),
        (mac and f["macos"] and f["macos"] < MACOS,
         "macOS {macos} is too old for {torch}: macOS {oldest_macos} or newer needed."),
        (windows and machine != "win-amd64",
         "{torch} has no build for this Python ({machine}). Install the 'Windows installer"
         " (64-bit)' of Python; on a PC with an ARM processor too."),
    ]
    words = dict(
        f, machine=machine, libc=dotted(f["libc"]), macos=dotted(f["macos"]),
        number=dotted(f["version"]), here="Python " + dotted(f["version"]),
        wanted="Python {} to {}".format(dotted(OLDEST), dotted(NEWEST)),
        torch="PyTorch " + pinned("torch"), glibc=dotted(GLIBC), oldest_macos=dotted(MACOS),
    )
    for is_so, line in checks:
        if is_so:
            return line.format(**words)
    return None


def pinned(name):
    """Return the version of a package in requirements.txt."""
    with open(os.path.join(TOP, "requirements.txt")) as f:
        for line in f:
            if line.startswith(name + "=="):
                return line.split("==")[1].strip()
    return ""


def room_problem(folder, system):
    """Return (line, fatal) about too little free disk, or (None, False)."""
    try:
        free = shutil.disk_usage(os.path.dirname(os.path.abspath(folder))).free / 1e9
    except OSError:
        return None, False
    if free < ROOM_GB:
        return "only {:.1f} GB free here, the lab needs {:.1f} GB.".format(free, ROOM_GB), True
    if system == "Linux" and free < ROOM_CUDA_GB:
        line = "{:.1f} GB free here: enough for PyTorch's CPU build, not for the default one"
        return line.format(free) + " with CUDA (see README.md).", False
    return None, False


def python_of(venv):
    """Return the path of a virtual environment's Python."""
    parts = ("Scripts", "python.exe") if os.name == "nt" else ("bin", "python")
    return os.path.join(venv, *parts)


# With these set pip installs elsewhere, or leaves out what is elsewhere already.
ELSEWHERE = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_PYTHON", "PYTHONPATH", "PYTHONHOME")


def call(command, quiet=False):
    """Run a command in the top folder; return its exit code."""
    # A user's `user = true` for pip cannot work inside a virtual environment.
    env = dict(os.environ, PIP_USER="0")
    for name in ELSEWHERE:
        env.pop(name, None)
    if not quiet:
        return subprocess.call(command, cwd=TOP, env=env)
    with open(os.devnull, "w") as null:
        return subprocess.call(command, cwd=TOP, env=env, stdout=null, stderr=null)


def stamp_lines(files):
    """Return one line per requirements file: its name and a hash that line ends don't change."""
    lines = []
    for name in files:
        with open(os.path.join(TOP, name), "rb") as f:
            text = f.read().replace(b"\r\n", b"\n")
        lines.append(name + " " + hashlib.sha256(text).hexdigest())
    return lines


def is_done(venv, files):
    """Return whether all of these files were installed as they are now."""
    path = os.path.join(venv, STAMP)
    if not os.path.exists(python_of(venv)) or not os.path.exists(path):
        return False
    with open(path) as f:
        return set(stamp_lines(files)) <= set(f.read().splitlines())


def make_venv(venv):
    """Make the virtual environment unless it is there and its pip works; return success."""
    if os.path.exists(python_of(venv)):
        if call([python_of(venv), "-m", "pip", "--version"], quiet=True) == 0:
            return True
        say("install: {} is incomplete; making it again".format(venv))
    elif os.path.exists(venv) and not os.path.exists(os.path.join(venv, "pyvenv.cfg")):
        say("install: {} is in the way and no virtual environment; move it.".format(venv))
        return False
    if call([sys.executable, "-m", "venv", "--clear", venv]) == 0:
        return True
    say("install: python -m venv failed; its message is above.")
    return False


def install(venv, files, offline):
    """Install the requirements files into venv; return an exit code.

    Args:
        venv: folder of the virtual environment.
        files: names of requirements files.
        offline: folder of wheels, or None.
    """
    start = time.time()
    say("install: Python {}, into {}".format(platform.python_version(), venv))
    if not make_venv(venv):
        return 1
    command = [python_of(venv), "-m", "pip", "install", "--disable-pip-version-check"]
    if offline:
        command += ["--no-index", "--find-links", offline]
    for name in files:
        command += ["-r", name]
    if call(command) != 0:
        say(PIP_STOPPED + (WHY_OFFLINE if offline else WHY_ONLINE))
        return 1
    if call([python_of(venv), "-c", "import torch"]) != 0:
        say(NO_IMPORT)
        return 1
    with open(os.path.join(venv, STAMP), "w") as f:
        f.write("\n".join(stamp_lines(files)) + "\n")
    python = os.path.relpath(python_of(venv), TOP) if venv.startswith(TOP) else python_of(venv)
    say("\ninstall: done in {:.0f} s. Next: {} -m pytest -q -k task1".format(
        time.time() - start, python))
    return 0


PIP_STOPPED = """
install: pip stopped; its message is above. What was fetched is kept: run this again and it
continues. """
WHY_ONLINE = """If it was the network: behind a proxy, set HTTPS_PROXY or pip's 'proxy' setting;
without a network, see "A classroom without a network" in README.md. If the disk was full on
Linux: PyTorch's CPU build is far smaller, see README.md."""
WHY_OFFLINE = """'No matching distribution' means that the folder lacks a wheel for this Python
and system: fill it with the same Python version on the same kind of system."""
NO_IMPORT = """
install: PyTorch is installed but cannot be imported; its message is above. On Windows,
'DLL load failed' goes away with the Microsoft Visual C++ Redistributable (x64)."""


KEPT = (".git", ".venv", "venv", "runs", "wheels")  # not searched for caches


def clean(venv):
    """Take the virtual environment and the caches away; runs/ and all work stay."""
    for folder, subfolders, _ in os.walk(TOP):
        subfolders[:] = [d for d in subfolders if d not in KEPT]
        for name in ("__pycache__", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints"):
            if name in subfolders:
                subfolders.remove(name)
                shutil.rmtree(os.path.join(folder, name), ignore_errors=True)
    if os.path.exists(os.path.join(venv, "pyvenv.cfg")):
        shutil.rmtree(venv)
    return 0


def main():
    """Read the flags, check the machine, install; return an exit code."""
    about = "Make .venv and install what the lab needs into it."
    parser = argparse.ArgumentParser(prog="python -m tests.install", description=about)
    parser.add_argument("--offline", metavar="DIR", help="take the wheels from DIR, no network")
    parser.add_argument("--dev", action="store_true", help="instructor/requirements.txt too")
    parser.add_argument("--all", action="store_true", help="and what beyond/ needs")
    parser.add_argument("--venv", metavar="DIR", default=os.path.join(TOP, ".venv"))
    parser.add_argument("--clean", action="store_true", help="remove .venv and caches, then stop")
    args = parser.parse_args()
    venv = os.path.abspath(args.venv)
    if args.clean:
        return clean(venv)
    files = ["requirements.txt"]
    if args.dev or args.all:
        files += ["instructor/requirements.txt"]
    if args.all:
        files += ["beyond/requirements.txt", "beyond/requirements-trl.txt"]
    if is_done(venv, files):
        say("install: nothing to do, {} is up to date".format(venv))
        return 0
    f = facts()
    line, fatal = problem(f), True
    if not line and args.offline and not os.path.isdir(args.offline):
        line = "there is no folder {}".format(args.offline)
    if not line:
        line, fatal = room_problem(venv, f["system"])
    if line:
        say("install: " + line)
    if line and fatal:
        return 1
    return install(venv, files, args.offline and os.path.abspath(args.offline))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        say("\ninstall: stopped; run it again and it continues")
        sys.exit(130)
