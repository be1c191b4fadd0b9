"""Run the tests of one task on many variants of the lab file, each in a process of its own.

Importing torch and pytest takes longer than the tests of a task, so both are imported once and
every variant gets a forked copy of this process. Where forking is impossible (Windows) or unsafe
with torch (macOS), a few worker processes serve many variants each.
"""

import concurrent.futures
import contextlib
import gc
import io
import json
import multiprocessing
import os
import selectors
import signal
import sys
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"  # before torch

from instructor.variants.catalog import Variant
from tests.labfile import ROOT, TASKS

OPTIONS = ["-q", "-p", "no:cacheprovider", f"--rootdir={ROOT}", f"-c{ROOT / 'pyproject.toml'}"]
LIMIT = 100.0  # seconds a variant; the tests themselves stop endless loops much earlier


class Failure(NamedTuple):
    """One failing test."""

    test: str
    mistake: str  # the id of the mistake that the message names, or ""
    text: str  # the message


class Result(NamedTuple):
    """The tests of one variant. `code`: pytest's exit code, or -1 where the process died."""

    code: int
    failures: list[Failure]
    seconds: float
    output: str  # of pytest; kept where code is neither 0 nor 1


class _Watcher:
    """A pytest plugin that collects the failures."""

    def __init__(self) -> None:
        self.failures: list[Failure] = []

    def pytest_runtest_logreport(self, report) -> None:
        if report.failed:
            self.failures.append(Failure(report.nodeid.split("::")[-1], *report.message))

    def pytest_collectreport(self, report) -> None:
        if report.failed:
            self.failures.append(Failure(report.nodeid, "", str(report.longrepr)))


def _watcher() -> _Watcher:
    """Return a new plugin; pytest is imported only here, where preload was called before."""
    import pytest

    class Watcher(_Watcher):
        @pytest.hookimpl(wrapper=True, tryfirst=True)  # around conftest.py, which sets the text
        def pytest_runtest_makereport(self, item, call):
            report = yield
            error = call.excinfo and call.excinfo.value
            named = getattr(error, "mistake", None) or ""
            whole = isinstance(error, pytest.fail.Exception) and error.msg
            report.message = (named, str(whole or report.longrepr))
            return report

    return Watcher()


def tests_of(task: int) -> str:
    """Return the path of the tests of a task."""
    return str(ROOT / "tests" / f"test_task{task}_{TASKS[task].name}.py")


def preload() -> None:
    """Import everything that the tests need, by collecting those of the five tasks once.

    Nothing is run: a process that has used torch's autograd must not be forked.

    Raises:
        RuntimeError: they cannot be collected; with pytest's output.
    """
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    os.environ.pop("PYTEST_ADDOPTS", None)
    import pytest

    with contextlib.redirect_stdout(io.StringIO()) as output:
        code = pytest.main([*OPTIONS, "--collect-only", *map(tests_of, TASKS)])
    if code:
        raise RuntimeError(output.getvalue())
    gc.collect()
    gc.freeze()  # pytest collects garbage at its end; this spares it all that was imported


def judge(variant: Variant, folder: str, quick: bool = False) -> Result:
    """Run pytest in this process on one variant.

    Args:
        variant: what to test.
        folder: where to write the lab file.
        quick: stop at the first failure.
    """
    import pytest

    start, watcher, output = time.monotonic(), _watcher(), io.StringIO()
    path = Path(folder, f"{variant.id}.py".replace("/", "_"))
    path.write_text(variant.text, encoding="utf-8")
    options = [*OPTIONS, *(["-x"] * quick), f"--lab={path}"]
    with contextlib.redirect_stdout(output), contextlib.redirect_stderr(output):
        code = int(pytest.main([*options, tests_of(variant.task)], plugins=[watcher]))
    path.unlink()
    text = "" if code in (0, 1) else output.getvalue()[-3000:]
    return Result(code, watcher.failures, time.monotonic() - start, text)


def can_fork() -> bool:
    """Return whether a process with torch in it may be forked here."""
    wanted = multiprocessing.get_start_method(allow_none=True)
    return hasattr(os, "fork") and sys.platform != "darwin" and wanted in (None, "fork")


def run_all(
    variants: Iterable[Variant], folder: str, jobs: int = 2, quick: bool = False
) -> Iterator[tuple[Variant, Result]]:
    """Yield (variant, result) in the order in which they finish.

    Args:
        variants: what to test.
        folder: an empty folder for the lab files.
        jobs: number of processes at a time.
        quick: stop at a variant's first failure.
    """
    if can_fork():
        preload()
        yield from _forked(list(variants), folder, jobs, quick)
    else:
        yield from _spawned(list(variants), folder, jobs, quick)


# ---------------------------------------------------------------- with fork


class _Child(NamedTuple):
    variant: Variant
    pid: int
    start: float
    data: list[bytes]


def _forked(
    variants: list[Variant], folder: str, jobs: int, quick: bool
) -> Iterator[tuple[Variant, Result]]:
    waiting = variants[::-1]
    running: dict[int, _Child] = {}  # by the pipe that its result comes from
    with selectors.DefaultSelector() as pipes:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    pipe, child = _fork(waiting.pop(), folder, quick)
                    running[pipe] = child
                    pipes.register(pipe, selectors.EVENT_READ)
                for key, _ in pipes.select(timeout=1.0):
                    if chunk := os.read(key.fd, 1 << 16):
                        running[key.fd].data.append(chunk)
                        continue
                    pipes.unregister(key.fd)
                    os.close(key.fd)
                    child = running.pop(key.fd)
                    yield child.variant, _result(child)
                for child in running.values():
                    if time.monotonic() - child.start > LIMIT:
                        os.kill(child.pid, signal.SIGKILL)
        finally:
            for child in running.values():
                os.kill(child.pid, signal.SIGKILL)
                os.waitpid(child.pid, 0)


def _fork(variant: Variant, folder: str, quick: bool) -> tuple[int, _Child]:
    """Start a child that writes its result as JSON to a pipe."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a library's idle threads are not needed in the child
        pid = os.fork()
    if pid:
        os.close(write)
        return read, _Child(variant, pid, time.monotonic(), [])
    try:
        os.close(read)
        silent = os.open(os.devnull, os.O_RDWR)
        for fd in (0, 1, 2):
            os.dup2(silent, fd)
        result = json.dumps(judge(variant, folder, quick)).encode()
        with os.fdopen(write, "wb") as pipe:
            pipe.write(result)
    finally:
        os._exit(0)  # without the parent's clean-up


def _result(child: _Child) -> Result:
    """Return what a child that has ended wrote."""
    _, status = os.waitpid(child.pid, 0)
    data = b"".join(child.data)
    if not data:
        seconds = time.monotonic() - child.start
        return Result(-1, [], seconds, f"the process ended without a result (status {status})")
    code, failures, seconds, output = json.loads(data)
    return Result(code, [Failure(*failure) for failure in failures], seconds, output)


# ---------------------------------------------------------------- without fork


def _spawned(
    variants: list[Variant], folder: str, jobs: int, quick: bool
) -> Iterator[tuple[Variant, Result]]:
    spawn = multiprocessing.get_context("spawn")
    with concurrent.futures.ProcessPoolExecutor(
        jobs, spawn, initializer=preload, max_tasks_per_child=50
    ) as pool:
        futures = {pool.submit(judge, v, folder, quick): v for v in variants}
        try:
            for future in concurrent.futures.as_completed(futures):
                yield futures[future], future.result()
        finally:
            pool.shutdown(cancel_futures=True)
