"""What the instructor's tests share: lab files, a small copy of the lab, the list of skips."""

import shutil
import signal

import pytest

from tests.labfile import ROOT, TASKS, load_lab
from tests.runner import skips

# A shell's background job ignores Ctrl-C, and so would every process that a test starts.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_configure(config):
    """Show at the end what was skipped."""
    skips.show_at_the_end(config)


@pytest.fixture
def load(tmp_path):
    """Return a function that writes a text (or bytes) to a file and loads it."""

    def write_and_load(text, **kwargs):
        path = tmp_path / "lab15_grpo.py"
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return load_lab(path, **kwargs)

    return write_and_load


SMALL_TESTS = {
    1: 'lab.sample_group(tinylm.TinyLM(), ["1+1="], ["2"], 2)["rewards"].shape == (2,)',
    2: "lab.group_advantages(torch.tensor([1.0, 0.0]), 2).shape == (2,)",
    3: "lab.k3_kl(torch.zeros(1, 2), torch.ones(1, 2)).shape == (1, 2)",
    4: "lab.grpo_loss(*[torch.ones(1, 2)] * 3, torch.ones(1), torch.ones(1, 2))[0] == -1",
    5: """lab.grpo_step(m := tinylm.TinyLM(), m, torch.optim.SGD(m.parameters(), 0.1),
    ["1+1="], ["2"], lab.GRPOConfig(G=2))["reward"] <= 1""",
}


@pytest.fixture(scope="module")
def room(tmp_path_factory):
    """A small copy of the lab with two short tests per task, in a path with spaces."""
    root = tmp_path_factory.mktemp("a lab") / "in a folder"
    (root / "tests").mkdir(parents=True)
    for path in (ROOT / "tests").rglob("*.py"):
        if not path.name.startswith("test_"):
            copy = root / path.relative_to(ROOT)
            copy.parent.mkdir(exist_ok=True)
            shutil.copy(path, copy)
    for name in ("tinylm.py", "lab15_grpo.py", "lab15_run.py"):
        shutil.copy(ROOT / name, root)
    (root / "pytest.ini").write_text("[pytest]\naddopts = -rN -p no:cacheprovider\n", "utf-8")
    for n, call in SMALL_TESTS.items():
        head = "import torch\nimport tinylm\n\n\n"
        head += f"def test_task{n}_there(lab):\n    assert lab.{TASKS[n].name}\n\n\n"
        code = head + f"def test_task{n}_call(lab):\n    assert {call}\n"
        (root / "tests" / f"test_task{n}_{TASKS[n].name}.py").write_text(code, "utf-8")
    (root / "tests" / "test_given_x.py").write_text("def test_given():\n    pass\n", "utf-8")
    (root / "tests" / "test_bad_x.py").write_text("import nothing_like_it\n", "utf-8")
    return root
