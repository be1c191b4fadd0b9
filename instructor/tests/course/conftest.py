"""Where the cycle of an nbgrader course runs in the tests."""

import os
import sys

import pytest


@pytest.fixture(scope="module")
def base(tmp_path_factory):
    """Give a temporary folder with what the cycle needs, and its environment."""
    if sys.platform != "linux":
        pytest.skip("the sandbox needs Linux")
    from instructor.course.lab15_nbgrader import kernel

    if reason := kernel.problem():
        pytest.skip(f"no sandbox here: {reason}")
    folder = tmp_path_factory.mktemp("a course")
    (folder / "sft.pt").write_bytes(b"not read by anybody here")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"])
        patch.setenv("OMP_NUM_THREADS", "1")
        patch.setenv("LAB15_TRUST", "")
        patch.setenv("SECRET_TOKEN", "x")
        patch.setenv("HOME", str(folder / "home"))
        yield folder
