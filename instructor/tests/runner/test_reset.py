"""python -m tests.reset: one task is the stub again, the rest of the file is untouched."""

import pytest

from instructor.tests.lab_texts import BANNER_4, RIGHT, STUB, edit, section
from instructor.tests.processes import PLAIN, run_python
from tests import reset


def test_stubs_are_those_of_the_lab_file():
    same = reset.STUBS.read_text("utf-8") == reset.tasks_text(STUB)
    assert same, "tests/stubs.txt differs from lab15_grpo.py; write reset.tasks_text(...) to it"


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_reset_puts_back_one_task(tmp_path, newline, capsys):
    path = tmp_path / "my lab.py"
    broken = edit(RIGHT, ("    rho = torch.exp(", "    rho = (torch.exp("))
    old = ("# caf\xe9\n" + broken).replace("\n", newline).encode("latin-1")
    path.write_bytes(old)
    assert reset.main(["task4", f"--lab={path}"]) == 0
    right = edit(RIGHT, (section(RIGHT, 4), section(STUB, 4)))
    assert path.read_bytes() == ("# caf\xe9\n" + right).replace("\n", newline).encode("latin-1")
    assert (tmp_path / "my lab.py.bak-task4").read_bytes() == old
    assert "my lab.py.bak-task4" in capsys.readouterr().out
    for n in (1, 2, 3, 5, 5):
        assert reset.main([str(n), "--lab", str(path)]) == 0
    assert path.read_bytes() == ("# caf\xe9\n" + STUB).replace("\n", newline).encode("latin-1")
    assert len(list(tmp_path.iterdir())) == 6, "the file and five old ones, nothing temporary"


def test_reset_needs_both_banners(tmp_path, capsys):
    path = tmp_path / "lab.py"
    text = edit(RIGHT, (BANNER_4, ""))
    path.write_text(text, "utf-8")
    for word in ("task3", "task4"):
        assert reset.main([word, f"--lab={path}"]) == 1
        out, err = capsys.readouterr()
        assert "Task 4' is missing; nothing was changed" in err and err.count("\n") == 1 and not out
    assert path.read_text("utf-8") == text and list(tmp_path.iterdir()) == [path]
    assert reset.main(["task1", "--lab", str(tmp_path / "nothing.py")]) == 1


def test_reset_command_in_a_plain_locale(tmp_path):
    path = tmp_path / "my lab.py"
    path.write_text(RIGHT, "utf-8")
    done = run_python("-m", "tests.reset", "task3", f"--lab={path}", **PLAIN)
    assert done.returncode == 0 and done.stdout.isascii() and b"bak-task3" in done.stdout
    assert path.read_text("utf-8") == edit(RIGHT, (section(RIGHT, 3), section(STUB, 3)))
