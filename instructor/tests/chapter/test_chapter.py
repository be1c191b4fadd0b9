"""The chapter says nothing that the code does not do: numbers, snippets, commands, links, words."""

import contextlib
import io
import json
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from unittest import mock

import pytest

import lab15_run
from instructor.tests.chapter import comments, facts, update, words
from instructor.tests.chapter.comments import CHAPTER, NOTES, PAGES, read
from tests.labfile import ROOT, TASKS

TEXT = read(CHAPTER)
SPEECH = comments.visible(comments.without_fences(TEXT))  # without code, comments, hints
SECTIONS = 15
DOCUMENTS = [CHAPTER, NOTES, *PAGES]
FIGURE = r"!\[([^\]]*)\]\(([^)\s]+)\)"


# ---------------------------------------------------------------- numbers


@pytest.mark.parametrize("name", DOCUMENTS)
def test_numbers_are_what_the_code_computes(name):
    names = facts.names()
    found = comments.scopes(comments.checked_part(name))
    wrong = [w for scope in found for w in comments.uncovered(scope)]
    wrong += [w for scope in found for w in comments.wrong_values(scope, names)]
    assert not wrong, f"{name}:\n" + "\n".join(wrong)


def changed(number):
    """Return a number with another last digit."""
    at = max(i for i, c in enumerate(number) if c.isdigit())
    return number[:at] + str((int(number[at]) + 1) % 10) + number[at + 1 :]


@pytest.mark.parametrize("name", DOCUMENTS)
def test_a_wrong_number_is_noticed_wherever_it_stands(name):
    missed = []
    for scope in comments.scopes(comments.checked_part(name)):
        for match in comments.numbers(scope.prose):
            other = changed(match[0])
            given = {check.shown for check in scope.checks if check.expression is None}
            if match[0] in given or other in given:
                continue  # the text chooses them freely
            prose = scope.prose[: match.start()] + other + scope.prose[match.end() :]
            if not comments.uncovered(scope._replace(prose=prose)):
                missed.append(f"near line {scope.line}: {match[0]} changed to {other}")
    assert not missed, "\n".join(missed)


def test_a_wrong_number_is_noticed_in_text_and_comment_alike():
    names = facts.names()
    for scope in comments.scopes(TEXT):
        for check in scope.checks:
            if check.expression is not None:
                wrong = check._replace(shown=changed(check.shown))
                assert comments.wrong_values(scope._replace(checks=(wrong,)), names), check


def test_the_reader_of_numbers_reads():
    prose = "At 0.25, -0.5 and (1.0 - 0.75); 1e-4, 5.0e-9, arXiv 2402.03300, v1.2.3, 45%, 1,000."
    assert [m[0] for m in comments.numbers(prose)] == [
        "0.25", "-0.5", "1.0", "0.75", "1e-4", "5.0e-9"]
    assert comments.shows(prose, "45%") and comments.shows(prose, "1,000")
    assert not comments.shows(prose, "5%") and not comments.shows(prose, "000")
    assert comments.is_equal("0.17", 0.1749) and not comments.is_equal("0.17", 0.1751)
    assert comments.is_equal("45%", 0.452) and not comments.is_equal("7", 7.01)


def test_new_measurements_find_their_way_into_the_text():
    names, text = facts.names(), TEXT

    def fig(name, key):
        value = facts.fig(name, key)
        return value + (3 if isinstance(value, int) else 0.0237)

    other = {**names, "fig": fig}
    changed_text, said = update.renewed(text, other)
    assert len(said) > 20 and changed_text != text
    found = comments.scopes(changed_text)
    assert not [w for scope in found for w in comments.uncovered(scope)]
    assert not [w for scope in found for w in comments.wrong_values(scope, other)]
    assert update.renewed(changed_text, names)[0] == text


# ---------------------------------------------------------------- code and commands


SNIPPETS = re.findall(r"^```python\n(.*?)^```\n\n^```text\n(.*?)^```", TEXT, re.M | re.S)


def test_every_snippet_says_what_it_prints():
    assert TEXT.count("```python") == len(SNIPPETS) >= 2


@pytest.mark.parametrize("code, printed", SNIPPETS)
def test_snippets_print_what_is_shown(code, printed):
    out = io.StringIO()
    with mock.patch.dict(sys.modules, lab15_grpo=facts.lab()):
        with contextlib.redirect_stdout(out):
            exec(compile(code, CHAPTER, "exec"), {"__name__": "snippet"})
    assert out.getvalue() == printed


def commands(text):
    """Return the commands that a document quotes, one line each."""
    quoted = re.findall(r"`((?:python|make) [^`]+)`", text) + re.findall(
        r"^(?: {4,})?((?:python|make) .+)$", text, re.M)
    return sorted({" ".join(command.split()) for command in quoted})


