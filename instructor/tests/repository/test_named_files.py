"""A file that a document, a docstring or a comment names by its path is there."""

import re

import pytest

from instructor.tests.repo_files import TOP, files, text

ROOMS = "beyond|instructor|notebooks|solutions|tests"
ENDINGS = "py|md|toml|txt|json|jsonl|png|svg|ipynb"
PATH = re.compile(rf"(?<![\w./*-])(?:{ROOMS})/[\w./-]*\w\.(?:{ENDINGS})\b")
# Placeholders, and what is made later, are named on purpose.
MADE_UP = re.compile(r"[A-Z]{2,}|[a-z]N\.")
LOOKED_AT = [n for n in files() if n.endswith((".py", ".md", ".toml", ".yml", ".sh"))
             and "/tests/" not in n and not n.startswith("instructor/variants/wheats")]


@pytest.mark.parametrize("name", LOOKED_AT)
def test_named_files_exist(name):
    gone = {path for path in PATH.findall(text(name))
            if not MADE_UP.search(path) and not (TOP / path).exists()}
    assert not gone, f"{name} names {sorted(gone)}"


def test_the_pattern_finds_paths():
    words = "see beyond/tests/golden_map.py, `tests/stubs.txt` and notebooks/figures/NAME.py."
    assert PATH.findall(words) == [
        "beyond/tests/golden_map.py", "tests/stubs.txt", "notebooks/figures/NAME.py"]
    assert not PATH.findall("https://example.org/tests/a.py and runs/tests/a.py")
