"""One mistake, one screen: what is shown of failing tests, however many there are."""

import re
import xml.etree.ElementTree as ET

import pytest

from instructor.grading import practice
from instructor.tests.lab_texts import RIGHT, STUB, edit, section
from instructor.variants.catalog import chaffs
from tests import conftest
from tests.labfile import ROOT, TASKS, load_lab
from tests.messages import screen
from tests.messages.describe import failure
from tests.messages.screen import GENERAL, NAMED, RAISED, UNKNOWN, Failure
from tests.notebook import report
from tests.runner.judge import Verdict, _tests_of, judge, run_pytest, told

LINES, COLUMNS = 24, 80
CHAFFS = {variant.id: variant for variant in chaffs()}
# Of every task: a mistake that is named everywhere, one that is named in a part of the tests, one
# that raises an exception, one that the tests cannot name.
CHOSEN = [
    "task1_s02_answers_tiled", "task1_no_return", "task1_key_missing",
    "task2_a01_sample_std", "task2_a20_keepdim_mean", "task2_a39_softmax",
    "task3_k02_k1", "task3_k23_long", "task4_l04_max", "task4_l18_broadcast",
    "task5_loss_item", "task5_g08_one_inner_step",
]


@pytest.fixture
def pytest_on(tmp_path, monkeypatch):
    """Return a function that runs the tests on a text and returns (exit code, screen).

    The text is taken for the student's own file, the one that needs no --lab.
    """
    monkeypatch.setenv("COLUMNS", str(COLUMNS))
    monkeypatch.setenv("LC_ALL", "C")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(conftest, "DEFAULT_LAB", tmp_path / "lab15_grpo.py")

    def run(text, *options, tasks=tuple(TASKS)):
        (tmp_path / "lab15_grpo.py").write_text(text, "utf-8")
        where = [] if any("::" in option for option in options) else map(_tests_of, tasks)
        code, shown = run_pytest(["-q", *options, *where], [])
        assert shown.isascii() and "\x1b" not in shown
        return code, shown

    return run


def counted(shown):
    """Return the number of failing tests that the screen counts."""
    one = len(re.findall(r"^_+ test_\w+.* _+$", shown, re.M))
    same = [int(n) for n in re.findall(r"^and (\d+) more tests?[,:]", shown, re.M)]
    flat = " ".join(shown.split())
    other = [1 + int(n or 0) for n in
             re.findall(r"for another reason: test_\S+(?: and (\d+) more test)?", flat)]
    vague = [int(n) for n in re.findall(r"^(\d+) more tests? of task", shown, re.M)]
    rest = [int(n) for n in re.findall(r"more reasons \((\d+) tests?\)", shown)]
    return one + sum(same + other + vague + rest)


def failed(shown):
    """Return the number of failing tests in pytest's own last line."""
    return int(re.search(r"^(\d+) failed", shown, re.M)[1])


@pytest.mark.parametrize("name", CHOSEN)
def test_one_mistake_fits_one_screen_and_every_test_is_counted(pytest_on, name):
    variant = CHAFFS[name]
    code, shown = pytest_on(variant.text, tasks=[variant.task])
    lines = shown.rstrip("\n").split("\n")
    assert code == 1 and len(lines) <= LINES and max(map(len, lines)) <= COLUMNS, shown
    assert counted(shown) == failed(shown), shown
    assert shown.count("\nlikely ") <= 1 and "Traceback" not in shown
    start = next(i for i, line in enumerate(lines) if line.startswith("task1 "))
    assert [line[:5] for line in lines[start : start + 5]] == [f"task{n}" for n in TASKS]
    read = f"Read chapter.md section {TASKS[variant.task].section}, then run:"
    assert lines[start + 6] == f"{read}  python -m pytest -q -k task{variant.task}"
    hidden = failed(shown) - 1
    assert not hidden or f"{hidden} more message" in lines[-2] and " -v " in lines[-2]


def both(*names):
    """Return the solution with several mistakes in it."""
    text = RIGHT
    for name in names:
        task = CHAFFS[name].task
        old, new = section(text, task), section(CHAFFS[name].text, task)
        if old != section(RIGHT, task):  # two in one task: the lines that differ are replaced
            was, now = section(RIGHT, task).split("\n"), new.split("\n")
            changed = [(a, b) for a, b in zip(was, now, strict=True) if a != b]
            new = old
            for a, b in changed:
                new = edit(new, (a, b))
        text = text.replace(old, new)
    return text


@pytest.mark.parametrize("names", [
    ("task2_a01_sample_std", "task3_k02_k1"),
    ("task3_k02_k1", "task5_g08_one_inner_step"),
    ("task4_l04_max", "task4_t08_clipped"),
    ("task1_reward_inverted", "task2_a03_mean_batch", "task3_k02_k1", "task4_l04_max"),
])
def test_several_mistakes_are_all_named(pytest_on, names):
    from tests.messages.explain import likely

    code, shown = pytest_on(both(*names), tasks=sorted({CHAFFS[name].task for name in names}))
    flat = " ".join(shown.split())
    for name in names:
        assert likely(CHAFFS[name].mistake)[:60] in flat, shown
    assert code == 1 and counted(shown) == failed(shown), shown
    assert shown.count("\nlikely ") == 1 and max(map(len, shown.split("\n"))) <= COLUMNS
    which = "" if len({CHAFFS[name].task for name in names}) > 1 else " -k task4"
    assert f"\n{failed(shown) - 1} more messages:  python -m pytest -v{which}\n" in shown


