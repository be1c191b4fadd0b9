"""Who handed in what: folders, course systems' zips, and names and files that mean harm."""

import errno
import os
import zipfile

import pytest

from instructor.submissions import archives, exports, intake

from .invented_class import as_folder, as_zip

NAME = intake.NAME


def found_in(source, tmp_path):
    """Return {student: Submission}."""
    found = intake.survey(source, tmp_path / "room").submissions
    assert len({s.student for s in found}) == len(found)
    return {s.student: s for s in found}


def texts(found):
    read = {name: sub.read()[0] for name, sub in found.items()}
    return {name: data and data.decode() for name, data in read.items()}


# ---------------------------------------------------------------- folders


def test_a_folder_of_folders_and_files(tmp_path):
    files = {f"ann/{NAME}": "a", f"bob/lab15/{NAME}": "b", "bob/conftest.py": "-"}
    files |= {"cid/my_lab.py": "c", "dan/notes.txt": "-", "eve.py": "e", f"=cmd/{NAME}": "f"}
    files |= {"gil/lab15_grpo (1).py": "g", "gil/test_x.py": "-", "hal/lab15.py": "h"}
    files |= {"hal/helper.py": "-", f"-rf/{NAME}": "r", "ian.ipynb": "{}", "notes.txt": "-"}
    found = found_in(as_folder(tmp_path / "in", files), tmp_path)
    wanted = {"ann": "a", "bob": "b", "cid": "c", "dan": None, "eve": "e", "'=cmd": "f"}
    wanted |= {"gil": "g", "hal": "h", "'-rf": "r", "ian": None, "notes": None}
    assert texts(found) == wanted
    assert "my_lab.py" in found["cid"].note and not found["bob"].note


def test_nbgraders_tree_and_its_times(tmp_path):
    files = {f"ann/lab15/{NAME}": "a", "ann/lab15/timestamp.txt": "2026-11-29 12:00:00 UTC\n"}
    files |= {f"bob/lab15/{NAME}": "b", "bob/lab15/timestamp.txt": "<b>=1+1</b>"}
    found = found_in(as_folder(tmp_path / "submitted", files), tmp_path)
    assert texts(found) == {"ann": "a", "bob": "b"}
    assert found["ann"].submitted == "2026-11-29 12:00:00 UTC" and found["bob"].submitted is None


def test_names_that_are_no_names(tmp_path):
    names = ["a\nb", "a\tb", "\u00e4\u6f22", "..x", "x" * 200, "a b ", "<i>"]
    files = {f"{name}/{NAME}": "x" for name in names} | {"ann.py": "x", f"ann/{NAME}": "x"}
    found = found_in(as_folder(tmp_path / "in", files), tmp_path)
    assert {"a?b", "a?b (2)", "ann", "ann (2)", "\u00e4\u6f22"} <= set(found)
    assert all(name.isprintable() for name in found)


def test_links_pipes_and_folders_are_not_read(tmp_path):
    folder = as_folder(tmp_path / "in", {"secret": "s", f"ann/{NAME}/x.txt": "x", "bob/x.txt": ""})
    (folder / "a.py").symlink_to(folder / "secret")
    (folder / "linked").symlink_to(folder / "ann")
    os.mkfifo(folder / "b.py")
    os.mkfifo(folder / "bob" / NAME)
    os.mkfifo(folder / "c.zip")
    (folder / "d.py").mkdir()
    found = found_in(folder, tmp_path)
    assert set(found) == {"a", "ann", "b", "bob", "c", "d.py", "linked", "secret"}
    assert set(texts(found).values()) == {None}
    assert "link" in found["linked"].note and "link" in found["a"].read()[1]


@pytest.mark.parametrize("data, word", [
    (b"", "empty"), (b" \n", "empty"), (b"a\0b", "zero bytes"), (b"x" * (2 << 20), "larger"),
    (1 << 30, "larger"), (b'\n{"cells": [],\n "nbformat": 4}', "notebook"),
])
def test_rejects_files_without_text(tmp_path, data, word):
    """A number is the size of a file of zeros, too large to be read."""
    path = tmp_path / "a.py"
    with open(path, "wb") as file:
        file.truncate(data) if isinstance(data, int) else file.write(data)
    assert intake.read(path)[0] is None and word in intake.read(path)[1]


