"""What the hidden tests of all tasks share."""

import importlib.util
import random
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch

from tests.labfile import ROOT, is_real


class Test(NamedTuple):
    """One hidden test. All that a student ever sees of it are its name and its hint.

    instructor/grading/points.py says what it is worth.
    """

    name: str
    hint: str


Test.__test__ = False  # type: ignore[attr-defined]  # not one of pytest's


@dataclass
class Case:
    """One call of the student's function.

    Attributes:
        send: what goes into the sandbox.
        expect: what the judgement needs; never leaves the grader.
        tests: ids of the tests that this case takes part in.
        answer: answers the stand-ins' questions (Task 5).
        simple: whether it is one of the task's simple cases; see instructor/grading/points.py.
    """

    send: dict
    expect: dict
    tests: tuple
    answer: object = None
    simple: bool = False


@cache
def reference():
    """Return the solution as a module of its own."""
    path = ROOT / "solutions" / "lab15_grpo.py"
    spec = importlib.util.spec_from_file_location("lab15_reference", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Draw:
    """All random numbers of a task's cases, from the course's seed."""

    def __init__(self, seed, task):
        self.random = random.Random(f"{seed}/{task}")
        self.generator = torch.Generator().manual_seed(self.random.getrandbits(60))

    def normal(self, *shape, scale=1.0):
        """Return normal numbers."""
        return torch.randn(*shape, generator=self.generator) * scale

    def uniform(self, low, high, *shape):
        """Return a tensor of uniform numbers, or one number with four digits."""
        if not shape:
            return round(self.random.uniform(low, high), 4)
        return torch.rand(*shape, generator=self.generator) * (high - low) + low

    def seed(self):
        """Return a seed for the sandbox."""
        return self.random.getrandbits(30)

    def model(self, sharp):
        """Return (shape, state) of a small TinyLM; `sharp` makes its answers more certain."""
        import tinylm

        shape = {"width": 16, "layers": 1, "heads": 2, "context": 24}
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(self.seed())
            model = tinylm.TinyLM(**shape)
        model.head.weight.data.mul_(sharp)
        return shape, {k: v.clone() for k, v in model.state_dict().items()}


def near(value, expected, tol=1e-4):
    """Return whether a tensor or number is within tol of the expected one, relative to its size.

    Args:
        value: of the student's function.
        expected: the right one.
        tol: tolerance, relative to the expected value's size.
    """
    if isinstance(value, torch.Tensor):
        value = value.detach().double()
    elif is_real(value):
        value = torch.tensor(float(value), dtype=torch.float64)
    else:
        return False
    if not isinstance(expected, torch.Tensor):
        expected = torch.tensor(expected, dtype=torch.float64)
    expected = expected.detach().double()
    if value.shape != expected.shape or not bool(value.isfinite().all()):
        return False
    return bool(((value - expected).abs() <= tol + tol * expected.abs()).all())


def is_tensor(value):
    """Return whether a value is a tensor of floating-point numbers."""
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def equal(value, expected):
    """Return whether two values are the same plain data, tensors entry by entry."""
    if isinstance(expected, torch.Tensor):
        return isinstance(value, torch.Tensor) and torch.equal(value.detach(), expected.detach())
    if isinstance(expected, dict):
        same = isinstance(value, dict) and value.keys() == expected.keys()
        return same and all(equal(value[k], expected[k]) for k in expected)
    if isinstance(expected, list | tuple):
        same = isinstance(value, list | tuple) and len(value) == len(expected)
        return same and all(map(equal, value, expected))
    return type(value) is type(expected) and value == expected


def ok(value):
    """A verdict without versions: see `combine`."""
    return {0} if value else set()


def combine(tests, verdicts):
    """Return {test id: passed}.

    Args:
        tests: of the task.
        verdicts: a list of {test id: set of versions of the specification that hold}. A test is
            passed if there is one version that holds in all of its cases.
    """
    result = {}
    for name in tests:
        sets = [v[name] for v in verdicts if name in v]
        result[name] = bool(sets) and bool(set.intersection(*sets))
    return result