def check_module(module, flags):
    """Assert that a module exists, and that its source knows the flags, or that of its imports."""
    spec = find_spec(module)
    assert spec is not None, f"there is no module {module}"
    path = spec.origin
    if spec.submodule_search_locations:
        path = find_spec(f"{module}.__main__").origin
    source = Path(path).read_text(encoding="utf-8")
    above = module.rpartition(".")[0]
    for name in re.findall(rf"^from ({re.escape(above)}\.\w+) import", source, re.M):
        source += Path(find_spec(name).origin).read_text(encoding="utf-8")
    for flag in flags:
        if flag.startswith("--"):
            assert f'"{flag.split("=")[0]}"' in source, f"{module} has no {flag}"


@pytest.mark.parametrize("command", sorted({c for name in DOCUMENTS for c in commands(read(name))}))
def test_commands_exist(command):
    tool, *words = command.split()
    if tool == "make":
        assert re.search(rf"^{words[0]}:", read("Makefile"), re.M)
    elif words[0] == "lab15_grpo.py":
        lab15_run.parsed(vars(facts.lab().GRPOConfig()), words[1:])
    elif words[:2] == ["-m", "pytest"]:
        rest = [w for w in words[2:] if w not in ("-q", "-k", "--lab=FILE", "--hints", "--slow")]
        known = r"task[1-5N]|given|beyond/tests/bonus|bonus[12]"
        assert all(re.fullmatch(known, w) for w in rest)
    else:
        assert words[0] == "-m"
        check_module(words[1], words[2:])


def test_single_flags_exist():
    fields = {"--" + name.replace("_", "-") for name in vars(facts.lab().GRPOConfig())}
    own = {f.replace("--", "--no-") for f in fields} | fields | {"--out", "--lab=FILE", "--hints"}
    own |= {"--bonus=FILE"}  # of beyond/tests/bonus
    for name in DOCUMENTS:
        for flag in re.findall(r"`(--[\w-]+(?:=\w+)?)", read(name)):
            assert flag in own, flag


# ---------------------------------------------------------------- structure, links, figures


def test_sections_are_numbered_and_have_anchors():
    titles = re.findall(r'<a id="section-(\d+)"></a>\n## (\d+)\. (.+)', TEXT)
    assert [(int(a), int(b)) for a, b, _ in titles] == [(n, n) for n in range(1, SECTIONS + 1)]
    for n, task in TASKS.items():
        assert titles[task.section - 1][2] == f"Task {n}: `{task.name}`"


@pytest.mark.parametrize("name", DOCUMENTS)
def test_references_lead_to_sections(name):
    text = comments.visible(read(name))
    pattern = r"\bsections? (\d+)(?:(?: (?:and|to)|,) (\d+))?(?: and (\d+))?"
    numbers = re.findall(pattern, text, re.I)
    assert len(numbers) > 3 or name != CHAPTER
    for n in (int(n) for found in numbers for n in found if n):
        assert 1 <= n <= SECTIONS, f"there is no section {n}"


@pytest.mark.parametrize("n", TASKS)
def test_task_sections_are_laid_out_alike(n):
    start = TEXT.index(f"\n## {TASKS[n].section}. ")
    own = TEXT[start : TEXT.index("\n## ", start + 1)]
    parts = ["**You will be able to**", "Reading: ", "**Idea.**", "**In the code's names.**",
             "**By hand.**", f"In code: `lab15_grpo.py: {TASKS[n].name}`", "**Exercise:**",
             f"`python -m pytest -q -k task{n}`", "<summary>Hint 1</summary>",
             "**Typical mistakes.**", "| symptom | cause | check |", "**Try it.**",
             "`python lab15_grpo.py --", "**What it does in training.**", "**Further reading.**",
             "**Quiz.**", "**In short.**"]
    places = [own.find(part) for part in parts]
    assert -1 not in places, f"missing: {parts[places.index(-1)]}"
    assert places == sorted(places)
    training, reading, quiz, short = (own.index(part) for part in parts[-4:])
    assert own[training:reading].count("![") == 1  # what was measured comes last
    questions = re.findall(r"^(\d)\. .*?^<details><summary>Answer</summary>\n\n(.+?)</details>",
                           own[quiz:short], re.M | re.S)
    assert [number for number, _ in questions] == ["1", "2", "3"]
    assert all(answer.strip() for _, answer in questions)
    assert len(re.findall(r"^- ", own[short:], re.M)) == 3


def all_figures():
    """Return (alternative text, path from the top) of the figures of chapter and pages."""
    text = "\n".join(map(read, [CHAPTER, *PAGES]))
    return [(alt, target.removeprefix("../")) for alt, target in re.findall(FIGURE, text)]


CURVES = r"accuracy|ends at|curve|stalls|in training|in the log|KL |clip_frac is"
SYMPTOMS = r"^\| (?:symptom|what you see) \|.*\n\|[-|]+\n((?:\|.*\n)+)"


def test_what_a_mistake_does_to_the_curves_was_measured():
    """Each symptom that speaks of a curve shows a number, and a run stands behind it."""
    seen = 0
    for scope in comments.scopes(TEXT):
        measured = {c.shown for c in scope.checks
                    if c.expression and re.search(r"\b(trial|bug|run|run_at|fig)\(", c.expression)}
        for table in re.findall(SYMPTOMS, scope.prose, re.M):
            for row in table.splitlines():
                symptom = row.split("|")[1]
                if re.search(CURVES, symptom) and "where it started" not in symptom:
                    seen += 1
                    assert measured & {m[0] for m in comments.numbers(symptom)}, row
    assert seen > 8


