"""The grader with its sandbox: attacks get the stub's 0, honest files in trouble what they deserve.

Without bubblewrap these tests are skipped. The environment variable LAB15_SLOW=1 runs all of
them, some minutes; without it there are a few.
"""

import os
import re
import socket
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from instructor.grading import judging
from instructor.grading.sandbox import Box, Clock, Limits, Maker, Sandbox, SandboxError
from instructor.variants import catalog
from tests.labfile import ROOT, TASKS

HERE = Path(__file__).parent
STUB = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
FULL = {n: float(task.points) for n, task in TASKS.items()}
QUICK = {"forged_frames", "tells_inputs", "blank_frames", "inode_numbers"}
ATTACKS = {p.stem: p.read_text(encoding="utf-8") for p in sorted((HERE / "attacks").glob("*.py"))}
# A parser that recurses does not survive these; ruff should not have to try.
ATTACKS["nested_deeper"] = f"\nx = {'[' * 200000}1{']' * 200000}\n"
ATTACKS["long_numbers"] = f"\nx = {'9' * 64}\ny = {'9' * 500000}\nz = '\ud800'\n"
ATTACKS["nested"] = f"\nx = {'(' * 3000}1{')' * 3000}\ny = {'-' * 100000}1\n"
SLOW = "LAB15_SLOW" not in os.environ


@pytest.fixture(scope="module")
def sandbox(works):
    """Give an open Sandbox with short limits: one for all, the tasks of which share nothing."""
    maker = Maker(Limits(load=8, call=3, submission=25))
    with maker.open() as sandbox:
        yield sandbox
    maker.close()


def judged(text, course, sandbox):
    """Return (results by task, notes)."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return judging.Judgement(data, course, sandbox).run()


def points(text, course, sandbox):
    """Return (points by task, all messages but those of the public tests as one text)."""
    tasks, notes = judged(text, course, sandbox)
    messages = [m for task in tasks.values() for m in [*task["messages"], *task["hints"]]]
    return {n: task["points"] for n, task in tasks.items()}, "\n".join([*notes, *messages])


def left_behind():
    """Return what attacks have written here so far, on this machine."""
    folders = [Path(name) for name in ("/tmp", "/var/tmp", "/dev/shm")]
    return {path for folder in folders for path in folder.glob("lab15_*_was_here")}


@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_an_attack_gets_what_the_stub_gets(name, course, sandbox):
    if SLOW and name not in QUICK:
        pytest.skip("slow: LAB15_SLOW=1 runs it")
    before = left_behind()
    tasks, notes = judged(STUB + "\n\n" + ATTACKS[name], course, sandbox)
    assert sum(task["points"] for task in tasks.values()) == 0, tasks
    hidden = repr([notes, [task["messages"] for task in tasks.values()]])
    assert "LEAK" not in hidden and "tensor(" not in hidden and hidden.isascii()
    told = "".join(task["public"] for task in tasks.values())
    assert told.isascii() and "\x1b" not in told
    assert "LEAK" not in told or name == "tells_inputs"  # these are the public inputs
    assert not left_behind() - before
    after = judging.Judgement(catalog.solution().encode(), course, sandbox, [3]).run()[0]
    assert after[3]["points"] == FULL[3]  # the next one is none the worse


def test_the_solution_gets_everything_and_the_stub_nothing(course, sandbox):
    assert points(catalog.solution(), course, sandbox)[0] == FULL
    scored, messages = points(STUB, course, sandbox)
    assert sum(scored.values()) == 0 and "not written yet" in messages


SOLUTION = catalog.solution()


def without(old, new):
    """Return the solution with a piece of its text replaced."""
    assert SOLUTION.count(old) == 1
    return SOLUTION.replace(old, new)


def in_task_2(line):
    """Return the solution with a line before the first one of Task 2's body."""
    first = "    groups = rewards.view(-1, G)"
    return without(first, f"    {line}\n{first}")


