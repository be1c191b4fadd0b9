"""The solutions' lab file, and the mark of tests that need it: a student's copy has none."""

import pytest

from lab15_run import TOP

SOLUTION = TOP / "solutions" / "lab15_grpo.py"
needs_solution = pytest.mark.skipif(
    not SOLUTION.exists(), reason="this copy of the lab has no solutions/ (a graded bundle)"
)


def with_body(path, name, body):
    """Write the solutions' file with another body of a function, where right is the right one."""
    later = f"\n\nright = {name}\n\n\ndef {name}(*args, **kwargs):\n    {body}\n"
    path.write_text(SOLUTION.read_text(encoding="utf-8") + later, encoding="utf-8")
    return path


def with_text(path, old, new):
    """Write the solutions' file with another text in the place of one that it has."""
    text = SOLUTION.read_text(encoding="utf-8")
    assert old in text
    path.write_text(text.replace(old, new), encoding="utf-8")
    return path
