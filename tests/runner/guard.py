"""Run the tests so that a verdict comes even if the student's code ends the process.

`python -m pytest` runs its tests in a second process: a fork of the first one, made before PyTorch
is loaded, or a new Python (Windows). Where that process dies - a crash in C, memory that the
system does not have, an endless loop that no exception reaches - the first one knows which task or
line it was at, and starts again without it. So every other task gets its verdict, and the run
ends with the lines that it always ends with.

A run inside a program (check(), the watch, a debugger, an editor's plugin) is left alone.
"""

import atexit
import contextlib
import faulthandler
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import pytest

from tests import labfile
from tests.labfile import NUMBER_OF, TASKS, Problem, ascii_line

FOLDER = "LAB15_GUARDED"  # environment variable of the second process: where it keeps its log
BY_SPAWN = "LAB15_GUARD_BY_SPAWN"  # environment variable: a new Python even where fork works
PATIENCE = 1.0  # seconds for threads of the student's that still run at the end
ALONE = ("collectonly", "help", "version", "markers", "showfixtures", "usepdb", "trace")
TRACERS = ("pydevd", "debugpy", "coverage", "vscode_pytest")
# Ends of a process as Windows counts them.
WINDOWS = {0xC0000005: signal.SIGSEGV, 0xC00000FD: signal.SIGSEGV, 0xC0000017: signal.SIGABRT}
WORDS = {
    "SIGSEGV": "crashed Python (segmentation fault in C code)",
    "SIGBUS": "crashed Python (bus error in C code)",
    "SIGFPE": "crashed Python (arithmetic in C code)",
    "SIGILL": "crashed Python (illegal instruction in C code)",
    "SIGABRT": "crashed Python (abort in C code)",
    "SIGKILL": "ended Python: killed by the system, which may have run out of memory",
}


class Death(NamedTuple):
    """Why the second process ended.

    task: whose test was running, or None. line: of the lab file, or 0. why: in a few words.
    loading: the line of the top-level statement that was running, or 0.
    """

    task: int | None
    line: int
    why: str
    loading: int


# ============================================================== the first process


def main(config, path):
    """Return the exit code of a guarded run, or None where this process is to run the tests.

    Args:
        config: pytest's.
        path: the lab file.
    """
    if FOLDER in os.environ:
        begin(config, os.environ.pop(FOLDER))
        return None
    if not wanted(config):
        return None
    folder = tempfile.mkdtemp(prefix="lab15-tests-")
    code = 0
    try:
        code = rounds(config, path, folder)
        return code
    finally:
        if code is not None:  # None: this is the second process, and still needs the folder
            shutil.rmtree(folder, ignore_errors=True)


def rounds(config, path, folder):
    """Run the second process, again after each death, until it comes to its end.

    Args:
        config: pytest's.
        path: the lab file.
        folder: where the second process keeps its log.

    Returns: the exit code; None in the second process itself.
    """
    deaths: list = []
    stopped: list = []  # signals that asked the run to end
    slow = False
    while True:
        Path(folder, "deaths").write_text(json.dumps(deaths), "utf-8")
        for name in ("log", "dump"):
            Path(folder, name).write_bytes(b"")
        code = run(config, folder, stopped)
        if code is None:
            return None
        death = autopsy(folder, code, path)
        if death is None:
            return finished(folder, code)
        if stopped:
            return 2  # as pytest ends after Ctrl-C
        if "Timeout (" in dumped(folder) and not death.line and not slow:
            slow = True  # no line of the file was running: the machine was busy
            print("\nthe clock ran out outside of your code; starting again\n", flush=True)
            continue
        tell(config, death, path)
        if len(deaths) > 20 or not (death.task or death.loading):
            return 3
        deaths.append(death)


def wanted(config):
    """Return whether this is a plain run from the command line, without plugins or debugger."""
    option = config.option
    return (
        not config.invocation_params.plugins
        and "torch" not in sys.modules
        and threading.active_count() == 1
        and sys.gettrace() is None
        and not any(name in sys.modules for name in TRACERS)
        and not any(getattr(option, name, False) for name in ALONE)
        and not getattr(option, "numprocesses", None)
        and config.pluginmanager.hasplugin("faulthandler")
    )


