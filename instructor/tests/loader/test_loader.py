"""The loader and the frame of the tests, on lab files damaged in the usual ways.

The first half calls load_lab in this process. The second half runs pytest on a small copy of
the lab, with two short tests per task.
"""

import inspect
import sys
import types
from pathlib import Path

import pytest

from instructor.tests.lab_texts import BANNER_4, RIGHT, STUB, at, edit, kinds, section
from instructor.tests.processes import PLAIN, progress_lines, run
from tests.labfile import ROOT, TASKS, load_lab, task_state

MISSING = "no_such_package_of_this_lab"

# ============================================================== load_lab


def test_right_file_and_stub(load):
    lab = load(RIGHT)
    assert kinds(lab) == "wwwww" and lab.__problems__ == []
    assert "torch.exp(d)" in inspect.getsource(lab.k3_kl)
    assert "prompts_per_iter" in inspect.getsource(lab.GRPOConfig)
    assert lab.GRPOConfig(G=3).G == 3 and lab.__doc__.startswith("Lab 15")
    lab = load(STUB)
    assert kinds(lab) == "uuuuu" and lab.__unwritten__ == set(TASKS)
    where = f"(lab15_grpo.py {at(STUB, 'def k3_kl')})"
    assert task_state(lab, 3).text == f"not written yet: Task 3, k3_kl {where}"


@pytest.mark.parametrize("n", TASKS)
def test_syntax_error_loses_one_task(load, n):
    broken = edit(section(RIGHT, n), (f"def {TASKS[n].name}(", f"def {TASKS[n].name}(("))
    lab = load(edit(RIGHT, (section(RIGHT, n), broken)))
    assert kinds(lab) == "wwwww"[: n - 1] + "b" + "wwwww"[n:]
    (problem,) = lab.__problems__
    assert problem.task == n and "SyntaxError" in problem.text
    assert f"line {problem.line}" == at(RIGHT, f"def {TASKS[n].name}(")
    assert hasattr(lab, "train_grpo") and "def token_entropy" in inspect.getsource(lab)
    if n != 3:
        assert inspect.getsource(lab.k3_kl).startswith("def k3_kl")


DAMAGE = [  # a change of the solution, the kinds of the five tasks then, words of the message
    (("    d = ref_logp - logp\n", "d = ref_logp - logp\n"), "wwbww", "IndentationError"),
    (('    """Per-token k3', "    Per-token k3"), "wwbww", "SyntaxError"),
    (("    return torch.exp(d) - d", "return torch.exp(d) - d"), "wwwww", "'return' outside"),
    (("def k3_kl(logp, ref_logp)", "def k3_kl(logp, ref_logp=oops)"), "wwbww", "NameError"),
    (("def k3_kl(", "def k3_kl2("), "wwmww", "defines k3_kl2"),
    (("def k3_kl(", "k3_kl = 3\n\n\ndef _("), "wwmww", "stands for a int"),
    ((BANNER_4, ""), "wwwww", "written"),
    (("import torch.nn.functional as F", "import torch.nn.functional as"), "wwwww", "SyntaxError"),
    (("import random\n", f"import {MISSING}\n"), "wwwww", MISSING),
    (("\nimport random\n", "\nimport sys\nsys.exit(3)\nimport random\n"), "wwwww", "sys.exit()"),
    (("import random\n", "import random\ninput()\n"), "wwwww", "EOFError"),
]


@pytest.mark.parametrize("change, expected, words", DAMAGE)
def test_damage_is_named_and_stays_local(load, change, expected, words):
    lab = load(edit(RIGHT, change))
    assert kinds(lab) == expected
    texts = [f"{problem.line} {problem.text}" for problem in lab.__problems__]
    assert words in "\n".join(texts + [task_state(lab, 3).text])
    assert callable(lab.train_grpo)


def test_two_errors_and_no_banners(load):
    """Without the banners a syntax error still costs no more than its own function."""
    text = "\n".join(x for x in RIGHT.split("\n") if not x.startswith("# ====="))
    text = edit(text, ("    rho = torch.exp(", "    rho = = torch.exp("),
                ("    groups = rewards.view(", "    groups = = rewards.view("))
    lab = load(text)
    assert kinds(lab) == "wbwbw" and [p.task for p in lab.__problems__] == [2, 4]


