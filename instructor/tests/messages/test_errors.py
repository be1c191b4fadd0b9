"""Every bare error of Python or PyTorch that a beginner meets gets the right sentence."""

import importlib
import re

import pytest
import torch

from tests.labfile import load_lab
from tests.loader import errors
from tests.messages import screen
from tests.messages.describe import describe

# A body of k3_kl, and words of the sentence that has to follow. x is 2 x 3, y is 2 x 4, v has
# three entries and a gradient, i holds whole numbers, d is a dict, L a list.
HEAD = """
import torch, math, random
import numpy as np
from types import SimpleNamespace
x, y, i = torch.rand(2, 3), torch.rand(2, 4), torch.tensor([1, 2, 3])
d = {"out": {"ids": 1}, "responses": [], "rewards": torch.ones(3)}
L, cfg = [1.0, 2.0, 3.0], SimpleNamespace(clip_eps=0.2)
def none(): pass
def pair(): return x, d
def k3_kl(logp, ref_logp):
    v = torch.ones(3, requires_grad=True)
"""
CASES = {
    "x + y": "Sizes 3 and 4 meet along dim 1",
    "x.view(4, 2)": "must multiply to 6",
    "x.reshape(-1, 4)": "must multiply to 6",
    "x.t().view(6)": "lie in memory",
    "x.expand(5, 3)": "expand repeats along dims of size 1",
    "x.expand(3)": "Fewer sizes",
    "torch.stack([x, y])": "torch.stack joins tensors of one",
    "torch.cat([x, y])": "agree in every dim but dim 0",
    "x @ y": "product of matrices",
    "i.float() @ torch.ones(4)": "product of matrices",
    "x.sum(2)": "no dim 2",
    "x.mean().sum(1)": "no dim 1",
    "x[0, 0, 0]": "more indices",
    "x[5]": "no place 5",
    "L[3]": "list is shorter",
    "x[y > 0]": "mask in the brackets",
    "x['ids']": "Did you mean the dict",
    "x.permute(0)": "permute needs every dim",
    "x.add_(torch.ones(4, 2, 3))": "another shape than the tensor",
    "x[0] = torch.ones(4)": "",
    "math.exp(x)": "functions of math work on one number",
    "math.log(torch.tensor(-1.0))": "no result for",
    "float(x)": "One Python number is wanted",
    "x.item()": "One Python number is wanted",
    "range(x)": "whole number is wanted",
    "torch.tensor([x, x])": "in this list are tensors",
    "min(x, x)": "Python's min compares",
    "max(x, y * 0 if False else x)": "Python's max compares",
    "bool(x > 0 and x < 1)": "if, while, and, or",
    "v.mean().backward() if x > 0 else 0": "if, while, and, or",
    "[t for t in x.sum()]": "nothing to loop over",
    "len(x.sum())": "has no length",
    "torch.exp(1.0)": "works on tensors, and it got a float",
    "torch.stack([1.0, 2.0])": "in this list is a float",
    "torch.tensor([[1, 2], [3]])": "different lengths",
    "torch.tensor(['a'])": "A tensor holds numbers",
    "torch.tensor([None])": "holds a NoneType",
    "x.sum().backward()": "gradient was cut off",
    "torch.tensor(v.sum().item()).backward()": "gradient was cut off",
    "(v * 2).backward()": "backward starts from one number",
    "s = (v * v).sum(); s.backward(); s.backward()": "an earlier one has used up",
    "v += 1": "Make a new tensor",
    "w = v.exp(); w.mul_(2); w.sum().backward()": "changed in place",
    "v.numpy()": "numpy does not keep gradients",
    "np.exp(v)": "numpy does not keep gradients",
    "torch.ones(3, dtype=torch.int64, requires_grad=True)": "have no gradient",
    "i.mean()": "Means and stds exist for floating-point",
    "i.std()": "Means and stds exist for floating-point",
    "(x > 0).mean()": "Means and stds exist for floating-point",
    "i.div_(2)": "works in place",
    "x @ torch.ones(3, 1).double()": "different dtypes meet",
    "x.cuda()": "lab needs none",
    "torch.ones(3, device='cuda')": "lab needs none",
    "(x > 0) - (x > 1)": "cannot be subtracted",
    "x + torch.ones(3, device='meta')": "different devices meet",
    "torch.zeros(10**13)": "More memory",
    "none()[0]": "The value is None",
    "none().sum()": "The value is None",
    "for a in none(): pass": "The value is None",
    "a, b = none()": "The value is None",
    "none() + x": "The value is None",
    "x.sum + 1": "parentheses are missing",
    "x.exp[0]": "parentheses are missing",
    "L - 1": "does no arithmetic on its entries",
    "L * 0.5": "does no arithmetic on its entries",
    "'a' + 1": "+ joins two texts",
    "L + 1.0": "does no arithmetic",
    "[1] + (2,)": "+ joins two texts or two lists",
    "'a' > 1": "cannot be compared",
    "2(3)": "An int is followed by parentheses",
    "x(0)": "A Tensor is followed by parentheses",
    "d('out')": "A dict is followed by parentheses",
    "(1.0)[0]": "A float is followed by brackets",
    "sum(3.0)": "several were expected",
    "a, b = 3.0": "several were expected",
    "L['out']": "did you mean the dict",
    "'abc'['a']": "a loop over a dict gives its keys",
    "range(6 / 2)": "/ always gives a floating-point",
    "L[0:6 / 2]": "/ always gives a floating-point",
    "{L: 1}": "cannot be a key of a dict",
    "d[L]": "cannot be a key of a dict",
    "{[1, 2]}": "cannot be a key of a dict",
    "'abc'[0] = 'b'": "cannot be changed",
    "len(3)": "has no length",
    "a, b = x, y, i": "more values than the 2 names",
    "a, b, c = x, y": "3 names and only 2 values",
    "for a, b in d['rewards']: pass": "nothing to loop over",
    "int('4+')": "This string is not a number",
    "float('')": "This string is not a number",
    "list(zip(L, [1], strict=True))": "different lengths",
    "x.sum(dims=1)": "",
    "random.seed(foo=1)": "no parameter foo",
    "k3_kl(x)": "argument is missing",
    "k3_kl(x, y, i)": "more arguments",
    "k3_kl(x, logp=x)": "passed twice",
    "x.mean().item().backward()": "plain Python number",
    "sum(L).detach()": "plain Python number",
    "L.mean()": "This is a list, not a tensor",
    "(x, y).mean()": "This is a tuple, not a tensor",
    "pair().backward()": "several values gives them all at once",
    "d.out": "brackets and a key",
    "torch.exponent(x)": "nothing named exponent",
    "math.expo(1)": "nothing named expo",
    "x.exponent()": "A tensor has no exponent",
    "x.append(1)": "A tensor has no append",
    "rewardz": "Nothing of the name rewardz",
    "F.softmax(x, 1)": "import of F is missing",
    "del x": "",
    "d['reward']": "did you mean 'rewards'",
    "d['response']": "did you mean 'responses'",
    "d['ids']": "not the one that tinylm.sample returns",
    "d['nothing']": "Print its keys",
    "cfg.clip": "did you mean clip_eps",
    "import no_such_package": "not installed here",
    "from math import expo": "no expo in math",
    "k3_kl(logp, ref_logp)": "calls itself again and again",
    "1 / 0": "divided by 0",
    "math.exp(1e9)": "no result for",
    "assert x is y": "assert in your file",
    "next(iter([]))": "once more than there are entries",
    "open('/no/such/file')": "not in the folder",
    "if L: a = a + 1": "gives a a value",
}
SILENT = {"x[0] = torch.ones(4)", "x.sum(dims=1)", "del x"}


