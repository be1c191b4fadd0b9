"""No student is lost: a class of forty in each form in which it can arrive."""

import shutil

import pytest

from instructor.records import roster
from instructor.submissions import archives, choice, exports, intake, listing, skipped

from . import invented_class as invented

CLASS = invented.everybody()
FORMS = [*invented.FORMS, "moodle_flat"]


def survey(form, tmp_path, zipped, students=CLASS, more=()):
    files = invented.in_form(form, students) | dict(more)
    place = tmp_path / ("submitted" if form == "nbgrader" else "in")
    if zipped:
        place = invented.as_zip(tmp_path / "class.zip", files)
    else:
        invented.as_folder(place, files)
    found = intake.survey(place, tmp_path / "room")
    tops = {name.split("/")[0] for name in files}
    return found, tops


def graded(found):
    """Return {text: how many have it} of what would be graded."""
    texts = [sub.read()[0] for sub in found.submissions]
    return sorted(t.decode() for t in texts if t is not None)


@pytest.mark.parametrize("zipped", [False, True])
@pytest.mark.parametrize("form", FORMS)
def test_everybody_has_a_row_and_the_right_file(form, zipped, tmp_path):
    found, tops = survey(form, tmp_path, zipped)
    assert len(found.submissions) == len(CLASS) == len({s.student for s in found.submissions})
    assert graded(found) == sorted(s.graded for s in CLASS if s.graded)
    rows = {name for sub in found.submissions for name in sub.entries}
    assert rows | set(found.left_out) == tops and not rows & set(found.left_out)
    ours = {".DS_Store", "Thumbs.db", "__MACOSX", exports.METADATA}
    assert set(found.left_out) == ours & tops


@pytest.mark.parametrize("form", FORMS)
def test_a_roster_gives_the_same_forty_people_in_every_form(form, tmp_path):
    there = [s for i, s in enumerate(CLASS) if i % 9]  # some hand in nothing
    found, _ = survey(form, tmp_path, True, there)
    path = tmp_path / "roster.csv"
    path.write_bytes(invented.roster(form, CLASS))
    matched = roster.match(roster.read(path), found.submissions, found.system)
    apart = 2 if form in ("folder", "zip") else 0  # two are called Ann Lee
    assert len(matched.strangers) == apart
    assert len(matched.absent) == len(CLASS) - len(there) + apart
    key = {"canvas": "id", "moodle": "id", "moodle_flat": "id", "gradescope": "email"}
    key = key.get(form, "login")
    whose = {getattr(s.ids, key): s for s in matched.submissions}
    for student in there:
        want = {"id": str(student.number), "email": student.email, "login": student.login}[key]
        if student.name == "Ann Lee" and apart:
            continue
        data, _ = whose[want].read()
        assert (data and data.decode()) == student.graded, student


ODD = ["x.ipynb", "y.py.txt", "z.rar", "w.pdf", "v.7z", "noending", ".hidden.py", "__init__.py"]


@pytest.mark.parametrize("zipped", [False, True])
def test_loose_files_of_any_kind_are_somebodys(zipped, tmp_path):
    more = dict.fromkeys([*ODD, ".dots/a.txt", "__under/b.txt", "._x/c.py", "empty/"], "x")
    found, tops = survey("folder", tmp_path, zipped, CLASS[:3], more)
    rows = {name for sub in found.submissions for name in sub.entries}
    assert rows | set(found.left_out) == tops and "empty" in rows and {*ODD} <= rows
    assert len(found.submissions) == 3 + len(more)
    notes = {sub.entries[0]: sub.note for sub in found.submissions}
    assert "the folder is empty" in notes["empty"] and "w.pdf" in notes["w.pdf"]


def test_litter_is_only_what_systems_leave(tmp_path):
    more = {"._ann.py": "\0\5\x16\7", "ann.py": "x", "._bob": "x", "desktop.ini": "x"}
    found, _ = survey("folder", tmp_path, False, CLASS[:1], more)
    assert {"._ann.py", "desktop.ini"} <= set(found.left_out)
    assert {"._bob", "ann"} <= {s.student for s in found.submissions}


SYSTEMS = {
    "canvas": ("anaroe_11_{}_{}", ["helper.py", "conftest.py", "lab15_plots.py", "notes.pdf"]),
    "moodle": ("Ana Roe_11_assignsubmission_file_{1}", ["helper.py", "lab15_util.py", "a.zip"]),
    "blackboard": ("lab15_ana_attempt_2026-11-29-12-00-00_{1}", ["_util.py", "x_y.py", "z.docx"]),
}


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("name", ["lab15_grpo.py", "lab15_grpo-1.py", "lab15_grpo (1).py", "x.py"])
def test_the_lab_file_is_graded_among_other_files(system, first, name, tmp_path):
    form, others = SYSTEMS[system]
    names = [name, *others] if first else [*others, name]
    files = {form.format(101 + i, n): "x = 1\n" for i, n in enumerate(names)}
    files[form.format(101 + names.index(name), name)] = invented.work(1)
    found = intake.survey(invented.as_folder(tmp_path / "in", files), tmp_path / "room")
    (sub,) = found.submissions
    assert sub.read()[0].decode() == invented.work(1)
    assert all(n in sub.note for n in others if n != "conftest.py")


