"""Put one task of the lab file back to its stub: python -m tests.reset task3 [--lab=FILE].

The old file is kept beside it; everything outside the task stays byte for byte as it is. The
task is found by its "# ==== Task 3" line, so this works on a file with a syntax error, too.
"""

import argparse
import os
import re
import shutil
import sys
import tempfile
from pathlib import Path

from lab15_run import piped
from tests.labfile import DEFAULT_LAB, TASKS, ascii_line, cut, read_source

STUBS = Path(__file__).with_name("stubs.txt")  # the five tasks, as the lab file came


class ResetError(Exception):
    """Why nothing was changed, in one line."""


def tasks_text(text):
    """Return the text of the five tasks: from the line of Task 1 to the "given" line."""
    _, start, _ = _part(text, 1)
    _, _, end = _part(text, 5)
    return "".join(line + "\n" for line in text.split("\n")[start:end])


def reset_text(text, number):
    """Return the lab file's text with one task put back; line ends stay as they are.

    Raises:
        ResetError: the lines that mark the task's start and end are not both there, once.
    """
    lines = text.split("\n")
    _, start, end = _part(text, number)
    pristine = STUBS.read_text(encoding="utf-8")
    _, first, last = next(part for part in cut(pristine) if part[0] == number)
    stub = pristine.split("\n")[first:last]
    if number == len(TASKS):
        stub.pop()  # behind the last line end of stubs.txt
    if lines[start].endswith("\r"):
        stub = [line + "\r" for line in stub]
    return "\n".join(lines[:start] + stub + lines[end:])


def _part(text, number):
    """Return (task, start, end) of a task whose end is sure: the next banner follows it."""
    parts = cut(text)
    following = (number + 1) % (len(TASKS) + 1)  # 0, "given", behind the last task
    for wanted in (number, following):
        found = [start + 1 for task, start, _ in parts if task == wanted]
        label = f"Task {wanted}" if wanted else "given: helpers and the training loop"
        if not found or (wanted and len(found) > 1):
            how = f"is there more than once (lines {found})" if found else "is missing"
            raise ResetError(f"the line '# ==== ... {label}' {how}; nothing was changed")
    i = next(i for i, part in enumerate(parts) if part[0] == number)
    if i + 1 == len(parts) or parts[i + 1][0] != following:
        raise ResetError(
            f"the part behind Task {number} is not the one that belongs there; "
            "nothing was changed"
        )
    return parts[i]


def backup_path(path, number):
    """Return a free name beside the file, such as lab15_grpo.py.bak-task3."""
    first = path.with_name(f"{path.name}.bak-task{number}")
    path, i = first, 2
    while path.exists():
        path, i = first.with_name(f"{first.name}-{i}"), i + 1
    return path


def write_atomically(path, data):
    """Replace a file's content in one step: after a crash it is the old one or the new one."""
    handle, name = tempfile.mkstemp(prefix=path.name, suffix=".tmp", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        shutil.copymode(path, name)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def reset(path, number):
    """Put a task of the file back to its stub; return the line to show.

    Raises:
        ResetError: a banner is missing; nothing was changed.
        OSError: the file cannot be read or written; it is as it was.
    """
    path = Path(path).resolve()  # the file itself, where the path is a link
    text, encoding, _ = read_source(path)
    new = reset_text(text, number)
    what = f"Task {number} ({TASKS[number].name}) in {path.name}"
    if new == text:
        return f"{what} is the stub already; nothing was changed"
    backup = backup_path(path, number)
    shutil.copy2(path, backup)
    write_atomically(path, new.encode(encoding))
    return f"{what} is the stub again; your old file is kept as {backup.name} beside it"


def main(argv=None):
    """Read the command line; return 0, or 1 if nothing could be done."""
    parser = argparse.ArgumentParser(prog="python -m tests.reset", description=__doc__)
    parser.add_argument("task", help="task1 to task5")
    parser.add_argument("--lab", default=DEFAULT_LAB, help="the file (default: lab15_grpo.py)")
    args = parser.parse_args(argv)
    match = re.fullmatch(r"(?:task)?\s*([1-5])", args.task.strip(), re.IGNORECASE)
    if match is None:
        parser.error(f"{args.task!a} is none of task1, task2, task3, task4, task5")
    try:
        line = reset(args.lab, int(match[1]))
    except (ResetError, OSError) as error:
        print(ascii_line(error, 500), file=sys.stderr)
        return 1
    print(ascii_line(line, 500))
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