@pytest.fixture
def raised(tmp_path):
    """Return a function that runs a body of k3_kl in a lab file; it returns (error, lab)."""

    def run(body, head=HEAD):
        path = tmp_path / "lab.py"
        path.write_text(head + "".join(f"    {line}\n" for line in body.split("\n")), "utf-8")
        lab = load_lab(path)
        assert not lab.__problems__, lab.__problems__
        with pytest.raises(Exception) as caught:
            lab.k3_kl(torch.ones(3), torch.ones(3))
            raise SystemError(f"{body} raises nothing")
        return caught.value, lab

    return run


@pytest.mark.parametrize("body", CASES)
def test_sentence(raised, body):
    error, lab = raised(body)
    text = describe(error, lab, 3)
    lines = text.split("\n")
    assert re.match(rf"k3_kl raised {type(error).__name__} at lab.py line 1[12]$", lines[0])
    if not isinstance(error, RecursionError):  # any line may be the one too deep
        assert lines[1].strip() == body.split("\n")[0]
    said = " ".join(lines)
    assert CASES[body] in said, text
    assert body in SILENT or errors.advice(error, body, vars(lab)), text
    assert sum(len(screen.wrap(line, screen.WIDTH)) for line in lines) <= 10, text


def test_names_of_python_that_the_file_has_taken(raised):
    head = HEAD.replace("import torch,", "from torch import *\nimport torch,")
    error, lab = raised("sum([x, x])", head)
    assert "In your file sum is not Python's own" in describe(error, lab, 3)
    error, lab = raised("max = 3\nreturn max(1, 2)")
    assert "has taken the function's name" in describe(error, lab, 3).replace("\n", " ")
    head = HEAD.replace("L, cfg", "max = 3\nL, cfg")
    error, lab = raised("max(1, 2)", head)
    assert "In your file max is not Python's own: it is of type int" in describe(error, lab, 3)


