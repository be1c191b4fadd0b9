"""What a student's file switches for the whole process is put back, and named."""

import contextlib
import random
import sys

import numpy
import pytest
import torch

from instructor.tests.lab_texts import RIGHT, edit, kinds
from instructor.tests.processes import run_python
from tests.loader import settings
from tests.messages import describe

SWITCHES = [  # statements of a file; words of the note, "" where none is needed
    ("torch.set_default_device('cuda')", "default device is cuda"),
    ("torch.set_default_device('meta')", "default device is meta"),
    ("torch.set_default_dtype(torch.float64)", "default dtype is torch.float64"),
    ("torch.set_grad_enabled(False)", "recording of gradients is off"),
    ("MODE = torch.inference_mode(); MODE.__enter__()", "inference mode is on"),
    ("CAST = torch.autocast('cpu'); CAST.__enter__()", "autocast on the CPU is on"),
    ("torch.use_deterministic_algorithms(True)", "deterministic algorithms are on"),
    ("torch.autograd.set_detect_anomaly(True)", "anomaly detection is on"),
    ("torch.set_num_threads(3)", ""),
    ("torch.set_printoptions(precision=1)", ""),
    ("torch.manual_seed(7); import random; random.seed(7)", ""),
    ("import numpy; numpy.random.seed(7); numpy.set_printoptions(precision=1)", ""),
    ("import numpy; numpy.seterr(all='raise')", "numpy's handling of errors"),
    ("import os; os.chdir('/')", "working folder is"),
    ("import os; os.environ['LAB15_X'] = '1'", ""),
    ("import sys; sys.path.append('/x')", ""),
    ("import sys; sys.stdout = None", "sys.stdout"),
    ("import sys; sys.setrecursionlimit(5000)", "limit of recursion is 5000"),
    ("import warnings; warnings.simplefilter('error')", ""),
    ("import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)", "handler of signals"),
    ("import builtins; builtins.sum = max", "builtins.sum was replaced"),
    ("torch.exp = torch.log", "torch.exp was replaced"),
    ("torch.Tensor.sum = torch.Tensor.mean", "torch.Tensor.sum was replaced"),
    ("import tinylm; tinylm.reward = max", "tinylm.reward was replaced"),
    ("import gc; gc.disable()", ""),
]


def seen():
    """Return everything that a test may depend on, in a form that can be compared."""
    import os
    import warnings

    values = [value for _, value in settings.look()]
    values += [random.getstate(), torch.get_rng_state().tolist(), list(warnings.filters)]
    values += [repr(numpy.random.get_state()), dict(os.environ), list(sys.path)]
    return values, [torch.exp, torch.Tensor.sum, sum, sys.modules["tinylm"].reward]


@pytest.mark.parametrize("statement, words", SWITCHES)
def test_a_file_leaves_the_process_as_it_was(load, statement, words):
    import tinylm  # noqa: F401

    before = seen()
    lab = load(edit(RIGHT, ("import torch\n", f"import torch\n{statement}\n")))
    assert seen() == before and kinds(lab) == "wwwww"
    notes = [problem.text for problem in lab.__problems__]
    assert len(notes) == bool(words), notes
    assert words in "".join(notes)
    if words:
        assert notes[0].endswith("this was put back")


def test_later_lines_find_what_earlier_ones_set(load):
    lab = load(edit(RIGHT, ("import torch\n", (
        "import torch\nimport os\nos.environ['LAB15_X'] = '1'\nX = os.environ['LAB15_X']\n"
        "os.chdir('/')\nHERE = os.getcwd()\ntorch.set_default_device('cuda')\n"
        "ONE = torch.ones(1)\n"))))
    assert (lab.X, lab.HERE) == ("1", "/") and lab.ONE.device.type == "cpu"


@pytest.mark.parametrize("switch", [
    lambda: torch.set_default_device("cuda"), lambda: torch.use_deterministic_algorithms(True),
    lambda: torch.autograd.set_detect_anomaly(True), lambda: torch.set_grad_enabled(False),
])
def test_a_test_puts_back_and_an_error_names_it(load, switch):
    lab, before = load(RIGHT), settings.look()
    with contextlib.suppress(ZeroDivisionError), settings.kept():
        switch()
        try:
            raise ZeroDivisionError
        except ZeroDivisionError as caught:
            error = caught
            raise
    assert settings.put_back(before) == []
    assert len(error.switched) == 1
    assert f"perhaps the cause: {error.switched[0]}" in describe.describe(error, lab, 3)


def test_fresh_settings_are_those_of_a_new_process():
    before = settings.look()
    torch.set_default_device("meta")
    torch.set_default_dtype(torch.float64)
    torch.use_deterministic_algorithms(True)
    settings.fresh()
    assert torch.zeros(1).device.type == "cpu" and torch.zeros(1).dtype == torch.float32
    assert not torch.are_deterministic_algorithms_enabled() and torch.get_num_threads() == 1
    settings.put_back(before)


def test_check_works_for_the_next_file(load, tmp_path):
    """After a file with a default device, the same kernel judges another file as usual."""
    from tests.notebook import report

    odd = edit(RIGHT, ("import torch\n", "import torch\ntorch.set_default_device('cuda')\n"))
    inside = edit(RIGHT, ("    d = ref_logp - logp\n",
                          "    torch.set_default_device('cuda')\n    d = ref_logp - logp\n"))
    path = tmp_path / "lab.py"
    for text, words in ((odd, "passed ("), (inside, "tests fail"), (RIGHT, "passed (")):
        path.write_text(text, "utf-8")
        shown = repr(report(3, path))
        assert words in shown.split("\n")[0], shown
    path.write_text(inside, "utf-8")
    assert "default device is cuda" in repr(report(3, path))


def test_file_may_import_itself(load):
    from tests.loader.surroundings import itself

    line = "    from lab15_grpo import group_advantages\n    groups = rewards.view("
    lab = load(edit(RIGHT, ("    groups = rewards.view(", line)))
    before = sys.modules.get("lab15_grpo")
    with itself(lab):
        assert sys.modules["lab15_grpo"] is lab
        assert lab.group_advantages(torch.tensor([1.0, 0.0]), 2).shape == (2,)
    assert sys.modules.get("lab15_grpo") is before


def test_only_the_standard_library_is_imported():
    """The sandbox ships these files, and a load must not cost more than the file itself."""
    code = ("import sys, tests.labfile; "
            "sys.exit(any(n in sys.modules for n in ('torch', 'numpy', 'pytest')))")
    assert run_python("-c", code).returncode == 0
