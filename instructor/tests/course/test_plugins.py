"""The parts of the nbgrader course one by one: points fail closed, outputs are harmless."""

import json
import os
import sys
import zipfile
from types import SimpleNamespace

import pytest

pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")

from nbformat.v4 import new_code_cell, new_notebook, new_output
from nbgrader.utils import determine_grade

from instructor.course import cycle
from instructor.course.lab15_nbgrader import collect, execute, kernel, repair, scores
from instructor.submissions import intake
from instructor.tests.course import course_class as people
from instructor.tests.course.course_class import FULL, write_result
from tests.labfile import ROOT, TASKS

SLOW = pytest.mark.skipif("LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it")


def graded_cell(name, points, source="check()", **outputs):
    """Return a test cell as nbgrader marks it."""
    about = {"grade": True, "solution": False, "locked": True, "grade_id": name, "points": points}
    return new_code_cell(source, id=name, metadata={"nbgrader": about}, **outputs)


def inject(folder, outputs=(), ran=(), student="ada"):
    """Return the points that nbgrader sees in the cells, after the scores were put in."""
    cells = [graded_cell("warmup", 1, outputs=list(outputs))]
    cells += [graded_cell(f"task{n}", t.points, outputs=list(outputs)) for n, t in TASKS.items()]
    resources = {"nbgrader": {"student": student}, execute.RAN: set(ran)}
    resources["metadata"] = {"path": str(folder / "submission")}
    book = new_notebook(cells=cells)
    preprocessor = scores.ExternalScores(results=str(folder / "results"))
    preprocessor.preprocess(book, resources)
    return [determine_grade(cell)[0] for cell in book.cells], book


@pytest.fixture
def course(tmp_path):
    """Give a folder with a submission of ada and her full result."""
    (tmp_path / "submission").mkdir()
    (tmp_path / "submission/lab15_grpo.py").write_text("x = 1", encoding="utf-8")
    write_result(tmp_path / "results", "ada", FULL, tmp_path / "submission")
    return tmp_path


RESULT = "results/ada/results.json"
ALL = list(map(float, FULL.values()))


def test_the_graders_points_arrive(course):
    assert inject(course, ran={"warmup"})[0] == [1.0, *ALL]
    write_result(course / "results", "ada", people.PARTLY)
    assert inject(course)[0] == [0.0, *people.PARTLY.values()]


@pytest.mark.parametrize("what", ["great", "99", "-1", "nan", None])
def test_what_the_kernel_prints_counts_nothing(course, what):
    (course / RESULT).unlink()
    outputs = [new_output("execute_result", data={"text/plain": what})] if what else []
    points, book = inject(course, outputs)
    assert points == [0.0] * 6
    assert "NOT GRADED: there is no results.json" in str(book.cells[1].outputs)


def edit(path, change):
    """Change what a results.json holds."""
    data = json.loads(path.read_text(encoding="utf-8"))
    change(data)
    path.write_text(json.dumps(data), encoding="utf-8")


BAD = {
    "broken JSON": lambda p: p.write_text('{"tests": [', encoding="utf-8"),
    "nested": lambda p: p.write_text("[" * 200_000, encoding="utf-8"),
    "a list": lambda p: p.write_text("[]", encoding="utf-8"),
    "empty": lambda p: p.write_text("", encoding="utf-8"),
    "no tests": lambda p: edit(p, lambda d: d.pop("tests")),
    "somebody else's": lambda p: edit(p, lambda d: d["extra_data"].update(student="bob")),
    "more than all": lambda p: edit(p, lambda d: d["tests"][0].update(score=2.5)),
    "negative": lambda p: edit(p, lambda d: d["tests"][0].update(score=-1)),
    "nan": lambda p: edit(p, lambda d: d["tests"][0].update(score=float("nan"))),
    "text": lambda p: edit(p, lambda d: d["tests"][0].update(score="great")),
    "no number": lambda p: edit(p, lambda d: d["tests"][0].pop("number")),
    "another file": lambda p: (p.parent / "lab15_grpo.py").write_text("x = 2", encoding="utf-8"),
    "no graded file": lambda p: (p.parent / "lab15_grpo.py").unlink(),
}


