"""The teacher's pages say nothing that the lab does not do: numbers, commands, files, messages."""

import importlib
import importlib.util
import re
import shlex
from argparse import ArgumentParser

import pytest

import lab15_run
from instructor import build
from instructor.builders.quiz import questions
from instructor.tests.chapter import comments, facts
from instructor.tests.repo_files import TOP, files, text

FOLDER = "instructor/teaching/"
PAGES = sorted(n for n in files() if n.startswith(FOLDER) and n.endswith(".md"))
SECTIONS = {int(n) for n in re.findall(r'<a id="section-(\d+)">', text("chapter.md"))}
CODE = re.compile(r"`([^`]+)`")


def page(name):
    """Return the text of a page of this folder."""
    return text(FOLDER + name)


def prose(name):
    """Return a page as one line, without comments, quotation marks of Markdown and code blocks."""
    plain = re.sub(r"<!--.*?-->|^```.*?^```", " ", text(name), flags=re.M | re.S)
    return " ".join(re.sub(r"^ *> ?", "", plain, flags=re.M).split())


def quoted(name):
    """Return what stands in backticks on a page, each as one line."""
    return [" ".join(code.split()) for code in CODE.findall(prose(name))]


def test_the_first_page_names_all_others():
    names = {name.removeprefix(FOLDER) for name in PAGES} - {"README.md"}
    assert len(names) == 7
    assert set(re.findall(r"^\| \[([\w.-]+\.md)\]", page("README.md"), re.M)) == names


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", PAGES)
def test_numbers_are_what_the_code_computes(name):
    names, found = facts.names(), comments.scopes(text(name))
    wrong = [w for scope in found for w in comments.uncovered(scope)]
    wrong += [w for scope in found for w in comments.wrong_values(scope, names)]
    assert not wrong, f"{name}:\n" + "\n".join(wrong)


def test_what_is_counted_is_there():
    words = prose(FOLDER + "README.md")
    beliefs = re.findall(r"^### (\d+)\. ", page("misconceptions.md"), re.M)
    bank = questions(page("quiz.md"))
    assert [int(n) for n in beliefs] == list(range(1, len(beliefs) + 1))
    assert f"{len(bank)} questions" in words and f"{len(beliefs)} beliefs" in words
    named = dict(zip((18, 28), ("Eighteen beliefs", "Twenty-eight questions")))
    assert named[len(beliefs)] in page("misconceptions.md")
    assert named[len(bank)] in page("quiz.md")


# ---------------------------------------------------------------- what is named exists


def commands(name):
    """Return the commands on a page."""
    return [code for code in quoted(name) if re.match(r"(python3?|make|source) ", code)]


def check_pytest(words):
    known = {"-q", "--hints", "--hints=2", "--hints=3", "--lab=FILE"}
    rest = [word for word in words if word not in known]
    assert rest == [] or rest[0] == "-k" and re.fullmatch(r"task[1-5]|given", rest[1]), words


def check_builder(words):
    builder = importlib.import_module(f"instructor.builders.{words[0]}")
    assert words[0] in build.NAMES
    parser = ArgumentParser()
    builder.add_arguments(parser)
    parser.parse_args(words[1:])


def check_run(words):
    defaults = dict(vars(facts.lab().GRPOConfig()))
    lab15_run.parsed(defaults, words)


def check_module(module, words):
    spec = importlib.util.find_spec(module)
    assert spec is not None, f"there is no module {module}"
    path = spec.origin
    if spec.submodule_search_locations:
        path = importlib.util.find_spec(f"{module}.__main__").origin
    with open(path, encoding="utf-8") as file:
        source = file.read()
    for flag in words:
        assert not flag.startswith("--") or f'"{flag.partition("=")[0]}"' in source, flag


@pytest.mark.parametrize("command", sorted({c for name in PAGES for c in commands(name)}))
def test_commands_exist(command):
    tool, *words = shlex.split(command)
    if tool == "make":
        assert re.search(rf"^{words[0]}:", text("Makefile"), re.M)
    elif tool == "source":
        assert words == [".venv/bin/activate"]
    elif words[0] == "lab15_grpo.py" or words[:2] == ["-m", "solutions.lab15_grpo"]:
        check_run(words[1:] if words[0] != "-m" else words[2:])
    else:
        assert words[0] == "-m"
        known = {"pytest": check_pytest, "instructor.build": check_builder}
        check = known.get(words[1], lambda rest: check_module(words[1], rest))
        check(words[2:])


@pytest.mark.parametrize("name", PAGES)
def test_files_in_backticks_exist(name):
    made = re.compile(r"(runs/.*)?(curves\.png|\.venv.*|(slides|quiz|explore|report)\.html)")
    ending = r"[\w./-]+\.(?:py|md|toml|json|png|svg|html)|(?:\w+/)+"
    named = [code for code in quoted(name) if re.fullmatch(ending, code)]
    gone = [n for n in named if not made.fullmatch(n)
            and not (TOP / n).exists() and not (TOP / FOLDER / n).exists()]
    assert not gone


def test_the_session_in_python_works(monkeypatch):
    monkeypatch.chdir(TOP)  # as the page says; the SFT model lies there
    blocks = re.findall(r"^```python\n(.*?)^```", page("lesson-90.md"), re.M | re.S)
    assert len(blocks) == 1
    for name in re.findall(r"tinylm\.(\w+)", blocks[0]):
        assert hasattr(importlib.import_module("tinylm"), name)
    exec(compile(blocks[0], "lesson-90.md", "exec"), {"__name__": "lesson"})


