"""Hidden tests and points without a sandbox: what gives points, what is leaked, what is hashed."""

import contextlib
import shutil
from types import SimpleNamespace

import pytest
import torch

from instructor import grade
from instructor.box import wire
from instructor.grading import judging, points, practice
from instructor.grading.bwrap import CONTENTS
from instructor.grading.sandbox import Box, Clock, Failed
from instructor.hidden import common, task1, task2, task3, task4, task5
from tests.labfile import ROOT, TASKS
from tests.messages import explain

HIDDEN = {1: task1, 2: task2, 3: task3, 4: task4, 5: task5}


def test_the_points_of_all_tasks_are_ten():
    assert sum(task.points for task in TASKS.values()) == 10


@pytest.mark.parametrize("number", TASKS)
def test_a_mistake_costs_its_own_share(number):
    tests, most, shares = HIDDEN[number].TESTS, TASKS[number].points, points.SHARES[number]
    assert sum(shares.values()) == pytest.approx(most) and shares.keys() < tests.keys()
    passed, nothing = dict.fromkeys(tests, True), dict.fromkeys(tests, False)
    assert points.of_task(number, passed) == most
    for name in tests:
        given = points.of_task(number, passed | {name: False})
        simple = points.of_task(number, passed | {name: False}, passed)
        if name in shares:
            assert given == pytest.approx(most - shares[name])
            assert given < simple < most
        else:
            assert given == simple == points.CAP * most
    assert points.of_task(number, {name: name not in shares for name in tests}) == 0
    assert points.of_task(number, nothing) == points.of_task(number, {}) == 0
    assert points.of_task(number, nothing, passed) <= points.CAP * most


def test_the_table_of_points_is_printed(capsys):
    with pytest.raises(SystemExit) as ended:
        grade.main(["--points"])
    printed = capsys.readouterr().out
    assert not ended.value.code and printed.isascii()
    for number, task in TASKS.items():
        assert f"Task {number}, {task.name}: {task.points} point" in printed
        assert all(test.name in printed for test in HIDDEN[number].TESTS.values())


def test_simple_cases_are_of_one_prompt_or_one_response(course):
    simple = {n: [c.simple for c in cases] for n, cases in course.cases.items()}
    assert {n for n, flags in simple.items() if any(flags)} == {1, 4}
    assert sum(simple[4]) >= 2 and not all(simple[1])
    assert all(hasattr(HIDDEN[n], "SIMPLE_CASES") == any(flags) for n, flags in simple.items())


def test_another_seed_gives_other_numbers_and_the_same_seed_the_same():
    a, b, c = (task3.make(seed)[0].send["args"][0] for seed in ("a", "b", "a"))
    assert torch.equal(a, c) and not torch.equal(a, b)


@pytest.mark.parametrize("number", TASKS)
def test_no_expected_value_is_sent(course, number):
    def tensors(value):
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, dict | list | tuple):
            for x in value.values() if isinstance(value, dict) else value:
                yield from tensors(x)

    for case in course.cases[number]:
        sent = list(tensors(case.send))
        for name in ("adv", "k3", "grad"):
            want = case.expect.get(name)
            if isinstance(want, torch.Tensor):
                assert not any(common.near(x, want) for x in sent if x.shape == want.shape)


def test_odd_replies_are_wrong_and_no_error(course):
    odd = [None, 3, "x", [], {}, wire.Opaque("x"), torch.zeros(0), torch.full((2, 2), float("nan"))]
    for number, module in HIDDEN.items():
        for value in odd:
            box = SimpleNamespace(call=lambda case, answer, v=value: {"ok": True, "out": v})
            verdicts, _ = judging.run_cases(box, module, course.cases[number])
            assert judging.scored(number, module, course.cases[number], verdicts)[0] == 0


@pytest.mark.parametrize("value", [None, 3, torch.ones(3), [torch.ones(2)], {}, wire.Opaque("x")])
def test_odd_questions_are_no_error(course, value):
    replies = iter([{"ask": value, "G": value, "rewards": value}] * 3 + [{"ok": True}])
    box = object.__new__(Box)
    box.limits = SimpleNamespace(submission=9, call=9)
    box.clock = Clock(9)
    box._fairly = lambda seconds: contextlib.nullcontext()
    box.pipe = SimpleNamespace(send=lambda *a: None, receive=lambda *a: next(replies), now=float)
    try:
        assert box.call({}, course.cases[5][0].answer()) == {"ok": True}
    except Failed as error:
        assert "no answer" in str(error)


