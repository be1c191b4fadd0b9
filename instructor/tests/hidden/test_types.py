"""Public and hidden tests accept the same types: a table of types and places.

What passes all public tests of a task must get all of its points, and what a public test refuses
must not; else a student learns from a grade what no test has said. LAB15_SLOW=1 takes all of it.
"""

import numbers
import os

import numpy as np
import pytest

from instructor.variants import catalog, runner
from tests.labfile import TASKS, is_real

SLOW = "LAB15_SLOW" not in os.environ

SETUP = """

import collections, decimal, fractions, numpy
from collections import OrderedDict, defaultdict, namedtuple, UserDict
Pair = namedtuple("Pair", "loss stats")
class Many(list): pass
class Text(str): pass
class Number(float): pass
class Own(dict): pass
def each(change, stats, names): return {k: change(v) if k in names else v for k, v in stats.items()}
"""
NUMBERS = {  # what stands where a dict of floats has a float: expression in v, whether it is taken
    "float": ("v", True),
    "numpy.float64": ("numpy.float64(v)", True),
    "numpy.float32": ("numpy.float32(v)", True),
    "a subclass of float": ("Number(v)", True),
    "Fraction": ("fractions.Fraction(v)", True),
    "Decimal": ("decimal.Decimal(v)", False),
    "str": ("str(v)", False),
    "complex": ("complex(v)", False),
    "None": ("None", False),
    "a list of one": ("[v]", False),
    "numpy array of no dimension": ("numpy.array(v)", False),
    "numpy array of one": ("numpy.array([v])", False),
    "tensor of no dimension": ("torch.tensor(v)", False),
    "tensor of one": ("torch.tensor([v])", False),
    "tensor with a gradient": ("torch.tensor(v, requires_grad=True)", False),
}
DICTS = {  # an expression in d, a dict
    "OrderedDict": ("OrderedDict(d)", True),
    "defaultdict": ("defaultdict(float, d)", True),
    "a subclass of dict": ("Own(d)", True),
    "one entry more": ("{**d, 'more': 1}", True),
    "UserDict": ("UserDict(d)", False),
    "a list of pairs": ("list(d.items())", False),
    "a tuple": ("tuple(d.values())", False),
    "a namespace": ("types.SimpleNamespace(**d)", False),
}
TENSORS = {  # an expression in x, a float32 tensor; what Task 2 and 3 return, and Task 4's loss
    "itself": ("x", True),
    "float64": ("x.double()", True),
    "detached from nothing": ("x * 1", True),
    "float16": ("x.half()", False),
    "bfloat16": ("x.bfloat16()", False),
    "integers": ("x.long()", False),
    "one dimension more": ("x.unsqueeze(0)", False),
    "numbers": ("x.tolist()", False),
    "numpy": ("x.detach().numpy()", False),
    "complex": ("x + 0j", False),
}
RESPONSES = {
    "a subclass of list": ("Many(x)", True),
    "subclasses of str": ("[Text(t) for t in x]", True),
    "tuple": ("tuple(x)", False),
    "generator": ("(t for t in x)", False),
    "numpy array": ("numpy.array(x)", False),
    "bytes": ("[t.encode() for t in x]", False),
}
REWARDS = {
    "float64": ("x.double()", False),
    "float16": ("x.half()", False),
    "int64": ("x.long()", False),
    "bool": ("x.bool()", False),
    "list": ("x.tolist()", False),
    "numpy": ("x.numpy()", False),
    "a column": ("x.unsqueeze(1)", False),
    "with a gradient": ("x.clone().requires_grad_()", True),
    "a parameter": ("torch.nn.Parameter(x)", True),
    "a view": ("x.flip(0).flip(0)", True),
}
PASSED_ON = {  # what Task 5 may pass on: text of the solution's call, another, whether it is right
    "scale_std as an int": ("cfg.scale_std)", "int(cfg.scale_std))", True),
    "scale_std as a text": ("cfg.scale_std)", "str(cfg.scale_std))", False),
    "G as a float": ("cfg.G, cfg.temperature)", "float(cfg.G), cfg.temperature)", True),
    "temperature as numpy's": ("cfg.temperature)", "numpy.float64(cfg.temperature))", True),
    "temperature as a tensor": ("cfg.temperature)", "torch.tensor(cfg.temperature))", False),
    "prompts as a tuple": ("(policy, prompts,", "(policy, tuple(prompts),", True),
}
WRAP = """
_right_{name} = {name}
def {name}(*args, **kwargs):
    r = _right_{name}(*args, **kwargs)
    return {value}
"""


