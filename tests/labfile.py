"""Load a student's lab file so that one broken task never hides the other four.

Used by conftest.py and by every other tool that looks at a lab file. Only the standard library
is imported here: the lab file itself decides what else a load costs.

    lab = load_lab("lab15_grpo.py")
    for n in TASKS:
        print(task_state(lab, n).text)
"""

import __future__

import ast
import contextlib
import io
import itertools
import linecache
import numbers
import os
import re
import sys
import time
import tokenize
import traceback
import types
from pathlib import Path
from typing import NamedTuple

from tests.loader import settings
from tests.loader.errors import advice, syntax_advice
from tests.loader.limits import SECONDS, OutOfTime, TimeLimit
from tests.loader.surroundings import ROOT, EndsPython, imports, itself, leans_on, quiet, tamed

DEFAULT_LAB = ROOT / "lab15_grpo.py"
LARGEST = 8 << 20  # bytes; a lab file has a few thousand


class Task(NamedTuple):
    """One of the five tasks; `section` is its section of chapter.md."""

    number: int
    name: str
    points: int
    section: int
    signature: str


TASKS = {
    task.number: task
    for task in (
        Task(1, "sample_group", 2, 2, "(model, prompts, answers, G, temperature=1.0)"),
        Task(2, "group_advantages", 2, 3, "(rewards, G, scale_std=True, eps=1e-4)"),
        Task(3, "k3_kl", 1, 4, "(logp, ref_logp)"),
        Task(4, "grpo_loss", 3, 5,
             "(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04)"),
        Task(5, "grpo_step", 2, 6, "(policy, ref, opt, prompts, answers, cfg)"),
    )
}
NUMBER_OF = {task.name: task.number for task in TASKS.values()}


class Problem(NamedTuple):
    """Something that went wrong while the file was loaded.

    `task` is the task it stands in, or None; `line` is 1-based, or None for the whole file;
    `advice`, if any, explains the text.
    """

    task: int | None
    line: int | None
    text: str
    advice: str = ""

    def whole(self):
        """Return the text with the advice."""
        end = "" if self.text[-1:] in tuple(".?!") else "."
        return f"{self.text}{end} {self.advice}" if self.advice else self.text


class State(NamedTuple):
    """The state of a task before it is run.

    kind: "unwritten", "missing", "broken" or "written".
    text: one complete line, such as
        "not written yet: Task 2, group_advantages (lab15_grpo.py line 62)".
    short: the same for a place that names the task already, such as "not written yet".
    """

    kind: str
    text: str
    short: str


# ============================================================== reading the text

BANNER = re.compile(r"#\s*={3,}\s*(?:task\s+([1-5])\b|given\b)", re.IGNORECASE)


def no_lab_file(path):
    """Return why a file cannot be tested at all, in one line, or None if it can."""
    path = Path(path)
    if path.is_dir():
        inside = path / DEFAULT_LAB.name
        more = f"; did you mean {inside}?" if inside.is_file() else ""
        return f"{path} is a folder, not a lab file{more}"
    if not path.is_file():
        return f"there is no lab file {path}"
    try:
        if path.stat().st_size > LARGEST:
            return f"{path} is not a lab file: it has {path.stat().st_size >> 20} MB"
        data = path.read_bytes()
    except OSError as error:
        return f"{path} cannot be read: {error.strerror}"
    if what := _other_format(path, data):
        return f"{path} is {what}"
    text = read_source(path)[0]
    if not text.strip():
        return f"{path} is empty; did the editor save it?"
    if not any(name in text for name in (*NUMBER_OF, "import *")):
        names = ", ".join(NUMBER_OF)
        return f"{path} has none of the five functions ({names}); is it the right file?"
    return None


def _other_format(path, data):
    """Return what a file is if it is plainly no Python source."""
    if path.suffix == ".pyc" or data[2:4] == b"\r\n" and b"\0" in data:
        return "compiled code, not Python source; give the .py file"
    if data[:2] in (b"\xff\xfe", b"\xfe\xff") or (
        data and data[1::2].count(0) + data[::2].count(0) > len(data) // 3
    ):
        return "saved as UTF-16, which Python cannot read; save it as UTF-8"
    if data[:4] == b"PK\3\4":
        return "a zip archive; unpack it and give the lab file in it"
    if b"\0" in data:
        return "not text: it has zero bytes in it"
    if data.lstrip()[:1] == b"{" and b'"cells"' in data:
        return f"a notebook; write your functions in {DEFAULT_LAB.name}, which the tests read"
    return None


