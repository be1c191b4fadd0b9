"""Judge your file at every save: python -m tests.watch [--lab=FILE]; Ctrl-C ends it.

PyTorch is imported once. Every save is judged by a forked copy of this process or, where a
process with PyTorch in it cannot be forked (Windows, macOS), by a new Python that was started in
advance. The task you have just changed comes first; when it passes, the next one is shown.
"""

import os
import sys

if __name__ == "__main__":
    if not __package__:  # python tests/watch.py
        sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    from tests.loader import shadows

    shadows.stop()  # before anything is imported that a file of the student's may hide

import argparse
import ast
import json
import queue
import shutil
import threading
import time

from tests.labfile import DEFAULT_LAB, TASKS, ascii_line, cut, read_source
from tests.loader.limits import SECONDS
from tests.messages import hints
from tests.runner.judge import JudgeError, Verdict, option_for, told, warm_up
from tests.runner.processes import Forked, Spawned, can_fork

SETTLE = 0.05  # seconds an editor may need between the first and the last byte of a save
LOOK = 20  # milliseconds between two looks at what the system reports

# ============================================================== the file


def signature(path):
    """Return what changes with every save, or None where there is no file."""
    try:
        info = os.stat(path)
    except OSError:
        return None
    return info.st_mtime_ns, info.st_size, info.st_ino


def read(path):
    """Return the file's text, or None where it cannot be read."""
    try:
        return read_source(path)[0]
    except OSError:
        return None


def settled(path):
    """Return the file's text once it looks complete or stays as it is; None: it is gone."""
    text = read(path)
    for _ in range(20):
        try:
            if text and ast.parse(text):
                return text
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            pass
        time.sleep(SETTLE)
        before, text = text, read(path)
        if text == before:
            break
    return text


def changed_task(old, new):
    """Return the one task whose part of the text differs, or None."""
    texts = []
    for text in (old or "", new):
        lines = text.split("\n")
        texts.append({task: lines[start:end] for task, start, end in cut(text) if task})
    found = [n for n in TASKS if texts[0].get(n) != texts[1].get(n)]
    return found[0] if len(found) == 1 else None


def report_saves(path, events):
    """Put "look" into the queue whenever something may have happened to the file."""
    import watchfiles

    folders = {os.path.dirname(path), os.path.dirname(os.path.realpath(path))}
    options = {"watch_filter": None, "step": LOOK, "recursive": False, "raise_interrupt": False}
    # A look every second as well: not every file system reports.
    options |= {"rust_timeout": 1000, "yield_on_timeout": True}
    while True:
        try:
            for _ in watchfiles.watch(*folders, **options):
                events.put(("look", None))
        except Exception:  # the folder itself is gone, say; it may come back
            time.sleep(1)
            events.put(("look", None))


# ============================================================== what is on the screen


class Board:
    """The verdicts, the task in focus, and the text for the screen."""

    def __init__(self, path):
        self.path, self.verdicts, self.notes, self.error = path, {}, [], None
        self.focus, self.new, self.failures = None, set(), {}

    def start(self, changed):
        """Begin a run; return the order of the tasks."""
        self.focus = changed or self.focus
        self.new, self.notes, self.error, self.counted = set(), [], None, False
        return sorted(TASKS, key=lambda n: (n != self.focus, n))

    def add(self, verdict):
        """Add a verdict; the first task that does not pass comes into focus."""
        self.verdicts[verdict.number] = verdict
        self.new.add(verdict.number)
        if self.focus in self.new and self.verdicts[self.focus].kind != "passed":
            return
        if self.focus is None or self.focus in self.new:
            self.focus = None
            for n in TASKS:
                if n not in self.new:
                    return
                if self.verdicts[n].kind != "passed":
                    self.focus = n
                    return

    def count(self):
        """Count, once a run, the failures in a row; for the line about hints."""
        if not self.counted:
            self.counted = True
            for n in self.new:
                if n == self.focus or self.verdicts[n].kind == "passed":
                    hints.count(self.failures, n, n == self.focus)

    def decided(self):
        """Return whether the verdict in focus, or an error, is known."""
        return self.error is not None or self.focus in self.new or self.new == set(TASKS)

    def text(self, saved, status):
        """Return the screen's text."""
        file = os.path.basename(self.path)
        lines = [f"{file}, saved {time.strftime('%H:%M:%S', time.localtime(saved))}{status}", ""]
        for n, task in TASKS.items():
            mark = ">" if n == self.focus else " "
            progress = self.verdicts[n].progress if n in self.verdicts else "not tested yet"
            lines.append(f"{mark} task{n} {task.name:<18}{progress}")
        lines += ["", *(self._message() if self.decided() else []), *self.notes]
        return "\n".join(ascii_line(line, 200) if not line.isascii() else line for line in lines)

    def _message(self):
        if self.error is not None:
            return [self.error]
        if self.focus is None:
            return ["All five tasks pass. Train with them:  python lab15_grpo.py"]
        verdicts = [v for n, v in sorted(self.verdicts.items()) if n in self.new]
        others = [v for v in verdicts if v.number != self.focus]
        options = option_for(self.path)
        width = shutil.get_terminal_size().columns
        lines = told(self.verdicts[self.focus], others, options, width)
        if self.failures.get(str(self.focus), 0) >= 2:
            lines.append(hints.offer(self.focus, options))
        return lines