@pytest.mark.parametrize(
    "data, note",
    [
        (RIGHT.replace("\n", "\r\n").encode(), ""),
        (b"\xef\xbb\xbf" + RIGHT.encode(), ""),
        (("# -*- coding: cp1252 -*-\n# caf\xe9\n" + RIGHT).encode("cp1252"), ""),
        (("# caf\xe9\n" + RIGHT).encode("latin-1"), "Latin-1"),
        (("# -*- coding: nonsense -*-\n" + RIGHT).encode(), "Latin-1"),
    ],
    ids=["crlf", "bom", "pep263", "latin1", "unknown"],
)
def test_encodings(load, data, note):
    lab = load(data)
    assert kinds(lab) == "wwwww" and "def k3_kl" in inspect.getsource(lab.k3_kl)
    assert note in " ".join(problem.text for problem in lab.__problems__)
    assert len(lab.__problems__) == bool(note)


def test_backend_stands_in_and_is_taken_out(load, tmp_path, monkeypatch, capfd):
    (tmp_path / "tinylm.py").write_text("raise RuntimeError('the wrong tinylm')", "utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "tinylm", raising=False)
    lab = load(edit(RIGHT, ("import random\n", "import random\nprint('hello')\n")))
    assert Path(sys.modules["tinylm"].__file__) == ROOT / "tinylm.py" and not lab.__problems__
    assert capfd.readouterr() == ("", "")
    names = ["accuracy", "decode_responses", "load_or_train_sft", "make_batch", "reward", "sample",
             "sequence_logprobs"]
    backend = types.ModuleType("other")
    backend.__dict__.update((name, object()) for name in names)
    ours, path = sys.modules["tinylm"], list(sys.path)
    assert load(RIGHT, backend=backend).sample is backend.sample
    assert sys.modules["tinylm"] is ours and sys.path == path


def test_missing_file_and_ctrl_c(load, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"there is no lab file .*nothing\.py$"):
        load_lab(tmp_path / "nothing.py")
    with pytest.raises(KeyboardInterrupt):
        load("raise KeyboardInterrupt\n" + RIGHT)


# ============================================================== whole runs of pytest

def test_stub_gives_one_line_a_task(room):
    code, text = run(room, "-q", "--deselect", "tests/test_bad_x.py")
    assert code == 1
    for task in TASKS.values():
        line = f"not written yet: Task {task.number}, {task.name} (lab15_grpo.py line "
        assert text.count(line) == 1
    assert progress_lines(text) == ["not written yet"] * 5
    assert "FAILURES" not in text and "1 passed" in text
    assert len(text.splitlines()) < 20
    code, text = run(room, "-q", "-k", "task3 and call")
    assert code == 1 and text.count("not written yet: Task") == 1
    assert text.count("\n") <= 16


def test_right_file_passes_and_k_selects_one_task(room):
    code, text = run(room, "-q", "--ignore=tests/test_bad_x.py", text=RIGHT)
    assert code == 0 and progress_lines(text) == ["passed (2 of 2)"] * 5
    code, text = run(room, "-q", "-k", "task4", "--ignore=tests/test_bad_x.py", text=RIGHT)
    lines = progress_lines(text)
    assert code == 0 and lines[3] == "passed (2 of 2)"
    assert lines[:3] + lines[4:] == ["written, not tested in this run"] * 4


def test_a_test_file_that_cannot_be_read_hides_nothing(room):
    code, text = run(room, "-q", text=RIGHT)
    assert code == 1 and progress_lines(text) == ["passed (2 of 2)"] * 5
    assert "nothing_like_it" in text


DAMAGED = edit(
    RIGHT,
    ("import random\n", f"import random\nimport {MISSING}\nprint('at import', '\u4e2d')\n"),
    (section(RIGHT, 1), section(STUB, 1)),
    ("    groups = rewards.view(", "    print('I leave')\n    exit()\n    groups = rewards.view("),
    ("def k3_kl(", "def k3_kll("),
    (BANNER_4, "import sys\nsys.exit(0)\n" + BANNER_4),
    ("    rho = torch.exp(", "    rho = (torch.exp("),
    ("    groups = sample_group(", "    helper('\u4e2d')  # \u4e2d\n    groups = sample_group("),
    ("def grpo_step(", "def helper(x):\n    return torch.zeros(2, 3) @ torch.zeros(2)\n\n\n"
     "def grpo_step("),
)


def test_damage_of_every_kind_in_one_file(room):
    data = b"\xef\xbb\xbf" + DAMAGED.replace("\n", "\r\n").encode()
    code, text = run(room, "-v", "--ignore=tests/test_bad_x.py", text=data)
    assert code == 1 and "2 failed, 3 passed, 3 deselected" in text
    renamed = f"({at(DAMAGED, 'def k3_kll')} defines k3_kll)"
    for words in (
        f"not written yet: Task 1, sample_group (lab.py {at(DAMAGED, 'def sample_group')})\n",
        f"group_advantages raised SystemExit at lab.py {at(DAMAGED, 'exit()')}\n    exit()\n",
        f"missing: Task 3, k3_kl: there is no such function in lab.py {renamed}\n",
        f"broken: Task 4, grpo_loss (lab.py {at(DAMAGED, 'rho = (')}: SyntaxError: '(' was never",
        f"grpo_step raised RuntimeError at lab.py {at(DAMAGED, 'return torch.z')} (in helper)\n"
        "    return torch.zeros(2, 3) @ torch.zeros(2)\nRuntimeError: size mismatch",
        f"when loaded: lab.py {at(DAMAGED, MISSING)}: ModuleNotFoundError: No module named",
        f"when loaded: lab.py {at(DAMAGED, 'sys.exit(0)')}: sys.exit() was called",
    ):
        assert text.count(words) == 1, words
    assert [line.split(":")[0] for line in progress_lines(text)] == [
        "not written yet", "1 of 2 tests fail", f"missing {renamed}", "broken",
        "1 of 2 tests fail"]


def test_calls_that_do_not_fit_and_leftovers(room):
    lab = edit(
        RIGHT,
        ("def sample_group(model, prompts, answers, G, temperature=1.0)",
         "def sample_group(model, prompts, G, temperature=1.0, *, answers)"),
        ("    groups = rewards.view(", "    groups = rewords.view("),
        ("    return torch.exp(d) - d - 1", "return torch.exp(d) - d - 1"),
        ("    A = adv.unsqueeze(1)", "    raise NotImplementedError\n    A = adv.unsqueeze(1)"),
        ("    groups = sample_group(", "    raise KeyboardInterrupt\n    groups = sample_group("),
    )
    code, text = run(room, "-v", "-k", "not task5", "--ignore=tests/test_bad_x.py", text=lab)
    assert code == 1 and "4 failed" in text
    assert "it is called as  sample_group(model, prompts, answers, G, temperature=1.0)" in text
    assert "\nNameError: name 'rewords' is not defined" in text
    where = at(lab, "return torch.exp(d)")
    assert text.count(f"when loaded: lab.py {where}: SyntaxError: 'return' outside") == 1
    assert "(in tests/test_task3_k3_kl.py line 10)" in text and "NoneType" in text
    assert f"Error at lab.py {at(lab, '    raise NotImplementedError')}\n    raise NotImpl" in text
    code, text = run(room, "-q", "-k", "task5", "--lab=lab.py")
    assert code == 2 and "KeyboardInterrupt" in text and len(progress_lines(text)) == 5


def test_no_lab_file_is_one_line(room):
    code, text = run(room, "-q", "--lab=no such file.py")
    assert code == 4 and text.startswith("ERROR: there is no lab file") and text.count("\n") == 2


def test_plain_locale_and_spawn_in_a_process_of_its_own(room):
    """LC_ALL=C without UTF-8 mode, spawn, no colour, another cwd: one real run."""
    text = edit(DAMAGED, ("import random\n", "import random\nimport multiprocessing as mp\n"
                          "mp.set_start_method('spawn')\n"))
    code, text = run(room, "-v", "--ignore=tests/test_bad_x.py", text=text, env=PLAIN)
    assert code == 1 and "2 failed, 3 passed, 3 deselected" in text
    assert "lab file: " in text and "NOT WRITTEN" in text and "mp.set" not in text
