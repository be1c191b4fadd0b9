"""What the grader writes: a row and a folder for every student, and nothing outside of it."""

import csv
import importlib
import json
import re

import pytest

from instructor.grading import points
from instructor.records import feedback, results
from instructor.submissions import intake
from tests.labfile import TASKS

HASHES = {n: f"hash{n}" for n in TASKS}


class Course:
    """What Results needs to know of a course."""

    hashes = HASHES


def result_of(student, **changes):
    """Return a result as judging.judge does: Task 2 failed, the others passed."""
    tasks = {}
    for n in TASKS:
        good = n != 2
        tasks[n] = {"points": float(TASKS[n].points) * good, "tests": {"form": True, "x": good}}
        tasks[n] |= {"messages": [], "hints": [] if good else ["x: a hint"], "state": "written"}
        tasks[n] |= {"public": "" if good else "test_x:\n<b>", "mistakes": []}
        tasks[n] |= {"given": {"form": [0, 0], "x": [float(good), 1.0]}, "simple": ""}
    more = {"student": student, "tasks": tasks, "notes": [], "seconds": 1.5, "file": "f"}
    more |= {"version": "0.9", "submitted": None, "late": None, "hashes": HASHES}
    return more | {"lab_version": "1.0"} | changes


def kept_in(folder, *students):
    return results.Results(folder, Course, students)