def show(text):
    """Replace the text on the screen."""
    if sys.stdout.isatty() and os.environ.get("TERM") != "dumb":
        text = "\033[2J\033[3J\033[H" + text
    else:
        text += "\n" + "-" * 60
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


# ============================================================== watching


class Watch:
    """The loop.

    Args:
        path: the lab file.
        limit: seconds for a test.
        start: Forked or Spawned.
    """

    def __init__(self, path, limit, start):
        self.path, self.limit, self.start = os.path.abspath(path), limit, start
        self.board, self.events = Board(path), queue.Queue()
        self.run = self.text = self.seen = self.shown = None

    def loop(self):
        """Watch until KeyboardInterrupt."""
        target = (self.path, self.events)
        threading.Thread(target=report_saves, args=target, daemon=True).start()
        self.events.put(("look", None))
        self.seen = ()
        try:
            while True:
                try:
                    who, what = self.events.get(timeout=0.5)
                except queue.Empty:
                    self.wait()
                    continue
                if who == "look":
                    self.look()
                elif who is self.run:
                    self.hear(what)
        finally:
            self.stop()

    def look(self):
        """Start a run if the file has changed."""
        if signature(self.path) == self.seen:
            return
        self.stop()
        text = settled(self.path)
        self.seen = signature(self.path)
        if text is None:
            show(f"Waiting for {ascii_line(self.path, 300)}: there is no such file.")
            return
        order = self.board.start(changed_task(self.text, text) if self.text else None)
        self.text, self.order, self.heard = text, order, time.monotonic()
        self.begin()

    def begin(self):
        """Start a run of the tasks in order that have no verdict yet."""
        order = [n for n in self.order if n not in self.board.new]
        self.why = "ended Python before the tests were done (os._exit, a crash?)"
        self.run = run = self.start({"lab": self.path, "order": order, "limit": self.limit})
        self.heard = time.monotonic()
        threading.Thread(target=self.listen, args=(run,), daemon=True).start()

    def listen(self, run):
        """Put each line that the run writes into the queue, and None at the end."""
        for line in run.lines:
            self.events.put((run, line))
        self.events.put((run, None))

    def stop(self):
        """End the run."""
        if self.run is not None:
            self.run.stop()
            self.run = None

    def hear(self, line):
        """Handle one line from the run."""
        board, message = self.board, line and json.loads(line)
        self.heard = time.monotonic()
        if line is None:
            early = len(board.new) < len(TASKS) and board.error is None
            if early:
                self.ended_early()
            self.stop()
            if early and len(board.new) < len(TASKS):  # the other tasks get their verdict, too
                self.begin()
        elif isinstance(message, list):
            board.add(Verdict(*message))
        else:
            board.notes, board.error = message.get("notes", []), message.get("error")
        self.refresh()

    def ended_early(self):
        """Blame the task whose tests were running."""
        n = next(n for n in self.order if n not in self.board.new)
        text = f"{TASKS[n].name}, or what runs when the file is loaded, {self.why}."
        self.board.add(Verdict(n, "broken", "ended early", "", text))

    def refresh(self):
        """Show the board once the verdict in focus is known."""
        board = self.board
        if not board.decided():
            return
        board.count()
        self.put("")

    def saved(self):
        """Return the time of the save that is judged."""
        return self.seen[0] / 1e9 if self.seen else time.time()

    def put(self, status):
        """Show the board unless it is on the screen already."""
        text = self.board.text(self.saved(), status) + "\n\nWatching; Ctrl-C ends."
        if text != self.shown:
            self.shown = text
            show(text)

    def wait(self):
        """Report after half a second without news that a run takes long; end one that hangs."""
        if self.run is None:
            return
        silent = time.monotonic() - self.heard
        if silent > 3 * self.limit + 10:  # a loop in C, say, which no exception reaches
            self.why = "does not end"
            self.run.stop()
        elif silent > 1 and not self.board.decided():
            self.put(f"; still running (a test is stopped after {self.limit:g} s)")


def main():
    """Read the flags, get ready, watch; return an exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.watch", description=__doc__)
    parser.add_argument("--lab", default=DEFAULT_LAB, metavar="FILE", help="watch another file")
    parser.add_argument("--limit", type=float, default=SECONDS, metavar="SECONDS",
                        help="time after which a test is stopped (default %(default)g)")
    parser.add_argument("--spawn", action="store_true", help="never fork, as on Windows and macOS")
    args = parser.parse_args()
    try:
        import watchfiles  # noqa: F401
    except ImportError:
        print("watch: first run  python -m pip install -r requirements.txt")
        return 1
    if os.name == "nt":
        os.system("")  # from here on Windows' console understands what clears the screen
    try:
        start = Forked if can_fork() and not args.spawn else Spawned
        print("watch: getting ready; this takes a few seconds once", flush=True)
        if start is Forked:
            warm_up()
        Watch(args.lab, args.limit, start).loop()
    except JudgeError as error:
        print(f"watch: {error}")
        return 1
    except KeyboardInterrupt:
        print("\nwatch: ended")
    finally:
        if Spawned.spare:
            Spawned.spare.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main())
