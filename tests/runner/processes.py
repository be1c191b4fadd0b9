"""Processes that judge a lab file for watch.py; PyTorch is imported before there is a job.

A job is a dict: "lab", the file; "order", the tasks; "limit", the seconds for a test. Forked(job)
and Spawned(job) start a run. Both have `lines`, a file with a JSON line for every Verdict (a list)
and one for the end (a dict with "notes" or "error"), and stop().
"""

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import warnings

from tests.labfile import ROOT
from tests.runner.judge import JudgeError, judge, warm_up


def serve(job, out):
    """Judge; write a JSON line for every verdict, and a last one with notes or an error."""

    def write(message):
        out.write(json.dumps(message).encode() + b"\n")
        out.flush()

    try:
        _, notes = judge(job["lab"], job["order"], write, job["limit"])
        write({"notes": notes})
    except (JudgeError, FileNotFoundError) as error:
        write({"error": str(error)})


def silence():
    """Take this process's terminal away: the student's prints would garble the screen."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the one who watches
    for fd in (0, 1, 2):
        os.dup2(os.open(os.devnull, os.O_RDWR), fd)


class Forked:
    """A run in a forked child; `lines` is the file of what it writes."""

    def __init__(self, job):
        read, write = os.pipe()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the other threads only wait; the child needs none
            self.pid = os.fork()
        if self.pid == 0:
            try:
                os.close(read)
                silence()
                with open(write, "wb") as out:
                    serve(job, out)
            finally:
                os._exit(1)
        os.close(write)
        self.lines = open(read, "rb")

    def stop(self):
        """End the child if it still runs."""
        if self.pid:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.pid = 0


class Spawned:
    """The same in a Python of its own. The next one starts at once, so that it is warm in time."""

    spare = None

    def __init__(self, job):
        self.process = Spawned.spare or self.start()
        Spawned.spare = self.start()
        try:
            self.process.stdin.write(json.dumps(job).encode() + b"\n")
            self.process.stdin.flush()
        except OSError:  # it died in the meantime: its lines end at once
            pass
        self.lines = self.process.stdout

    @staticmethod
    def start():
        """Start a Python that gets ready and waits for a job."""
        code = f"import sys; sys.path.insert(0, {str(ROOT)!r}); "
        code += "from tests.runner.processes import work; work()"
        command = [sys.executable, "-c", code]
        pipes = dict.fromkeys(("stdin", "stdout"), subprocess.PIPE)
        return subprocess.Popen(command, **pipes, stderr=subprocess.DEVNULL)

    def stop(self):
        """End the process if it still runs."""
        self.process.kill()
        self.process.wait()


def work():
    """Be the process that Spawned.start started."""
    source, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    silence()
    warm_up()
    if line := source.readline():
        serve(json.loads(line), out)


def can_fork():
    """Return whether a process with PyTorch in it may be forked here."""
    method = multiprocessing.get_start_method(allow_none=True)
    return hasattr(os, "fork") and sys.platform != "darwin" and method in (None, "fork")