@pytest.mark.parametrize("name", BAD)
def test_a_result_that_makes_no_sense_gives_nothing(course, name):
    BAD[name](course / RESULT)
    points, book = inject(course, ran={"warmup"})
    assert points == [1.0] + [0.0] * 5
    assert all("NotGraded" in str(cell.outputs) for cell in book.cells[1:])


def test_a_task_that_is_missing_costs_that_task_only(course):
    edit(course / RESULT, lambda d: d["tests"].pop(2))
    points, book = inject(course)
    assert points == [0.0, 2.0, 2.0, 0.0, 3.0, 2.0]
    assert "the results have no points for task3" in str(book.cells[3].outputs)


def test_results_are_found_under_another_name(course):
    (course / "results/ada").rename(course / "results/ada-1234")
    assert inject(course)[0][1:] == ALL
    write_result(course / "results", "bob", people.NOTHING)
    assert inject(course, student="bo")[0] == [0.0] * 6


def test_a_cell_of_asserts_gives_all_or_nothing(course):
    error = new_output("error", ename="E", evalue="", traceback=[])
    ran = {"warmup"}
    assert inject(course, [error], ran)[0][0] == 0
    assert inject(course, [], set())[0][0] == 0
    warning = new_output("stream", name="stderr", text="a warning")
    assert inject(course, execute.clean([warning]), ran)[0][0] == 1.0
    more = new_output("execute_result", data={"text/plain": "99"})
    assert inject(course, [more], ran)[0][0] == 1.0


def test_hidden_tests_are_cut_out_of_feedback():
    source = "a()\n### BEGIN HIDDEN TESTS\nassert a() == 42\n### END HIDDEN TESTS\nb()"
    failed = new_output("error", ename="AssertionError", evalue="42", traceback=["... 42"])
    cell = new_code_cell(source, outputs=[failed])
    scores.HideHiddenTests().preprocess_cell(cell, {}, 0)
    assert cell.source == "a()\n# (hidden tests)\nb()"
    del cell["id"]  # is random, and may have a 42 in it
    assert "42" not in str(cell)


def test_outputs_become_plain_text_and_pixels():
    html = {"text/html": "<script>", "text/plain": "a\0b" + "x" * 20_000}
    bad = [{"output_type": "stream", "text": ["x"]}, {"output_type": "error", "traceback": [3]},
           {"output_type": "display_data", "data": 7}, {}, {"output_type": "odd"}]
    cleaned = execute.clean([new_output("display_data", data=html), *bad])
    assert [o.output_type for o in cleaned] == ["display_data", "stream", "error"]
    assert set(cleaned[0].data) == {"text/plain"} and len(cleaned[0].data["text/plain"]) < 10_100
    image = new_output("display_data", data={"image/png": "aGFs", "text/html": "<b>"})
    assert execute.clean([image])[0].data == {"image/png": "aGFs"}
    forged = new_output("display_data", data={"image/png": '"><script>', "text/plain": "x"})
    assert execute.clean([forged])[0].data == {"text/plain": "x"}


# ---------------------------------------------------------------- zips


def test_of_a_zip_two_files_are_taken(tmp_path):
    path = tmp_path / "ada.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("a/b/lab15_grpo.py", "a/lab15_grpo.py", "../../lab15.ipynb", "conftest.py"):
            file.writestr(name, name)
    notes = collect.take(path, tmp_path / "out" / "ada")
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == [
        "ada.zip", "lab15.ipynb", "lab15_grpo.py"]
    assert (tmp_path / "out/ada/lab15_grpo.py").read_text(encoding="utf-8") == "a/lab15_grpo.py"
    assert notes == ["2 files lab15_grpo.py: 'a/lab15_grpo.py' is taken"]


@pytest.mark.parametrize("name, found", [
    ("ada", {"student_id": "ada"}),
    ("ada.b@x_attempt_2026-11-29-12-00-00_lab15",
     {"student_id": "ada.b@x", "timestamp": "2026-11-29-12-00-00"}),
    ("ada_lab15", {"student_id": "ada"}), ("ada_b", {"student_id": "ada_b"}),
    ("Ada B_77_assignsubmission_file_lab", {"student_id": "Ada B", "number": "77"}),
    ("../ada", None), (".ada", None), ("-ada", None), ("=ada", None),
])
def test_whose_zip_it_is(name, found):
    match = collect.NAME.fullmatch(name)
    got = match and {k: v for k, v in match.groupdict().items() if v}
    assert got == found


