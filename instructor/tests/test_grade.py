"""The grader without a sandbox: frames, intake, points, what is written, what is leaked."""

import json
import os
import random
import struct
import threading
import time
from types import SimpleNamespace

import pytest
import torch

from instructor import grade, intake, results, wire
from instructor.hidden import common, task1, task2, task3, task4, task5
from instructor.sandbox import CONTENTS
from tests.labfile import ROOT, TASKS

HIDDEN = {1: task1, 2: task2, 3: task3, 4: task4, 5: task5}


@pytest.mark.parametrize(
    "value",
    [None, True, 3, 2.5, "text", [1, (2, "x")], {"a": {"b": [None]}}, float("inf")],
)
def test_a_frame_gives_the_value_back(value):
    assert wire.decode(wire.encode(value)[4:]) == value


@pytest.mark.parametrize("dtype", list(wire.NAMES))
@pytest.mark.parametrize("shape", [(), (3,), (2, 0), (2, 3, 4)])
def test_a_frame_gives_a_tensor_back(dtype, shape):
    tensor = torch.ones(shape).to(dtype)
    back = wire.decode(wire.encode({"x": tensor})[4:])["x"]
    assert back.dtype == dtype and torch.equal(back, tensor)


def test_other_values_cross_by_name_only():
    assert isinstance(wire.decode(wire.encode([object()])[4:])[0], wire.Opaque)


def test_mutated_frames_raise_one_kind_of_error_and_are_quick():
    rng = random.Random(0)
    frame = wire.encode({"out": [torch.ones(3, 4), {"a": 1.5}, "text"], "ok": True})[4:]
    start = time.monotonic()
    for _ in range(3000):
        data = bytearray(frame)
        for _ in range(rng.randrange(1, 6)):
            data[rng.randrange(len(data))] = rng.randrange(256)
        data = data[: rng.randrange(len(data) + 1)] if rng.random() < 0.3 else data
        try:
            wire.decode(bytes(data))
        except wire.WireError:
            pass
    assert time.monotonic() - start < 10


@pytest.mark.parametrize(
    "head",
    [
        b'{"$t": ["f4", [1000000, 1000000], false]}',
        b'{"$t": ["f4", [-1], false]}',
        b'{"$t": ["zz", [], false]}',
        b'{"$l": [' * 5000 + b"]}" * 5000,
        b"9" * 10000,
        b'{"$l": 5}',
        b"[1, 2]",
        b"{}",
        b"\xff",
    ],
)
def test_hostile_heads_are_no_frames(head):
    with pytest.raises(wire.WireError):
        wire.decode(struct.pack("<I", len(head)) + head)


@pytest.fixture
def pipes():
    """Give (Pipe, write end of what it reads, read end of what it writes)."""
    (a, b), (c, d) = os.pipe(), os.pipe()
    yield wire.Pipe(a, d), b, c
    for fd in (a, b, c, d):
        os.close(fd)


def test_a_silent_other_side_ends_reading_and_writing(pipes):
    pipe, *_ = pipes
    start = time.monotonic()
    with pytest.raises(wire.Silence):
        pipe.receive(start + 0.3)
    with pytest.raises(wire.Silence):  # nobody reads, and it is more than a pipe holds
        pipe.send(torch.zeros(1 << 20), start + 0.6)
    assert time.monotonic() - start < 2


def test_drops_that_trickle_in_do_not_move_the_deadline(pipes):
    pipe, write, _ = pipes
    stop = threading.Event()

    def trickle():
        os.write(write, struct.pack("<I", 1000))
        while not stop.wait(0.05):
            os.write(write, b"x")

    thread = threading.Thread(target=trickle)
    thread.start()
    start = time.monotonic()
    with pytest.raises(wire.Silence):
        pipe.receive(start + 0.5)
    stop.set()
    thread.join()
    assert time.monotonic() - start < 2


def test_a_frame_that_claims_too_much_is_not_read(pipes):
    pipe, write, _ = pipes
    os.write(write, struct.pack("<I", 2**32 - 1))
    with pytest.raises(wire.WireError):
        pipe.receive(time.monotonic() + 1)


# ---------------------------------------------------------------- hidden tests


@pytest.fixture(scope="module")
def course():
    """Give a course with a fixed seed."""
    return grade.Course("a seed for these tests")


def test_the_points_of_all_tasks_are_ten():
    assert sum(task.points for task in TASKS.values()) == 10


@pytest.mark.parametrize("number", TASKS)
def test_full_points_need_everything_and_the_rest_gives_at_most_half(number):
    tests = HIDDEN[number].TESTS
    passed = dict.fromkeys(tests, True)
    assert grade.points(number, tests, passed) == TASKS[number].points
    for name in tests:
        assert grade.points(number, tests, passed | {name: False}) <= TASKS[number].points / 2
    gates = {name: not test.counts for name, test in tests.items()}
    assert grade.points(number, tests, gates) == 0


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
            verdicts, _ = grade.run_cases(box, module, course.cases[number])
            passed = common.combine(module.TESTS, verdicts)
            assert grade.points(number, module.TESTS, passed) == 0


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


