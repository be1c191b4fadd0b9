"""Configure pytest: the file under test, "not written yet", short errors, progress lines.

Options: --lab=FILE tests another file than lab15_grpo.py, --slow adds the training run, --hints
(or --hints=2, --hints=3) prints hints for a task, --limit=SECONDS moves the time limit of a test.
"""

import argparse
import contextlib
import faulthandler
import gc
import importlib.util
import os
import random
import re
import sys
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch: more threads are slower on a model so small

import pytest

from tests.labfile import (
    DEFAULT_LAB,
    TASKS,
    ascii_line,
    lab_frames,
    load_lab,
    no_lab_file,
    task_state,
)
from tests.loader import settings, shadows
from tests.loader.limits import SECONDS, OutOfTime, TimeLimit, memory_limit
from tests.loader.surroundings import itself, tamed
from tests.messages import hints, screen
from tests.messages.describe import failure
from tests.messages.progress import COLLECTED, ENDLESS, LAB, OUTCOMES, load_notes, progress
from tests.runner import guard

WHOLE = pytest.StashKey()  # of the config: pytest's list of failures, while it is shortened
CLOCK = pytest.StashKey()  # of the config: the time limit of the test that runs
STDERR = pytest.StashKey()  # of the config: the real stderr, for the last resort of the limit

# ============================================================== options, the file under test


def pytest_addoption(parser):
    """Add the lab's own options."""
    group = parser.getgroup("lab 15")
    group.addoption("--lab", metavar="FILE", help="lab file to test (default: lab15_grpo.py)")
    group.addoption("--slow", action="store_true", help="also run the slow tests")
    group.addoption(
        "--hints", nargs="?", type=how_many, const=1, metavar="N",
        help="print the first N hints (default 1) for the task that is tested",
    )
    group.addoption(
        "--limit", type=how_long, default=SECONDS, metavar="SECONDS",
        help="time after which a test is stopped (default %(default)g; 0: never)",
    )


def how_many(text):
    """Read the N of --hints=N.

    Raises:
        argparse.ArgumentTypeError: it is no number from 1 to 3.
    """
    if text not in ("1", "2", "3"):
        raise argparse.ArgumentTypeError(f"{text!r}: say --hints=1 to --hints=3, or --hints last")
    return int(text)


def how_long(text):
    """Read the SECONDS of --limit=SECONDS.

    Raises:
        argparse.ArgumentTypeError: it is no number of at least 0, or more than a day.
    """
    with contextlib.suppress(ValueError):
        if 0 <= float(text) <= 86400:
            return float(text)
    raise argparse.ArgumentTypeError(f"{text!r}: say a number of seconds up to 86400; 0: no limit")


def pytest_configure(config):
    """Check what would otherwise end in a long traceback."""
    config.addinivalue_line("markers", "slow: takes more than a few seconds; needs --slow")
    # A test file that cannot be imported must not hide what the others say.
    config.option.continue_on_collection_errors = True
    config.stash[COLLECTED] = {n: {} for n in TASKS}
    config.stash[OUTCOMES] = {n: {} for n in TASKS}
    config.stash[ENDLESS] = {}
    config.pluginmanager.register(Together(), "lab15-together")
    if config.pluginmanager.hasplugin("faulthandler"):
        with contextlib.suppress(OSError):  # no stderr at all
            config.stash[STDERR] = os.dup(2)
    if importlib.util.find_spec("torch") is None:
        raise pytest.UsageError(
            f"PyTorch is not installed for {sys.executable}; "
            "run: python -m pip install -r requirements.txt"
        )
    if line := no_lab_file(lab_path(config)):
        raise pytest.UsageError(ascii_line(line, 500))


@pytest.hookimpl(tryfirst=True)
def pytest_cmdline_main(config):
    """Run the tests in a second process where a crash would lose the verdicts; see guard.py."""
    if line := shadows.complaint(lab_path(config)):
        raise pytest.UsageError(ascii_line(line, 500))
    return guard.main(config, lab_path(config))


def pytest_unconfigure(config):
    """Close what pytest_configure opened."""
    if STDERR in config.stash:
        os.close(config.stash[STDERR])


def pytest_sessionfinish(session):
    """Exclude torch from pytest's last garbage collection, which would take half a second."""
    if session.config.pluginmanager.hasplugin("unraisableexception"):  # it is what collects
        gc.freeze()


def lab_path(config):
    """Return the path of the file under test."""
    given = config.getoption("--lab")
    if given is None:
        return DEFAULT_LAB
    return Path(config.invocation_params.dir, os.path.expanduser(given))