def test_moodles_folders_become_students(tmp_path):
    for name in ("Ada B_77_assignsubmission_file", "Ada B_78_assignsubmission_file", "cy_d"):
        (tmp_path / "in" / name / "deep").mkdir(parents=True)
        (tmp_path / "in" / name / "deep" / "lab15_grpo.py").touch()
        (tmp_path / "in" / name / "deep" / "timestamp.txt").touch()  # a student's own: no time
    collect.from_folder(tmp_path / "in", tmp_path / "out")
    found = sorted(p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.rglob("out/*/*/*"))
    names = ("Ada B (77)", "Ada B (78)", "cy_d")
    assert found == [f"{name}/lab15/lab15_grpo.py" for name in names]


def test_one_zip_of_a_class(tmp_path):
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("ada/lab15_grpo.py", "1")
        file.writestr("ben/deep/lab15.ipynb", "2")
        file.writestr("../cy/lab15_grpo.py", "3")
        file.writestr("ben/conftest.py", "4")
    cycle.unpack(path, tmp_path / "out")
    found = sorted(p.relative_to(tmp_path / "out").as_posix() for p in tmp_path.rglob("*/*.*"))
    assert found == ["ada/lab15_grpo.py", "ben/lab15.ipynb", "cy/lab15_grpo.py"]


def test_whoever_is_in_a_class_zip_has_a_row(tmp_path):
    path = tmp_path / "class.zip"
    with zipfile.ZipFile(path, "w") as file:
        for name in ("ada/lab15_grpo.py", "ben/report.pdf", "cy/src/my_lab.py", "dan.ipynb",
                     "eve.py", ".fay/lab15_grpo.py", "__gus/x.txt", "hal.docx", ".DS_Store",
                     f"ida/{'n' * 400}.txt", "__MACOSX/ben/._report.pdf"):
            file.writestr(name, "x = 1\n")
    cycle.unpack(path, tmp_path / "in")
    notes = collect.from_folder(tmp_path / "in", tmp_path / "course" / "submitted")
    notes += cycle.collect_others(tmp_path / "course", tmp_path / "in")
    there = {p.parent.name: sorted(f.name for f in p.iterdir())
             for p in (tmp_path / "course").glob("submitted/*/lab15")}
    assert set(there) == {"ada", "ben", "cy", "dan", "eve", ".fay", "__gus", "hal", "ida"}
    assert there["eve"] == there["ada"] == there[".fay"] == ["lab15_grpo.py"]
    assert there["dan"] == ["lab15.ipynb"] and there["ben"] == ["report.pdf"]
    assert there["cy"] == ["my_lab.py"]
    assert (tmp_path / "in/cy/my_lab.py").read_text(encoding="utf-8") == "x = 1\n"
    told = " ".join(notes)
    assert "'ben': neither lab15.ipynb nor lab15_grpo.py; there is: 'report.pdf'" in told
    assert all(f"'{name}'" in told for name in ("cy", "dan", "eve", ".fay", "__gus", "hal", "ida"))


def test_what_is_cut_is_counted(tmp_path, monkeypatch):
    monkeypatch.setattr(collect, "LARGEST", 1000)
    monkeypatch.setattr(collect, "MOST", 2)
    with zipfile.ZipFile(tmp_path / "ada.zip", "w") as file:
        for name in ("lab15_grpo.py", "lab15.ipynb", "a", "b", "c"):
            file.writestr(name, "x" * 2000)
    notes = collect.take(tmp_path / "ada.zip", tmp_path / "ada")
    assert "3 files beyond the first 2 were not looked at" in notes
    assert sum("and was cut" in note for note in notes) == 2
    assert {p.stat().st_size for p in (tmp_path / "ada").iterdir()} == {1000}
    (tmp_path / "in" / "ben").mkdir(parents=True)
    (tmp_path / "in" / "ben" / "lab15_grpo.py").write_text("x" * 2000, encoding="utf-8")
    assert "1 file larger" in collect.from_folder(tmp_path / "in", tmp_path / "out")[0]
    pasted = {"a.png": {"image/png": "AAAA"}, "b.svg": {"image/svg+xml": "x"}, "c": 3}
    cells = [{"cell_type": "markdown", "source": "x" * 200_001, "attachments": pasted}, 3, None]
    released = new_notebook(cells=[graded_cell("warmup", 1)])
    assert repair.rebuild(released, {"cells": cells})[1][:3] == [
        "2 cells that are none, left out", "1 texts of more than 200000 characters, cut",
        "2 pasted files that are no PNG or JPEG pictures, left out"]
    many = [new_output("stream", name="stdout", text="x")] * (execute.MOST_OUTPUTS + 7)
    assert "and 7 more outputs" in execute.clean(many)[-1].text
    lines = new_output("error", ename="E", evalue="", traceback=["x"] * 50)
    assert execute.clean([lines])[0].traceback[-1] == "(10 more lines left out)"


