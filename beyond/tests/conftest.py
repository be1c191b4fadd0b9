"""What all of beyond's tests need: one thread, and a Ctrl-C that arrives."""

import os
import signal

from tests.runner import skips

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch; more are slower on tensors so small
# A shell's background job ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """List at the end what was skipped."""
    skips.show_at_the_end(config)