def read_source(path):
    """Return (text, encoding, note) of a Python file; line ends stay as they are.

    note is None, or one line with the reason why the file was read as Latin-1. A byte order mark is
    part of the encoding ("utf-8-sig"), so that text.encode(encoding) gives the bytes back.

    Raises:
        FileNotFoundError: no such file.
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"there is no lab file {path}")
    data = path.read_bytes()
    try:
        encoding = tokenize.detect_encoding(io.BytesIO(data).readline)[0]
        return data.decode(encoding), encoding, None
    except (SyntaxError, UnicodeDecodeError, LookupError):
        note = "not UTF-8, read as Latin-1; save the file as UTF-8"
        return data.decode("latin-1"), "latin-1", note


def cut(text):
    """Return the parts of a lab file as (task, start, end), in order.

    task: 1 to 5, 0 for a part under a "given" banner, None for what stands above all banners.
    start, end: 0-based line numbers, end excluded, over text.split(newline).
    """
    lines = text.split("\n")
    starts = [(None, 0)]
    for i, line in enumerate(lines):
        if match := BANNER.match(line):
            starts.append((int(match[1] or 0), i))
    ends = [start for _, start in starts[1:]] + [len(lines)]
    return [(task, start, end) for (task, start), end in zip(starts, ends, strict=True)]


def is_real(value):
    """Return whether a value is what the docstrings call a float, in a dict of floats.

    Any real number is: Python's, numpy's, a Fraction. A bool, a string or a tensor is none.
    Public and hidden tests ask this one function.
    """
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def ascii_line(text, limit=100):
    """Return text as one line of at most `limit` ASCII characters, for any terminal."""
    # Cut before anything else: no text, however long, costs more than a short one.
    text = str(text)[: max(4000, 2 * limit)]
    text = " ".join(filter(None, map(str.strip, text.split("\n"))))
    text = text.encode("ascii", "backslashreplace").decode("ascii")
    return text if len(text) <= limit else text[: limit - 3] + "..."


# ============================================================== parsing

_UNPARSABLE = (SyntaxError, ValueError, RecursionError, MemoryError)
# A line that starts a statement of its own at the left margin.
_STARTER = re.compile(r"(?:async|class|def|for|from|if|import|try|while|with)\b|@|\w+\s*=[^=]")
_DEF = re.compile(r"^(?:async\s+)?def\s+(\w+)", re.MULTILINE)


class _Source:
    """A file's text and parts; its statements; its problems, and those of the tasks' own defs."""

    def __init__(self, path, limit):
        self.path, self.limit = os.path.abspath(path), limit
        text, _, note = read_source(self.path)
        self.text = text.replace("\r\n", "\n").replace("\r", "\n")
        self.lines = self.text.split("\n")
        self.parts = cut(self.text)
        self.problems = [Problem(None, None, note)] if note else []
        self.failed = {}
        try:
            self.statements = ast.parse(self.text, self.path).body
        except _UNPARSABLE as error:
            self.statements = []
            for _, start, end in self.parts:
                self._parse(start, end)
            if not self.problems:  # every part is fine alone, the file is not
                self._add_error(error, 0, len(self.lines))

    def task_at(self, line):
        """Return the task whose part holds this 1-based line, or None."""
        tasks = [task for task, start, end in self.parts if start < line <= end]
        return (tasks[0] or None) if tasks else None

    def _parse(self, start, end, smaller=True):
        """Parse lines start..end; if that fails, try statement by statement."""
        # Blank lines in front keep the line numbers of the file.
        padded = "\n" * start + "\n".join(self.lines[start:end])
        try:
            self.statements += ast.parse(padded, self.path).body
            return
        except _UNPARSABLE as error:
            if not smaller:
                self._add_error(error, start, end)
                return
        starts = [start]
        for i in range(start + 1, end):
            if _STARTER.match(self.lines[i]) and not self.lines[i - 1].startswith("@"):
                starts.append(i)
        for first, last in zip(starts, starts[1:] + [end], strict=True):
            self._parse(first, last, smaller=False)

    def _add_error(self, error, start, end):
        line = getattr(error, "lineno", None) or start + 1
        line = min(max(line, start + 1), end)  # "at the end of the file" is behind the part
        name = _DEF.search("\n".join(self.lines[start:end]))
        text = f"{type(error).__name__}: {getattr(error, 'msg', error)}"
        words = syntax_advice(getattr(error, "msg", None))
        self.add_problem(name and name[1], line, line, text, words)

    def add_problem(self, name, at, line, text, advice=""):
        """Note what failed: the def called name (or no def), in the part of line `at`.

        Args:
            name: of the def, or None.
            at: a line in the part of the file that failed.
            line: the line to name.
            text: what is wrong.
            advice: what that means.
        """
        task = NUMBER_OF.get(name)
        problem = Problem(task or self.task_at(at), line, ascii_line(text), advice)
        self.problems.append(problem)
        if task:
            self.failed[task] = problem


def _is_stub(function):
    """Return whether a function's body does nothing but raise NotImplementedError (or nothing)."""
    return all(
        isinstance(node, ast.Pass)
        or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
        or (isinstance(node, ast.Raise) and "NotImplementedError" in ast.dump(node))
        for node in function.body
    )


