"""What a command of the README selects: `-k given`, `-k task3`, and an editor that collects "."."""

import json
import re
from functools import cache

import pytest

from instructor.tests import only_requirements
from instructor.tests.processes import run_python
from tests.labfile import ROOT, TASKS

WORDS = ("given", *(f"task{n}" for n in TASKS))
SOLUTION = f"--lab={ROOT / 'solutions' / 'lab15_grpo.py'}"
# Collects once for every word in one process, which imports torch once.
COLLECT = """
import json, sys
import pytest

class Ids:
    def pytest_collection_finish(self, session):
        self.found = [item.nodeid for item in session.items]

found = {}
for word in json.loads(sys.argv[1]):
    ids = Ids()
    flags = ["--collect-only", "-q", "-p", "no:cacheprovider", *sys.argv[2:], "-k", word]
    assert pytest.main(flags, plugins=[ids]) == 0, word
    found[word] = ids.found
print("\\nFOUND", json.dumps(found))
"""


def python(*args, **env):
    """Run this Python in the top folder; return (exit code, output)."""
    done = run_python(*args, **env)
    return done.returncode, (done.stdout + done.stderr).decode("utf-8")


@cache
def selected():
    """Return word -> ids of the tests in tests/ that `-k word` selects; "" selects all."""
    code, text = python("-c", COLLECT, json.dumps(["", *WORDS]), SOLUTION, "tests")
    assert code == 0, text
    return json.loads(text.rpartition("\nFOUND ")[2].splitlines()[0])


@pytest.mark.parametrize("word", WORDS)
def test_a_word_selects_the_tests_of_its_file_and_no_other(word):
    """No test, class, parameter or marker elsewhere says the word: -k matches all of these."""
    here = [name for name in selected()[""] if name.startswith(f"tests/test_{word}_")]
    assert len(here) > 1 and selected()[word] == here


def test_every_test_belongs_to_a_word_or_is_the_training():
    rest = set(selected()[""]) - {name for word in WORDS for name in selected()[word]}
    assert {name.partition("::")[0] for name in rest} <= {"tests/test_training.py"}


def test_given_is_green_before_any_task_is_written():
    """What README.md says under "If you are stuck", on a file without a line of the student."""
    code, text = python("-m", "pytest", "-q", "-p", "no:cacheprovider", "-k", "given")
    assert code == 0 and re.search(r"\d+ passed", text), text
    assert not re.search(r"\d+ (failed|error|skipped)", text), text


# ============================================================== without the optional packages


def test_blocker_takes_away_what_requirements_do_not_bring():
    names = only_requirements.provided()
    assert {"torch", "numpy", "pytest", "nbformat"} <= names
    assert not names & {"hypothesis", "transformers", "copydetect", "monarch", "ruff"}


def test_blocker_looks_like_a_package_that_is_missing():
    lines = ("from importlib.util import find_spec",
             "from instructor.tests import only_requirements",
             "only_requirements.block({'numpy'})",
             "import json, numpy",
             "print(find_spec('torch'))",
             "import torch")
    code, text = python("-c", "\n".join(lines))
    assert code == 1 and "None" in text.splitlines(), text
    assert "ModuleNotFoundError: No module named 'torch'" in text


@pytest.mark.parametrize("folders", [["."], ["tests/", "instructor/", "beyond/"]])
def test_everything_is_collected_with_requirements_alone(folders):
    flags = ["-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider",
             "-p", "instructor.tests.only_requirements", SOLUTION]
    # Plugins that packages bring are imported before -p could take these packages away.
    code, text = python(*flags, *folders, **only_requirements.environment())
    assert code == 0 and not re.search(r"\berrors?\b", text.splitlines()[-1]), text
    rooms = {line.split("/")[0] for line in text.splitlines() if "::" in line}
    assert rooms == {"tests", "instructor", "beyond"}