@pytest.mark.parametrize("error", [
    RuntimeError("the mask must be float"), ValueError("shape"), TypeError("wrong type of index"),
    KeyError(3), AssertionError("x"), RuntimeError("CUDA"), AttributeError("no attribute"),
    ValueError("my list index out of range of allowed values"), OSError("memory"),
    IndexError("index"), NameError("name"), ImportError("cannot import"), RuntimeError("in place"),
])
def test_a_word_alone_is_no_reason(error):
    """A student's own exceptions, and texts that only hold a word of the table, get no sentence."""
    assert errors.advice(error, "raise ValueError") is None


@pytest.mark.parametrize("module, name", [
    ("_inductor", "CppCompileError"), ("_inductor", "InvalidCxxCompiler"),
    ("_dynamo", "BackendCompilerFailed"), ("_dynamo", "InternalTorchDynamoError"),
    ("_dynamo", "Unsupported"), ("_dynamo", "TorchRuntimeError"),
])
def test_a_failed_compilation_is_named(module, name):
    found = getattr(importlib.import_module(f"torch.{module}.exc"), name)
    error = found.__new__(found)
    error.args = ("C++ compile error\n\nCommand: g++ ...",)
    assert "remove @torch.compile" in errors.advice(error, "return -d")


def test_exceptions_that_fail_at_everything():
    class Bad(Exception):
        def __str__(self):
            raise RuntimeError

    assert errors.advice(Bad(), "x") is None and errors.advice(KeyError(), "x") is None


SYNTAX = [
    ("def k3_kl(a, b):\n    x = 1\n      y = 2\n", "begins further right"),
    ("def k3_kl(a, b):\n        x = 1\n    y = 2\n", "begins at the same column"),
    ("def k3_kl(a, b):\nx = 1\n", "begin further right"),
    ("def k3_kl(a, b):\n    x = 1\n\ty = 2\n", "spaces only"),
    ("def k3_kl(a, b):\n    return (a\n", "closing bracket is missing"),
    ("def k3_kl(a, b):\n    return a)\n", "brackets do not fit"),
    ("def k3_kl(a, b):\n    '''text\n    return a\n", "never closed"),
    ("def k3_kl(a, b):\n    return a \u2212 b\n", "a different one; retype it"),
    ("def k3_kl(a, b):\n    if a = b: pass\n", "gives a name a value"),
    ("def k3_kl(a, b)\n    return a\n", "colon is missing"),
]


@pytest.mark.parametrize("text, words", SYNTAX)
def test_syntax(tmp_path, text, words):
    from tests.labfile import task_state

    path = tmp_path / "lab.py"
    path.write_text(text, "utf-8")
    lab = load_lab(path)
    state = task_state(lab, 3)
    assert re.search(r"lab\.py line \d: (\w+Error): ", state.text) and words in state.text
    assert words not in state.short and "\n" not in state.text


def test_no_sentence_holds_an_answer():
    """Nothing that stands in the solution's lines, and no call with its arguments."""
    from tests.labfile import ROOT

    solution = (ROOT / "solutions" / "lab15_grpo.py").read_text("utf-8").split("given: helpers")[0]
    sentences = [row.sentence for row in errors.TABLE] + [words for _, words in errors.SYNTAX]
    for sentence in sentences:
        assert not re.search(r"\w\([^)\s]+\)", re.sub(r"\w+\(\)", "", sentence)), sentence
        for word in re.findall(r"torch\.(\w+)", sentence):
            assert f"torch.{word}(" not in solution or word in ("tensor", "no_grad"), sentence
