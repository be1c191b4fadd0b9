"""Control what a lab file can import, print and end while it is loaded.

The second part of labfile.py, like that made of the standard library alone.
"""

import ast
import contextlib
import functools
import io
import os
import re
import signal
import sys
import types
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CLOSED = {"solutions", "tests", "instructor"}  # the file under test must not lean on these
# Functions that take a module's name, and functions that take the path of one.
_BY_NAME = {"__import__", "import_module", "run_module"}
_BY_PATH = {"open", "Path", "run_path", "spec_from_file_location", "SourceFileLoader", "read_text"}


@contextlib.contextmanager
def quiet():
    """Discard output and warnings, and let every read of stdin find its end."""
    old_stdin, sys.stdin = sys.stdin, io.StringIO()
    try:
        with (
            contextlib.redirect_stdout(io.StringIO()),
            contextlib.redirect_stderr(io.StringIO()),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.stdin = old_stdin


@contextlib.contextmanager
def imports(folder, backend):
    """Let `import tinylm` give the backend, or this lab's tinylm.py whatever the cwd.

    Modules beside the file can be imported as well, unless something else has their name.
    """
    path, before = list(sys.path), sys.modules.pop("tinylm", None)
    sys.path[:] = [str(ROOT), *path, folder]
    if backend is not None:
        sys.modules["tinylm"] = backend
    elif Path(getattr(before, "__file__", None) or "").resolve() == ROOT / "tinylm.py":
        sys.modules["tinylm"] = before
    try:
        yield
    finally:
        sys.path[:] = path
        if before is not None:
            sys.modules["tinylm"] = before
        elif backend is not None:
            sys.modules.pop("tinylm", None)


# ============================================================== what it must not do to us


class EndsPython(SystemExit):
    """A call in a student's file that would end Python at once, with all verdicts."""


# What ends the process, or another program takes its place.
ENDS = ("_exit", "abort", "execv", "execve", "kill", "killpg")
_depth = 0  # of tamed()


@contextlib.contextmanager
def tamed(ends=True):
    """Run student code: what would end Python raises EndsPython, torch.compile does nothing.

    A function runs as it is written: to compile it takes longer than all tests together, and
    not every machine has a compiler.

    Args:
        ends: False where the process may end; then only torch.compile is taken care of.
    """
    global _depth
    torch = sys.modules.get("torch")
    places = []
    if ends:
        names = [(os, name) for name in ENDS if hasattr(os, name)] + [(signal, "raise_signal")]
        places += [(space, name, _refused(f"{space.__name__}.{name}", getattr(space, name)))
                   for space, name in names]
    if hasattr(torch, "compile"):
        places.append((torch, "compile", _later(torch.compile)))
    own = [(space, name, getattr(space, name)) for space, name, _ in places]
    _depth += 1
    try:
        for space, name, function in places if _depth == 1 else ():
            setattr(space, name, function)
        yield
    finally:
        _depth -= 1
        for space, name, function in own:
            setattr(space, name, function)


def _refused(name, real):
    """Return a function that raises EndsPython where `real` would strike this process."""
    process = os.getpid()

    @functools.wraps(real)
    def refused(*args, **kwargs):
        ours = os.getpid() == process  # and not that of a process which the file has started
        if name in ("os.kill", "os.killpg"):
            ours = ours and bool(args) and abs(args[0]) in (0, 1, process, os.getppid())
        if ours:
            raise EndsPython(f"{name}() was called")
        return real(*args, **kwargs)

    return refused


def _later(real):
    """Return torch.compile that compiles at the first call outside of tamed()."""

    @functools.wraps(real)
    def compile(model=None, **options):
        if model is None:
            return functools.partial(compile, **options)
        if not isinstance(model, types.FunctionType):
            return model
        ready = []

        @functools.wraps(model)
        def function(*args, **kwargs):
            if _depth:
                return model(*args, **kwargs)
            if not ready:
                ready.append(real(model, **options))
            return ready[0](*args, **kwargs)

        return function

    return compile


@contextlib.contextmanager
def itself(module):
    """Let `import lab15_grpo` in a lab file give the file under test, whatever its path."""
    names = {"lab15_grpo", Path(module.__file__).stem}
    before = {name: sys.modules.get(name) for name in names}
    known = {name for name, other in before.items() if other is not None and name != "lab15_grpo"}
    try:
        sys.modules.update(dict.fromkeys(names - known, module))
        yield
    finally:
        for name in names - known:
            if before[name] is None:
                sys.modules.pop(name, None)
            else:
                sys.modules[name] = before[name]


def leans_on(statements):
    """Return (line, name) of the first import of the lab's own solutions or tests, or None.

    Looks at the text alone: `import solutions...`, importlib.import_module("tests...") and
    open("solutions/...") count, also inside a function.
    """
    found = []
    for node in (n for statement in statements for n in ast.walk(statement)):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [node.module or alias.name for alias in node.names]
        elif isinstance(node, ast.Call):
            names = _names_in(node)
        found += [(node.lineno, n) for n in names if n.split(".")[0] in CLOSED]
    return min(found, default=None)


def _names_in(call):
    """Return the first parts of the modules that a call may load."""
    function = getattr(call.func, "attr", None) or getattr(call.func, "id", None)
    texts = [a.value for a in call.args if isinstance(a, ast.Constant) and type(a.value) is str]
    if function in _BY_NAME:
        return texts
    if function in _BY_PATH:  # of the paths only this one: others may have a folder "tests", too
        return ["solutions" for text in texts if "solutions" in re.split(r"[\\/]", text)]
    return []