@pytest.mark.parametrize("name", ["ValueError", "ZeroDivisionError"])
def test_pythons_own_errors_are_named(name):
    assert grade.builtin_error(name) == name


@pytest.mark.parametrize("name", ["tensor1234Error", "x" * 50, None, 7, "print"])
def test_a_students_error_class_is_not(name):
    assert grade.builtin_error(name) == "an error"


def test_text_of_the_sandbox_can_do_no_harm():
    text = grade.clean("<script>`x`</script>\n[a](b) | \x1b[31m \u202e" + "y" * 999)
    assert len(text) <= 160 and not set(text) & set("<>`[]|\n\x1b\\")


# ---------------------------------------------------------------- intake


def test_a_folder_of_folders_and_files(tmp_path):
    for name, text in {
        "ann/lab15_grpo.py": "a",
        "bob/lab15/lab15_grpo.py": "b",
        "bob/conftest.py": "-",
        "cid/my_lab.py": "c",
        "dan/notes.txt": "-",
        "eve.py": "e",
        "=cmd/lab15_grpo.py": "f",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    found = {s.student: s for s in intake.find(tmp_path)}
    assert set(found) == {"ann", "bob", "cid", "dan", "eve", "'=cmd"}
    assert found["bob"].path.name == "lab15_grpo.py" and not found["bob"].note
    assert "my_lab.py" in found["cid"].note and found["dan"].path is None


@pytest.mark.parametrize(
    ("data", "word"),
    [
        (b"", "empty"),
        (b" \n", "empty"),
        (b"x" * (2 << 20), "larger"),
        (b"a\0b", "zero bytes"),
    ],
)
def test_what_is_no_text_is_named(tmp_path, data, word):
    path = tmp_path / "a.py"
    path.write_bytes(data)
    assert intake.read(path)[0] is None and word in intake.read(path)[1]


def test_links_and_pipes_are_not_read(tmp_path):
    (tmp_path / "secret").write_text("secret", encoding="utf-8")
    (tmp_path / "a.py").symlink_to(tmp_path / "secret")
    os.mkfifo(tmp_path / "b.py")
    assert intake.read(tmp_path / "a.py")[0] is None
    assert intake.read(tmp_path / "b.py")[0] is None


def test_utf16_is_understood(tmp_path):
    (tmp_path / "a.py").write_bytes("x = 1\n".encode("utf-16"))
    assert intake.read(tmp_path / "a.py") == (b"x = 1\n", "")


# ---------------------------------------------------------------- results


def result_of(student, course, key="k"):
    tasks = {str(n): grade.blank(n, HIDDEN[n].TESTS, "no") for n in TASKS}
    return {"student": student, "key": key, "total": 0.0, "tasks": tasks, "notes": [], "seconds": 1}


def test_a_result_is_kept_by_its_key(tmp_path, course):
    kept = results.Results(tmp_path, course, ["ann"])
    kept.add(result_of("ann", course))
    submission = intake.Submission("ann", None)
    assert kept.known(submission, "k") and kept.known(submission, "other") is None
    kept.path("ann").write_text("{", encoding="utf-8")
    assert kept.known(submission, "k") is None


def test_names_never_leave_the_folder_or_meet():
    names = ["../../x", "a/b", "a_b", "A b", ".", "", "x" * 300, "\u00e4", "'=cmd"]
    files = [results.file_name(name) for name in names]
    assert len({f.lower() for f in files}) == len(names)
    assert all("/" not in f and f not in ("", ".", "..") and len(f) < 100 for f in files)


def test_the_files_that_are_written(tmp_path, course):
    kept = results.Results(tmp_path, course, ["bob", "ann"])
    kept.add(result_of("ann", course))
    kept.add(result_of("bob", course))
    kept.finish()
    table = (tmp_path / "scores.csv").read_text(encoding="utf-8").splitlines()
    assert table[0] == "student,task1,task2,task3,task4,task5,total"
    assert [row.split(",")[0] for row in table[1:]] == ["bob", "ann"]
    whole = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert whole["schema"] == 1 and whole["tests"] == course.hash and whole["lab_version"]
    page = (tmp_path / "feedback" / "ann.md").read_text(encoding="utf-8")
    assert "0 of 10 points" in page and "chapter.md section 2" in page


def test_root_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert grade.main([str(tmp_path), "--out", str(tmp_path / "out")]) == 2
    assert "You are root" in capsys.readouterr().out
    assert not (tmp_path / "out").exists()