# ============================================================== ways to run


WRONG = CHAFFS["task3_k02_k1"].text


def test_v_shows_every_message_as_pytest_does(pytest_on):
    for options in (["-v"], ["-qvv"], ["--tb=long"]):
        _, shown = pytest_on(WRONG, *options, tasks=[3])
        count = shown.count("\nexpected ")
        assert count == shown.count("\nlikely ") + shown.count("(as above)") == 6
        assert "and 5 more" not in shown and "more messages" not in shown
    assert "\nexpected " not in pytest_on(WRONG, "--tb=no", tasks=[3])[1]
    assert "\nexpected " not in pytest_on(WRONG, "--no-summary", tasks=[3])[1]


def test_the_short_summary_still_lists_every_failure(pytest_on):
    _, shown = pytest_on(WRONG, "-rf", tasks=[3])
    assert shown.count("\nFAILED ") == 6 == counted(shown)
    assert shown.index("FAILED ") < shown.index("\ntask1 ")  # what is new stays at the end


def test_x_stops_at_one_and_counts_so(pytest_on):
    _, shown = pytest_on(WRONG, "-x", tasks=[3])
    assert counted(shown) == failed(shown) == 1 and "1 of 1 tests fail; 1 of 7 tests ran" in shown
    assert "more message" not in shown


def test_one_test_is_not_taken_for_the_whole_task(pytest_on):
    names = re.findall(r"^def (test_\w+)", (ROOT / "tests" / "test_task3_k3_kl.py").read_text(
        "utf-8"), re.M)
    node = f"{_tests_of(3)}::{names[0]}"
    _, shown = pytest_on(RIGHT, node)
    assert "passed (1 of 1; 1 of 7 tests ran)" in shown
    _, shown = pytest_on(WRONG, node)
    assert "1 of 1 tests fail; 1 of 7 tests ran" in shown and counted(shown) == 1
    _, shown = pytest_on(RIGHT, "-k", names[0], tasks=[3])
    assert "passed (1 of 1; 1 of 7 tests ran)" in shown


def test_hints_stand_before_what_to_run(pytest_on):
    _, shown = pytest_on(WRONG, "--hints=1", tasks=[3])
    assert shown.index("\ntask3 k3_kl") < shown.index("task3, hint 1") < shown.index("\nRead ch")


def test_what_is_not_written_keeps_its_line(pytest_on):
    code, shown = pytest_on(edit(STUB, (section(STUB, 3), section(WRONG, 3))))
    assert shown.count("not written yet: Task") == 4 and "\nlikely " in shown
    assert "Read chapter.md section 2" in shown  # Task 1 comes first


def test_prints_are_shown_and_counted(pytest_on):
    text = edit(WRONG, ("    d = ref_logp - logp\n",
                        "    for i in range(30): print(i, '\\x1b[31m')\n    d = ref_logp - logp\n"))
    _, shown = pytest_on(text, tasks=[3])
    assert "your code printed (the last 8 of " in shown and "    29 \\x1b[31m\n" in shown
    assert "\n    21 " not in shown


def test_editors_and_servers_get_every_message(pytest_on, tmp_path):
    pytest_on(WRONG, f"--junitxml={tmp_path / 'out.xml'}", tasks=[3])
    found = ET.parse(tmp_path / "out.xml").getroot().findall(".//failure")
    assert len(found) == 6 and all("expected  " in item.text for item in found)
    assert not [item for item in found if "(as above)" in item.text]


# ============================================================== the same everywhere


@pytest.mark.parametrize("name", ["task3_k02_k1", "task1_s02_answers_tiled"])
def test_check_and_watch_show_what_pytest_shows(pytest_on, tmp_path, name):
    from tests.watch import Board

    task = CHAFFS[name].task
    _, shown = pytest_on(CHAFFS[name].text, tasks=[task])
    start = re.search(r"^____", shown, re.M).start()
    block = shown[start : shown.index("\n\ntask1 ")]
    path = tmp_path / "lab15_grpo.py"
    assert block in repr(report(task, path))
    board = Board(str(path))
    board.start(task)
    judge(path, [task], lambda v: board.add(Verdict(*v)))
    assert block in board.text(0, "")


def test_a_watch_names_other_tasks_after_the_one_at_hand(tmp_path):
    path = tmp_path / "lab15_grpo.py"
    path.write_text(both("task2_a01_sample_std", "task3_k02_k1"), "utf-8")
    verdicts, _ = judge(path, [2, 3])
    lines = told(verdicts[3], [verdicts[2]])
    assert "test_task3" in lines[0] and any("another reason: test_task2" in x for x in lines)


