"""Mutants of the five bodies of the solution, made by machine: one small change each.

An expression is changed by putting another text in its place, a statement by dropping, doubling,
moving or unwrapping it. Everything else stays as it is in the file, comments too.
"""

import ast
import itertools
import re
import textwrap
from collections.abc import Iterator
from typing import Any, NamedTuple

from .catalog import cut_at, with_body

# What may be taken for one another: variables, fields of cfg, keys of the dicts.
ALIKE = [
    "prompts answers responses",
    "prompt answer response",
    "rewards groups adv by_prompt",
    "logp old_logp ref_logp mask rho unclipped clipped k3 obj d",
    "adv A per_response",
    "clip_eps beta",
    "kl clip_frac ratio_max loss entropy zero_signal n_tokens",
    "policy ref",
    "G eps temperature",
    "G inner_steps temperature clip_eps beta scale_std max_grad_norm",
    "ids mask prompt_len",
    "out responses rewards",
    "reward loss kl clip_frac frac_zero_signal entropy ratio_max",
    "float32 float64 float16 int64",
]
# Names of functions and methods, and what takes their place.
RENAMED = {
    "mean": "sum amax amin",
    "sum": "mean amax prod",
    "min": "max",
    "max": "min mean sum",
    "amax": "amin mean sum",
    "amin": "amax mean sum",
    "exp": "expm1 exp2 log1p sigmoid",
    "std": "var",
    "view": "expand",
    "unsqueeze": "squeeze",
    "no_grad": "enable_grad inference_mode",
    "clip_grad_norm_": "clip_grad_value_",
    "float": "int bool",
    "zero_grad": "step",
    "step": "zero_grad",
    "item": "detach",
    "zip": "enumerate",
}
# Settings and their defaults, which take their place.
DEFAULTS = {
    "G": "8",
    "eps": "1e-4",
    "temperature": "1.0",
    "scale_std": "True",
    "clip_eps": "0.2",
    "beta": "0.04",
    "inner_steps": "2",
    "max_grad_norm": "1.0",
}
TENSORS = set(" ".join(ALIKE[2:5]).split())
BINARY = [ast.Add, ast.Sub, ast.Mult, ast.Div, ast.Pow]
COMPARING = [ast.Eq, ast.NotEq, ast.Lt, ast.LtE, ast.Gt, ast.GtE]


class Mutant(NamedTuple):
    """One mutant; `before` and `after` are the lines that differ, without what surrounds them."""

    task: int
    kind: str
    before: str
    after: str
    text: str  # of the whole lab file


class Edit(NamedTuple):
    """Lines and columns to replace, counted from 0, and the new text.

    short: lines before and after in short, for edits of several lines.
    """

    kind: str
    start: tuple[int, int]
    end: tuple[int, int]
    new: str
    short: tuple[str, str] | None = None