def _definitions(statements):
    """Return (name -> line of its last def, names whose last binding is a stub)."""
    lines, stubs = {}, set()
    for node in statements:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            lines[node.name] = node.lineno
            (stubs.add if _is_stub(node) else stubs.discard)(node.name)
        elif isinstance(node, ast.Assign):
            stubs -= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.Import | ast.ImportFrom):
            stubs -= {alias.asname or alias.name for alias in node.names}
    return lines, stubs


# ============================================================== running

_serial = itertools.count(1)
DEADLY: dict = {}  # line -> why a statement is skipped: it ended Python before (guard.py)


def on_statement(line):
    """Do nothing; guard.py puts in a function that notes the line of each top-level statement."""



def load_lab(path=DEFAULT_LAB, backend=None, limit=SECONDS, hush=quiet, failed=None):
    """Return the lab file as a module, with everything in it that works.

    Top-level statements run one after the other; one that fails is noted, and the rest still runs.
    A file with a syntax error is cut at its "# ==== Task N" lines, so that only the broken
    part is lost. A file that imports the solutions or the tests is not run at all.

    Args:
        path: the lab file; line numbers and inspect.getsource refer to it.
        backend: a module that stands in for tinylm while the file runs; None takes the
            tinylm.py beside the folder tests. sys.modules["tinylm"] is put back afterwards.
        limit: seconds that the file may take, imports of packages not counted.
        hush: a function that returns the context in which the file runs; the default discards
            what it prints.
        failed: called as failed(lines, node, error) for every statement that fails: the lines of
            the file, the statement's syntax node, the exception.

    Returns: a module with three more attributes:
        __problems__: list of Problem, in the order in which they were found.
        __unwritten__: set of the numbers of the tasks that are still the stub.
        __definitions__: dict from a top-level function's name to its line.

    Raises:
        FileNotFoundError: no such file.
    """
    source = _Source(path, limit)
    module = types.ModuleType(f"lab15_under_test_{next(_serial)}")
    module.__file__ = source.path
    # inspect and tracebacks find the lines even in a file that Python could not decode.
    lines = [line + "\n" for line in source.lines]
    linecache.cache[source.path] = (len(source.text), None, lines, source.path)
    sys.modules[module.__name__] = module  # first: dataclasses look their module up there
    module.__definitions__, stubs = _definitions(source.statements)
    module.__unwritten__ = {NUMBER_OF[name] for name in stubs if name in NUMBER_OF}
    module.__problems__ = source.problems
    module.__parts__, module.__failed__ = source.parts, source.failed
    module.__leans_on__ = leans_on(source.statements)
    if module.__leans_on__ is None:
        folder = os.path.dirname(source.path)
        with hush(), imports(folder, backend), itself(module), settings.random_states():
            _run(source, module, failed or (lambda lines, node, error: None))
    source.problems.sort(key=lambda problem: problem.line or 0)
    return module


def _run(source, module, failed):
    """Execute the statements one by one in the module; note those that fail or do not end.

    Args:
        source: the file's _Source.
        module: where to execute.
        failed: see load_lab.
    """
    flags, left, before = 0, source.limit, settings.look()
    if "torch" in source.text and "compile" in source.text:
        with contextlib.suppress(Exception):  # before the file does: its `compile` is then ours
            import torch  # noqa: F401
    for node in source.statements:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            module.__doc__ = module.__doc__ or node.value.value
            continue
        flags |= _future_flags(node)  # they hold for the statements that follow
        if node.lineno in DEADLY:
            source.add_problem(getattr(node, "name", None), node.lineno, *DEADLY[node.lineno])
            continue
        on_statement(node.lineno)
        # Reading PyTorch from a slow disk for the first time takes its time.
        importing, start = isinstance(node, ast.Import | ast.ImportFrom), time.monotonic()
        try:
            tree = ast.Module([node], type_ignores=[])
            code = compile(tree, source.path, "exec", flags, dont_inherit=True)
            with _as_it_was(source, node), tamed(), TimeLimit(
                12 * source.limit if importing else max(left, source.limit / 10), source.path
            ):
                exec(code, module.__dict__)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # SystemExit too
            failed(source.lines, node, error)
            _add_failure(source, node, error)
        if not importing:
            left -= time.monotonic() - start
    for text in settings.put_back(before):
        source.add_problem(None, 0, None, f"{text}; this was put back")