def test_nothing_of_the_solution_is_in_the_box():
    lines = (ROOT / "solutions" / "lab15_grpo.py").read_text(encoding="utf-8").splitlines()
    stub = set((ROOT / "lab15_grpo.py").read_text(encoding="utf-8").splitlines())
    own = {line.strip() for line in lines if line not in stub and len(line.strip()) > 25}
    given = {"def k3_kl(logp, ref_logp):"}
    for name, path in CONTENTS.items():
        text = {line.strip() for line in path.read_text(encoding="utf-8").splitlines()}
        assert not own & text - given, name
    assert not any("oracle" in name or "solution" in name for name in CONTENTS)


# ---------------------------------------------------------------- messages


@pytest.mark.parametrize("name, shown", [
    ("ValueError", "ValueError"), ("ZeroDivisionError", "ZeroDivisionError"),
    *((name, "an error") for name in ("tensor1234Error", "x" * 50, None, 7, "print")),
])
def test_only_pythons_own_errors_are_named(name, shown):
    assert judging.builtin_error(name) == shown


# ---------------------------------------------------------------- what the public tests say


def reply(*rows):
    return {"task": 2, "failures": [list(row) for row in rows]}


def test_a_mistake_is_named_if_the_text_explains_it():
    text = "group_advantages(...)\nlikely    " + explain.likely("task2.sample_std")
    said, mistakes = practice.read(reply(("test_a", "task2.sample_std", text), ("test_b", "", "x")))
    assert mistakes == ["task2.sample_std"] and "test_b" in said and said.startswith("test_a:")
    assert practice.read(reply(("t", "task2.sample_std", "other words")))[1] == []
    assert practice.read(reply(("t", "made.up", text)))[1] == []


def test_failures_that_are_not_shown_are_counted():
    rows = [(f"test_{n}", "", "x") for n in range(3)]
    assert practice.read(reply(*rows) | {"more": 9})[0].endswith("and 9 more failures")
    for odd in (True, -1, "9", 10**30, None):
        assert "more failures" not in practice.read(reply(*rows) | {"more": odd})[0]
    assert practice.plain("x" * 200).endswith("x...") and len(practice.plain("x" * 200)) == 110


@pytest.mark.parametrize(
    "odd",
    [None, 3, {}, {"failures": 3}, {"failures": [3]}, {"failures": [["a", "b"]]},
     {"failures": [["a", "b", 3]]}, {"failures": [[["a"], "b", "c"]]}],
)
def test_an_odd_reply_of_the_public_tests_is_no_error(odd):
    assert practice.read(odd) == ("What came back of the public tests was no answer.", [])


# ---------------------------------------------------------------- one hash per task


def copy_of_the_lab(folder):
    for name in ("instructor", "tests", "solutions", "tinylm.py"):
        source = ROOT / name
        if source.is_dir():
            skip = shutil.ignore_patterns("__pycache__", "wheats", "attacks")
            shutil.copytree(source, folder / name, ignore=skip)
        else:
            shutil.copyfile(source, folder / name)


CHANGES = {  # file: (old, new, tasks whose points it may change)
    "instructor/hidden/task4.py": ("0.35, 0.3", "0.35, 0.4", {4}),
    "instructor/box/standins.py": ("1.7", "1.8", {1, 4, 5}),
    "instructor/hidden/common.py": ("1e-4", "1e-5", {1, 2, 3, 4, 5}),
    "solutions/lab15_grpo.py": ("torch.exp(d)", "torch.exp(1 * d)", {3, 4}),
    "instructor/records/feedback.py": ("56rem", "60rem", set()),
    "instructor/box/calls.py": ("__name__", "__qualname__", {1, 2, 3, 4, 5}),
    "tests/mistakes/task4.py": ("the", "THE", set()),
}


def test_a_corrected_test_regrades_only_what_it_touches(tmp_path):
    copy_of_the_lab(tmp_path)
    before = {n: judging.fingerprint(n, "seed", tmp_path) for n in TASKS}
    assert before == {n: judging.fingerprint(n, "seed") for n in TASKS}
    for name, (old, new, touched) in CHANGES.items():
        text = (tmp_path / name).read_text(encoding="utf-8")
        assert old in text, name
        (tmp_path / name).write_text(text.replace(old, new), encoding="utf-8")
        after = {n: judging.fingerprint(n, "seed", tmp_path) for n in TASKS}
        assert {n for n in TASKS if after[n] != before[n]} == touched, name
        (tmp_path / name).write_text(text, encoding="utf-8")


def test_another_seed_regrades_everything():
    assert all(judging.fingerprint(n, "a") != judging.fingerprint(n, "b") for n in TASKS)


@pytest.mark.parametrize(
    ("text", "version"),
    [(b'LAB_VERSION = "0.9"', "0.9"), (b"LAB_VERSION='1.0'", "1.0"), (b"x = 1", None),
     (b'LAB_VERSION = "' + b"9" * 99 + b'"', None), (b'LAB_VERSION = "<b>"', None)],
)
def test_the_version_that_a_file_claims(text, version):
    assert judging.file_version(b"import torch\n" + text + b"\n") == version