def table():
    """Yield (name, task, text of a file, whether it is right)."""
    def made(name, task, value, right):
        wrapped = WRAP.format(name=TASKS[task].name, value=value)
        text = catalog.solution() + "import types\n" + SETUP + wrapped
        return catalog.Variant(f"task{task} {name}", "wheat" if right else "chaff", task, text)

    for name, (value, right) in NUMBERS.items():
        for key in ("kl", "clip_frac", "ratio_max"):
            stats = f"each(lambda v: {value}, r[1], [{key!r}])"
            yield made(f"{key}: {name}", 4, f"(r[0], {stats})", right)
        stats = f"each(lambda v: {value}, r, ['loss', 'reward', 'frac_zero_signal'])"
        yield made(f"numbers: {name}", 5, stats, right)
    whole = "each(lambda v: int(v) if v == int(v) else v, {}, ['clip_frac', 'frac_zero_signal'])"
    yield made("a whole number as int", 4, f"(r[0], {whole.format('r[1]')})", True)
    yield made("a whole number as int", 5, whole.format("r"), True)
    truth = "each(lambda v: bool(v) if v in (0, 1) else v, {}, ['clip_frac', 'frac_zero_signal'])"
    yield made("a whole number as bool", 4, f"(r[0], {truth.format('r[1]')})", False)
    yield made("a whole number as bool", 5, truth.format("r"), False)
    for name, (value, right) in DICTS.items():
        yield made(f"result: {name}", 1, f"(lambda d: {value})(r)", right)
        yield made(f"stats: {name}", 4, f"(r[0], (lambda d: {value})(r[1]))", right)
        yield made(f"result: {name}", 5, f"(lambda d: {value})(r)", right)
    for name, (value, right) in TENSORS.items():
        yield made(f"result: {name}", 2, f"(lambda x: {value})(r)", right)
        yield made(f"result: {name}", 3, f"(lambda x: {value})(r)", right)
        yield made(f"loss: {name}", 4, f"((lambda x: {value})(r[0]), r[1])", right)
    for name, value in (("list", "list(r)"), ("namedtuple", "Pair(*r)"), ("Many", "Many(r)")):
        yield made(f"result: {name}", 4, value, True)
    yield made("result: dict", 4, "dict(loss=r[0], stats=r[1])", False)
    for name, (value, right) in RESPONSES.items():
        changed = f"{{**r, 'responses': (lambda x: {value})(r['responses'])}}"
        yield made(f"responses: {name}", 1, changed, right)
    for name, (value, right) in REWARDS.items():
        changed = f"{{**r, 'rewards': (lambda x: {value})(r['rewards'])}}"
        yield made(f"rewards: {name}", 1, changed, right)
    for name, (old, new, right) in PASSED_ON.items():
        body = catalog.cut_at(5)[3]
        text = "import numpy\n" + catalog.with_body(5, body.replace(old, new, 1))
        yield catalog.Variant(f"task5 {name}", "wheat" if right else "chaff", 5, text)


def some():
    """Return the whole table, or a part where there is no time for it."""
    return [v for i, v in enumerate(table()) if not SLOW or i % 8 == 6]


@pytest.fixture(scope="module")
def public(tmp_path_factory):
    """Give {name: whether all public tests pass}."""
    folder = str(tmp_path_factory.mktemp("labs"))
    ran = runner.run_all(some(), folder, jobs=2, quick=True)
    return {variant.id: result.code == 0 for variant, result in ran}


def test_public_and_hidden_tests_accept_the_same_types(public, points):
    odd = []
    for variant in some():
        full = points(variant) == TASKS[variant.task].points
        verdicts = {"public": public[variant.id], "hidden": full, "right": variant.kind == "wheat"}
        odd += [(variant.id, verdicts)] if len(set(verdicts.values())) > 1 else []
    assert not odd, "\n".join(map(str, odd))


@pytest.mark.parametrize("value, real", [
    (1, True), (0.5, True), (np.float32(1), True), (np.float16(1), True), (np.int64(1), True),
    (True, False), (np.bool_(1), False), ("1", False), (None, False), (1j, False),
    (np.array(1.0), False),
])
def test_what_a_float_is(value, real):
    assert is_real(value) is real
    assert not real or isinstance(float(value), float) and isinstance(value, numbers.Real)