def own_figures():
    """Return (alternative text, path); those of beyond.compare have results of their own kind."""
    return [f for f in all_figures() if "/compare_" not in f[1]]


def test_figures_have_a_file_an_alternative_text_and_results():
    for text, target in all_figures():
        assert len(text.split()) >= 5 and (ROOT / target).stat().st_size > 0
    assert len(own_figures()) >= 8
    for text, target in own_figures():
        results = json.loads((ROOT / target).with_suffix(".json").read_text(encoding="utf-8"))
        assert " ".join(text.split()) == results.get("alt", "".join(text)), target


def test_the_glossary_is_sorted_and_explains_words_of_the_chapter():
    text, glossary = TEXT.split("## 15. Glossary")
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", glossary, re.M)[1:]
    names = [name.replace("`", "") for name, _ in rows]
    assert len(names) > 30 and names == sorted(names, key=str.lower)
    spoken = text.lower()
    for name in names:
        for word in name.split(", "):
            assert re.search(rf"\b{re.escape(word.lower().removesuffix('y'))}", spoken), word
    defined = {"policy", "rollout", "advantage", "surrogate", "batch", "baseline", "critic"}
    assert not [word for word in defined if word not in " ".join(names)]


def test_nothing_is_left_to_be_filled_in():
    assert not re.findall(r"<!-- figure:.*?-->|\bGALLERY\b|\bDETECTIVE\b|\bHINTS\d|\?\?", TEXT)


def test_the_solution_is_not_in_the_chapter():
    solution = read("solutions/lab15_grpo.py").split("# ===")
    packed = "".join(TEXT.split())
    stub = "".join(read("lab15_grpo.py").split())
    lines = ["".join(line.split()) for part in solution[1:6] for line in part.split("\n")[1:]]
    lines = [line.split("#")[0] for line in lines]
    assert not [x for x in lines if len(x) > 12 and x not in stub and x in packed]


# ---------------------------------------------------------------- words and form


def test_length_and_density():
    rows = words.counted(TEXT)
    path = sum(row.words for row in rows if row.number in words.PATH)
    assert 4500 <= path <= words.MOST_WORDS, path
    assert sum(row.decimals for row in rows) <= words.MOST_DECIMALS


def test_words_and_decimals_are_counted():
    text = ("## 3. A title\n\nTwo words, 1.5 and 20% (2402.03300).\n\n| a | 2.5 |\n|---|---|\n"
            "\n    code = 3.5\n\n<!-- check: 4.5 = 1 -->\n\n**Quiz.**\n\n1. 5.5\n\n"
            "**In short.**\n\n- end\n")
    row = words.counted(text)[1]
    assert (row.number, row.title, row.decimals) == (3, "A title", 2)
    assert row.words == len("3. A title Two words, 1.5 and 20% In short. end".split())


def test_lines_are_short():
    long = [f"line {i}: {len(line)}" for i, line in enumerate(TEXT.split("\n"), 1)
            if len(line) > 90 and not line.startswith("|")]
    assert not long, long


def test_papers_are_well_formed():
    papers = re.findall(comments.ARXIV, TEXT)
    for name in DOCUMENTS:  # each number leads to its paper
        links = re.findall(r"\]\(https://arxiv\.org/abs/([^)]+)\)", read(name))
        assert set(links) == set(re.findall(comments.ARXIV, read(name))), name
    assert len(set(papers)) > 15
    for paper in papers:
        assert 7 <= int(paper[:2]) <= 26 and 1 <= int(paper[2:4]) <= 12
    assert not re.search(r"\b\d{4}\.\d{4}\b|\b\d{4}\.\d{6,}\b", SPEECH)
    reading = TEXT[TEXT.index("## 14. ") :]
    assert set(papers) == set(re.findall(r"\b\d{4}\.\d{5}\b", reading))


def test_formulas_survive_github():
    math = re.findall(r"\$\$(.+?)\$\$", TEXT, re.S) + re.findall(r"(?<!\$)\$([^$]+)\$(?!\$)", TEXT)
    assert len(math) > 15
    for formula in math:  # Markdown eats a backslash before a sign, and pairs up * and _
        assert not re.search(r"\\[^A-Za-z]|[^A-Za-z0-9]_|[*<>]", formula), formula


def test_spelling():
    beside = str(Path(sys.executable).parent)  # where pip puts it, in an environment or not
    program = shutil.which("codespell", path=beside) or shutil.which("codespell")
    if program is None:
        pytest.skip("codespell: pip install -r instructor/requirements.txt")
    done = subprocess.run([program, *DOCUMENTS, "README.md"], cwd=ROOT, capture_output=True,
                          encoding="utf-8", errors="replace")
    assert done.returncode == 0, done.stdout