def mutants(task: int) -> list[Mutant]:
    """Return the mutants of one task's body, without those that are the same code."""
    _, head, _, body, _ = cut_at(task)
    code = "def body():\n" + body  # the line numbers of ast are then the indices from 0 of `lines`
    lines = body.split("\n")
    tree: Any = ast.parse(code).body[0]
    known = {arg.arg for arg in ast.walk(ast.parse(head + "    pass")) if isinstance(arg, ast.arg)}
    known |= {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    seen, made = {_dump(code)}, []
    for edit in edits(tree, gradients=task > 2):  # no gradient flows through tasks 1 and 2
        if edit.kind == "name" and edit.new not in known:
            continue
        changed = _apply(lines, edit)
        new = "\n".join(changed)
        if (dump := _dump("def body():\n" + new)) in seen:
            continue
        seen.add(dump)
        before, after = edit.short or _difference(lines, changed)
        made.append(Mutant(task, edit.kind, before, after, with_body(task, new)))
    return made


def _dump(code: str) -> str | None:
    try:
        return ast.dump(ast.parse(code))
    except SyntaxError:
        return None


def _apply(lines: list[str], edit: Edit) -> list[str]:
    """Return the lines after an edit."""
    (first, left), (last, right) = edit.start, edit.end
    whole = lines[first][:left] + edit.new + lines[last][right:]
    return lines[:first] + whole.split("\n") + lines[last + 1 :]


def _difference(a: list[str], b: list[str]) -> tuple[str, str]:
    """Return the lines of a and of b that differ, without comments and indentation."""
    start = next(i for i, pair in enumerate(itertools.zip_longest(a, b)) if pair[0] != pair[1])
    rest = min(len(a), len(b)) - start
    ends = zip(reversed(a), reversed(b))
    same = next((i for i, (x, y) in enumerate(ends) if x != y or i == rest), rest)
    if same == rest:  # only lines more or less: the line before them shows where
        start = max(start - 1, 0)
    parts = (a[start : len(a) - same], b[start : len(b) - same])
    plain = ("\n".join(re.sub(r"\s+#.*", "", line) for line in part) for part in parts)
    before, after = (textwrap.dedent(text).strip() for text in plain)
    return before, after


# ---------------------------------------------------------------- where to edit


def edits(function: ast.FunctionDef, gradients: bool) -> Iterator[Edit]:
    """Yield all edits of a function's body; `gradients`: also cut them off."""
    constant = {
        node
        for block in ast.walk(function)
        if isinstance(block, ast.With)  # torch.no_grad
        for statement in block.body
        for node in ast.walk(statement)
    }
    for node in ast.walk(function):
        if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", None), ast.Store):
            for kind, new in expressions(node, gradients and node not in constant):
                yield Edit(kind, *_span(node), new)
    for block in ast.walk(function):
        for name in ("body", "orelse"):
            if isinstance(statements := getattr(block, name, None), list):
                yield from _statements(statements, block)


def _span(first: Any, last: Any = None) -> tuple[tuple[int, int], tuple[int, int]]:
    """Return where a node (or the nodes from first to last) starts and ends."""
    last = last or first
    start, end = (first.lineno, first.col_offset), (last.end_lineno, last.end_col_offset)
    return (start[0] - 2, start[1]), (end[0] - 2, end[1])  # below the line "def body():"


def _statements(statements: list[ast.stmt], block: ast.AST) -> Iterator[Edit]:
    """Yield edits of whole statements."""
    for i, node in enumerate(statements):
        indent, head = "\n" + " " * node.col_offset, _heads([node])
        yield Edit("statement dropped", *_span(node), "pass", (head, "pass"))
        if isinstance(node, ast.Expr):
            new = _text([node, node], indent)
            yield Edit("statement doubled", *_span(node), new, (head, f"{head} / {head}"))
        if i + 1 < len(statements):
            pair = statements[i : i + 2]
            new, short = _text(pair[::-1], indent), (_heads(pair), _heads(pair[::-1]))
            yield Edit("statements swapped", *_span(*pair), new, short)
        if isinstance(node, (ast.With, ast.For, ast.If)):
            short = (_heads([node]), _heads(node.body))
            yield Edit("block removed", *_span(node), _text(node.body, indent), short)
        if isinstance(node, ast.If):
            yield Edit("if negated", *_span(node.test), f"not {ast.unparse(node.test)}")
            yield Edit("if never", *_span(node.test), "False")
    if isinstance(block, ast.For):
        yield from _moved_out(block)


def _text(statements: list[ast.stmt], indent: str) -> str:
    """Return the statements as text; `indent` is a line end and the spaces behind it."""
    return indent.join("\n".join(map(ast.unparse, statements)).split("\n"))


def _heads(statements: list[ast.stmt]) -> str:
    """Return the first line of each statement."""
    return " / ".join(ast.unparse(statement).split("\n")[0] for statement in statements)


def _moved_out(loop: ast.For) -> Iterator[Edit]:
    """Yield edits that move statements in front of the loop or behind it."""
    indent = "\n" + " " * loop.col_offset
    head, deeper = _heads([loop]), indent + "    "
    for i in range(1, len(loop.body)):
        first, rest = loop.body[:i], loop.body[i:]
        new = f"{_text(first, indent)}{indent}{head}{deeper}{_text(rest, deeper)}"
        short = (head, f"{_heads(first)} / {head}")
        yield Edit("moved in front of the loop", *_span(loop), new, short)
        new = f"{head}{deeper}{_text(first, deeper)}{indent}{_text(rest, indent)}"
        short = (head, f"{head} ... / behind it: {_heads(rest)}")
        yield Edit("moved behind the loop", *_span(loop), new, short)


# ---------------------------------------------------------------- expressions


def expressions(node: ast.expr, gradients: bool) -> Iterator[tuple[str, str]]:
    """Yield (kind, text) of what may take the place of an expression."""
    text = ast.unparse(node)
    maker: Any = _MAKERS.get(type(node))
    if maker:
        yield from maker(node)
    named = isinstance(node, ast.Name) and node.id in TENSORS
    if named or isinstance(node, (ast.BinOp, ast.Call)):
        yield "negated", f"(-{text})" if named else f"(-({text}))"
        yield "doubled", f"(2 * ({text}))"
        yield "abs", f"abs({text})"
        if gradients:
            yield "detached", f"({text}).detach()"


def _binary(node: ast.BinOp) -> Iterator[tuple[str, str]]:
    left, right = ast.unparse(node.left), ast.unparse(node.right)
    for operator in BINARY:
        if not isinstance(node.op, operator):
            yield "operator", f"({ast.unparse(ast.BinOp(node.left, operator(), node.right))})"
    yield "operand dropped", f"({left})"
    yield "operand dropped", f"({right})"
    yield "operands swapped", f"({ast.unparse(ast.BinOp(node.right, node.op, node.left))})"


def _compare(node: ast.Compare) -> Iterator[tuple[str, str]]:
    for operator in COMPARING:
        other = ast.Compare(node.left, [operator()], node.comparators)
        yield "comparison", f"({ast.unparse(other)})"


def _unary(node: ast.UnaryOp) -> Iterator[tuple[str, str]]:
    yield "negation removed", f"({ast.unparse(node.operand)})"


def _constant(node: ast.Constant) -> Iterator[tuple[str, str]]:
    value = node.value
    if isinstance(value, bool):
        yield "constant", str(not value)
    elif isinstance(value, (int, float)):
        for other in (value + 1, value - 1, 0, 2 * value, 10 * value):
            yield "constant", f"({other})" if other < 0 else str(other)
    elif isinstance(value, str):
        for key in _alike(value):
            yield "key", repr(key)


def _name(node: ast.Name) -> Iterator[tuple[str, str]]:
    for other in _alike(node.id):
        yield "name", other
    for other in RENAMED.get(node.id, "").split():
        yield "renamed", other
    if node.id in DEFAULTS:
        yield from _setting(node.id, node.id)


def _attribute(node: ast.Attribute) -> Iterator[tuple[str, str]]:
    owner = ast.unparse(node.value)
    for other in [*_alike(node.attr), *RENAMED.get(node.attr, "").split()]:
        yield "renamed", f"{owner}.{other}"
    if owner == "cfg":
        yield from _setting(node.attr, ast.unparse(node))


def _setting(name: str, text: str) -> Iterator[tuple[str, str]]:
    """Yield what may take the place of a setting such as G or cfg.beta."""
    yield "default", DEFAULTS[name]
    if name != "scale_std":
        yield "plus 1", f"({text} + 1)"
        yield "doubled", f"(2 * {text})"


def _alike(name: str) -> list[str]:
    found = [other for group in ALIKE if name in group.split() for other in group.split()]
    return [other for other in dict.fromkeys(found) if other != name]


def _call(node: ast.Call) -> Iterator[tuple[str, str]]:
    args, keywords = node.args, node.keywords

    def call(args: list, keywords: list) -> str:
        return ast.unparse(ast.Call(node.func, args, keywords))

    for i in range(len(args)):
        yield "argument dropped", call(args[:i] + args[i + 1 :], keywords)
        yield "call dropped", f"({ast.unparse(args[i])})"
    for i, j in itertools.combinations(range(len(args)), 2):
        swapped = list(args)
        swapped[i], swapped[j] = args[j], args[i]
        yield "arguments swapped", call(swapped, keywords)
    for i, keyword in enumerate(keywords):
        yield "argument dropped", call(args, keywords[:i] + keywords[i + 1 :])
        if keyword.arg == "min":
            other = [*keywords[:i], ast.keyword("max", keyword.value), *keywords[i + 1 :]]
            yield "keyword renamed", call(args, other)
    if len(args) + len(keywords) > 1:
        yield "arguments dropped", call([], [])
    if isinstance(node.func, ast.Attribute):
        yield "call dropped", f"({ast.unparse(node.func.value)})"
        yield "not called", f"({ast.unparse(node.func)})"


def _tuple(node: ast.Tuple) -> Iterator[tuple[str, str]]:
    for i, j in itertools.combinations(range(len(node.elts)), 2):
        swapped = list(node.elts)
        swapped[i], swapped[j] = node.elts[j], node.elts[i]
        yield "elements swapped", ast.unparse(ast.Tuple(swapped, ast.Load()))
    for element in node.elts:
        yield "element alone", ast.unparse(element)


def _dict(node: ast.Dict) -> Iterator[tuple[str, str]]:
    for i in range(len(node.keys)):
        keys, values = list(node.keys), list(node.values)
        del keys[i], values[i]
        yield "key dropped", ast.unparse(ast.Dict(keys, values))
    for i, j in itertools.combinations(range(len(node.keys)), 2):
        values = list(node.values)
        values[i], values[j] = node.values[j], node.values[i]
        yield "values swapped", ast.unparse(ast.Dict(node.keys, values))


def _comprehension(node: ast.ListComp) -> Iterator[tuple[str, str]]:
    loops = node.generators
    for i in range(len(loops) if len(loops) > 1 else 0):
        yield "loop dropped", ast.unparse(ast.ListComp(node.elt, loops[:i] + loops[i + 1 :]))
    if len(loops) > 1:
        yield "loops swapped", ast.unparse(ast.ListComp(node.elt, loops[::-1]))


_MAKERS = {
    ast.BinOp: _binary,
    ast.Compare: _compare,
    ast.UnaryOp: _unary,
    ast.Constant: _constant,
    ast.Name: _name,
    ast.Attribute: _attribute,
    ast.Call: _call,
    ast.Tuple: _tuple,
    ast.Dict: _dict,
    ast.ListComp: _comprehension,
}
