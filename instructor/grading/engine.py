"""Which files of this repository some of its files need, found by following their imports.

So nothing can be forgotten: the contents of a sandbox (bwrap.py) and the files that decide the
points (judging.py) include every new module automatically.
"""

import ast
from pathlib import Path

from tests.labfile import ROOT


def closure(names, root=ROOT, leaves=(), without=()):
    """Return the names of all Python files that these need, with themselves, in order.

    Args:
        names: paths from the repository's root, with slashes.
        root: of the repository.
        leaves: names that belong to the result, while what they need does not.
        without: names that do not belong to it.
    """
    todo, found = list(names), set()
    while todo:
        name = todo.pop()
        if name in found or name in without:
            continue
        found.add(name)
        if name not in leaves:
            todo += _imported(name, Path(root))
    return sorted(found)


def _imported(name, root):
    """Yield the files of the repository that a file imports, anywhere in its code."""
    folder = name.split("/")[:-1]
    for node in ast.walk(ast.parse((root / name).read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _files(alias.name.split("."), folder, root)
        elif isinstance(node, ast.ImportFrom):
            above = folder[: len(folder) - node.level + 1] if node.level else []
            module = [*above, *(node.module.split(".") if node.module else [])]
            for alias in node.names:
                yield from _files([*module, alias.name], folder, root)


def _files(parts, folder, root):
    """Yield the files that importing a dotted name runs.

    A sandbox has the modules of instructor/box side by side: there they
    import each other by plain names.
    """
    for i in range(1, len(parts) + 1):
        for path in ("/".join(parts[:i]) + ".py", "/".join([*parts[:i], "__init__.py"])):
            if (root / path).is_file():
                yield path
    if folder == ["instructor", "box"]:
        path = "/".join([*folder, parts[0]]) + ".py"
        if (root / path).is_file():
            yield path
