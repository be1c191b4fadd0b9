"""The watch: what is on the screen after a save."""

import contextlib
import os
import sys
import time

import pytest

from instructor.tests.lab_texts import RIGHT, STUB, edit
from instructor.tests.processes import PLAIN
from tests.labfile import TASKS, read_source
from tests.runner.judge import Verdict
from tests.watch import Board, changed_task, settled, signature

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")
LINE = "    d = ref_logp - logp\n"
LIMIT = 3  # seconds for a test: little, since loops are waited for; enough on a busy machine
PATIENCE = 40.0  # seconds; only where the machine is busy is it more than half a second


@contextlib.contextmanager
def watching(folder, *options):
    """Put a lab file into a folder, and a watch on it with these options."""
    from instructor.tests.runner import terminal as watch

    lab = folder / "lab15_grpo.py"
    right = watch.work_in_progress()
    watch.save(lab, right, "in place")
    terminal = watch.Terminal(lab, *options, env=PLAIN)
    terminal.wait_for("> task4", 180)

    def save(text, words, how="in place", patience=PATIENCE):
        """Save, wait for the words, return the screen."""
        time.sleep(0.02)
        watch.save(lab, text, how)
        return terminal.wait_for(words, patience)

    save.lab, save.right, save.terminal = lab, right, terminal
    try:
        yield save
    finally:
        terminal.close()


@pytest.fixture(scope="module")
def desk(tmp_path_factory):
    """A lab file in a path with a space; every test begins with a save, in whatever order."""
    with watching(tmp_path_factory.mktemp("a lab"), f"--limit={LIMIT}") as save:
        yield save


def with_line(text, code):
    """Return the text with k3_kl's first line replaced."""
    return edit(text, (LINE, code))


WRONG = "    d = logp - ref_logp\n"


@pytest.mark.parametrize("how", ["in place", "rename"])
def test_saves_of_both_kinds_are_seen(desk, how):
    shown = desk(with_line(desk.right, WRONG), "tests fail", how)
    assert "> task3 k3_kl" in shown and "likely    d has the wrong sign" in shown
    assert "  task2 group_advantages  passed (" in shown and shown.isascii()
    shown = desk(desk.right, "> task4", how)
    assert "not written yet: Task 4, grpo_loss (lab15_grpo.py line " in shown
    assert "Read: chapter.md section 5" in shown and "Ctrl-C ends" in shown


def test_half_a_file_is_not_judged(desk):
    desk(with_line(desk.right, WRONG), "> task3")
    before = len(desk.terminal.text)
    half = desk.right.index("exp(d)")
    with open(desk.lab, "w", encoding="utf-8") as file:
        file.write(desk.right[:half])
        file.flush()
        time.sleep(0.03)
        file.write(desk.right[half:])
    desk.terminal.wait_for("> task4", PATIENCE)
    assert "broken" not in desk.terminal.text[before:]
    shown = desk(with_line(desk.right, "    d = (ref_logp\n"), "broken: Task 3")
    assert "SyntaxError: '(' was never closed" in shown


def test_loop_ends_and_a_save_comes_in_between(desk):
    shown = desk(with_line(desk.right, "    while True: pass\n"), f"did not end within {LIMIT} s")
    assert "> task3 k3_kl             does not end: stopped at line " in shown
    desk(with_line(desk.right, "    while True: pass  # again\n"), "> task3")
    desk(desk.right, "> task4")


def test_file_that_is_gone_is_waited_for(desk):
    os.unlink(desk.lab)
    desk.terminal.wait_for("there is no such file", PATIENCE)
    desk(with_line(desk.right, WRONG), "> task3")


def test_ends_of_every_other_kind(desk):
    code = "    import os\n    os._exit(0)\n"
    shown = desk(with_line(desk.right, code), "This call ends Python: remove it.")
    assert "> task3" in shown and "os._exit(0)" in shown
    code = "    print('\\x1b[31m\u4e2d')\n    raise KeyError(1)\n"
    shown = desk(with_line(desk.right, code), "KeyError: 1")
    assert "your code printed" in shown and "\\x1b[31m\\u4e2d" in shown
    assert "There are hints:  python -m pytest -q -k task3 --hints --lab=" in shown
    shown = desk("import no_such_package\n" + desk.right, "no_such_package")
    assert "> task4" in shown and "when loaded: lab15_grpo.py line 1" in shown


def test_all_pass_and_ctrl_c(tmp_path):
    with watching(tmp_path) as save:  # one of its own, since this ends it
        shown = save(RIGHT, "All five tasks pass")
        assert shown.count("passed (") == 5 and "> " not in shown
        assert "python lab15_grpo.py" in shown
        assert save.terminal.interrupt() == 0
        end = time.monotonic() + PATIENCE  # what it wrote last may come after its end
        while not (text := save.terminal.text).endswith("ended\n") and time.monotonic() < end:
            time.sleep(0.01)
    assert text.endswith("watch: ended\n") and "Traceback" not in text


def test_without_fork(tmp_path):
    # Each process imports torch: on a busy machine that takes longer than a small limit allows.
    with watching(tmp_path, "--spawn", "--limit=60") as save:
        save(with_line(save.right, WRONG), "> task3", "rename", 180)
        assert save.terminal.interrupt() == 0 and "Traceback" not in save.terminal.text


# ============================================================== the parts


def passed(n):
    """Return a verdict."""
    return Verdict(n, "passed", "passed (1 of 1)")


def failed(n):
    """Return a verdict."""
    return Verdict(n, "failed", "1 of 1 tests fail", "test_x", f"message {n}")


def test_focus_is_the_changed_task_and_then_the_first_that_fails():
    board = Board("lab.py")
    assert board.start(None) == [1, 2, 3, 4, 5]
    board.add(passed(1))
    assert not board.decided()
    board.add(failed(2))
    assert board.decided() and board.focus == 2
    for verdict in (passed(3), failed(4), failed(5)):
        board.add(verdict)
    assert board.focus == 2 and board.start(4) == [4, 1, 2, 3, 5]
    board.add(failed(4))
    assert board.decided() and "message 4" in board.text(0, "")
    assert board.start(None)[0] == 4  # a save that changes nothing, or a helper
    board.add(passed(4))
    assert not board.decided()
    board.add(passed(1))
    board.add(failed(2))
    assert board.focus == 2 and "message 2" in board.text(0, "")


def test_changed_task():
    text = edit(RIGHT, (LINE, WRONG))
    assert changed_task(RIGHT, text) == 3 and changed_task(RIGHT, RIGHT) is None
    assert changed_task(RIGHT, "import os\n" + RIGHT) is None and changed_task(STUB, RIGHT) is None
    assert changed_task(RIGHT, "") is None and set(TASKS) == {1, 2, 3, 4, 5}


def test_signature_and_settled(tmp_path):
    path = tmp_path / "lab.py"
    assert signature(path) is None and settled(path) is None
    path.write_text("x = (", "utf-8")
    assert settled(path) == "x = (" == read_source(path)[0] and signature(path)[1] == 5