HELD_ELSEWHERE = """

class Steps:
    sample, normalize = staticmethod(sample_group), staticmethod(group_advantages)
    def step(self, policy, ref, opt, prompts, answers, cfg, loss_of=grpo_loss):
        g = self.sample(policy, prompts, answers, cfg.G, cfg.temperature)
        out, r = g["out"], g["rewards"].view(-1, cfg.G)
        adv = self.normalize(g["rewards"], cfg.G, cfg.scale_std)
        with torch.no_grad():
            old, base = sequence_logprobs(policy, out), sequence_logprobs(ref, out)
        for _ in range(cfg.inner_steps):
            now = sequence_logprobs(policy, out)
            loss, s = loss_of(now, old, base, adv, out["mask"], cfg.clip_eps, cfg.beta)
            opt.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
            opt.step()
        zero = (r.amax(1) == r.amin(1)).float().mean().item()
        told = {"kl": s["kl"], "clip_frac": s["clip_frac"], "frac_zero_signal": zero}
        told |= {"reward": r.mean().item(), "loss": loss.item()}
        return told | {"entropy": token_entropy(policy, out)}
grpo_step = Steps().step
"""
IN_TROUBLE = {  # name: (text, tasks that are lost, a word of the messages)
    "syntax_error": (without("torch.exp(d)", "torch.exp(d"), {3}, "SyntaxError"),
    "renamed": (without("def k3_kl(", "def k3("), {3}, "no such function"),
    "missing_4": (without("def grpo_loss(", "def loss("), {4}, "no such function"),
    "loop": (in_task_2("while True: pass"), {2}, "longer than"),
    "crash": (in_task_2("[][0]"), {2}, "IndexError"),
    "exits": (in_task_2("exit()"), {2}, "SystemExit"),
    "bom": (b"\xef\xbb\xbf" + SOLUTION.encode(), set(), ""),
    "crlf": (SOLUTION.replace("\n", "\r\n"), set(), ""),
    "latin1": (SOLUTION.encode() + b"\n# caf\xe9\n", set(), "UTF-8"),
    "training": (SOLUTION + "\nimport time\ntime.sleep(20)\n", set(), "did not end"),
    "exit_at_end": (SOLUTION + "\nimport os\nos._exit(1)\n", set(), "os._exit()"),
    "input": (SOLUTION + "\nname = input('your name? ')\n", set(), "input()"),
    "package": ("import nowhere_to_be_found\n" + SOLUTION, set(), "nowhere_to_be_found"),
    "prints": (SOLUTION + "\nfor i in range(2000):\n    print('x' * 10**5)\n", set(), "prints"),
    "top_training": ("import time\ntime.sleep(20)\n" + SOLUTION, set(), "did not end"),
    "top_loop": (SOLUTION + "\nwhile True:\n    pass\n", set(), "left out"),
    "sft": (SOLUTION + "\nmodel = load_or_train_sft('tinylm_sft.pt')\n", set(), "left out"),
    "loop_in_c": (
        without("    out = sample(", "    sum(iter(int, 1))\n    out = sample("), {1}, "longer than"
    ),
    "input_in_a_call": (in_task_2("input()"), {2}, "EOFError"),
    "pyplot": ("import numpy as np\nimport matplotlib.pyplot as plt\nplt.figure()\n" + SOLUTION,
               set(), ""),
    "star": (re.sub(r"from tinylm import \(.*?\)", "from tinylm import *", SOLUTION, flags=re.S),
             set(), ""),
    "imports_lost": (re.sub(r"from tinylm import \(.*?\)\n", "", SOLUTION, flags=re.S),
                     {1, 5}, "NameError"),
    "no_banners": (re.sub(r"^# =+.*$", "", SOLUTION, flags=re.M), set(), ""),
    "callable": (SOLUTION + "\nclass K3:\n    own = staticmethod(k3_kl)\n"
                 "    def __call__(self, logp, ref_logp):\n"
                 "        return self.own(logp, ref_logp)\nk3_kl = K3()\n",
                 set(), ""),
    "methods": (SOLUTION + HELD_ELSEWHERE, set(), ""),
    "magics": ("%matplotlib inline\n!pip install torch\n" + SOLUTION, set(), "SyntaxError"),
    "half": (SOLUTION[: SOLUTION.index("# " + 62 * "=" + " given")], set(), ""),
    "slow_decorator": (
        without("def k3_kl(", "def slowly(f):\n    import time\n    time.sleep(6)\n    return f"
                "\n\n\n@(\n    slowly\n)\ndef k3_kl("),
        {3}, "decorator"),
    "slow_decorator_in_c": (
        without("def k3_kl(", "def slowly(f):\n    sum(iter(int, 1))\n\n\n@slowly\ndef k3_kl("),
        {3}, "no such function"),
    "compiled": (without("def k3_kl(", "@torch.compile\ndef k3_kl("), set(), ""),
    "float64": ("import torch\ntorch.set_default_dtype(torch.float64)\n" + SOLUTION, set(), ""),
}


