"""A time limit for work that may hang: a stranger's reward that sleeps or loops for ever.

In the main thread of Linux and macOS an alarm ends the work itself. Elsewhere it runs in a thread
that is left behind when it is late; such a thread ends with the process. Neither can end a single
call of C code that never looks up, such as a regular expression gone wrong.
"""

import contextvars
import os
import signal
import threading
from collections.abc import Callable
from typing import Any

AGAIN = 1.0  # seconds after which work that swallowed the alarm gets the next one


class Late(BaseException):
    """The time is over. No Exception, so that `except Exception` in the work does not keep it."""


def in_time(work: Callable[[], Any], seconds: float) -> Any:
    """Return what work() returns.

    Args:
        work: takes nothing.
        seconds: time limit; 0 for none.

    Raises:
        TimeoutError: it did not return in time.
    """
    if not seconds:
        return work()
    main = threading.current_thread() is threading.main_thread()
    if main and os.name == "posix" and not any(signal.getitimer(signal.ITIMER_REAL)):
        return _with_alarm(work, seconds)
    return in_thread(work, seconds)


def _with_alarm(work: Callable[[], Any], seconds: float) -> Any:
    """Return what work() returns, or end it by an alarm."""
    def ring(number: int, frame: Any) -> None:
        raise Late

    before = signal.signal(signal.SIGALRM, ring)
    try:
        try:
            signal.setitimer(signal.ITIMER_REAL, seconds, AGAIN)
            return work()
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
    except Late:
        raise TimeoutError(f"no result within {seconds:g} s") from None
    finally:
        signal.signal(signal.SIGALRM, before)


def in_thread(work: Callable[[], Any], seconds: float | None = None) -> Any:
    """Return what work() returns in a thread of its own, which does not keep the process alive.

    Raises:
        TimeoutError: it did not return in so many seconds; the thread keeps running.
    """
    found: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            found.append((context.run(work), None))
        except BaseException as error:
            found.append((None, error))

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if not found:
        raise TimeoutError(f"no result within {seconds:g} s")
    result, error = found[0]
    if error is not None:
        raise error
    return result
