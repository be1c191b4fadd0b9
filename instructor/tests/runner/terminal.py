"""`python -m tests.watch` in a terminal of its own, and files to save for it. Not on Windows."""

import os
import pty
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from instructor.tests.lab_texts import RIGHT, STUB, edit, section
from tests.labfile import ROOT

CLEAR = "\033[2J\033[3J\033[H"


class Terminal:
    """`python -m tests.watch` in a pseudo-terminal.

    Args:
        lab: the file to watch.
        options: more of its options.
        env: more environment variables.
    """

    def __init__(self, lab: Path, *options: str, env: dict[str, str] | None = None) -> None:
        """Start it."""
        self.master, slave = pty.openpty()
        command = [sys.executable, "-m", "tests.watch", f"--lab={lab}", *options]
        changed = {"TERM": "xterm", "PYTHONPATH": str(ROOT), **(env or {})}
        self.process = subprocess.Popen(
            command, cwd=lab.parent, stdin=slave, stdout=slave, stderr=slave,
            env=os.environ | changed, start_new_session=True,
        )
        os.close(slave)
        self.text = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        while True:
            select.select([self.master], [], [])
            try:
                data = os.read(self.master, 1 << 16)
            except OSError:  # the other end is closed
                return
            self.text += data.decode("ascii", "replace").replace("\r\n", "\n")

    def screen(self) -> str:
        """Return what stands on the screen."""
        return self.text.split(CLEAR)[-1]

    def wait_for(self, ready: str | Callable[[str], bool], seconds: float = 30.0) -> str:
        """Return the screen as soon as it holds these words, or as ready(screen) is true.

        Raises:
            RuntimeError: the watch has ended.
            TimeoutError: the words did not come in time.
        """
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            shown = self.screen()
            if ready in shown if isinstance(ready, str) else ready(shown):
                return shown
            if self.process.poll() is not None:
                raise RuntimeError(f"the watch has ended: {self.text}")
            time.sleep(0.002)
        raise TimeoutError(f"waited {seconds:g} s for {ready!r}; the screen says:\n{self.screen()}")

    def interrupt(self) -> int:
        """Press Ctrl-C; return the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)  # as a terminal does, to all its processes
        return self.process.wait(timeout=20)

    def close(self) -> None:
        """End it in any case."""
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.master)


def save(path: Path, text: str, how: str) -> None:
    """Save as editors do: "in place" (truncate, write) or "rename" (a new file moved over it).

    Args:
        path: of the file.
        text: its new text.
        how: "in place" or "rename".
    """
    if how == "rename":
        new = path.with_name(path.name + ".tmp")
        new.write_text(text, encoding="utf-8")
        os.replace(new, path)
    else:
        path.write_text(text, encoding="utf-8")


def work_in_progress() -> str:
    """Return a text in which tasks 1 to 3 are written, and 4 and 5 are stubs."""
    text = RIGHT
    for number in (4, 5):
        text = edit(text, (section(RIGHT, number), section(STUB, number)))
    return text