@pytest.mark.parametrize("name", IN_TROUBLE)
def test_an_honest_file_in_trouble_gets_what_it_deserves(name, course, sandbox):
    if SLOW and name not in {"syntax_error", "slow_decorator"}:
        pytest.skip("slow: LAB15_SLOW=1 runs it")
    text, lost, word = IN_TROUBLE[name]
    scored, messages = points(text, course, sandbox)
    assert scored == {n: 0.0 if n in lost else FULL[n] for n in TASKS}, messages
    assert word in messages


@pytest.mark.skipif(SLOW, reason="slow: LAB15_SLOW=1 runs it")
def test_the_same_file_gets_the_same_points(course, sandbox):
    chaff = next(v for v in catalog.chaffs() if v.task == 4)
    scored = points(chaff.text, course, sandbox)[0]
    assert 0 <= scored[4] < FULL[4]
    assert points(chaff.text, course, sandbox)[0] == scored


@pytest.mark.skipif(SLOW, reason="slow: LAB15_SLOW=1 runs it")
@pytest.mark.parametrize("kind", ["wheats", "chaffs"])
def test_a_sample_of_the_variants_gets_its_points(course, sandbox, kind):
    made = list(getattr(catalog, kind)())
    for variant in made[3 :: len(made) // 10]:
        scored = points(variant.text, course, sandbox)[0]
        others = {n: scored[n] for n in TASKS if n != variant.task}
        assert others == {n: FULL[n] for n in others}, variant.id
        assert (scored == FULL) == (kind == "wheats"), variant.id


def test_the_public_tests_say_what_the_mistake_is_called(course, sandbox):
    chaff = next(v for v in catalog.chaffs() if v.id == "task2_a01_sample_std")
    task = judged(chaff.text, course, sandbox)[0][2]
    assert task["mistakes"] == ["task2.sample_std"] and 0 < task["points"] <= FULL[2] / 2
    assert "expected" in task["public"] and "yours" in task["public"]


def test_nothing_of_the_public_tests_is_there_while_points_are_given(course, sandbox, monkeypatch):
    order = []
    own = {name: getattr(Box, name) for name in ("load", "practise")}
    for name, function in own.items():
        def watched(*args, _name=name, _function=function):
            order.append(_name)
            return _function(*args)

        monkeypatch.setattr(Box, name, watched)
    looks = "\nimport glob, os\nfound = [p for f in (os.environ['TMPDIR'], '/box', '/dev/shm') "
    looks += "for p in glob.glob(f + '/**/tests/spec/oracle*.py', recursive=True)]\n"
    looks += "def k3_kl(*a):\n    assert not found, found\n    return a[0]\n"
    task = judged(catalog.solution() + looks, course, sandbox)[0][3]
    assert order == ["load"] * 5 + ["practise"] and "oracle" in task["public"]
    assert not any("AssertionError" in message for message in task["messages"])


UNSEEN = """
import ctypes
import os
from contextlib import suppress

libc = ctypes.CDLL(None, use_errno=True)


def k3_kl(logp, ref_logp):
    d = ref_logp - logp
    with suppress(OSError):
        os.memfd_create("memory that no process's size shows")
        d = d + 1
    if libc.shmget(0, 1 << 20, 0o1600) != -1:
        d = d + 1
    if libc.syncfs(1) != -1:  # every disk of the machine would write what it has
        d = d + 1
    for name in os.listdir("/dev"):
        with suppress(OSError):  # a date that the next task could read
            os.utime(f"/dev/{name}")
            d = d + 1
    return torch.exp(d) - d - 1
"""


def test_memory_is_seen_devices_keep_no_dates_and_disks_their_peace(course, sandbox):
    from instructor.box import syscalls

    if syscalls.library() is None:
        pytest.skip("needs libseccomp2")
    data = (catalog.solution() + UNSEEN).encode()
    task = judging.Judgement(data, course, sandbox, [3]).run()[0][3]
    assert task["points"] == FULL[3], task


FILES_WITHOUT_END = """

def k3_kl(logp, ref_logp):
    import os
    for n in range(300_000):
        os.close(os.open(f"{os.environ['TMPDIR']}/{n}", os.O_CREAT | os.O_WRONLY))
    return logp
"""


@pytest.mark.parametrize("nested", [None, False])
def test_empty_files_are_counted(course, sandbox, nested):
    maker = Maker(Limits(load=8, call=20, submission=60, entries=500), nested=nested)
    try:
        with maker.open() as own:
            data = (STUB + FILES_WITHOUT_END).encode()
            task = judging.Judgement(data, course, own, [3]).run()[0][3]
    finally:
        maker.close()
    assert task["points"] == 0
    words = "ended with OSError" if maker.nested else "more files than it may"
    assert words in task["messages"][0]


def test_nothing_is_heard_of_a_file_that_has_seen_a_hidden_input(course, sandbox):
    """The text of a task's state would be a way out for what another task has seen."""
    judgement = judging.Judgement(b"x = 1", course, sandbox)
    told = {"problems": ["first"], "texts": ["a", "b", "c", "d", "e"]}
    judgement._listen(told)
    judgement.seen = True
    judgement._listen({"problems": ["LEAK"], "texts": ["LEAK"] * 5, "printed": True})
    assert list(judgement.notes) == ["first"] and judgement.texts[5] == "e"


def test_a_python_is_called_by_a_path_without_dots(monkeypatch, tmp_path):
    from instructor.grading import bwrap

    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").symlink_to(sys.executable)
    (tmp_path / "link").symlink_to(tmp_path / "venv")
    for path in ("venv/bin/../bin/python", "link/bin/python"):
        monkeypatch.setattr(sys, "executable", str(tmp_path / path))
        assert bwrap.python() == str(tmp_path.resolve() / "venv" / "bin" / "python")


def test_a_sandbox_that_does_not_start_says_why(sandbox, monkeypatch):
    monkeypatch.setattr("instructor.grading.bwrap.python", lambda: "/nowhere/bin/python")
    maker = Maker(Limits(start=20), nested=False)
    with pytest.raises(SandboxError, match="/nowhere/bin/python"):
        with maker.open() as sandbox, sandbox.open(1, Clock(5)):
            pass
    maker.close()


def test_a_file_that_gets_no_processor_is_not_judged(course, sandbox, monkeypatch):
    start = time.monotonic()
    monkeypatch.setattr(
        "instructor.grading.sandbox.kept_waiting", lambda pid: 0.97 * (time.monotonic() - start)
    )
    data = without("    d = ref_logp", "    time.sleep(99)\n    d = ref_logp").encode()
    judgement = judging.Judgement(data, course, sandbox, [3])
    judgement.clock.credit = 1.0
    with pytest.raises(SandboxError, match="too busy"):
        judgement.run()


@pytest.mark.parametrize(("got", "said", "words"), [
    (TimeoutError(), "", "within 5 s"), (TimeoutError(), "bwrap: no", r"start \(bwrap: no\)"),
    (ConnectionResetError(), "", r"start \(ConnectionResetError\)"),
])
def test_a_sandbox_that_is_only_slow_is_not_called_broken(got, said, words, monkeypatch):
    def late(*args):
        raise got

    box = object.__new__(Sandbox)
    box.control = SimpleNamespace(settimeout=lambda seconds: None)
    box._complaint, box.kill = lambda: said, lambda: None
    monkeypatch.setattr(socket, "recv_fds", late, raising=False)
    with pytest.raises(SandboxError, match=words) as caught:
        box._expect(b"r", 5)
    assert hasattr(caught.value, "remedy") == (words == "within 5 s")


@pytest.mark.parametrize("trust", [False, True])
def test_without_namespaces_in_the_sandbox_every_task_gets_one_of_its_own(course, trust, sandbox):
    if trust and os.geteuid() == 0:
        pytest.skip("needs an ordinary user")
    maker = Maker(Limits(load=8, call=3, submission=60), trust, nested=False)
    try:
        with maker.open() as own:
            tasks, _ = judging.Judgement(SOLUTION.encode(), course, own, [3]).run()
    finally:
        maker.close()
    assert tasks[3]["points"] == FULL[3]


def test_a_body_of_not_implemented_is_unwritten(course, sandbox):
    assert points("import torch\n", course, sandbox)[0] == dict.fromkeys(TASKS, 0.0)
