"""Zips of course systems: who handed in what, and nothing outside of the folder."""

import zipfile

import pytest

from instructor import archives, intake


def zipped(path, files):
    with zipfile.ZipFile(path, "w") as file:
        for name, text in files.items():
            file.writestr(name, text)
    return path


def students(path, folder):
    notes = archives.unpack(path, folder)
    found = {s.student: s.path.read_text(encoding="utf-8") for s in intake.find(folder)}
    return found, notes


def test_moodle(tmp_path):
    files = {"Ann Lee_123_assignsubmission_file/lab15_grpo.py": "a"}
    files["Bob Ray_124_assignsubmission_file_/lab15_grpo.py"] = "b"
    found, _ = students(zipped(tmp_path / "m.zip", files), tmp_path / "out")
    assert found == {"Ann Lee": "a", "Bob Ray": "b"}


def test_canvas_takes_the_last_attempt_and_names_who_is_late(tmp_path):
    files = {"leeann_11_100_lab15_grpo.py": "1", "leeann_11_102_lab15_grpo-2.py": "3"}
    files |= {"leeann_11_101_lab15_grpo-1.py": "2", "raybob_LATE_12_50_lab15_grpo.py": "b"}
    found, notes = students(zipped(tmp_path / "c.zip", files), tmp_path / "out")
    assert found == {"leeann": "3", "raybob": "b"} and notes == {"raybob": "handed in late"}


def test_gradescope_and_plain_folders(tmp_path):
    files = {"submission_1/lab15_grpo.py": "a", "submission_2/lab15_grpo.py": "b"}
    files["submission_metadata.yml"] = "x"
    found, _ = students(zipped(tmp_path / "g.zip", files), tmp_path / "out")
    assert found == {"submission_1": "a", "submission_2": "b"}


def test_nothing_is_written_outside_of_the_folder(tmp_path):
    files = {"../../evil.py": "x", "/abs/evil.py": "y", "a\\..\\evil.py": "z", "../lab.py": "w"}
    archives.unpack(zipped(tmp_path / "e.zip", files), tmp_path / "in" / "out")
    outside = [p for p in tmp_path.rglob("*.py") if "out" not in p.parts[len(tmp_path.parts) :]]
    assert not outside and not list(tmp_path.parent.glob("evil.py"))


def test_a_file_that_unpacks_to_gigabytes_is_cut(tmp_path):
    path = tmp_path / "b.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("ann/lab15_grpo.py", "x" * (50 << 20))
    archives.unpack(path, tmp_path / "out")
    assert intake.read(tmp_path / "out" / "ann" / "lab15_grpo.py")[1].startswith("it is larger")


def test_what_is_no_zip_is_named(tmp_path):
    (tmp_path / "a.zip").write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(ValueError, match="cannot be unpacked"):
        archives.unpack(tmp_path / "a.zip", tmp_path / "out")