def test_utf16_is_understood(tmp_path):
    (tmp_path / "a.py").write_bytes("x = 1\n".encode("utf-16"))
    assert intake.read(tmp_path / "a.py") == (b"x = 1\n", "")


def test_reports_that_there_is_nothing_to_grade(tmp_path):
    for path in (tmp_path / "nowhere", tmp_path):
        with pytest.raises(FileNotFoundError, match="there is no"):
            intake.survey(path)


# ---------------------------------------------------------------- course systems


PACKED = [lambda tmp_path, files: as_zip(tmp_path / "in.zip", files),
          lambda tmp_path, files: as_folder(tmp_path / "in", files)]


@pytest.mark.parametrize("packed", PACKED)
def test_moodle(tmp_path, packed):
    files = {f"Ann Lee_123_assignsubmission_file/{NAME}": "a"}
    files[f"Bob Ray_124_assignsubmission_file_/{NAME}"] = "b"
    files[f"Ann Lee_125_assignsubmission_file/{NAME}"] = "another Ann"
    files[f"Cid Poe_126_assignsubmission_file_{NAME}"] = "c"
    source = packed(tmp_path, files)
    wanted = {"Ann Lee (123)": "a", "Ann Lee (125)": "another Ann", "Bob Ray": "b", "Cid Poe": "c"}
    assert texts(found_in(source, tmp_path)) == wanted


@pytest.mark.parametrize("packed", PACKED)
def test_canvas_takes_the_last_attempt_and_names_who_is_late(tmp_path, packed):
    files = {"leeann_11_100_lab15_grpo.py": "1", "leeann_11_102_lab15_grpo-2.py": "3"}
    files |= {"leeann_11_101_lab15_grpo-1.py": "2", "raybob_LATE_12_50_lab15_grpo.py": "b"}
    files |= {"leeann_13_200_lab15_grpo-10.py": "another Ann"}
    source = packed(tmp_path, files)
    found = found_in(source, tmp_path)
    assert texts(found) == {"leeann (11)": "3", "leeann (13)": "another Ann", "raybob": "b"}
    assert found["raybob"].late is True and found["leeann (11)"].late is None
    assert found["raybob"].submitted is None and "newest upload" in found["leeann (11)"].note


def test_files_that_only_look_a_little_like_canvas_keep_their_names(tmp_path):
    files = {"loop_1_2_x.py": "a", "loop_1_3_x.py": "b"}
    found = texts(found_in(as_folder(tmp_path / "in", files), tmp_path))
    assert found == {"loop_1_2_x": "a", "loop_1_3_x": "b"}


def test_zips_as_nbgrader_collects_them(tmp_path):
    (tmp_path / "in").mkdir()
    for name, text in (("ada_attempt_2026-11-29-12-00-00", "new"),
                       ("ada_attempt_2026-11-28-23-00-00", "old"),
                       ("bob_attempt_2026-11-28-23-00-00", "b")):
        as_zip(tmp_path / "in" / f"{name}_lab15.zip", {NAME: text})
    assert texts(found_in(tmp_path / "in", tmp_path)) == {"ada": "new", "bob": "b"}


METADATA = """---
submission_1:
  :submitters:
  - :name: Ann Lee
    :sid: '7'
    :email: ann@example.edu
  - :name: Bob Ray
  :created_at: 2026-11-29 10:00:00.5 Z
submission_2:
  :submitters:
  - :email: cid@example.edu
"""


