"""A plugin of pytest: every package looks missing that requirements.txt does not bring.

python -m pytest -p instructor.tests.only_requirements --collect-only .
"""

import os
import re
import sys
from collections.abc import Collection
from importlib import metadata
from importlib.machinery import PathFinder
from pathlib import Path

TOP = Path(__file__).resolve().parents[2]


def same(name):
    """Return a distribution's name in the one spelling that stands for all others."""
    return re.sub(r"[-_.]+", "-", name).lower()


def pins(path):
    """Return the distributions that a requirements file names."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return {same(re.match(r"[\w.-]+", line)[0]) for line in lines if re.match(r"\w", line)}


def closure(names):
    """Return these distributions and all that they need here, as far as they are installed."""
    from packaging.requirements import Requirement

    done, left = set(), [(same(name), "") for name in names]
    while left:
        name, extra = entry = left.pop()
        if entry in done:
            continue
        try:
            wanted = metadata.requires(name) or []
        except metadata.PackageNotFoundError:
            continue
        done.add(entry)
        for text in wanted:
            need = Requirement(text)
            if need.marker is None or need.marker.evaluate({"extra": extra}):
                left += [(same(need.name), e) for e in ("", *need.extras)]
    return {name for name, _ in done}


def provided():
    """Return the top-level modules that requirements.txt brings."""
    brought = closure(pins(TOP / "requirements.txt"))
    modules = metadata.packages_distributions()
    return {m for m, owners in modules.items() if brought & {same(o) for o in owners}}


class Missing(PathFinder):
    """Find modules as PathFinder does, but for those of other packages."""

    allowed: Collection[str] = frozenset()

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        """Return the module's spec, or None where the package should be missing."""
        spec = super().find_spec(fullname, path, target)
        where = getattr(spec, "origin", None) or next(iter(
            getattr(spec, "submodule_search_locations", None) or [""]))
        if "site-packages" in Path(where).parts and fullname.split(".")[0] not in cls.allowed:
            return None
        return spec


def block(allowed):
    """Let only these top-level modules be found among the installed packages."""
    Missing.allowed = frozenset(allowed)
    sys.meta_path[:] = [Missing if f is PathFinder else f for f in sys.meta_path]


def environment():
    """Return an environment in which pytest loads no plugin before this one."""
    return os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": "1"}


def pytest_load_initial_conftests():
    """Block before the first test file or conftest.py is imported."""
    block(provided())
