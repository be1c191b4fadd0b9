"""Run a new Python, or pytest on a lab file (see the fixture `room` of conftest.py)."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from tests.labfile import ROOT, TASKS

# A terminal of the plainest kind.
PLAIN = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "NO_COLOR": "1"}


def run_python(*words, cwd=ROOT, **env):
    """Run a new Python and return the finished process, its output as bytes.

    Args:
        words: its command line.
        cwd: where to run it.
        env: more environment variables.
    """
    env = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"} | env
    return subprocess.run([sys.executable, *map(str, words)], cwd=cwd, env=env,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=300)


def run(root, *args, text=None, env=None):
    """Run pytest in a folder; return (exit code, output), which must be short and ASCII.

    Args:
        root: the folder, of the lab or of a copy.
        args: options of pytest.
        text: the text or bytes of a lab file, which is written to lab.py and tested.
        env: more environment variables, for a new Python; None: a forked child will do.
    """
    if text is not None:
        (root / "lab.py").write_bytes(text if isinstance(text, bytes) else text.encode())
        args = (*args, "--lab=lab.py")
    handle, out = tempfile.mkstemp(suffix=".txt")
    os.close(handle)
    try:
        code = _run(root, args, env, out)
        shown = Path(out).read_bytes()
    finally:
        os.unlink(out)
    assert shown.isascii(), shown
    shown = shown.decode()
    for word in ("Traceback", "_pytest", "site-packages", "INTERNALERROR"):
        assert word not in shown, shown
    return code, shown


def _run(root, args, env, out):
    if env is not None or not hasattr(os, "fork"):
        with open(out, "wb") as file:  # one for both, as on a screen
            return subprocess.run(
                [sys.executable, "-m", "pytest", *args], cwd=root, stdout=file, stderr=file,
                env=os.environ | (env or {}), stdin=subprocess.DEVNULL,
            ).returncode
    import torch

    torch.optim.SGD([torch.zeros(1)], 0.1)  # imports a second's worth, once for all children
    if (pid := os.fork()) == 0:
        _be_pytest(root, args, out)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def _be_pytest(root, args, out):
    """Run pytest in the child; never return."""
    code = 99
    try:
        handle = os.open(out, os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(handle, 1)
        os.dup2(handle, 2)
        sys.stdout = open(1, "w", encoding="ascii", closefd=False)
        sys.stderr = open(2, "w", encoding="ascii", closefd=False)
        for name in [n for n in sys.modules if n.split(".")[0] in ("tests", "tinylm", "lab15_run")]:
            del sys.modules[name]
        os.chdir(root)
        sys.path[:] = [str(root)] + [p for p in sys.path if p and Path(p).resolve() != ROOT]
        code = pytest.main(list(args))
        sys.stdout.flush()
        sys.stderr.flush()
    finally:
        os._exit(int(code))


def progress_lines(text):
    """Return the five progress lines' texts, without task and function name."""
    lines = [line for line in text.split("\n") if line[:6] in [f"task{n} " for n in TASKS]]
    return [line[24:] for line in lines]
