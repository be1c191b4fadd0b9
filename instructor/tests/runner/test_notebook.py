"""check() in a notebook: the verdict of pytest, as HTML and as text, and a kernel that survives."""

import html
import random
import sys
from types import ModuleType, SimpleNamespace

import pytest
import torch

from instructor.tests.lab_texts import RIGHT, STUB, WRONG_SIGN, at, edit
from tests import notebook
from tests.labfile import TASKS
from tests.notebook import check, report


@pytest.fixture
def lab(tmp_path, monkeypatch):
    """Return a function that saves a text and returns the path."""
    monkeypatch.setattr(notebook, "_failures", {})

    def save(text):
        path = tmp_path / "lab15_grpo.py"
        path.write_text(text, "utf-8")
        return path

    return save


def test_verdicts(lab):
    path = lab(RIGHT)
    shown = report("task3", path)
    assert shown.headline.startswith("task3 k3_kl: passed (") and shown.lines == []
    assert report(lab=path).headline == "all five tasks passed"
    lab(WRONG_SIGN)  # the same file: it is read anew
    for task in ("task3", 3, "3", "Task 3", "k3_kl"):
        text = repr(report(task, path))
        assert "tests fail\n" in text and "\nlikely    d has the wrong sign" in text
    assert "check(\"task3\", hints=1)" in text
    assert "task3, hint 2 of 3" in repr(report(3, path, hints=2))
    shown = report(lab=path)
    assert shown.headline.startswith("task3") and repr(shown).count("passed") == 4
    lab(STUB)
    line = at(STUB, "def grpo_loss")
    assert f"not written yet: Task 4, grpo_loss (lab15_grpo.py {line})" in repr(report(4, path))
    assert "there is no task 6" in repr(report(6)) and "there is no lab file" in repr(
        report(1, path.with_name("none.py")))


def test_kernel_survives(lab):
    path = lab(edit(
        RIGHT, ("    d = ref_logp - logp\n", "    while True: pass\n"),
        ("    groups = rewards.view(", "    import sys; sys.exit()\n    groups = rewards.view("),
        ("import random\n", "import random\nraise SystemExit\n")))
    text = repr(report(3, path, limit=0.5))
    assert "k3_kl did not end within 0.5 s; it was at lab15_grpo.py line" in text
    assert "group_advantages raised SystemExit" in repr(report(2, path))
    assert "when loaded" in text and "sys.exit() was called" in text


def test_nothing_in_the_kernel_changes(lab, capsys):
    path, before = lab(RIGHT), list(sys.path)
    modules = {name for name in sys.modules if name.startswith("lab15")}
    random.seed(1)
    torch.manual_seed(1)
    wanted = random.random(), torch.rand(2).tolist()
    random.seed(1)
    torch.manual_seed(1)
    report(lab=path)
    assert (random.random(), torch.rand(2).tolist()) == wanted
    assert sys.path == before and capsys.readouterr() == ("", "")
    assert {name for name in sys.modules if name.startswith("lab15")} == modules


def test_code_in_a_cell_is_noticed(lab, monkeypatch):
    path, main = lab(STUB), sys.modules["__main__"]
    names = {"__name__": "__main__"}
    exec(compile("def k3_kl(logp, ref_logp):\n    return 0", "<cell 3>", "exec"), names)
    monkeypatch.setattr(main, "k3_kl", names["k3_kl"], raising=False)
    text = repr(report(3, path))
    assert "Your k3_kl is in the notebook, but the tests read lab15_grpo.py" in text
    lab(WRONG_SIGN)
    assert "in the notebook" not in repr(report(3, path))
    lab(STUB)
    monkeypatch.setattr(main, "k3_kl", notebook.report)  # imported from elsewhere
    assert "in the notebook" not in repr(report(3, path))


def test_html_and_text(lab, monkeypatch, capsys):
    path = lab(edit(RIGHT, ("    d = ref_logp - logp\n",
                            "    print('<b>\u4e2d')\n    raise ValueError('<script>')\n")))
    check(3, path)  # no IPython: text
    text = capsys.readouterr().out
    assert "ValueError: <script>" in text and "your code printed\n    <b>\\u4e2d" in text
    shown = []
    here, there = ModuleType("IPython"), ModuleType("IPython.display")
    here.get_ipython, there.display = lambda: SimpleNamespace(), shown.append
    monkeypatch.setitem(sys.modules, "IPython", here)
    monkeypatch.setitem(sys.modules, "IPython.display", there)
    check(3, path)
    code = shown[0]._repr_html_()
    assert capsys.readouterr().out == "" and "<script>" not in code and "<b>" not in code
    plain = html.unescape(code.split("<pre>")[1].split("</pre>")[0])
    assert plain.startswith(text.split("\n\n", 1)[1].strip()) and code.isascii()
    assert "color" not in code and "src=" not in code and "href=" not in code
    assert TASKS[3].name in code
