"""Judge your file from a notebook.

    import sys; sys.path.insert(0, "..")     # the folder above notebooks/
    from tests.notebook import check
    check("task1")

reads lab15_grpo.py anew, runs the tests of task 1 in this kernel and shows what
`python -m pytest -q -k task1` says. check("task1", hints=1) shows a hint, too.
"""

import contextlib
import html
import os
import sys
from pathlib import Path

from tests.labfile import DEFAULT_LAB, NUMBER_OF, ROOT, TASKS, ascii_line
from tests.loader import settings, shadows
from tests.loader.limits import SECONDS
from tests.messages import hints as texts
from tests.runner.judge import JudgeError, judge, option_for, told

_failures = {}  # file -> task -> failures in a row, in this kernel


def check(task=None, lab=None, hints=0, limit=SECONDS):
    """Judge one task, or all five, and show the verdict.

    Args:
        task: "task1", 1 or "sample_group"; None: all five.
        lab: another file than lab15_grpo.py.
        hints: how many hints to show, 0 to 3.
        limit: seconds after which a test is stopped.
    """
    _show(report(task, lab, hints, limit))


def report(task=None, lab=None, hints=0, limit=SECONDS):
    """Do what check does; return a Report instead of showing it.

    Args:
        task: as check takes it; None: all.
        lab: path of the lab file; None: the usual one.
        hints: how many to show.
        limit: seconds for a test.
    """
    path = Path(DEFAULT_LAB if lab is None else os.path.expanduser(lab)).absolute()
    if line := shadows.complaint(path):
        return Report(ascii_line(line, 500), [])
    try:
        numbers = list(TASKS) if task is None else [_number(task)]
        with _as_it_was():
            verdicts, notes = judge(path, numbers, limit=limit)
    except KeyboardInterrupt:
        return Report("stopped by an interrupt", [], (), path)
    except FileNotFoundError:
        return Report(no_file(path), [])
    except (JudgeError, OSError, ValueError) as error:
        return Report(ascii_line(error, 500), [])
    except SystemExit:
        return Report("the run was ended by sys.exit()", [], (), path)
    chosen = [verdicts[n] for n in numbers]
    shown = next((v for v in chosen if v.kind != "passed"), chosen[0])
    lines = _lines(shown, chosen, path) + notes
    failed_again = texts.count(
        _failures.setdefault(str(path), {}), shown.number, shown.kind != "passed"
    )
    if hints:
        lines += ["", *texts.hint_lines(shown.number, hints, "hints=")]
    elif failed_again:
        lines += ["", f'Stuck? There are hints:  check("task{shown.number}", hints=1)']
    return Report(_headline(chosen, shown), lines, chosen, path)


def place(path):
    """Return how to name a file: relative to the lab's folder if it is in it, else in full."""
    path = Path(path)
    return ascii_line(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path, 300)


def no_file(path):
    """Return one line for a lab file that is not there: what, where, what to do."""
    path = Path(path)
    names = sorted(p.name for p in path.parent.glob("*lab15_grpo*") if p.name != path.name)
    lines = [f"there is no lab file: {path} is {'a folder' if path.is_dir() else 'not there'}."]
    if names:
        lines.append(f"In its folder: {', '.join(names)}.")
    lines.append("Put yours there, under this name, and run this cell again.")
    return " ".join(ascii_line(line, 300) for line in lines)


def _number(task):
    """Return the number that "task2", "2", 2 or "group_advantages" stands for."""
    words = str(task).strip().lower()
    number = NUMBER_OF.get(words) or words.removeprefix("task").strip()
    if str(number) in map(str, TASKS):
        return int(number)
    raise ValueError(f'there is no task {task!r}; say check("task1") to check("task5")')


def _headline(chosen, shown):
    if len(chosen) > 1 and shown.kind == "passed":
        return "all five tasks passed"
    return f"task{shown.number} {TASKS[shown.number].name}: {shown.progress}"


def _lines(verdict, chosen, path):
    """Return the lines below the headline; `chosen` are the verdicts of all tasks asked for."""
    n, lines = verdict.number, []
    if _typed_here(verdict, path):
        name = TASKS[n].name
        lines += [f"Your {name} is in the notebook, but the tests read {path.name}:",
                  "put it there, save the file, and run this cell again."]
    elif verdict.kind != "passed":
        others = [v for v in chosen if v is not verdict]
        lines += told(verdict, others, option_for(path))
    return lines


def _typed_here(verdict, path):
    """Return whether the task's function was defined in a cell and not in the file."""
    if verdict.kind not in ("unwritten", "missing"):
        return False
    function = getattr(sys.modules["__main__"], TASKS[verdict.number].name, None)
    code = getattr(function, "__code__", None)
    # Imported from the file it is none of the notebook's.
    return code is not None and function.__module__ == "__main__" and (
        Path(code.co_filename) != path)


@contextlib.contextmanager
def _as_it_was():
    """Put back what the tests set in this process: seeds, folder, defaults of PyTorch."""
    import torch  # noqa: F401 - or there is nothing to remember yet

    modules, before = set(sys.modules), settings.look()
    try:
        with settings.random_states():
            yield
    finally:
        settings.put_back(before)
        for name in set(sys.modules) - modules:
            if name.startswith("lab15_under_test_"):
                del sys.modules[name]


class Report:
    """A verdict that a notebook shows as HTML and everything else as text.

    Args:
        headline: the verdict, one line.
        lines: what belongs to it.
        verdicts: those of the tasks that were judged.
        path: the file that was judged, or None.
    """

    def __init__(self, headline, lines, verdicts=(), path=None):
        self.headline, self.lines, self.verdicts = headline, lines, list(verdicts)
        self.file = f"file: {place(path)}" if path else ""

    def __repr__(self):
        rows = [f"task{v.number} {TASKS[v.number].name:<18}{v.progress}" for v in self.verdicts]
        rows = rows if len(rows) > 1 else []
        file = [self.file] if self.file else []
        return "\n".join([self.headline, *file, *rows, *[""] * bool(self.lines), *self.lines])

    def _repr_html_(self):
        head, *rest = repr(self).split("\n")
        file = f" <small>{html.escape(rest.pop(0))}</small>" if self.file else ""
        body = html.escape("\n".join(rest).strip("\n"))
        body = f"<pre>{body}</pre>" if body else ""
        return (f'<div style="border-left: 4px solid; padding-left: 1em">'
                f"<strong>{html.escape(head)}</strong>{file}{body}</div>")


def _show(shown):
    """Display in a notebook or in IPython; print elsewhere."""
    try:
        from IPython import get_ipython
        from IPython.display import display
    except ImportError:
        get_ipython = display = None
    if get_ipython and get_ipython() is not None:
        display(shown)
    else:
        print(shown)
