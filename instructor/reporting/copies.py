"""Find files that are the same: letter by letter, or but for names, comments and layout.

Nothing is measured against the class here: two equal files are listed however alike the others
are. Files are parsed, never run.
"""

import ast
import warnings
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

from tests.labfile import ROOT, TASKS

from .similar import parts

# Below this, two students may well write the same without knowing of each other: nodes of the
# syntax tree of all that is written. k3_kl has 30, group_advantages 70, the solution 700.
ROOM = 120
LONGEST, MOST = 60_000, 500  # characters and statements of a file that is parsed
UNREADABLE = (SyntaxError, ValueError, RecursionError, MemoryError)


class Group(NamedTuple):
    """Files that are the same.

    members: their places in the list.
    exact: those of them that are the same letter by letter, as groups of two or more.
    tasks: the tasks that are written in them.
    room: whether that is so much that two would hardly write the same by chance.
    """

    members: list[int]
    exact: list[list[int]]
    tasks: list[int]
    room: bool

    @property
    def identical(self) -> bool:
        """Return whether all of them are the same letter by letter."""
        return self.exact == [self.members]


class Copies(NamedTuple):
    """What was found: groups, and groups of so little text that chance explains them."""

    groups: list[Group]
    small: list[Group]


class _Plain(ast.NodeTransformer):
    """Gives names in the order of their appearance to all that a text binds itself.

    Args:
        own: these names.
        new: what some of them are called already.
    """

    def __init__(self, own: set[str], new: dict[str, str]):
        self.own, self.new = own, dict(new)

    def _name(self, name: str) -> str:
        return self.new.setdefault(name, f"v{len(self.new)}") if name in self.own else name

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """Rename a variable."""
        return ast.copy_location(ast.Name(self._name(node.id), node.ctx), node)

    def visit_arg(self, node: ast.arg) -> ast.AST:
        """Rename an argument; its annotation counts as a comment."""
        return ast.arg(self._name(node.arg), None)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.AST:
        """Rename a helper."""
        node.name, node.returns = self._name(node.name), None
        return self.generic_visit(node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.AST | None:
        """Take an annotation away."""
        if node.value is None:
            return None
        return self.visit(ast.Assign([node.target], node.value))

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        """Take docstrings and lone texts away."""
        text = isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
        return None if text else self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        """Take a pass away."""


def _bound(tree: ast.AST) -> list[str]:
    """Return the names that a statement binds itself, but for those of the tasks."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.append(node.id)
        elif isinstance(node, ast.arg):
            found.append(node.arg)
        elif isinstance(node, ast.FunctionDef):
            found.append(node.name)
    return [name for name in found if name not in {task.name for task in TASKS.values()}]


def _plain(body: Sequence[ast.stmt]) -> tuple[str, int]:
    """Return (statements without names and comments of their own, how many nodes they have)."""
    tops = [s.name for s in body if isinstance(s, ast.FunctionDef)]
    helpers = [name for name in tops if name not in {task.name for task in TASKS.values()}]
    shared = {name: f"h{i}" for i, name in enumerate(helpers)}
    done = []
    for statement in body:  # each function counts its variables anew
        names = _Plain(set(_bound(statement)) | shared.keys(), shared)
        if (plain := names.visit(statement)) is not None:
            done.append(plain)
    dumps = [ast.dump(statement, annotate_fields=False) for statement in done]
    return "\n".join(dumps), sum(1 for statement in done for _ in ast.walk(statement))


def _parsed(source: str) -> list[ast.stmt]:
    """Return the statements of a file; what Python would warn of in it is its author's affair."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source).body


def _stub() -> str:
    return (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")


@cache
def _given() -> frozenset[str]:
    """Return the statements of the untouched file."""
    return frozenset(_plain([statement])[0] for statement in _parsed(_stub()))


class Written(NamedTuple):
    """What is written in a file.

    tasks: their numbers; 0 alone where none can be made out.
    key: the same for files that are the same but for names, comments and layout.
    nodes: how much it is.
    """

    tasks: list[int]
    key: str
    nodes: int


def written(source: str) -> Written:
    """Return what a student has written in a file; what stood in it before is left out."""
    names = {task.name: number for number, task in TASKS.items()}
    try:
        if len(source) > LONGEST:
            raise ValueError("too long to be parsed here")
        body = _parsed(source)
        if len(body) > MOST:
            raise ValueError("too many statements")
        same = [_plain([statement])[0] in _given() for statement in _parsed(source)]
        body = [s for s, known in zip(body, same, strict=True) if not known]
        tasks = sorted({names[s.name] for s in body
                        if isinstance(s, ast.FunctionDef) and s.name in names})
        return Written(tasks, *_plain(body))
    except UNREADABLE:  # an error somewhere; then the parts of the file, letter by letter
        given = parts(_stub())
        texts = {n: " ".join(text.split()) for n, text in parts(source[:LONGEST]).items()}
        tasks = [n for n in TASKS if texts[n] not in ("", " ".join(given[n].split()))]
        key = repr([texts[n] for n in tasks] or source)
        return Written(tasks or [0], key, len(source.split()))


def find(sources: Sequence[str]) -> Copies:
    """Return the files of a class that are the same.

    Args:
        sources: the files' texts; those in which nothing is written are left out.
    """
    same: dict[str, list[int]] = {}
    for i, source in enumerate(sources):
        same.setdefault(source, []).append(i)
    alike: dict[str, list[list[int]]] = {}
    about: dict[str, Written] = {}
    for source, members in same.items():
        found = written(source)
        if found.tasks:
            alike.setdefault(found.key, []).append(members)
            about[found.key] = found
    groups: list[Group] = []
    small: list[Group] = []
    for key, exact in alike.items():
        tasks, nodes = about[key].tasks, about[key].nodes
        members = sorted(i for some in exact for i in some)
        if len(members) > 1:
            repeated = [some for some in exact if len(some) > 1]
            group = Group(members, repeated, tasks, nodes >= ROOM)
            (groups if group.room or repeated else small).append(group)
    groups.sort(key=lambda group: (-len(group.members), group.members))
    return Copies(groups, small)
