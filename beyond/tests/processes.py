"""Start programs of several processes so that none outlives its test."""

import contextlib
import os
import signal
import subprocess
import sys

from lab15_run import TOP

TORCHRUN = [sys.executable, "-m", "torch.distributed.run", "--standalone"]  # a free port


def started(command, **environment):
    """Return a Popen of a command in a session of its own; its two outputs are one text."""
    inherited = {k: v for k, v in os.environ.items() if not k.startswith("TORCHELASTIC")}
    env = inherited | {"OMP_NUM_THREADS": "1"} | environment
    return subprocess.Popen(command, cwd=TOP, env=env, stdout=subprocess.PIPE, encoding="utf-8",
                            errors="replace", stderr=subprocess.STDOUT, start_new_session=True)


def finished(process, seconds):
    """Return (exit code, what it said); one that takes longer is ended, with all it started.

    Raises:
        subprocess.TimeoutExpired: it took longer.
    """
    try:
        said, _ = process.communicate(timeout=seconds)
    except BaseException:
        process.terminate()  # torchrun then ends its ranks, which have sessions of their own
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.communicate(timeout=40)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        raise
    return process.returncode, said


def ended(command, seconds, **environment):
    """Return (exit code, what it said) of a command that has at most so many seconds."""
    return finished(started(command, **environment), seconds)


def torchrun(ranks, *args, seconds=180, restarts=0):
    """Return (exit code, what it said) of beyond.launch.tiny on several ranks."""
    how = ["--nproc-per-node", str(ranks), "--max-restarts", str(restarts)]
    return ended([*TORCHRUN, *how, "-m", "beyond.launch.tiny", *map(str, args)], seconds)