# ---------------------------------------------------------------- the file that was graded


def graded_now(course, path):
    """Let the result say that this file was graded, as the grader does."""
    result = course / RESULT
    document = json.loads(result.read_text(encoding="utf-8"))
    document["extra_data"]["handed_in"] = intake.handed_in(path)
    result.write_text(json.dumps(document), encoding="utf-8")


@pytest.mark.parametrize("kind", ["utf-16", "too large", "empty", "another name", "a stub beside"])
def test_a_result_holds_for_the_bytes_that_were_handed_in(course, kind):
    path = course / "submission" / "lab15_grpo.py"
    if kind in ("another name", "a stub beside"):
        path = path.with_name("lab15_grpo (1).py")
        path.write_text("x = 1", encoding="utf-8")
        (course / "submission/lab15_grpo.py").write_text("stub", encoding="utf-8")
        if kind == "another name":
            (course / "submission/lab15_grpo.py").unlink()
    else:
        path.write_bytes({"utf-16": "x = 1".encode("utf-16"), "empty": b"",
                          "too large": b"x" * (300 << 10)}[kind])
        (course / "results/ada/lab15_grpo.py").unlink()
    graded_now(course, path)
    (course / "submission" / "tinylm.py").write_text("given", encoding="utf-8")  # by autograde
    assert inject(course)[0][1:] == ALL
    path.write_text("x = 2", encoding="utf-8")
    assert inject(course)[0][1:] == [0.0] * 5
    path.unlink()
    (course / "submission/lab15_grpo.py").write_text("x = 3", encoding="utf-8")
    assert inject(course)[0][1:] == [0.0] * 5


def test_what_was_done_to_totals_is_counted_and_nbgraders_place_for_it_named(course):
    assert cycle.not_in_nbgrader(course) == []
    (course / "submitted" / "ada" / "lab15").mkdir(parents=True)
    result = course / RESULT
    document = json.loads(result.read_text(encoding="utf-8"))
    document["extra_data"] |= {"penalty": 1.5, "by_hand": [
        {"task": "total", "before": 8.5, "after": 9.0, "reason": "r", "line": 2},
        {"task": 3, "before": 0.0, "after": 1.0, "reason": "r", "line": 3}]}
    result.write_text(json.dumps(document), encoding="utf-8")
    first, second = cycle.not_in_nbgrader(course)
    assert "1 change of totals: ada (total +0.5 by hand, -1.5 for being late)" in first
    assert "Manual Grading" in second
    for odd in ("x", {"task": "total"}, None, 3):
        document["extra_data"]["by_hand"] = [odd]
        result.write_text(json.dumps(document), encoding="utf-8")
        assert cycle.not_in_nbgrader(course) == []


# ---------------------------------------------------------------- refusals


NOT_WINDOWS = pytest.mark.skipif(sys.platform == "win32", reason="nbgrader's exchange: not there")