def table_of(folder):
    with open(folder / "scores.csv", encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_the_files_that_are_written(tmp_path):
    kept = kept_in(tmp_path, "bob", "ann")
    kept.add(result_of("ann"), b"a\r\n")
    kept.add(result_of("bob", late=True, submitted="2026-11-29"), None)
    kept.table()
    rows = table_of(tmp_path)
    assert rows[0][:7] == ["student", *(f"task{n}" for n in TASKS), "total"]
    assert rows[0][7:10] == ["submitted", "late", "note"]
    assert rows[0][10:] == ["id", "sis_id", "login", "email", "computed", "penalty", "override"]
    assert rows[1][:9] == ["bob", "2", "0", "1", "3", "2", "8", "2026-11-29", "late"]
    assert rows[2][:9] == ["ann", "2", "0", "1", "3", "2", "8", "", ""]
    assert (tmp_path / "ann" / "lab15_grpo.py").read_bytes() == b"a\r\n"
    assert not (tmp_path / "bob" / "lab15_grpo.py").exists()
    assert not list(tmp_path.rglob("*.tmp"))


def test_results_json_is_gradescopes(tmp_path):
    kept = kept_in(tmp_path, "ann")
    kept.add(result_of("ann", notes=["a note"]), b"x")
    found = json.loads((tmp_path / "ann" / "results.json").read_text(encoding="utf-8"))
    assert found["score"] == 8 == sum(test["score"] for test in found["tests"])
    assert sum(test["max_score"] for test in found["tests"]) == 10
    assert [test["number"] for test in found["tests"]] == [str(n) for n in TASKS]
    assert {t["status"] for t in found["tests"]} == {"passed", "failed"}
    assert found["tests"][1]["extra_data"]["hidden"] == {"form": True, "x": False}
    assert "a hint" in found["tests"][1]["output"] and "a note" in found["output"]
    extra = found["extra_data"]
    assert extra["lab_version"] == "1.0" and extra["file_lab_version"] == "0.9"
    assert extra["hidden_hash"]["3"] == "hash3" and extra["file_hash"] == "f"


def test_a_result_holds_by_its_file_and_its_tests(tmp_path):
    kept = kept_in(tmp_path, "ann")
    kept.add(result_of("ann"), b"x")
    assert set(kept.known("ann", "f")) == set(TASKS) and kept.known("ann", "g") == {}
    kept.course = type("New", (), {"hashes": HASHES | {4: "new"}})
    assert set(kept.known("ann", "f")) == {1, 2, 3, 5}
    assert kept.known("ann", "f")[2] == result_of("ann")["tasks"][2]


@pytest.mark.parametrize("change", ["{", "[]", "3", '{"tests": []}', "null", None])
def test_a_damaged_result_is_none(tmp_path, change):
    kept = kept_in(tmp_path, "ann")
    kept.add(result_of("ann"), b"x")
    path = tmp_path / "ann" / "results.json"
    if change is None:  # points that no task has
        change = path.read_text(encoding="utf-8").replace('"score": 3.0', '"score": 300.0')
    path.write_text(change, encoding="utf-8")
    assert kept.known("ann", "f") == {} and not kept.keep("ann")


def test_a_failure_of_the_grader_is_no_zero_and_destroys_no_result(tmp_path):
    kept = kept_in(tmp_path, "ann", "bob")
    kept.add(result_of("ann"), b"x")
    for student in ("ann", "bob"):
        kept.failed(student, "no memory")
    kept.table()
    _, ann, bob = table_of(tmp_path)
    assert ann[6] == "8" and bob[1:7] == [""] * 6 and bob[9] == "NOT GRADED: no memory"


def test_folders_never_leave_the_place_or_meet(tmp_path):
    names = ["../../x", "a/b", "a_b", "A b", ".", "", "x" * 300, "\u00e4", "'=cmd", "scores.csv"]
    names += ["Ann", "ann", "CON", "nul.txt", "seed.txt", "-rf", "a\nb", "a\u202eb", "..", "..."]
    kept = kept_in(tmp_path, *names)
    files = [kept.names[name] for name in names]
    assert len({f.lower() for f in files}) == len(names) and kept.names["A b"] == "A b"
    assert all("/" not in f and f not in ("", ".", "..") and len(f) < 100 for f in files)
    assert not {f.lower() for f in files} & {"scores.csv", "seed.txt", "con", "nul.txt"}


def test_the_page_escapes_what_a_student_has_written(tmp_path):
    kept = kept_in(tmp_path, "<b>ann")
    kept.add(result_of("<b>ann", notes=["<script>alert(1)</script>"]), b"x")
    page = (kept.folder("<b>ann") / "feedback.html").read_text(encoding="utf-8")
    assert "<script" not in page and "<b>" not in page and "&lt;b&gt;ann" in page
    assert 'lang="en"' in page and '<th scope="row">' in page and "default-src 'none'" in page
    assert "8 of 10 points" in page and "chapter.md section 3" in page


@pytest.mark.parametrize("name, note", [
    ("ann", "=cmd|' /C calc'!A0"), ("ann;=1+1", ""), ("ann;  @SUM(1)", ""), ("\uff1d1+1", ""),
    ("\uff0b1", ""),
])
def test_a_spreadsheet_runs_nothing(tmp_path, name, note):
    """Also with another separator, or with wide signs."""
    kept = kept_in(tmp_path, name)
    kept.add(result_of(name, notes=[note] * bool(note)), b"x")
    kept.table()
    row = table_of(tmp_path)[1]
    assert row[9].startswith("'=") if note else "'" in row[0]
    assert kept.keep(name)


def test_full_points_need_no_words():
    task = result_of("ann")["tasks"][1]
    assert feedback.text(1, task) == "All 2 hidden tests passed."


def part_of(number, passed, simple=None):
    """Return a task's result as judging.judge_task makes it of what passed."""
    tests = importlib.import_module(f"instructor.hidden.task{number}").TESTS
    given = points.by_test(number, passed, simple)
    return {"tests": {tests[i].name: ok for i, ok in passed.items()}, "state": "written",
            "given": {tests[i].name: list(both) for i, both in given.items()},
            "simple": "where B = 1", "hints": [], "messages": [], "public": ""}


@pytest.mark.parametrize("number", TASKS)
def test_the_page_shows_how_the_points_come_about(number):
    tests = importlib.import_module(f"instructor.hidden.task{number}").TESTS
    for wrong in tests:
        for simple in ({}, {wrong: True}):
            passed = {name: name != wrong for name in tests}
            said = feedback.text(number, part_of(number, passed, simple))
            total = points.of_task(number, passed, simple)
            (last,) = [line for line in said.split("\n") if line.startswith("- together: ")]
            numbers = [float(n) for n in re.findall(r"[\d.]+(?= |,|$)", last)]
            assert min(numbers) == total, said
            assert ("a test of form did not pass" in last) == (wrong not in points.SHARES[number])
            assert all(f"- {t.name}: " in said for t in tests.values())
            assert ("passed only where B = 1" in said) == bool(simple and wrong
                                                               in points.SHARES[number])


def test_a_result_of_before_has_no_points_by_test_and_is_shown_all_the_same(tmp_path):
    old = result_of("ann")
    for task in old["tasks"].values():
        del task["given"], task["simple"]
    found = results.document(old)
    assert "1 of 2 hidden tests passed." in feedback.page(found)
    assert results.tasks_of(found)[2]["given"] == {}


@pytest.mark.parametrize("note", ["short", "also handed in, not graded: " + "a.zip/b.py, " * 15])
def test_the_note_about_the_file_is_there_once(note):
    extra = {"notes": [note, "another"]}
    for _ in range(2):
        results._from_system(extra, intake.Submission("ann", "a.py", note))
    assert extra["notes"] == [results.clean(note), "another"]


def test_notes_that_do_not_fit_the_table_are_counted(tmp_path):
    kept = kept_in(tmp_path, "ann")
    kept.add(result_of("ann", notes=[f"note {n}" for n in range(5)]), b"x")
    kept.table()
    assert table_of(tmp_path)[1][9].endswith("note 2; and 2 more notes in feedback.html")
