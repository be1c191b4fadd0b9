"""What the grader's tests share."""

import pytest

from instructor import grade

from .command import FakeMaker, fake_judge


@pytest.fixture
def fakes(monkeypatch):
    """Let the command run without sandboxes: everybody gets 10."""
    monkeypatch.setattr(grade, "Maker", FakeMaker)
    monkeypatch.setattr(grade, "judge", fake_judge)
