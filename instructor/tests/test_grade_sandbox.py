"""The grader with its sandbox: attacks get the stub's 0, honest files in trouble what they deserve.

Without bubblewrap these tests are skipped. The environment variable LAB15_SLOW=1 runs all of
them, about three minutes; without it there are a few.
"""

import os
import re
import sys
import time
from pathlib import Path

import pytest

from instructor import grade, variants
from instructor.sandbox import Limits, Maker, SandboxError
from tests.labfile import ROOT, TASKS

HERE = Path(__file__).parent
STUB = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
FULL = {n: float(task.points) for n, task in TASKS.items()}
QUICK = {"forged_frames", "tells_inputs"}
ATTACKS = {p.stem: p.read_text(encoding="utf-8") for p in sorted((HERE / "attacks").glob("*.py"))}
# A parser that recurses does not survive these; ruff should not have to try.
ATTACKS["nested"] = f"\nx = {'(' * 3000}1{')' * 3000}\ny = {'-' * 100000}1\n"
# What turns every result of pytest into a pass, where pytest runs in the submission's folder.
PLANTED = ("conftest.py", "tests/conftest.py", "pytest.py", "tinylm.py", "torch.py", "numpy.py")
PLANTED += ("sitecustomize.py", "usercustomize.py", "pytest.ini", "setup.cfg", "tests/__init__.py")
SLOW = "LAB15_SLOW" not in os.environ


@pytest.fixture(scope="module")
def course():
    """Give a course with a fixed seed."""
    return grade.Course("another seed for these tests")


@pytest.fixture(scope="module")
def sandbox():
    """Give an open Sandbox with short limits: one for all, the tasks of which share nothing."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap needs Linux")
    try:
        maker = Maker(Limits(load=8, call=3, submission=25))
        with maker.open() as sandbox, sandbox.open(1, grade.Clock(5)):
            pass
    except SandboxError as error:
        pytest.skip(f"no sandbox here: {error}")
    with maker.open() as sandbox:
        yield sandbox
    maker.close()


def points(text, course, sandbox):
    """Return (points by task, all messages as one text)."""
    data = text if isinstance(text, bytes) else text.encode("utf-8")
    tasks, notes = grade.judge_tasks(data, course, sandbox.maker, sandbox)
    messages = [m for task in tasks.values() for m in task["messages"]]
    return {n: task["points"] for n, task in tasks.items()}, "\n".join([*notes, *messages])


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_attack_gets_what_the_stub_gets(name, course, sandbox):
    if SLOW and name not in QUICK:
        pytest.skip("slow: runs with LAB15_SLOW=1")
    start = time.monotonic()
    scored, messages = points(STUB + "\n\n" + ATTACKS[name], course, sandbox)
    assert sum(scored.values()) == 0, scored
    assert time.monotonic() - start < 90
    assert "LEAK" not in messages and "tensor(" not in messages
    left = [p for f in ("/tmp", "/var/tmp", "/dev/shm") for p in Path(f).glob("lab15_*_was_here")]
    assert not left


def test_the_solution_gets_everything_and_the_stub_nothing(course, sandbox):
    assert points(variants.solution(), course, sandbox)[0] == FULL
    scored, messages = points(STUB, course, sandbox)
    assert sum(scored.values()) == 0 and "not written yet" in messages


SOLUTION = variants.solution()


def without(old, new):
    """Return the solution with a piece of its text replaced."""
    assert SOLUTION.count(old) == 1
    return SOLUTION.replace(old, new)


IN_TROUBLE = {  # name: (text, tasks that are lost, a word of the messages)
    "syntax_error": (without("torch.exp(d)", "torch.exp(d"), {3}, "SyntaxError"),
    "renamed": (without("def k3_kl(", "def k3("), {3}, "no such function"),
    "missing_4": (without("def grpo_loss(", "def loss("), {4}, "no such function"),
    "loop": (
        without(
            "groups = rewards.view(-1, G)", "while True: pass\n    groups = rewards.view(-1, G)"
        ),
        {2},
        "longer than",
    ),
    "crash": (
        without("groups = rewards.view(-1, G)", "[][0]\n    groups = rewards.view(-1, G)"),
        {2},
        "IndexError",
    ),
    "exits": (
        without("groups = rewards.view(-1, G)", "exit()\n    groups = rewards.view(-1, G)"),
        {2},
        "SystemExit",
    ),
    "bom": (b"\xef\xbb\xbf" + SOLUTION.encode(), set(), ""),
    "crlf": (SOLUTION.replace("\n", "\r\n"), set(), ""),
    "latin1": (SOLUTION.encode() + b"\n# caf\xe9\n", set(), "UTF-8"),
    "training": (SOLUTION + "\nimport time\ntime.sleep(20)\n", set(), "did not end"),
    "exit_at_end": (SOLUTION + "\nimport os\nos._exit(1)\n", set(), "definitions"),
    "input": (SOLUTION + "\nname = input('your name? ')\n", set(), "input()"),
    "package": ("import nowhere_to_be_found\n" + SOLUTION, set(), "nowhere_to_be_found"),
    "prints": (SOLUTION + "\nfor i in range(2000):\n    print('x' * 10**5)\n", set(), "prints"),
}


@pytest.mark.parametrize("name", IN_TROUBLE)
def test_an_honest_file_in_trouble_gets_what_it_deserves(name, course, sandbox):
    if SLOW and name not in {"syntax_error"}:
        pytest.skip("slow: runs with LAB15_SLOW=1")
    text, lost, word = IN_TROUBLE[name]
    scored, messages = points(text, course, sandbox)
    assert scored == {n: 0.0 if n in lost else FULL[n] for n in TASKS}, messages
    assert word in messages


@pytest.mark.skipif(SLOW, reason="slow")
def test_the_same_file_gets_the_same_points(course, sandbox):
    chaff = next(v for v in variants.chaffs() if v.task == 4)
    scored = points(chaff.text, course, sandbox)[0]
    assert 0 <= scored[4] <= FULL[4] / 2
    assert points(chaff.text, course, sandbox)[0] == scored


def test_the_command_goes_on_where_it_was(tmp_path, sandbox, capsys):
    folder, out = tmp_path / "in", tmp_path / "out"
    (folder / "eve" / "tests").mkdir(parents=True)
    (folder / "eve" / "lab15_grpo.py").write_text(STUB, encoding="utf-8")
    yes = "def pytest_runtest_makereport(item, call): raise SystemExit(0)\n"
    for name in PLANTED:
        (folder / "eve" / name).write_text(yes, encoding="utf-8")
    args = [str(folder), "--out", str(out), *(["--as-root"] if os.geteuid() == 0 else [])]
    assert grade.main(args) == 0
    first = (out / "results" / "eve.json").read_text(encoding="utf-8")
    (folder / "bob.py").write_text("", encoding="utf-8")
    assert grade.main(args) == 0
    assert (out / "results" / "eve.json").read_text(encoding="utf-8") == first  # has its seconds
    lines = (out / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert [re.sub(",.*,", ",", line) for line in lines[1:]] == ["bob,0", "eve,0"]
    assert "2 of 2 graded" in capsys.readouterr().out


# ---------------------------------------------------------------- nothing for nothing

TRIVIAL = """

