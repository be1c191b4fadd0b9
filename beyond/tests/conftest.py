"""What all of beyond's tests need: one thread, a Ctrl-C that arrives, a tiny model."""

import os
import signal

import pytest

from tests.runner import skips

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; more are slower on tensors so small
# A shell's background job ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """List at the end what was skipped."""
    skips.show_at_the_end(config)


@pytest.fixture(scope="session")
def model(tmp_path_factory):
    """Return the folder of a tiny model; its name has a blank."""
    from beyond import tiny

    made = tmp_path_factory.mktemp("a model")
    tiny.save(made)
    return made
