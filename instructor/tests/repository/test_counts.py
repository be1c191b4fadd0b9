"""Messages that count: one of a thing is no plural."""

import ast
import re

import pytest

from instructor.tests.repo_files import python_files, tree
from lab15_run import counted


@pytest.mark.parametrize("n, noun, words", [
    (0, "student", "0 students"),
    (1, "student", "1 student"),
    (2, "optimizer step", "2 optimizer steps"),
    (2000, "student", "2000 students"),
    (1.0, "point", "1 point"),
    (0.5, "extra day", "0.5 extra days"),
    (100.0, "point", "100 points"),
])
def test_a_number_with_its_noun(n, noun, words):
    assert counted(n, noun) == words


# Lengths that are never 1, or that are bounds.
NEVER_ONE = {
    "beyond/hf/backend.py",  # tokens of a prompt that is empty or too long
    "beyond/losses/pieces.py",  # rows that are not whole groups
    "instructor/records/feedback.py",  # hidden tests of a task
    "notebooks/explore/build.py",  # what the page's files hold
    "notebooks/explore/mine.py",  # comparisons of all five functions
    "notebooks/explore/weights.py",  # what the page's files hold
    "notebooks/figures/teacher.py",  # seeds of a figure of the chapter
    "notebooks/show.py",  # steps of a schedule
    "instructor/course/lab15_nbgrader/collect.py",  # files of one name: at least two
    "instructor/course/lab15_nbgrader/repair.py",  # more cells than are kept
    "instructor/course/lab15_nbgrader/show.py",  # more characters than are formatted
    "instructor/gradescope/run.py",  # results that are not one
    "instructor/submissions/choice.py",  # files that could be the lab file: at least two
    "beyond/tasks/data.py",  # the word problems that come with the lab
}


def plurals(name):
    """Return what follows len(...) in a file's f-strings and is a plural; not after "of"."""
    found = []
    for text in ast.walk(tree(name)):
        if not isinstance(text, ast.JoinedStr):
            continue
        before = ""
        for part, after in zip(text.values, [*text.values[1:], None]):
            if isinstance(part, ast.FormattedValue) and isinstance(after, ast.Constant):
                words = re.match(r" (?:[a-z]+ )?[a-z]{2,}s\b", after.value)
                counts = ast.unparse(part.value).startswith("len(")
                if words and counts and not before.endswith((" of ", " of the ")):
                    found.append(f"line {part.lineno}: {ast.unparse(part.value)}{words[0]}")
            before = part.value if isinstance(part, ast.Constant) else ""
    return found


def test_what_is_counted_may_be_one():
    names = [n for n in python_files() if n.startswith(("instructor/", "beyond/", "notebooks/",
                                                        "lab15_run.py"))]
    names = [n for n in names if "/tests/" not in n and "/variants/" not in n]
    wrong = {n: found for n in names if n not in NEVER_ONE and (found := plurals(n))}
    assert not wrong, f"use lab15_run.counted: {wrong}"
    assert all(plurals(n) for n in NEVER_ONE), "a file with no such message: take it out"