@pytest.mark.parametrize("order", [(101, 102), (102, 101)])
def test_of_two_uploads_the_newest_by_the_system_counts(order, tmp_path):
    files = {f"anaroe_11_{order[0]}_lab15_grpo.py": invented.work(1),
             f"anaroe_11_{order[1]}_lab15_grpo-1.py": invented.work(2)}
    (sub,) = intake.survey(invented.as_folder(tmp_path / "in", files)).submissions
    assert sub.read()[0].decode() == invented.work(2 if order[1] > order[0] else 1)
    assert "2 files could be the lab file" in sub.note


def test_an_attempt_without_a_lab_file_does_not_hide_the_one_before(tmp_path):
    files = {"lab15_ana_attempt_2026-11-28-12-00-00_lab15_grpo.py": invented.work(1),
             "lab15_ana_attempt_2026-11-29-12-00-00_report.pdf": "%PDF"}
    (sub,) = intake.survey(invented.as_folder(tmp_path / "in", files)).submissions
    assert sub.submitted == "2026-11-28 12:00:00" and "newer ones hold no lab file" in sub.note
    assert sub.read()[0].decode() == invented.work(1) and sub.student == "ana"


# ---------------------------------------------------------------- times


def forged(tmp_path, form):
    """Return the times of a class in which everybody has sent a timestamp.txt of his own."""
    students = [s._replace(files=s.files | {"timestamp.txt": "2020-01-01 00:00:00 UTC\n"})
                for s in CLASS[:6]]
    return [s.submitted for s in survey(form, tmp_path, True, students)[0].submissions]


@pytest.mark.parametrize("form", ["folder", "zip", "moodle", "canvas"])
def test_a_students_own_time_is_not_believed(form, tmp_path):
    assert set(forged(tmp_path, form)) == {None}


@pytest.mark.parametrize("form", ["gradescope", "blackboard"])
def test_the_systems_time_is(form, tmp_path):
    assert all(when.startswith("2026-11-29") for when in forged(tmp_path, form))


def test_nbgraders_time_is_the_one_beside_the_assignment(tmp_path):
    found, _ = survey("nbgrader", tmp_path, False, CLASS[:4],
                      {f"{CLASS[0].login}/lab15/sub/timestamp.txt": "2020-01-01 00:00 UTC"})
    assert {s.submitted for s in found.submissions} == {"2026-11-29 12:00:00 UTC"}


def test_a_tree_like_nbgraders_among_others_gives_no_time(tmp_path):
    found, _ = survey("folder", tmp_path, True, CLASS[:4],
                      {"Mallory/lab15/timestamp.txt": "2020-01-01 00:00:00 UTC"})
    assert {s.submitted for s in found.submissions} == {None}


# ---------------------------------------------------------------- zips and forged names


def test_a_class_zip_in_the_folder_is_the_class(tmp_path):
    (tmp_path / "in").mkdir()
    invented.as_zip(tmp_path / "in" / "Course-Lab15-77.zip", invented.in_form("moodle", CLASS))
    assert len(intake.survey(tmp_path / "in", tmp_path / "room").submissions) == len(CLASS)


def test_a_students_zip_cannot_bring_in_other_students(tmp_path):
    folder = invented.as_folder(tmp_path / "in", {"bob/lab15_grpo.py": "b"})
    invented.as_zip(folder / "ann.zip", {"bob_11_12_lab15_grpo.py": "x", "cid_1_2_lab15.py": "y"})
    found = intake.survey(folder, tmp_path / "room")
    assert {s.student for s in found.submissions} == {"ann", "bob"}


FORGED = {
    "canvas": "mal_66_700_{}", "moodle_flat": "Mal Lory_66_assignsubmission_file_{}",
    "blackboard": "lab15_mal_attempt_2026-11-29-12-00-00_{}",
}
OF_OTHERS = [
    "lab15_u003x_attempt_2026-12-24-12-00-00_lab15_grpo.py", "leeann_503_99999_lab15_grpo.py",
    "x_attempt_2026-12-24-12-00-00.txt", "Ann Lee_503_assignsubmission_file_lab15_grpo.py",
    "_attempt_2026-12-24-12-00-00_lab15_grpo.py", "_503_99999_lab15_grpo-9.py",
]


