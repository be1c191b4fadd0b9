"""The solutions' lab file, and the mark of tests that need it: a student's copy has none."""

import pytest

from lab15_run import TOP

SOLUTION = TOP / "solutions" / "lab15_grpo.py"
needs_solution = pytest.mark.skipif(
    not SOLUTION.exists(), reason="this copy of the lab has no solutions/ (a graded bundle)"
)
