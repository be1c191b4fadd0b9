"""Run the public tests in a sandbox, and report on a student's file, task by task.

Part of the worker, which imports it after the test files have arrived through the pipe. Whatever
student code does to the result, it only becomes text on the student's own page.
"""

import contextlib
import os
import sys

LIMIT = 4.0  # seconds for a test: endless code has already stopped in a hidden test
ROWS, TEXT = 12, 3000


def unpack(files):
    """Write the test files to a folder, from which `tests` is imported from now on."""
    folder = os.environ["TMPDIR"] + "/practice"
    for name, data in files.items():
        path = os.path.join(folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data.numpy().tobytes())
    for name in [n for n in sys.modules if n == "tinylm" or n.split(".")[0] == "tests"]:
        del sys.modules[name]  # a smaller set of them has loaded the file until now
    sys.path.insert(0, folder)
    os.chdir(folder)
    return folder


class Listener:
    """A plugin of pytest that keeps the failures of the task whose tests are running."""

    def __init__(self, tell):
        self.tell, self.rows, self.more, self.now = tell, [], 0, None

    def pytest_runtest_logreport(self, report):
        """Record a failure; a new file is a new task."""
        self._turn(int(os.path.basename(report.nodeid.split("::")[0])[len("test_task")]))
        if report.failed and len(self.rows) < ROWS:
            named, text = report.message
            self.rows.append([report.nodeid.split("::")[-1][:80], named[:200], text[:TEXT]])
        elif report.failed:
            self.more += 1

    def pytest_sessionfinish(self):
        """Report the last task."""
        self._turn(None)

    def _turn(self, number):
        if self.now is not None and number != self.now:
            self.tell({"task": self.now, "failures": self.rows, "more": self.more})
            self.rows, self.more = [], 0
        self.now = number


def listener(tell):
    """Return a Listener that sees the mistake which a failure names."""
    import pytest

    class Watcher(Listener):
        @pytest.hookimpl(wrapper=True, tryfirst=True)  # around conftest.py, which sets the text
        def pytest_runtest_makereport(self, item, call):
            report = yield
            error = call.excinfo and call.excinfo.value
            named = getattr(error, "mistake", None)
            whole = isinstance(error, pytest.fail.Exception) and error.msg
            report.message = (named if type(named) is str else "", str(whole or report.longrepr))
            return report

    return Watcher(tell)


def run(request, path, tell):
    """Run the public tests of some tasks on the file at `path`.

    Args:
        request: holds `files` and `tests`.
        path: of the student's file.
        tell: called with a dict for each task, and with {"done": True} at the end.
    """
    unpack(request["files"])
    from tests.runner import judge

    options = [f"--lab={path}", f"--limit={LIMIT}", *request["tests"]]
    with contextlib.suppress(Exception):
        judge.run_pytest(options, [listener(tell)])
    tell({"done": True})
