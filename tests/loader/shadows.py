"""Find and name a student's file that Python imports instead of a module of its own.

A torch.py or random.py in the folder from which the tests are run is imported instead of the
real one, and the error that follows names neither. Only what Python itself has loaded at its start
is imported here, so that there is no other module for this one to trip over.
"""

import importlib.machinery
import os
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Packages without which nothing runs; of other packages a namesake may well be meant.
NEEDED = {
    "PIL", "_pytest", "filelock", "fsspec", "functorch", "iniconfig", "jinja2", "matplotlib",
    "mpmath", "networkx", "numpy", "packaging", "pluggy", "pytest", "sympy", "torch", "torchgen",
    "tqdm", "typing_extensions", "watchfiles",
}


def complaint(path=None):
    """Return a line about a file that hides a module, or None.

    Args:
        path: the lab file; its folder is looked at, too.
    """
    folders = [ROOT, os.getcwd()] + ([os.path.dirname(os.path.abspath(path))] if path else [])
    for folder in dict.fromkeys(map(os.path.realpath, folders)):
        for name in _modules_in(folder):
            if _hides(folder, name):
                file = _file(folder, name)
                kind = "a package" if name in NEEDED else "a module of Python's"
                return (
                    f"{file} has the name of {kind} and is imported instead of it: give it "
                    f"another name, such as my_{name}"
                )
    return None


def stop():
    """End the program with that line, if there is one."""
    if line := complaint():
        sys.exit(line.encode("ascii", "backslashreplace").decode())


def _modules_in(folder):
    """Return the names in a folder that could hide something."""
    try:
        entries = sorted(os.listdir(folder))
    except OSError:
        return []
    names = [entry.removesuffix(".py") for entry in entries]
    return [name for name in names if name in sys.stdlib_module_names or name in NEEDED]


def _file(folder, name):
    single = os.path.join(folder, name + ".py")
    return single if os.path.isfile(single) else os.path.join(folder, name)


def _hides(folder, name):
    """Return whether `import name` takes it from the folder although there is another one."""
    loaded = getattr(sys.modules.get(name), "__file__", None)
    if name in sys.builtin_module_names or (name in sys.modules and loaded is None):
        return False
    if loaded is not None:
        return _is_in(folder, loaded)
    found = importlib.machinery.PathFinder.find_spec(name)
    if found is None or not found.origin or not _is_in(folder, found.origin):
        return False
    elsewhere = [p for p in sys.path if os.path.realpath(p or os.getcwd()) != folder]
    return importlib.machinery.PathFinder.find_spec(name, elsewhere) is not None


def _is_in(folder, file):
    """Return whether a module's file is this folder's own, or that of a package right in it."""
    place = os.path.dirname(os.path.realpath(file))
    package = os.path.basename(file).startswith("__init__.")
    return folder == (os.path.dirname(place) if package else place)