def test_gradescope(tmp_path):
    files = {f"submission_1/{NAME}": "a", f"submission_2/{NAME}": "b"}
    files["submission_metadata.yml"] = METADATA
    files = {f"assignment_9_export/{name}": text for name, text in files.items()}
    found = found_in(as_zip(tmp_path / "g.zip", files), tmp_path)
    assert texts(found) == {"Ann Lee": "a", "Bob Ray": "a", "cid@example.edu": "b"}
    assert found["Ann Lee"].submitted.startswith("2026-11-29 10:00:00")


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "a: !!python/object:os.system {}", "a: 3"])
def test_odd_metadata_is_no_error(tmp_path, text):
    (tmp_path / "m.yml").write_text(text, encoding="utf-8")
    assert exports.gradescope(tmp_path / "m.yml")[0] == {}


# ---------------------------------------------------------------- zips


def test_a_students_own_zip_is_opened_and_those_in_it_are_not(tmp_path):
    folder = as_folder(tmp_path / "in", {"bob/x.txt": "", "cid/broken.zip": b"PK\x03\x04"})
    deep = {f"deep/down/{NAME}": "b", "deep/conftest.py": "-"}
    as_zip(folder / "bob" / "my work.zip", deep)
    inner = as_zip(tmp_path / "inner.zip", {NAME: "x"}).read_bytes()
    as_zip(folder / "ann.zip", {"inner.zip": inner, "notes.txt": "-"})
    as_zip(folder / "dan.zip", {NAME: "d"})
    found = found_in(folder, tmp_path)
    assert texts(found) == {"ann": "x", "bob": "b", "cid": None, "dan": "d"}
    assert "cannot be unpacked" in found["cid"].note


def test_nothing_is_written_outside_of_the_folder(tmp_path):
    files = {"../../evil.py": "x", "/abs/evil.py": "y", "a\\..\\evil.py": "z", "../lab.py": "w"}
    files |= {f"{'d' * 300}/{'e' * 300}.py": "v", "a:b/con.py": "u", "\u00e4" * 120 + ".py": "t"}
    archives.unpack(as_zip(tmp_path / "e.zip", files), tmp_path / "in" / "out")
    written = [p.relative_to(tmp_path).parts[:2] for p in tmp_path.rglob("*.py")]
    assert set(written) == {("in", "out")} and len(written) == len(files)


def test_a_link_in_a_zip_is_a_file(tmp_path):
    entry = zipfile.ZipInfo(f"ann/{NAME}")
    entry.create_system, entry.external_attr = 3, 0o120777 << 16
    with zipfile.ZipFile(tmp_path / "l.zip", "w") as file:
        file.writestr(entry, "/etc/passwd")
    assert texts(found_in(tmp_path / "l.zip", tmp_path)) == {"ann": "/etc/passwd"}


def test_a_students_zip_cannot_fill_the_disk(tmp_path):
    folder = as_folder(tmp_path / "in", {f"bob/{NAME}": "b"})
    with zipfile.ZipFile(folder / "ann.zip", "w", zipfile.ZIP_DEFLATED) as file:
        for n in range(20):
            file.writestr(f"{n}/{NAME}", b"x" * (1 << 20))
    found = found_in(folder, tmp_path)
    assert texts(found) == {"ann": None, "bob": "b"} and "too much" in found["ann"].note


def test_a_full_disk_is_no_students_fault(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    folder = as_folder(tmp_path / "in", {f"bob/{NAME}": "b"})
    as_zip(folder / "ann.zip", {NAME: "a"})
    monkeypatch.setattr(archives, "_write", full)
    with pytest.raises(OSError, match="No space left"):
        found_in(folder, tmp_path)


def test_a_broken_entry_costs_its_own_student_only(tmp_path):
    path = as_zip(tmp_path / "b.zip", {f"ann/{NAME}": "a" * 99, f"bob/{NAME}": "b"})
    path.write_bytes(path.read_bytes().replace(b"a" * 99, b"z" * 99))
    assert texts(found_in(path, tmp_path)) == {"ann": None, "bob": "b"}


def test_a_zip_with_too_many_files_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MOST", 3)
    path = as_zip(tmp_path / "a.zip", dict.fromkeys("abcd", ""))
    with pytest.raises(ValueError, match="more than 3 files"):
        archives.unpack(path, tmp_path / "out")