def _future_flags(node):
    """Return the compiler flags of a `from __future__ import`, 0 for another statement."""
    flags = 0
    if isinstance(node, ast.ImportFrom) and node.module == "__future__":
        for alias in node.names:
            flags |= getattr(getattr(__future__, alias.name, None), "compiler_flag", 0)
    return flags


@contextlib.contextmanager
def _as_it_was(source, node):
    """Put back what a statement switches for the whole process, and note it."""
    before, functions, known = settings.look(place=False), settings.functions(), len(sys.modules)
    try:
        yield
    finally:
        changed = settings.put_back(before)
        if len(sys.modules) == known:  # a package may do so when it is imported
            changed += settings.put_functions_back(functions)
        for text in changed:
            source.add_problem(None, node.lineno, node.lineno, f"{text}; this was put back")


def _add_failure(source, node, error):
    """Note the exception of a top-level statement."""
    line, text, words = node.lineno, error_text(error), ""
    if isinstance(error, SyntaxError):
        text, words = f"{type(error).__name__}: {error.msg}", syntax_advice(error.msg)
        if error.filename == source.path:
            line = error.lineno or line
        else:  # in a module that it imports
            text += f" ({os.path.basename(error.filename or '?')} line {error.lineno})"
    elif isinstance(error, OutOfTime):
        line, text = error.line, str(error)
    elif frames := lab_frames(error, source.path):
        line = frames[-1][1]
    if isinstance(error, SystemExit):
        call = str(error) if isinstance(error, EndsPython) else "sys.exit() was called"
        text = f"{call} while the file was loaded; remove it"
    if not words and isinstance(error, Exception):
        words = advice(error, linecache.getline(source.path, line)) or ""
    source.add_problem(getattr(node, "name", None), node.lineno, line, text, words)


def error_text(error):
    """Return "NameError: name 'x' is not defined", with Python's "Did you mean" if it has one."""
    try:
        summary = traceback.TracebackException.from_exception(error, limit=0)
        return "".join(summary.format_exception_only()).rstrip()
    except Exception:  # an exception class of the student's own can fail at anything
        return type(error).__name__


def lab_frames(error, path):
    """Return (function name, line) of the exception's frames in the file, outermost first."""
    return [(frame.f_code.co_name, line) for frame, line in traceback.walk_tb(error.__traceback__)
            if frame.f_code.co_filename == path]


# ============================================================== what to say about it


def task_state(lab, number):
    """Return the State of a task in a module that load_lab returned."""
    task, file = TASKS[number], os.path.basename(lab.__file__)
    head = f"Task {number}, {task.name}"
    if lab.__leans_on__:
        what = "line {} imports {}".format(*lab.__leans_on__)
        why = "the file under test must stand on its own"
        return State("broken", f"broken: {head} ({file} {what}: {why})", f"broken: {what}")
    here = [problem for problem in lab.__problems__ if problem.task == number]
    function = getattr(lab, task.name, None)
    stub = number in lab.__unwritten__
    hint = _renamed(lab, number)
    # A body at the left margin leaves a function of nothing but its docstring, and errors.
    hollow = stub and "NotImplementedError" not in _names_used(function)
    if number in lab.__failed__ or (here and (hollow or (function is None and not hint))):
        problem = lab.__failed__.get(number) or here[0]
        what, more = f"line {problem.line}: {problem.text}", problem.advice
        text = f"broken: {head} ({file} {what})" + (f" {more}" if more else "")
        return State("broken", text, f"broken: {what}")
    if function is None:
        text = f"missing: {head}: there is no such function in {file}{hint}"
        return State("missing", text, f"missing{hint}")
    if not callable(function):
        what = f"the name stands for a {type(function).__name__}, not for a function"
        return State("missing", f"missing: {head}: {what} ({file})", f"missing: {what}")
    if stub:
        line = lab.__definitions__[task.name]
        text = f"not written yet: {head} ({file} line {line})"
        return State("unwritten", text, "not written yet")
    return State("written", f"written: {head}", "written")


def _names_used(function):
    return getattr(getattr(function, "__code__", None), "co_names", ())


def _renamed(lab, number):
    """Return " (line 62 defines group_advantage)" if the task's part has another function."""
    for name, line in lab.__definitions__.items():
        inside = any(t == number and start < line <= end for t, start, end in lab.__parts__)
        if inside and name not in NUMBER_OF:
            return " " + ascii_line(f"(line {line} defines {name})")
    return ""


def problem_line(lab, problem):
    """Return "lab15_grpo.py line 12: ModuleNotFoundError: ..." for one of the problems."""
    where = f" line {problem.line}" if problem.line else ""
    return f"{os.path.basename(lab.__file__)}{where}: {problem.whole()}"
