"""A time limit for student code: an endless loop ends with an exception, on every system.

    with TimeLimit(10, path) as limit:
        module.k3_kl(...)        # raises OutOfTime if a line of the file `path` runs on and on

On Unix in the main thread an alarm signal stops the code, elsewhere an exception that a second
thread plants. Both only ever strike while a function of the student's file is running or waits
for what it called: the tests' own clean-up is never cut short.

Student code that catches the exception is stopped again every second, and after a few times at
every line. What no Python exception can end (an endless loop in C) is left to the
process's owner: see tests/conftest.py and tests/watch.py.
"""

import contextlib
import ctypes
import os
import signal
import sys
import threading
import traceback

SECONDS = 10.0  # the limit of a test, and of loading the file
AGAIN = 1.0  # code that is still running after so many seconds more is stopped again
POLITE = 3  # so often; then it is stopped for good
MEMORY = 4 << 30  # bytes that a test may take beyond what is there when it starts
GPUS = ("/dev/nvidiactl", "/dev/kfd")
TOOL = 4  # a number for sys.monitoring that no debugger or profiler uses
FORCE_THREAD = "LAB15_LIMIT_BY_THREAD"  # environment variable: do without the signal


class OutOfTime(BaseException):
    """Time is up. Not an Exception: `except Exception` in a student's loop lets it pass.

    Args:
        seconds: the limit.
        name: of the student's function that was running.
        line: of the student's file where it was.
    """

    def __init__(self, seconds=0.0, name="?", line=0):
        super().__init__(seconds, name, line)
        self.seconds, self.name, self.line = seconds, name, line

    def __str__(self):
        return f"did not end within {self.seconds:.3g} s; is there a loop that never ends?"


class TimeLimit:
    """End code of one file that runs too long; a context manager.

    Args:
        seconds: how long the code may run; None or 0: without limit.
        path: the student's file, as in its code objects.
        by_thread: do without the signal; None: where there is none, or outside the main thread.
    """

    def __init__(self, seconds, path, by_thread=None):
        self.seconds, self.path = seconds, os.fspath(path)
        if by_thread is None:
            main = threading.current_thread() is threading.main_thread()
            by_thread = not (main and hasattr(signal, "setitimer")) or FORCE_THREAD in os.environ
        self._clock = (_Thread if by_thread else _Alarm)(self._tick)
        self._strikes, self._thread = 0, threading.get_ident()
        self.where = None  # (function, line) of the student's file when time was up

    def __enter__(self):
        # A debugger traces every line; its user thinks longer than any limit.
        self._on = bool(self.seconds) and sys.gettrace() is None
        if self._on:
            self._clock.start(self.seconds)
        return self

    def __exit__(self, kind, error, traceback):
        self.stop()
        if self.where is not None and not isinstance(error, KeyboardInterrupt):
            # Also if the code has caught the exception and made another end of it.
            raise OutOfTime(self.seconds, *self.where) from None
        return False

    def stop(self):
        """Stop the clock; may be called again."""
        if self._on:
            self._on = False
            self._clock.stop()
            self._let_lines_run()

    def _tick(self, frame):
        """Return (whether to raise now, seconds until the next tick)."""
        stack = traceback.walk_stack(frame)
        inside = [f for f, _ in stack if f.f_code.co_filename == self.path]
        if not inside:
            return False, 0.05
        if self.where is None:
            named = [f for f in inside if f.f_code.co_name[0] != "<"]  # no <genexpr>, <lambda>
            self.where = (named or inside)[0].f_code.co_name, inside[0].f_lineno
        self._strikes += 1
        if self._strikes <= POLITE:
            return True, AGAIN
        if hasattr(sys, "monitoring"):
            self._stop_every_line()
            return True, AGAIN
        # Python 3.11. Between two rounds of `while True: try: ... except: pass` there is a moment
        # outside of the try. Delays of a few microseconds, each another, hit it soon.
        return True, (self._strikes % 50 + 1) * 1e-6

    def _stop_every_line(self):
        """Raise at every further line of the file, in an `except` as well (Python 3.12)."""
        watch, line = sys.monitoring, sys.monitoring.events.LINE
        if watch.get_tool(TOOL) is None:

            def stop(code, number):
                if code.co_filename == self.path and threading.get_ident() == self._thread:
                    raise OutOfTime

            watch.use_tool_id(TOOL, "lab15")
            watch.register_callback(TOOL, line, stop)
            watch.set_events(TOOL, line)

    def _let_lines_run(self):
        if self._strikes > POLITE and hasattr(sys, "monitoring"):
            sys.monitoring.set_events(TOOL, 0)
            sys.monitoring.register_callback(TOOL, sys.monitoring.events.LINE, None)
            sys.monitoring.free_tool_id(TOOL)


@contextlib.contextmanager
def memory_limit(room=MEMORY):
    """Let an allocation fail with an exception before the machine has to end a program.

    Linux only. Not where there is a GPU: its driver reserves more addresses than any limit.

    Args:
        room: bytes that may be added to what this process has.
    """
    limit = None
    if sys.platform == "linux" and not any(map(os.path.exists, GPUS)):
        with contextlib.suppress(OSError, ValueError, ImportError):
            import resource

            with open("/proc/self/statm", encoding="ascii") as file:
                used = int(file.read().split()[0]) * resource.getpagesize()
            soft, hard = resource.getrlimit(resource.RLIMIT_AS)
            limit = min([used + room, *(x for x in (soft, hard) if x != resource.RLIM_INFINITY)])
            resource.setrlimit(resource.RLIMIT_AS, (limit, hard))
    try:
        yield
    finally:
        if limit is not None:
            resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


class _Alarm:
    """Calls tick from a signal handler, and raises the exception there."""

    def __init__(self, tick):
        self.tick = tick

    def start(self, seconds):
        self.on, self.handler = True, signal.signal(signal.SIGALRM, self._ring)
        self.timer = signal.setitimer(signal.ITIMER_REAL, seconds)

    def stop(self):
        self.on = False  # first: a ring on its way must not wind up the clock again
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, self.handler or signal.SIG_DFL)
        if self.timer[0]:  # an outer limit was running: it continues, a little late
            signal.setitimer(signal.ITIMER_REAL, *self.timer)

    def _ring(self, number, frame):
        if not self.on:
            return
        strike, again = self.tick(frame)
        signal.setitimer(signal.ITIMER_REAL, again)
        if strike:
            raise OutOfTime


class _Thread:
    """Calls tick from a second thread, which plants the exception in the first one."""

    def __init__(self, tick):
        self.tick = tick

    def start(self, seconds):
        self.target, self.done = threading.get_ident(), threading.Event()
        self.lock, self.interval = threading.Lock(), sys.getswitchinterval()
        threading.Thread(target=self._run, args=(seconds,), daemon=True).start()

    def stop(self):
        with self.lock:
            self.done.set()
            _plant(self.target, None)
            sys.setswitchinterval(self.interval)

    def _run(self, wait):
        while not self.done.wait(wait):
            with self.lock:
                if self.done.is_set():
                    return
                strike, wait = self.tick(sys._current_frames().get(self.target))
                if strike:
                    _plant(self.target, OutOfTime)
                if wait < 0.001:  # threads must take turns as fast
                    sys.setswitchinterval(wait)


def _plant(thread, exception):
    """Raise the exception in the thread at its next line; None takes back what is on the way."""
    value = None if exception is None else ctypes.py_object(exception)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), value)
