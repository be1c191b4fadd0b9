"""The files of the repository, as text and as syntax trees."""

import ast
import subprocess
from functools import cache
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


@cache
def files():
    """Return the repository's files as relative names with forward slashes."""
    git = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"]
    listed = subprocess.run(git, cwd=TOP, capture_output=True, encoding="utf-8")
    if listed.returncode == 0:
        names = listed.stdout.split("\0")
    else:  # a download without .git
        skip = {".venv", "venv", "runs", "wheels", "__pycache__"}
        names = [p.relative_to(TOP).as_posix() for p in TOP.rglob("*")]
        names = [n for n in names if not skip & set(n.split("/"))]
    return sorted(n for n in names if n and (TOP / n).is_file())


def python_files():
    """Return the names of the Python files."""
    return [n for n in files() if n.endswith(".py")]


@cache
def text(name):
    """Return a file's text; line ends are made LF."""
    assert (TOP / name).is_file(), f"{name} is missing"
    return (TOP / name).read_text(encoding="utf-8")


@cache
def tree(name):
    """Return a Python file's syntax tree."""
    return ast.parse(text(name), name)
