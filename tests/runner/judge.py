"""Run the tests of some tasks inside this process; for watch.py and notebook.py.

The tests, their time limit and their messages are those of `python -m pytest`: this is pytest,
with a plugin that listens.
"""

import contextlib
import gc
import io
import os
from pathlib import Path
from typing import NamedTuple

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch, as in conftest.py

from tests.labfile import DEFAULT_LAB, ROOT, TASKS, ascii_line, no_lab_file, task_state
from tests.loader.limits import SECONDS
from tests.messages import screen
from tests.messages.progress import LAB, OUTCOMES, load_notes, progress

# Without what only costs time here: the cache, log records, a search for garbage at the end.
OFF = ("cacheprovider", "faulthandler", "logging", "unraisableexception", "threadexception")
OPTIONS = ["--rootdir", ".", "-o", "addopts=", "-rN", "--disable-warnings", "--capture=sys"]
OPTIONS += [text for name in OFF for text in ("-p", f"no:{name}")]


class Verdict(NamedTuple):
    """The result of testing one task.

    kind: "passed", "failed", "unwritten", "missing", "broken", or "written" (not tested).
    progress: a few words, such as "3 of 9 tests fail".
    test: the name of the test that is shown in full, or "".
    message: what that test says, or why the task cannot be tested, or "".
    failures: a row of screen.Failure for every test that failed.
    """

    number: int
    kind: str
    progress: str
    test: str = ""
    message: str = ""
    failures: tuple = ()


def told(verdict, others=(), options="", width=screen.WIDTH):
    """Return the lines to show of a task that does not pass, and of other tasks whose tests fail.

    Args:
        verdict: of the task to begin with.
        others: Verdicts of tasks to report in short.
        options: more of pytest's options, such as " --lab=FILE".
        width: columns of the screen.
    """
    n, lines = verdict.number, []
    failures = [screen.Failure(*row) for v in (verdict, *others) for row in v.failures]
    if not verdict.failures:
        lines += [part for line in verdict.message.split("\n") for part in screen.wrap(line, width)]
    if failures:
        lines += [""] * bool(lines) + screen.lines(failures, width, focus=n)
    lines += ["", screen.reading(n), *screen.more_messages(failures, options)]
    return [screen.plain(line) for line in lines]


def option_for(path):
    """Return pytest's option for a lab file, or "" for the one that is tested without it."""
    if os.path.realpath(path) == os.path.realpath(DEFAULT_LAB):
        return ""
    return screen.lab_option(path)


class JudgeError(Exception):
    """Why no test could be run, in a line or two."""


def judge(path, numbers, tell=lambda verdict: None, limit=SECONDS):
    """Run the tests of some tasks on a lab file.

    Args:
        path: the lab file.
        numbers: the tasks to test, in this order.
        tell: called with the Verdict of each task when the last of its tests is done.
        limit: seconds for each test.

    Returns: (verdicts, notes): task -> Verdict, for all five tasks, and lines about what failed
    while the file was loaded.

    Raises:
        JudgeError: the tests did not start.
        FileNotFoundError: no such file.
        KeyboardInterrupt: Ctrl-C, or the kernel's interrupt.
    """
    if not Path(path).is_file():
        raise FileNotFoundError(no_lab_file(path))
    listener = _Listener(tell)
    code, output = run_pytest(
        [f"--lab={os.path.abspath(path)}", f"--limit={limit}", *map(_tests_of, numbers)],
        [listener],
    )
    if code == 2 and not listener.broken:
        raise KeyboardInterrupt
    if code not in (0, 1) or listener.broken:
        lines = listener.broken or [line for line in output.splitlines() if line.strip()]
        raise JudgeError("\n".join(ascii_line(line, 500) for line in lines[-3:]))
    return listener.verdicts, listener.notes


def warm_up():
    """Import all that a run needs, so that a later one (in a forked child) is quick.

    The student's file is not touched, and no gradient is computed: a process in which autograd
    ran must not be forked.
    """
    import torch

    torch.optim.SGD([torch.zeros(1)], 0.1)  # the first optimizer imports a second's worth
    stubs = Path(__file__).parents[1] / "stubs.txt"
    code, output = run_pytest(
        ["--collect-only", f"--lab={stubs}", *map(_tests_of, TASKS)], []
    )
    if code:
        raise JudgeError(ascii_line(output or f"pytest ended with {code}", 500))
    gc.collect()
    gc.freeze()


def run_pytest(options, plugins):
    """Run pytest in this process, in the lab's folder; return (exit code, what it printed).

    No path in its arguments leads through that folder, whose name may have "[" or "::" in it.
    """
    import pytest

    output, environ, folder = io.StringIO(), dict(os.environ), here()
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    try:
        os.chdir(ROOT)
        with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
            code = int(pytest.main([*OPTIONS, *options], plugins=plugins))
    finally:
        with contextlib.suppress(OSError):  # it is gone
            os.chdir(folder)
        for name in ("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "PYTEST_ADDOPTS"):
            os.environ.pop(name, None)
            if name in environ:
                os.environ[name] = environ[name]
    return code, output.getvalue()


def here():
    """Return the working folder; the lab's where it is gone."""
    try:
        return os.getcwd()
    except OSError:
        return ROOT


def _tests_of(n):
    return f"tests/test_task{n}_{TASKS[n].name}.py"


class _Listener:
    """A plugin of pytest that makes verdicts of the reports."""

    def __init__(self, tell):
        self.tell, self.verdicts, self.notes, self.broken = tell, {}, [], []
        self.failures = {n: [] for n in TASKS}  # task -> rows of screen.Failure
        self.now = None  # the task whose tests are running

    def pytest_configure(self, config):
        self.config = config

    def pytest_collectreport(self, report):
        if report.failed:
            self.broken.append(str(report.longrepr))

    def pytest_runtest_logreport(self, report):
        n = int(os.path.basename(report.nodeid.split("::")[0])[len("test_task")])
        if n != self.now:
            self._finish()
            self.now = n
        if report.failed and hasattr(report, "failure"):
            self.failures[n].append(report.failure)

    def pytest_sessionfinish(self):
        if LAB not in self.config.stash:  # the tests could not be collected
            return
        self._finish()
        for n in TASKS:
            if n not in self.verdicts:
                self.verdicts[n] = self._verdict(n)
        lab, states, ran = self._seen()
        self.notes = load_notes(lab, states, ran)

    def _finish(self):
        if self.now is not None:
            self.verdicts[self.now] = self._verdict(self.now)
            self.tell(self.verdicts[self.now])

    def _seen(self):
        lab, outcomes = self.config.stash[LAB], self.config.stash[OUTCOMES]
        ran = {n: list(outcomes[n].values()) for n in TASKS}
        return lab, {n: task_state(lab, n) for n in TASKS}, ran

    def _verdict(self, n):
        _, states, ran = self._seen()
        words = progress(self.config, n, states[n], ran[n])
        if states[n].kind != "written":
            return Verdict(n, states[n].kind, words, "", states[n].text)
        if not ran[n]:
            return Verdict(n, "written", words)
        rows = self.failures[n]
        if not rows:
            return Verdict(n, "passed", words)
        best = screen.groups([screen.Failure(*row) for row in rows])[0][0]
        return Verdict(n, "failed", words, best.test, best.text, tuple(rows))
