"""What is imported stands in a requirements file: the one that the room's README names.

A package that only comes along with another is written down as well. The other may drop it, and
a machine that has it for another reason must not hide that it is missing here.
"""

import ast
import re
import sys
from functools import cache
from pathlib import Path

import pytest

from instructor.tests.only_requirements import pins, same
from instructor.tests.repo_files import TOP, python_files, text, tree

LAB = "requirements.txt"
DEV = "instructor/requirements.txt"
BEYOND = "beyond/requirements.txt"
TRL = "beyond/requirements-trl.txt"
MONARCH = "beyond/requirements-monarch.txt"
EVERY = (LAB, DEV, BEYOND, TRL, MONARCH)

# The first pattern that fits a file's name gives the requirements files it may rely on.
ROOMS = {
    r"(instructor|beyond)/tests/.*": EVERY,
    r"instructor/.*": (LAB, DEV),
    r"notebooks/book/.*": (LAB, DEV),
    r"beyond/(services/\w+|services_run|staleness)\.py": (LAB, BEYOND, MONARCH),
    r"beyond/(adapters/trl|examples/trl_with_your_loss|bench/hf)\.py": (LAB, BEYOND, TRL),
    r"beyond/.*": (LAB, BEYOND),
    r".*": (LAB,),
}
# Where a reader learns to install them.
NAMED_BY = {
    LAB: "README.md",
    DEV: "instructor/README.md",
    BEYOND: "beyond/README.md",
    TRL: "beyond/README.md",
    MONARCH: "beyond/README.md",
}
# Taken where they are there, and in no requirements file: module -> (file, how to get it).
OPTIONAL = {
    "reasoning_gym": ("beyond/tasks/data.py", "pip install reasoning-gym"),
    "wandb": ("beyond/tests/hf/test_settings.py", "pip install wandb"),
    "forge": ("beyond/README.md", "--python-theirs VENV/bin/python"),
}
# Modules whose package has another name.
PACKAGES = {"yaml": "PyYAML", "monarch": "torchmonarch"}
# In the sandbox these are beside the worker, not in a package.
BESIDE = {"standins", "_pytest"}
STUDENTS = re.compile(r"instructor/(tests/grading/attacks|variants/wheats)/")


def imported(name):
    """Return (module, line) of every import in a file, in functions too, that is not our own."""
    own = {p.stem for p in (TOP / name).parent.iterdir()} | {p.stem for p in TOP.iterdir()}
    found = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Import):
            modules = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            modules = [node.module]
        else:
            modules = by_name(node)
        found += [(module.split(".")[0], node.lineno) for module in modules]
    known = {*sys.stdlib_module_names, *own, *BESIDE}
    return [(module, line) for module, line in found if module not in known]


def by_name(node):
    """Return the module in import_module("x"), __import__("x"), importorskip("x")."""
    name = isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", ""))
    if name not in ("import_module", "__import__", "importorskip") or not node.args:
        return []
    value = getattr(node.args[0], "value", None)
    return [value] if isinstance(value, str) else []


def package(module):
    """Return the package of a module in the one spelling for all."""
    return same(PACKAGES.get(module, module))


@cache
def pinned(name):
    """Return the packages in a requirements file."""
    return pins(TOP / name)


def room_of(name):
    """Return the pattern in ROOMS that a file of the repository belongs to."""
    return next(pattern for pattern in ROOMS if re.fullmatch(pattern, name))


# ============================================================== what is imported


@pytest.mark.parametrize("room", ROOMS)
def test_imports_are_in_the_requirements_of_their_room(room):
    have = set().union(*(pinned(file) for file in ROOMS[room]))
    missing = [
        f"{name}:{line}: {module}"
        for name in python_files()
        if room_of(name) == room and not STUDENTS.match(name)
        for module, line in imported(name)
        if package(module) not in have and module not in OPTIONAL
    ]
    assert not missing, f"not in {' or '.join(ROOMS[room])}: {missing}"


@pytest.mark.parametrize("module", OPTIONAL)
def test_optional_packages_are_used_and_documented(module):
    used = [n for n in python_files() if module in dict(imported(n))]
    place, words = OPTIONAL[module]
    assert used and words in text(place)
    assert not [f for f in EVERY if package(module) in pinned(f)]


@pytest.mark.parametrize("name", EVERY)
def test_a_readme_says_how_to_install_them(name):
    assert re.search(rf"-r {re.escape(name)}\b", text(NAMED_BY[name]))


@pytest.mark.parametrize("source, found", [
    ("import numpy.linalg", ["numpy"]),
    ("def f():\n    from yaml import load\n", ["yaml"]),
    ("try:\n    import peft\nexcept ImportError:\n    peft = None\n", ["peft"]),
    ("import importlib\nimportlib.import_module('rich.text')", ["rich"]),
    ("from . import x\nimport tinylm, json\nfrom tests.labfile import ROOT", []),
])
def test_every_kind_of_import_is_seen(source, found, monkeypatch):
    monkeypatch.setitem(globals(), "tree", lambda name: ast.parse(source))
    assert [module for module, _ in imported("beyond/losses/variants.py")] == found


# ============================================================== what a skipped test says


def skips(name):
    """Return (module, reason, line) of every importorskip in a file."""
    found = []
    for node in ast.walk(tree(name)):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "importorskip":
            reasons = [k.value for k in node.keywords if k.arg == "reason"]
            reason = ast.literal_eval(reasons[0]) if reasons else ""
            found.append((node.args[0].value, reason, node.lineno))
    return found


def test_a_skip_names_the_command_that_installs_the_package():
    names = [name for name in python_files() if Path(name).name.startswith("test_")]
    found = [(name, *skip) for name in names for skip in skips(name)]
    assert len(found) > 20
    for name, module, reason, line in found:
        top = module.split(".")[0]
        if top in sys.stdlib_module_names or (TOP / top).is_dir():
            continue
        files = [file for file in EVERY if package(top) in pinned(file)]
        right = [f"pip install -r {file}" for file in files] or [OPTIONAL[top][1]]
        assert any(words in reason for words in right), f"{name} line {line}: say {right[0]}"