# ============================================================== the grouping itself


def made_up(n, rank=NAMED, cause="a", task=4, **more):
    """Return n failures of one cause."""
    return [Failure(task, f"test_task{task}_{cause}_{i}", f"call\nexpected  {i}\nyours     {i + 1}",
                    rank, cause, f"the cause {cause} of it", **more) for i in range(n)]


def test_the_message_that_names_the_cause_best_comes_first():
    vague, raised, named = made_up(5, UNKNOWN, "u"), made_up(3, RAISED, "r"), made_up(2, NAMED, "n")
    shown = screen.lines([*vague, *raised, *named])
    assert "test_task4_n_0" in shown[0] and "and 1 more test, for the same reason: n_1" in shown
    assert "for another reason: test_task4_r_0 and 2 more tests" in shown
    assert "5 more tests of task4 fail; perhaps for the same reason:" in shown
    first = screen.lines([*named, *made_up(1, UNKNOWN, "v", task=2)])
    assert "test_task2_v" in first[0]  # the tasks are done in their order


def test_an_explained_exception_is_no_second_reason():
    named = made_up(2, NAMED, "n", raised="ValueError at line 7")
    raised = made_up(2, RAISED, "ValueError at line 7")
    other = made_up(1, RAISED, "ValueError at line 8")
    found = screen.groups([*raised, *named, *other])
    assert [len(group) for group in found] == [4, 1] and found[0][0].rank == NAMED


def test_a_wrong_shape_is_a_reason_only_where_no_better_one_is_known():
    shape = made_up(3, GENERAL, "s")
    assert "for another reason" in " ".join(screen.lines([*made_up(1, RAISED, "r", 3), *shape]))
    assert "perhaps for the same" in " ".join(screen.lines([*made_up(1), *shape]))
    assert "test_task4_s_0" in screen.lines(shape)[0]


def test_many_reasons_are_cut_and_counted():
    failures = [f for i in range(20) for f in made_up(2, NAMED, f"cause{i}")]
    text = "\n".join(screen.lines(failures))
    assert f"... {19 - screen.MOST} more reasons ({2 * (19 - screen.MOST)} tests), see -v" in text
    vague = [f for i in range(20) for f in made_up(2, UNKNOWN, f"cause{i}")]
    text = "\n".join(screen.lines(vague))
    assert "38 more tests of task4 fail" in text and "... 30 more tests, see -v" in text


@pytest.mark.parametrize("width", [40, 60, 80, 200])
def test_no_line_is_wider_than_the_screen(width):
    word = "x" * 20
    text = f"call({word}, {word}, {word})\n    {word} {word} {word}\nexpected  [{word}, {word}]\n"
    text += f"          {word}\nlikely    {'a word ' * 30}\nyours     {word}"
    failures = [Failure(3, f"test_task3_{word}", text, rank, str(rank) + word, text, "", text)
                for rank in range(5) for _ in range(3)]
    lines = screen.lines(failures, width)
    assert max(map(len, lines)) <= min(width, screen.WIDTH)
    wrapped = screen.wrap(text, width)
    assert " ".join(" ".join(wrapped).split()) == " ".join(text.split())
    assert screen.wrap("short\n    as it is") == ["short", "    as it is"]


def test_a_failure_is_plain_data(tmp_path):
    import json

    path = tmp_path / "lab.py"
    path.write_text("def k3_kl(logp, ref_logp):\n    return 1 / 0\n", "utf-8")
    lab = load_lab(path)
    try:
        lab.k3_kl(0, 0)
    except ZeroDivisionError as error:
        row = failure(error, lab, 3, "test_x", "printed")
    assert Failure(*json.loads(json.dumps(row))) == row
    assert row.rank == RAISED and row.cause == "ZeroDivisionError at line 2"
    assert row.short == ("k3_kl raised ZeroDivisionError at lab.py line 2: division by zero "
                         "A Python number was divided by 0.")


def test_a_verdict_of_an_earlier_kind_is_shown_too():
    lines = told(Verdict(3, "broken", "ended early", "", "k3_kl ended Python. " * 8))
    assert max(map(len, lines)) <= COLUMNS and lines[-1] == "Read: chapter.md section 4"


def test_the_graders_page_has_a_message_for_every_mistake():
    from tests.messages.explain import likely

    def row(test, mistake):
        return [test, mistake, f"call\nlikely    {likely(mistake)}" if mistake else "call"]

    reply = {"failures": [row("test_a", ""), row("test_b", "task4.max"), row("test_c", "task4.max"),
                          row("test_d", "task4.stat_top_clipped")]}
    text, mistakes = practice.read(reply)
    assert text.startswith("test_b:\ncall") and mistakes == ["task4.max", "task4.stat_top_clipped"]
    assert text.count("likely ") == 2 and "test_d:\n" in text
    assert text.endswith("Not passed as well: test_a, test_c")