def get_lab(config):
    """Return the module under test; loaded once per run, when first needed."""
    if LAB not in config.stash:
        config.stash[LAB] = load_lab(lab_path(config), limit=config.getoption("--limit"))
        guard.mark(config, config.stash[LAB])
        # Imports inside the student's functions find the modules beside the file, too.
        if (folder := os.path.dirname(config.stash[LAB].__file__)) not in sys.path:
            sys.path.append(folder)
    return config.stash[LAB]


@pytest.fixture(scope="session")
def lab(request):
    """The student's module, as load_lab returns it."""
    return get_lab(request.config)


@pytest.fixture
def whole_lab(lab):
    """The student's module for a test that needs all five tasks; fails if one is not written."""
    states = [task_state(lab, n) for n in TASKS]
    if unable := [state.text for state in states if state.kind != "written"]:
        pytest.fail("\n".join(unable), pytrace=False)
    return lab


@pytest.fixture(autouse=True)
def fresh_state():
    """Give every test the same seeds, and the settings that it counts on."""
    import torch

    settings.fresh()
    torch.manual_seed(0)
    random.seed(0)
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(0)


def pytest_report_header(config):
    """Name the file under test."""
    return f"lab file: {ascii_line(lab_path(config), 300)}"


# ============================================================== which tests run


def task_of(item):
    """Return the task that a test (or a file of tests) belongs to, or None."""
    match = re.match(r"test_task([1-5])_", item.path.name)
    return int(match[1]) if match else None


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector):
    """Count the tests of a file; say in a few lines why it cannot be read, such as a package.

    Here the list is still whole: neither -k nor the id of a single test has shortened it.
    """
    report = yield
    if n := isinstance(collector, pytest.Module) and task_of(collector):
        tests = [x for x in report.result or [] if isinstance(x, pytest.Item)]
        own = sum(not _is_left_out(item) for item in tests)
        collector.config.stash[COLLECTED][n][collector.nodeid] = own
    if report.failed and not collector.config.option.fulltrace:
        lines = str(report.longrepr).splitlines()
        errors = [line[1:].strip() for line in lines if line.startswith("E  ")] or lines[-1:]
        report.longrepr = "\n".join(ascii_line(line) for line in errors[:4])
    return report


def _is_left_out(item):
    return item.get_closest_marker("slow") is not None and not item.config.getoption("--slow")


@pytest.hookimpl(trylast=True)  # behind -k, which may take away the only test kept here
def pytest_collection_modifyitems(config, items):
    """Leave out slow tests, and all but one test of a task that cannot be tested."""
    kept, left_out, said = [], [], set()
    for item in items:
        n = task_of(item)
        if _is_left_out(item) or n in said:
            left_out.append(item)
            continue
        if n and task_state(get_lab(config), n).kind != "written":
            said.add(n)
        kept.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item):
    """Fail the one test of a task that cannot be tested, before its fixtures run."""
    if n := task_of(item):
        if n in item.config.stash[ENDLESS]:
            pytest.skip("an earlier test of this task did not end")
        state = task_state(get_lab(item.config), n)
        if state.kind != "written":
            pytest.fail(state.text, pytrace=False)


# ============================================================== the time limit


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Stop a test whose code does not end; put back what it switches."""
    known = itself(item.config.stash[LAB]) if LAB in item.config.stash else contextlib.nullcontext()
    with settings.kept(), tamed(), known, memory_limit(), time_limit(item):
        return (yield)


@contextlib.contextmanager
def time_limit(item):
    """Limit the time of a test that uses the student's file, unless it is slow by nature."""
    config, seconds = item.config, item.config.getoption("--limit")
    debugging = config.getoption("usepdb") or config.getoption("trace")
    if "lab" not in item.fixturenames or item.get_closest_marker("slow") or debugging:
        seconds = 0
    config.stash[CLOCK] = TimeLimit(seconds, get_lab(config).__file__ if seconds else "")
    # No exception ends a loop in C, such as sum(itertools.repeat(1)): the process has to go.
    last_resort = seconds and STDERR in config.stash
    try:
        if last_resort:
            file = guard.dump_file(config) or config.stash[STDERR]
            faulthandler.dump_traceback_later(seconds + 10, exit=True, file=file)
        with config.stash[CLOCK]:
            yield
    finally:
        if last_resort:
            faulthandler.cancel_dump_traceback_later()


def pytest_enter_pdb(config):
    """Stop the clock: a student in the debugger has unlimited time."""
    faulthandler.cancel_dump_traceback_later()
    if CLOCK in config.stash:
        config.stash[CLOCK].stop()


