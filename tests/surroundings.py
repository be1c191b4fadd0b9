"""What a lab file finds around it while it is loaded, and what it must not reach for.

The second part of labfile.py, like that made of the standard library alone.
"""

import ast
import contextlib
import io
import re
import sys
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CLOSED = {"solutions", "tests", "instructor"}  # the file under test must not lean on these
# Functions that take a module's name, and functions that take the path of one.
_BY_NAME = {"__import__", "import_module", "run_module"}
_BY_PATH = {"open", "Path", "run_path", "spec_from_file_location", "SourceFileLoader", "read_text"}


@contextlib.contextmanager
def quiet():
    """Swallow what the file prints, warns or asks for while it is loaded."""
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
