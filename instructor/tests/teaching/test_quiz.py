"""The quiz bank: its form, and the pages that are printed from it."""

import argparse
import re
from collections import Counter

import pytest

from instructor.builders import quiz
from tests.labfile import TASKS

BANK = quiz.questions(quiz.BANK.read_text(encoding="utf-8"))


def flags(*words):
    """Return the flags of the builder."""
    parser = argparse.ArgumentParser()
    quiz.add_arguments(parser)
    return parser.parse_args(words)


def test_questions_are_numbered():
    assert [q.number for q in BANK] == list(range(1, len(BANK) + 1))
    assert len(BANK) >= 25


@pytest.mark.parametrize("question", BANK, ids=lambda q: str(q.number))
def test_every_wrong_option_has_its_word(question):
    assert list(question.options) == ["A", "B", "C", "D"]
    assert len(set(question.options.values())) == 4 and question.right in question.options
    explained = set(re.findall(r"(?<!\*)\*([A-D])\*(?!\*)", question.answer))
    assert explained == set(question.options) - {question.right}


@pytest.mark.parametrize("question", BANK, ids=lambda q: str(q.number))
def test_a_question_belongs_to_a_section_and_its_task(question):
    place = re.fullmatch(r"Sections? (\d+)(?: and (\d+))?(?:, Task (\d))?", question.place)
    assert place, question.place
    if place[3]:
        assert TASKS[int(place[3])].section == int(place[1])


def test_every_task_is_asked_about():
    tasks = Counter(re.findall(r"Task (\d)", " ".join(q.place for q in BANK)))
    assert all(tasks[str(n)] >= 3 for n in TASKS)


def test_no_letter_is_a_good_guess():
    right = Counter(q.right for q in BANK)
    assert max(right.values()) <= 0.35 * len(BANK), right


def test_the_page_for_students_has_no_answer(tmp_path, capsys):
    out = tmp_path / "quiz.html"
    assert quiz.run(flags("--out", str(out))) == 0
    assert "28 questions without answers" in capsys.readouterr().out
    page = " ".join(re.sub(r"<[^>]+>", "", out.read_text(encoding="utf-8")).split())
    for question in BANK:
        first = re.sub(r"[`*]", "", question.answer.partition("\n")[0])
        assert first[:40] not in page, question.number
        for option in question.options.values():
            assert re.sub(r"[`*]", "", option).replace('"', "&quot;") in page.replace("&#x27;", "'")


def test_the_page_with_answers_has_them_all(tmp_path):
    out = tmp_path / "key.html"
    assert quiz.run(flags("--out", str(out), "--answers")) == 0
    page = out.read_text(encoding="utf-8")
    assert page.count('<div class="answer">') == len(BANK)
    assert "<!-- check" not in page and "check:" not in page


def test_some_questions_in_their_own_order():
    assert [q.number for q in quiz.chosen(BANK, "16, 2")] == [16, 2]
    with pytest.raises(ValueError, match="there is no question 99; numbers go from 1 to 28"):
        quiz.chosen(BANK, "2,99")
    with pytest.raises(ValueError, match="no question .empty"):
        quiz.chosen(BANK, "2,")


def test_a_question_of_another_form_is_named():
    text = "# Bank\n\n## 1. No options\n*Section 1*\n\nWhat?\n\n> **A.** That.\n"
    with pytest.raises(ValueError, match="1. No options"):
        quiz.questions(text)