def body(*args, **kwargs):
    given = [*args, *kwargs.values()]
    tensors = [x for x in given if torch.is_tensor(x)]
    texts = [x for x in given if isinstance(x, list)]
    if not texts and len(tensors) > 2:  # Task 4
        logp = tensors[0]
        stats = dict.fromkeys(("kl", "clip_frac", "ratio_max"), {number})
        return logp.mean() * {number}, stats
    if tensors:  # tasks 2 and 3
        return {tensor}
    if len(given) == 6:  # Task 5
        names = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")
        return dict.fromkeys(names, {number})
    out = sample(given[0], texts[0] * {times})
    rewards = torch.full((len(out["ids"]),), {number})
    return dict(out=out, responses=["7"] * len(out["ids"]), rewards=rewards)


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = body
"""
BODIES = {
    "zeros": ("0.0", "torch.zeros_like(tensors[0])", "1"),
    "ones": ("1.0", "torch.ones_like(tensors[0])", "2"),
    "input": ("0.5", "tensors[0]", "3"),
    "copy": ("0.25", "tensors[0].clone()", "4"),
    "negative": ("-1.0", "-tensors[0]", "5"),
    "double": ("2.0", "2 * tensors[0]", "6"),
    "last": ("3.0", "tensors[-1]", "7"),
    "centred": ("0.1", "tensors[0] - tensors[0].mean()", "24"),
    "random": ("0.7", "torch.randn_like(tensors[0])", "1"),
    "exp": ("10.0", "tensors[0].exp()", "2"),
}


@pytest.mark.parametrize("name", BODIES)
def test_a_trivial_body_gets_nothing(name, course, sandbox):
    if SLOW and name not in {"zeros"}:
        pytest.skip("slow: runs with LAB15_SLOW=1")
    number, tensor, times = BODIES[name]
    text = TRIVIAL.replace("{number}", number).replace("{tensor}", tensor)
    text = text.replace("{times}", times)
    scored, messages = points(STUB + text, course, sandbox)
    assert sum(scored.values()) == 0, (scored, messages)


def test_a_body_of_not_implemented_is_unwritten(course, sandbox):
    assert points("import torch\n", course, sandbox)[0] == dict.fromkeys(TASKS, 0.0)