def run(config, folder, stopped):
    """Start the second process and wait for it; return its exit code, None in that process.

    Args:
        config: pytest's.
        folder: where the second process keeps its log.
        stopped: list that gets the signals that asked the run to end.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    if not hasattr(os, "fork") or BY_SPAWN in os.environ:
        command = [sys.executable, "-m", "pytest", *map(str, config.invocation_params.args)]
        process = subprocess.Popen(command, env=os.environ | {FOLDER: folder})
        with passing_on(process.send_signal, stopped):
            return process.wait()
    capture = config.pluginmanager.getplugin("capturemanager")
    if capture is not None:
        capture.read_global_capture()  # what a process that died has left in a file of both
    pid = os.fork()
    if pid == 0:
        begin(config, folder)
        return None
    with passing_on(lambda number: os.kill(pid, number), stopped):
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


@contextlib.contextmanager
def passing_on(send, stopped):
    """Forward signals that end a program to the second process, and keep them in `stopped`."""
    # Ctrl-C in a terminal reaches both processes.
    terminal = sys.stdin is not None and sys.stdin.isatty()

    def hand_on(number, frame):
        stopped.append(number)
        if number != signal.SIGINT or not terminal:
            with contextlib.suppress(OSError):
                send(number)

    handlers = {}
    for name in ("SIGTERM", "SIGHUP", "SIGINT"):
        if number := getattr(signal, name, None):
            handlers[number] = signal.signal(number, hand_on)
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)


def autopsy(folder, code, path):
    """Return the Death of a process that did not come to its end, or None if it did.

    Args:
        folder: where the second process kept its log.
        code: its exit code.
        path: of the lab file.
    """
    records = read_log(folder)
    if any(record[0] in ("end", "over") for record in records) or code in (
        -signal.SIGTERM, -signal.SIGINT
    ):
        return None
    last = records[-1] if records else ["nothing"]
    dump = dumped(folder)
    line = line_in(dump, path)
    task = last[1] if last[0] == "test" else None
    loading = last[1] if last[0] == "load" else 0
    return Death(task, line or loading, words(code, dump), loading)


def dumped(folder):
    """Return what faulthandler has written."""
    return Path(folder, "dump").read_text("utf-8", "replace")


def read_log(folder):
    """Return the records of the second process; the last one may be cut off."""
    records = []
    for text in Path(folder, "log").read_bytes().splitlines():
        with contextlib.suppress(ValueError):
            records.append(json.loads(text))
    return records


def finished(folder, code):
    """Return the exit code of a run that came to its end."""
    over = [record[1] for record in read_log(folder) if record[0] == "over"]
    return over[-1] if over else max(code, 1) if code else 0


def line_in(dump, path):
    """Return the innermost line of the lab file in what faulthandler has written, or 0."""
    for file, line in re.findall(r'File "(.*)", line (\d+)', dump):
        if file == os.path.abspath(path) or ascii(file) == ascii(os.path.abspath(path)):
            return int(line)
    return 0


def words(code, dump):
    """Return why a process ended."""
    if "Timeout (" in dump:
        return "did not end, and no exception could stop it"
    number = WINDOWS.get(code, -code if code < 0 else None)
    if number is None:
        return f"ended Python with exit code {code}"
    name = signal.Signals(number).name if number in list(signal.Signals) else f"signal {number}"
    return WORDS.get(name, f"ended Python: killed by {name}")


def tell(config, death, path):
    """Report what happened, before the tests start again.

    Args:
        config: pytest's.
        death: a Death.
        path: of the lab file.
    """
    file = os.path.basename(path)
    if death.task:
        what = f"a test of task{death.task} {TASKS[death.task].name}"
    else:
        what = "a top-level statement" if death.loading else "what runs outside the tests"
    where = f" ({file} line {death.line})" if death.line else ""
    again = "; starting again without it" if death.task or death.loading else ""
    print(f"\n{ascii_line(what + where, 300)} {death.why}{again}\n", flush=True)


# ============================================================== the second process


def begin(config, folder):
    """Log every step from now on, for the first process."""
    log = open(Path(folder, "log"), "ab", buffering=0)
    config.pluginmanager.register(Recorder(folder, log), "lab15_guard")
    atexit.register(lambda: log.write(b'["end"]\n'))


class Recorder:
    """A pytest plugin that writes the log and skips what ended the process before."""

    def __init__(self, folder, log):
        self.log, self.code = log, None  # None: pytest has refused to begin
        self.dump = open(Path(folder, "dump"), "ab", buffering=0)
        rows = json.loads(Path(folder, "deaths").read_text("utf-8"))
        self.deaths = [Death(*row) for row in rows]
        for death in self.deaths:
            if death.loading:
                labfile.DEADLY[death.loading] = death.line, f"this statement {death.why}"
        labfile.on_statement = lambda line: self.write("load", line)

    def write(self, *record):
        """Add a record."""
        self.log.write(json.dumps(record).encode() + b"\n")

    @pytest.hookimpl(trylast=True)  # behind pytest's own, which would write to the screen
    def pytest_configure(self):
        """Let a crash leave its lines in a file."""
        faulthandler.enable(file=self.dump)

    def pytest_collection(self):
        """Note that the file is about to be loaded."""
        self.write("collecting")

    def pytest_collection_finish(self):
        """Note that the file is loaded."""
        self.write("collected")

    def pytest_runtest_logstart(self, nodeid):
        """Note that a test begins."""
        match = re.search(r"test_task([1-5])_", nodeid.split("::")[0])
        self.write("test", int(match[1]) if match else None)

    def pytest_runtest_logfinish(self):
        """Note that a test is done."""
        self.write("done")

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, exitstatus):
        """Keep the exit code."""
        self.code = int(exitstatus)

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self):
        """End; threads that student code has started must not keep the process alive."""
        if self.code is None:
            return  # the exit code of the process says it
        self.write("over", self.code)
        others = [t for t in threading.enumerate()
                  if t is not threading.main_thread() and not t.daemon]
        end = time.monotonic() + PATIENCE
        for thread in others:
            thread.join(max(0, end - time.monotonic()))
        if count := sum(thread.is_alive() for thread in others):
            print(f"{count} thread(s) that the code has started still ran at the end")
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(self.code)


def mark(config, lab):
    """Mark the tasks whose tests ended Python in an earlier round as broken."""
    recorder = config.pluginmanager.getplugin("lab15_guard")
    for death in recorder.deaths if recorder else ():
        if death.task:
            name = TASKS[death.task].name
            line = death.line or lab.__definitions__.get(name)
            lab.__failed__[NUMBER_OF[name]] = Problem(death.task, line, f"it {death.why}")


def dump_file(config):
    """Return where the last resort of the time limit writes, or None: to the screen."""
    recorder = config.pluginmanager.getplugin("lab15_guard")
    return recorder.dump if recorder else None