@pytest.mark.parametrize("name", PAGES)
def test_sections_exist(name):
    pattern = r"\b[Ss]ections? (\d+)(?:(?: (?:and|to)|,) (\d+))?(?: and (\d+))?"
    found = re.findall(pattern, prose(name))
    assert not {int(n) for numbers in found for n in numbers if n} - SECTIONS


def test_questions_that_are_referred_to_exist():
    last = len(questions(page("quiz.md")))
    for name in PAGES:
        for numbers in re.findall(r"\b[Qq]uiz (\d+(?:(?:,| and) \d+)*)", prose(name)):
            assert all(1 <= int(n) <= last for n in re.findall(r"\d+", numbers)), name


# ---------------------------------------------------------------- misconceptions


def beliefs():
    """Return title -> text of the misconceptions."""
    parts = re.split(r"^### ", page("misconceptions.md"), flags=re.M)[1:]
    return {part.partition("\n")[0]: part for part in parts}


@pytest.mark.parametrize("title", beliefs())
def test_a_figure_or_a_message_corrects_a_belief(title):
    part = beliefs()[title]
    for label in ("Tempting because", "In fact:", "Shown by:", "Ask:"):
        assert part.count(f"- **{label}**") == 1, label
    answer = part[part.index("- **Shown by:**") : part.index("- **Ask:**")]
    figures = re.findall(r"\[\w+\]\(../../(notebooks/figures/[\w.]+)\)", answer)
    assert all((TOP / figure).is_file() for figure in figures)
    assert figures or re.search(r"`task\d\.\w+`", answer)


def test_messages_are_quoted_as_they_are_printed():
    words = prose(FOLDER + "misconceptions.md")
    assert len(re.findall(r"`task\d\.\w+`", words)) >= 12
    for task, mistake, quotation in re.findall(r'`task(\d)\.(\w+)`(?:: "([^"]+)")?', words):
        texts = importlib.import_module(f"tests.mistakes.task{task}").TEXTS
        assert mistake in texts, f"task{task}.{mistake}"
        assert quotation in " ".join(texts[mistake].split()), f"task{task}.{mistake}"


# ---------------------------------------------------------------- lesson plans


def spans(table):
    """Return (first, last) minute of the rows of a table."""
    return [(int(a), int(b)) for a, b in re.findall(r"^\| (\d+) to (\d+) \|", table, re.M)]


def follow_each_other(found, first, last):
    """Return whether spans cover the time from first to last without a gap."""
    return (found[0][0] == first and found[-1][1] == last
            and all(a < b for a, b in found)
            and all(x[1] == y[0] for x, y in zip(found, found[1:])))


def test_the_lesson_fills_its_90_minutes_and_each_block_is_told():
    plan = page("lesson-90.md")
    found = spans(plan)
    assert len(found) >= 8 and follow_each_other(found, 0, 90)
    assert [(int(a), int(b)) for a, b in re.findall(r"^## (\d+) to (\d+): ", plan, re.M)] == found


def test_every_session_fills_its_90_minutes():
    sessions = re.split(r"^## ", page("two-weeks.md"), flags=re.M)
    sessions = {s[:9]: s for s in sessions if s.startswith("Session ")}
    assert len(sessions) == 4
    for name, session in sessions.items():
        found = spans(session) or [(int(a), int(b)) for a, b in re.findall(
            r"^- \*\*(\d+) to (\d+):", session, re.M)]
        start = 57 if name == "Session 1" else 0  # until then it is the 90-minute lesson
        assert follow_each_other(found, start, 90), name
    assert (42, 57) in spans(page("lesson-90.md"))


def test_reading_times_fit_the_chapter():
    chapter = re.split(r"^(?=## \d+\. )", text("chapter.md"), flags=re.M)
    other = r"!\[[^\]]*\]\([^)]*\)|<details>.*?</details>|<!--.*?-->|^\|.*?$|^```.*?^```"
    rows = re.findall(r"^\| (\d+) \| (\d+) \|", page("two-weeks.md"), re.M)
    assert [int(section) for section, _ in rows][:8] == list(range(1, 9))
    for section, minutes in rows:
        own = next(part for part in chapter if part.startswith(f"## {section}. "))
        if said := re.search(r"\bReading:\s+(\d+)\s+minutes", own):
            assert said[1] == minutes, f"section {section}"
        plain = re.sub(other, " ", own, flags=re.M | re.S)
        words = len([word for word in plain.split() if re.search(r"\w", word)])
        fits = words / 220 <= int(minutes) <= max(5, words / 40)
        assert fits, f"section {section}: {words} words in {minutes} minutes"


def test_points_add_up():
    from tests.labfile import TASKS

    words = prose(FOLDER + "two-weeks.md")
    assert f"tasks {sum(task.points for task in TASKS.values())}" in words
    assert "two exercises 8" in words and "detective 6" in words
    assert len(re.findall(r"^\| \*\*\w+\*\*", page("rubric.md"), re.M)) == 4  # a point each
    assert "six in all" in prose(FOLDER + "rubric.md")


def test_the_rubric_has_every_open_exercise():
    asked = re.findall(r"^(\d+)\. \((?:Run|Code)", text("chapter.md"), re.M)
    assert re.findall(r"^\| (\d+), ", page("rubric.md"), re.M) == asked


def test_the_detective_is_not_given_away():
    from notebooks.detective import BUGS

    for name in PAGES:
        assert not re.search(rf"\b[1-6] ?= ?[{''.join(BUGS)}]\b", text(name)), name
