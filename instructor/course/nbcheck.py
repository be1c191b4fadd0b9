"""check("task1") in this notebook: the verdict of python -m pytest -q -k task1."""

import os


def check(task):
    """Show the verdict of the tests on one task of the file lab15_grpo.py beside the notebook.

    Your points do not come from here: the teacher grades the file with tests of their own.
    Then, under nbgrader autograde, this returns at once.
    """
    mode = os.environ.get("NBGRADER_EXECUTION")
    if mode == "autograde":
        return 0.0  # a cell that returned nothing would get all points
    from IPython.display import display

    from tests.notebook import report

    shown = report(task)
    display(shown)
    if mode == "validate" and [v.kind for v in shown.verdicts] != ["passed"]:
        raise AssertionError(shown.headline)
    return None
