"""A reader that leaves early, as `| head` does, is no error for any command."""

import ast
import os
import subprocess
import sys

import pytest

from instructor.tests.processes import PLAIN
from instructor.tests.repo_files import TOP, python_files, tree

# Files that are started as a program and do not begin with piped(main), and why.
OTHERS = {
    "lab15_grpo.py": "the student's; lab15_run.say prints for it",
    "solutions/lab15_grpo.py": "as the student's",
    "notebooks/lab.py": "what it shows is JupyterLab's",
    "tests/install.py": "stands alone: an old Python must be able to read it",
    "tests/watch.py": "draws on a terminal",
    "beyond/services/staleness_run.py": "a child of beyond.staleness, whose end must end it",
    "beyond/tasks/math_helper.py": "a child that answers questions; its reader's end is its own",
    "instructor/box/worker.py": "a child in the sandbox",
    "instructor/gradescope/run.py": "started by Gradescope, without the rest of the repository",
    "instructor/course/lab15_nbgrader/repair.py": "copied into a course, without lab15_run.py",
    "instructor/course/lab15_nbgrader/formulas.py": "a child that answers questions",
    "beyond/tests/adapters/test_trl.py": "one process of a test",
    "beyond/tests/launch/job.py": "one process of a test",
    "beyond/tests/parallel/cases.py": "one process of a test",
    "beyond/tests/parallel/tensor_cases.py": "one process of a test",
}


def guard(name):
    """Return the names that a file's `if __name__ == "__main__"` uses; None: there is no such."""
    for node in tree(name).body:
        if isinstance(node, ast.If) and "__main__" in ast.unparse(node.test):
            return {n.id for n in ast.walk(node) if isinstance(n, ast.Name)}
    return None


def test_every_command_lets_its_reader_leave():
    guards = {name: guard(name) for name in python_files()}
    programs = {name for name, used in guards.items() if used is not None}
    assert len(programs) > 40 and OTHERS.keys() <= programs
    assert {name for name in programs if "piped" not in guards[name]} == OTHERS.keys()


MANY = """
import sys
from lab15_run import piped
def main():
    for i in range(20000):
        print("line", i)
        print("more", i, file=sys.stderr)
    open("done", "w", encoding="utf-8").close()
    return 7
sys.exit(piped(main))
"""


@pytest.mark.parametrize("flags", [[], ["-u"]], ids=["buffered", "unbuffered"])
@pytest.mark.parametrize("read", [0, 5])
def test_the_work_is_done_to_its_end_and_what_was_read_is_whole(tmp_path, flags, read):
    env = os.environ | PLAIN | {"PYTHONPATH": str(TOP)}
    with subprocess.Popen([sys.executable, *flags, "-c", MANY], cwd=tmp_path, env=env,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
        lines = [process.stdout.readline() for _ in range(read)]
        process.stdout.close()
        assert process.wait(60) == 7
    assert all(line.split()[0] in (b"line", b"more") for line in lines)
    assert (tmp_path / "done").exists()


def test_a_full_disk_is_still_an_error():
    if not os.path.exists("/dev/full"):
        pytest.skip("this system has no /dev/full, a disk that is always full")
    with open("/dev/full", "wb") as full:
        code = "from lab15_run import piped\npiped(lambda: print('x', flush=True))"
        done = subprocess.run([sys.executable, "-c", code], cwd=TOP, stdout=full, timeout=60,
                              stderr=subprocess.PIPE)
    assert done.returncode and b"No space left" in done.stderr