@pytest.mark.parametrize("form", FORGED)
@pytest.mark.parametrize("name", OF_OTHERS)
def test_no_name_of_a_file_gets_at_another_students_row(form, name, tmp_path):
    before, _ = survey(form, tmp_path, True)
    texts = {s.student: s.read()[0] for s in before.submissions}
    shutil.rmtree(tmp_path / "room")
    files = {FORGED[form].format(name): "Name: Ann Lee (u003x)\n", FORGED[form].format("a.py"): "x"}
    after, tops = survey(form, tmp_path, True, CLASS, files)
    rows = {s.student: s for s in after.submissions}
    assert len(rows) == len(before.submissions) + 1
    for sub in before.submissions:
        now = rows[sub.student]
        assert (now.submitted, now.ids) == (sub.submitted, sub.ids)
        assert now.read()[0] == texts[sub.student]


# ---------------------------------------------------------------- what is left out is counted


def lines_of(found):
    """Return the lines that the command would print of a class, and {student: note}."""
    counts = [(s.student, s.skipped) for s in found.submissions]
    lines = [*found.warnings, *skipped.of_class(counts, ", ".join)]
    return lines, {s.student: s.note for s in found.submissions}


def test_files_that_are_too_many_are_counted_in_the_note_and_for_the_class(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "OF_ONE", 3)
    files = {f"ann/venv/{n}.py": "x" for n in range(9)} | {"ann/lab15_grpo.py": "a = 1"}
    files |= {f"ben/{n}.py": "x" for n in range(3)} | {"ben/lab15_grpo.py": "b = 1"}
    files |= {f"cy/{'d' * 1000}.py": "x", "cy/lab15_grpo.py": "c = 1"}
    place = invented.as_zip(tmp_path / "class.zip", files)
    lines, notes = lines_of(intake.survey(place, tmp_path / "room"))
    assert "not looked at: 6 files beyond the first" in notes["ann"]
    assert notes["ben"].startswith("it was not unpacked: it is a file beyond the first")
    assert "not looked at: 1 file with a name of more than 1000" in notes["cy"]
    (line,) = [line for line in lines if line.startswith("not looked at")]
    assert "notes of 3 students say: 8 files" in line and line.endswith("ann, ben, cy")


def test_a_students_own_zips_and_folders_are_counted_too(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "OF_ONE", 3)
    monkeypatch.setattr(listing, "MOST", 7)
    place = tmp_path / "in"
    deep = "/".join("abcdefghij")
    invented.as_folder(place, {f"ann/{deep}/x.txt": "x", "ann/lab15_grpo.py": "a = 1",
                               **{f"ben/{n}.txt": "x" for n in range(10)}})
    inner = {f"venv/{n}.py": "x" for n in range(5)} | {"lab15_grpo.py": "z = 1"}
    (place / "zoe").mkdir()
    (place / "yan").mkdir()
    for n in range(7):
        invented.as_zip(place / "zoe" / f"{n}.zip", inner)
    invented.as_zip(place / "yan" / "a.zip", {"b.zip": "no zip", "c.zip": "none"})
    lines, notes = lines_of(intake.survey(place, tmp_path / "room"))
    assert "not looked at: 1 folder more than 6 deep" in notes["ann"]
    assert "not looked at: 3 files beyond the first" in notes["ben"]
    assert "10 files beyond the first" in notes["zoe"]
    assert "2 zips beyond the first 5" in notes["zoe"]
    assert "2 zips in a zip that cannot be unpacked" in notes["yan"]
    assert any("notes of 4 students say: 18 files, folders or zips" in line for line in lines)


@pytest.mark.parametrize("zipped", [False, True])
def test_litter_within_is_counted_and_never_graded(zipped, tmp_path):
    more = {f"ann/{name}": invented.work(7) for name in (
        ".ipynb_checkpoints/lab15_grpo.py", "__pycache__/a.pyc", "__pycache__/b.pyc", ".git/x/y",
        "sub/.DS_Store", "sub/._c.py", "sub/c.py")}
    found, _ = survey("folder", tmp_path, zipped, CLASS[:3], more)
    (line,) = [line for line in found.warnings if line.startswith("left out")]
    assert ": 5: " in line and "__pycache__ (1)" in line and "._* (1)" in line
    (ann,) = [s for s in found.submissions if s.student == "ann"]
    assert ann.path.read_bytes() == invented.work(7).encode() and "c.py" in ann.note


def test_gradescopes_metadata_have_a_limit_and_count_who_has_no_name(tmp_path, monkeypatch):
    files = invented.in_form("gradescope", CLASS[:4])
    files["submission_metadata.yml"] += "submission_9:\n  :submitters: []\n"
    place = invented.as_folder(tmp_path / "in", files)
    found = intake.survey(place, tmp_path / "room")
    assert "names no student for 1 of 5 folders" in found.warnings[0]
    assert len(found.submissions) == 4
    monkeypatch.setattr(exports, "METADATA_BYTES", 200)
    found = intake.survey(place, tmp_path / "room2")
    assert "was not read" in found.warnings[0] and len(found.submissions) == 4


def test_of_many_python_files_the_rest_is_counted(monkeypatch):
    monkeypatch.setattr(choice, "MOST", 2)
    pieces = [choice.Piece(f"{n}.py", None) for n in range(5)]
    assert "3 more .py files were not looked into" in choice.choose(pieces).note
