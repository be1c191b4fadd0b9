"""The hidden tests of one seed, run without a sandbox."""

import pytest

from instructor.grading import judging
from instructor.variants import direct


@pytest.fixture(scope="module")
def course():
    """Give a course; tinylm is as it was afterwards."""
    with direct.hooked():
        yield judging.Course("a third seed for these tests")


@pytest.fixture
def points(course, tmp_path):
    """Return a function: the points that a variant gets for its task."""
    def of(variant):
        return direct.verdict(variant.text, variant.task, course, tmp_path)[0]

    return of