# ============================================================== what a failure says


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Replace pytest's traceback by a few lines, for a task or the student's code."""
    report = yield
    n = task_of(item)
    if n is not None:
        _remember(item, n, report)
    if call.excinfo is None or not report.failed or item.config.option.fulltrace:
        return report
    lab, error = item.config.stash.get(LAB, None), call.excinfo.value
    if n is not None and isinstance(error, OutOfTime):
        item.config.stash[ENDLESS][n] = error.line
    if n is not None and (state := task_state(lab, n)).kind != "written":
        report.task_kind, report.longrepr = state.kind, state.text
    elif n is not None or (lab is not None and of_the_lab(error, lab)):
        report.failure = tuple(failure(error, lab, n, item.name, report.capstdout))
        report.longrepr = screen.Failure(*report.failure).text
    return report


def of_the_lab(error, lab):
    """Return whether the exception comes from the student's code."""
    return isinstance(error, OutOfTime) or bool(lab_frames(error, lab.__file__))


def _remember(item, n, report):
    outcomes = item.config.stash[OUTCOMES][n]
    if report.when == "call" or report.outcome != "passed":  # also an error before or after
        if outcomes.get(item.nodeid) != "failed":
            outcomes[item.nodeid] = report.outcome


def pytest_report_teststatus(report):
    """Count a task that cannot be tested apart from the tests that fail."""
    kind = getattr(report, "task_kind", None)
    if kind is not None:
        word = "not written" if kind == "unwritten" else kind
        return word, "F", word.upper()
    return None


# ============================================================== the lines at the end


@pytest.hookimpl(wrapper=True, tryfirst=True)  # around pytest's own summary
def pytest_terminal_summary(terminalreporter, config):
    """Report what fails and why, load failures, the progress of the tasks, and the next step."""
    stats = terminalreporter.stats
    failed = stats.get("failed", [])
    ours = [report for report in failed if hasattr(report, "failure")]
    together = bool(ours) and is_brief(config) and not terminalreporter.no_summary
    try:
        if together:
            stats["failed"] = [report for report in failed if report not in ours]
            config.stash[WHOLE] = failed
        result = yield
    finally:
        if together:
            stats["failed"] = failed
    if not config.option.collectonly:
        failures = [screen.Failure(*report.failure) for report in ours]
        for lines in closing(config, failures, together, terminalreporter._tw.fullwidth):
            terminalreporter.write_line("")
            for line in lines:
                terminalreporter.write_line(line, red=line.startswith("____"))
    return result


class Together:
    """Put pytest's own list of failures back once its long messages would have been printed.

    The short summary (-ra) and the summaries of other plugins then see every failure.
    """

    @pytest.hookimpl(tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter, config):
        """Put the list back."""
        if WHOLE in config.stash:
            terminalreporter.stats["failed"] = config.stash[WHOLE]


def is_brief(config):
    """Return whether failures are shown by their causes; -v and --tb=... show every message."""
    wordy = any(re.fullmatch(r"-q*vv*q*|--verbose", str(arg)) for arg in
                config.invocation_params.args)
    return config.option.tbstyle == "auto" and not config.option.fulltrace and not wordy


def closing(config, failures, together, width):
    """Return blocks of lines for the end of the screen.

    Args:
        config: pytest's.
        failures: a screen.Failure for each test that fails.
        together: whether to show their messages here, by cause.
        width: columns of the screen.
    """
    lab = get_lab(config)
    states = {n: task_state(lab, n) for n in TASKS}
    ran = {n: list(config.stash[OUTCOMES][n].values()) for n in TASKS}
    unable = [states[n].text for n in TASKS if ran[n] and states[n].kind != "written"]
    offers = hints.lines_for(config, {n: [states[n].kind, *ran[n]] for n in TASKS if ran[n]})
    blocks = [
        screen.lines(failures, width) if together else [],
        unable,
        load_notes(lab, states, ran),
        [f"task{n} {TASKS[n].name:<18}{progress(config, n, states[n], ran[n])}" for n in TASKS],
        offers if config.getoption("--hints") else [],
        next_lines(config, states, ran, failures if together else [])
        + (offers if not config.getoption("--hints") else []),
    ]
    return [block for block in blocks if block]


def next_lines(config, states, ran, failures):
    """Return what to read and to run for the first task that does not pass.

    Args:
        config: pytest's.
        states: {task: state of the function}.
        ran: {task: outcomes of its tests}.
        failures: of this run.
    """
    for n in TASKS:
        if ran[n] and (states[n].kind != "written" or "failed" in ran[n]):
            options = screen.lab_option(config.getoption("--lab"))
            return screen.next_step(n, failures, options)
    return []