@NOT_WINDOWS
def test_without_a_sandbox_it_refuses(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(kernel, "problem", lambda: "bubblewrap (bwrap) is not installed")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cycle.main([str(tmp_path / "course")]) == 2
    printed = capsys.readouterr().out
    assert "is not installed. A student's cells would have all rights" in printed
    assert "say --trust" in printed and not (tmp_path / "course").exists()
    monkeypatch.delenv("LAB15_TRUST", raising=False)
    with pytest.raises(kernel.NoSandbox, match="LAB15_TRUST=1"):
        execute.SafeExecute().preprocess(new_notebook(cells=[new_code_cell("1")]), {})


@NOT_WINDOWS
def test_root_is_refused(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cycle.main([str(tmp_path)]) == 2
    assert "ordinary user" in capsys.readouterr().out


def test_the_course_is_not_built_over_the_repository():
    from instructor.builders import course as builder

    for place in (ROOT, ROOT.parent):
        with pytest.raises(ValueError, match="cannot be the course's folder"):
            builder.build(place, ROOT / "none.pt")


def test_the_notebook_is_short_and_its_points_are_those_of_the_lab():
    pytest.importorskip("jupytext", reason="pip install -r instructor/requirements.txt")
    from instructor.builders import course as builder

    book = json.loads(builder.notebook())
    assert 8 <= len(book["cells"]) <= 15 and builder.notebook() == builder.notebook()
    marks = [c["metadata"].get("nbgrader", {}) for c in book["cells"]]
    points = {m["grade_id"]: m["points"] for m in marks if "points" in m}
    assert points == {"warmup": 1, "essay": 3, **{f"task{n}": t.points for n, t in TASKS.items()}}
    assert not any(c.get("outputs") for c in book["cells"])


# ---------------------------------------------------------------- cells that do harm


@pytest.fixture
def run_cells(tmp_path, monkeypatch):
    """Return a function that runs cells in the sandbox and gives the text of the outputs."""
    if sys.platform != "linux" or kernel.problem():
        pytest.skip(f"no sandbox here: {kernel.problem()}")
    monkeypatch.setenv("LAB15_TRUST", "")

    def run(*cells, **settings):
        book = new_notebook(cells=[new_code_cell(c) for c in cells])
        resources = SimpleNamespace(metadata={"path": str(tmp_path)}).__dict__
        runner = execute.SafeExecute(**{"timeout": 5, "seconds": 20.0, **settings})
        book, _ = runner.preprocess(book, resources)
        return "\n".join(str(c.outputs) for c in book.cells)

    return run


def test_the_cells_of_an_honest_notebook_run(run_cells):
    text = run_cells("x = 3", "print(x * 7)", "1 / 0", "print('after')", "x * 11")
    assert "21" in text and "ZeroDivisionError" in text and "after" in text and "33" in text


def test_with_trust_the_cells_run_in_an_ordinary_kernel(run_cells, monkeypatch):
    monkeypatch.setenv("LAB15_TRUST", "1")
    text = run_cells("import os; print(os.path.exists('/lab'), os.path.isdir('/etc'))")
    assert "False True" in text


def test_a_kernel_that_never_starts_is_not_the_students_fault(run_cells, monkeypatch):
    monkeypatch.setattr(kernel, "LAUNCH", "raise SystemExit({limits} and 1)")
    with pytest.raises(RuntimeError, match="died"):
        run_cells("print(1)")


HARM = {
    "loops": "while True: pass",
    "loops for ever": "import signal; signal.signal(2, signal.SIG_IGN)\nwhile True: pass",
    "forks": "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass",
    "memory": "x = []\nwhile True: x.append(bytearray(1 << 28))",
    "memory of many": "import os\nfor _ in range(6): os.fork()\nx = bytearray(1 << 30)\n"
    "for i in range(0, len(x), 4096): x[i] = 1\nimport time; time.sleep(60)",
    "fills the disk": "import itertools, os\nfor i in itertools.count():\n"
    "    open(f'{os.environ[\"HOME\"]}/{i}', 'wb').write(bytes(1 << 24))",
    "fills the sockets' folder": "import itertools\nfor i in itertools.count():\n"
    "    open(f'/ipc/{i}', 'wb').write(bytes(1 << 24))",
    "prints": "import sys\nwhile True: print('x' * 100_000); sys.stderr.write('y' * 100_000)",
    "forged messages": "k = get_ipython().kernel\n"
    "for kind in ('stream', 'display_data', 'status'):\n"
    "    k.session.send(k.iopub_socket, kind, content={'text': {}, 'name': 7, 'data': [1]})",
    "no sockets": "import glob, os\nfor p in glob.glob('/ipc/*'): os.unlink(p)\n"
    "os.symlink('/run/dbus/system_bus_socket', '/ipc/kernel-1')",
}


@SLOW
@pytest.mark.parametrize("name", HARM)
def test_harm_ends_in_time(run_cells, name):
    text = run_cells("print('before')", HARM[name], "print('after')")
    assert "before" in text and len(text) < 100_000
