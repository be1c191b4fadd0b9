"""The hints are short, give nothing away, stand in the chapter, and are offered in time."""

import re

import pytest

from instructor.tests.lab_texts import RIGHT, WRONG_SIGN, section
from instructor.tests.processes import run
from tests.labfile import ROOT, TASKS, read_source
from tests.messages import hints

CHAPTER = read_source(ROOT / "chapter.md")[0].replace("\r\n", "\n")


@pytest.mark.parametrize("n", TASKS)
def test_hints_are_short_and_are_not_the_solution(n):
    assert len(hints.HINTS[n]) == 3
    code = section(RIGHT, n).split('"""')[-1]
    parts = [re.split(r"\s+#", line)[0] for line in code.split("\n")]
    parts += [part for line in parts for part in re.split(r" = |return ", line)]
    parts = {"".join(part.split()) for part in parts}
    for text in hints.HINTS[n]:
        assert text.isascii() and len(text.split()) <= 60
        packed = "".join(text.split())
        assert not [part for part in parts if len(part) > 12 and part in packed]


@pytest.mark.parametrize("n", TASKS)
def test_chapter_carries_exactly_these_hints(n):
    start = CHAPTER.index(f"\n## {TASKS[n].section}. ")
    own = CHAPTER[start : CHAPTER.index("\n## ", start + 1)]
    assert own.count("<summary>Hint ") == 3 and hints.fold_outs(n) in own
    assert CHAPTER.count("<summary>Hint ") == 3 * len(TASKS)


def pytest_run(tmp_path, *options, text=None):
    """Run the tests of task 3 on a text; return what is printed."""
    if text is not None:
        (tmp_path / "lab.py").write_text(text, "utf-8")
    options = ["-q", "-k", "task3", f"--lab={tmp_path / 'lab.py'}", *options]
    options += ["-o", f"cache_dir={tmp_path / 'cache'}", str(ROOT / "tests")]
    return run(ROOT, *options)[1]


def test_hints_are_offered_after_the_second_failure_in_a_row(tmp_path):
    offer = hints.offer(3)
    assert offer not in pytest_run(tmp_path, text=WRONG_SIGN)
    assert pytest_run(tmp_path, text=WRONG_SIGN).count(offer) == 1
    assert "hint" not in pytest_run(tmp_path, text=RIGHT).lower()
    assert offer not in pytest_run(tmp_path, text=WRONG_SIGN)
    assert offer in pytest_run(tmp_path)
    file = next((tmp_path / "cache").rglob("failures"))
    for content in ("[1]", "no json", '{"%s": {"3": "x"}}' % (tmp_path / "lab.py")):
        file.write_text(content, "utf-8")
        assert offer not in pytest_run(tmp_path)


def test_option_prints_as_many_as_asked_for(tmp_path):
    for level in (1, 2, 3):
        option = "--hints" if level == 1 else f"--hints={level}"
        text = pytest_run(tmp_path, option, text=RIGHT)
        assert text.count("task3, hint ") == level
        assert (f"--hints={level + 1}" in text) == (level < 3)
    text = run(ROOT, "-q", "-p", "no:cacheprovider", str(ROOT / "tests"),
               f"--lab={ROOT / 'tests' / 'stubs.txt'}", "--hints")[1]
    assert text.count(", hint 1 of 3") == 1 and "task1, hint 1" in text
    assert "say --hints=1 to --hints=3" in pytest_run(tmp_path, "--hints", str(ROOT / "tests"))
