"""What the grader's tests share."""

import sys

import pytest

from instructor import grade
from instructor.grading import judging
from instructor.grading.sandbox import Clock, Limits, Maker, SandboxError

from .command import FakeMaker, fake_judge


@pytest.fixture
def fakes(monkeypatch):
    """Let the command run without sandboxes: everybody gets 10."""
    monkeypatch.setattr(grade, "Maker", FakeMaker)
    monkeypatch.setattr(grade, "judge", fake_judge)


@pytest.fixture(scope="session")
def course():
    """Give the hidden tests with the numbers of one seed."""
    return judging.Course("a seed for these tests")


@pytest.fixture(scope="session")
def works():
    """Skip where there is no sandbox."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap needs Linux")
    try:
        maker = Maker(Limits())
        with maker.open() as sandbox, sandbox.open(1, Clock(5)):
            pass
    except SandboxError as error:
        pytest.skip(f"no sandbox here: {error}")
    maker.close()
