"""What the bonus tests share: the file under test, "not written yet", short errors.

    python -m pytest -q beyond/tests/bonus -k bonus1 --bonus=FILE

The tests run only if this folder is named: the stubs must not fail a run of all of beyond's tests.
"""

import functools
import sys
from pathlib import Path

import pytest
import torch

from tests.labfile import ascii_line, lab_frames, load_lab
from tests.loader.limits import SECONDS, OutOfTime, TimeLimit
from tests.messages import explain
from tests.messages.describe import describe

from . import mistakes
from .exercises import EXERCISES

SHOWN = pytest.StashKey()  # of the config: the failure texts of this run
ENDLESS = pytest.StashKey()  # of the config: exercises whose code was stopped once
HERE = Path(__file__).resolve().parent
DEFAULT = HERE.parents[1] / "bonus.py"

explain.MISTAKES.update({name: explain.Mistake(*entry) for name, entry in
                         mistakes.MISTAKES.items()})


def pytest_addoption(parser):
    """Add --bonus."""
    parser.addoption("--bonus", metavar="FILE", help="file to test (default: beyond/bonus.py)")


def bonus_path(config):
    """Return the path of the file under test."""
    given = config.getoption("--bonus", default=None)
    return Path(config.invocation_params.dir, given).resolve() if given else DEFAULT


def pytest_configure(config):
    """Check what would otherwise end in a long traceback."""
    config.stash[SHOWN], config.stash[ENDLESS] = set(), set()
    if not bonus_path(config).is_file():
        raise pytest.UsageError(ascii_line(f"there is no file {bonus_path(config)}", 500))


def pytest_ignore_collect(collection_path, config):
    """Leave these tests out unless the command line names this folder or a file in it."""
    asked = [Path(config.invocation_params.dir, arg.split("::")[0]).resolve()
             for arg in config.args]
    return not any(path == HERE or HERE in path.parents for path in asked) or None


@functools.cache
def load(path):
    """Return the file as a module; what works in it works."""
    module = load_lab(path)
    module.__problems__[:] = [p for p in module.__problems__ if p.line]
    return module


@pytest.fixture
def lab(request):
    """The module under test."""
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return load(bonus_path(request.config))


def exercise_of(item):
    """Return the number of the exercise that a test belongs to."""
    return 1 if item.path.name.startswith("test_bonus1") else 2


def unable(module, n):
    """Return one line that says why exercise n cannot be tested, or None."""
    name, file = EXERCISES[n].name, Path(module.__file__).name
    if not callable(getattr(module, name, None)):
        broken = [f"line {p.line}: {p.text}" for p in module.__problems__]
        return ascii_line(f"missing: Bonus {n}, {name} ({'; '.join([file, *broken])})", 300)
    function = getattr(module, name)
    try:
        function(*[None] * 5)
    except NotImplementedError as error:
        if str(error) == f"Bonus {n}: {name}":
            line = module.__definitions__.get(name, "?")
            return f"not written yet: Bonus {n}, {name} ({file} line {line})"
    except Exception:  # written: it stumbles over None
        pass
    return None


def pytest_collection_modifyitems(config, items):
    """Keep only one test of an exercise that cannot be tested."""
    kept, left_out, said = [], [], set()
    for item in items:
        if HERE not in item.path.parents:
            kept.append(item)
            continue
        n = exercise_of(item)
        (left_out if n in said else kept).append(item)
        if unable(load(bonus_path(config)), n):
            said.add(n)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item):
    """Stop a test when the code under test runs on and on."""
    if HERE not in item.path.parents:
        return (yield)
    if problem := unable(load(bonus_path(item.config)), exercise_of(item)):
        pytest.fail(problem, pytrace=False)
    if exercise_of(item) in item.config.stash[ENDLESS]:
        pytest.skip("an earlier test of this exercise did not end")
    with TimeLimit(SECONDS, str(bonus_path(item.config))):
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item, call):
    """Put a few lines in the place of pytest's traceback."""
    report = yield
    if HERE in item.path.parents and call.excinfo and report.failed and not \
            item.config.option.fulltrace:
        if isinstance(call.excinfo.value, OutOfTime):
            item.config.stash[ENDLESS].add(exercise_of(item))
        text = shown(call.excinfo.value, load(bonus_path(item.config)))
        again = text in item.config.stash[SHOWN] and "\n" in text
        item.config.stash[SHOWN].add(text)
        report.longrepr = text.split("\n")[0][:89] + " (as above)" if again else text
    return report


def shown(error, module):
    """Return what to print for an exception."""
    if isinstance(error, (pytest.fail.Exception, OutOfTime)) or lab_frames(error, module.__file__):
        return describe(error, module, None)
    return "\n".join(ascii_line(line) for line in
                     f"{type(error).__name__}: {error}".splitlines()[:6])


if str(HERE.parents[2]) not in sys.path:  # the file under test imports beyond.losses
    sys.path.append(str(HERE.parents[2]))
