"""Bytes of strangers cause no exception, nothing above a size, and only linear work."""

import os
import struct
import subprocess
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest

from instructor.grading import judging
from instructor.submissions import archives, intake
from tests.labfile import ROOT

from . import strangers
from .strangers import zipped

NAME = intake.NAME

# A second or two is enough for each; what is worse than linear takes minutes on that much.
WORK = """
import resource, sys, time
from instructor.tests.grading import strangers
for name in sys.argv[2:]:
    for piece in strangers.PIECES[:: int(sys.argv[1])]:
        print(name, ascii(piece), flush=True)
        resource.setrlimit(resource.RLIMIT_CPU, (int(time.process_time()) + 30, -1))
        getattr(strangers, name)((piece * (1 << 18))[: 1 << 18])
print("done")
"""


@pytest.mark.skipif(os.name == "nt", reason="needs a limit of processor time")
@pytest.mark.parametrize("doors", [strangers.DOORS, ["notebooks"]])
@pytest.mark.parametrize("every", [5, pytest.param(1, marks=pytest.mark.skipif(
    "LAB15_SLOW" not in os.environ, reason="slow: LAB15_SLOW=1 runs it"))])
def test_the_work_on_a_long_text_is_linear(doors, every):
    """Try one piece in five; as a slow test, all of them."""
    if "notebooks" in doors:
        pytest.importorskip("nbgrader", reason="pip install -r requirements.txt")
    done = subprocess.run([sys.executable, "-c", WORK, str(every), *doors], cwd=ROOT,
                          capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), (
        done.stdout.splitlines()[-1:], done.stderr[-500:])


@pytest.mark.parametrize("door", strangers.DOORS)
def test_any_bytes_are_taken_and_cause_no_exception(door):
    """Bytes of any kind, and longer ones of few pieces; the same ones each time."""
    hypothesis = pytest.importorskip("hypothesis",
                                     reason="pip install -r instructor/requirements.txt")
    from hypothesis import strategies as st

    pieces = st.sampled_from([p.encode("utf-8", "replace") for p in strangers.PIECES])
    parts = st.lists(st.tuples(pieces, st.integers(1, 400)), max_size=6)
    some = st.binary(max_size=300) | parts.map(lambda found: b"".join(p * n for p, n in found))

    @hypothesis.settings(max_examples=20 if door == "outcomes" else 60, deadline=None,
                         derandomize=True, database=None,
                         suppress_health_check=[hypothesis.HealthCheck.too_slow])
    @hypothesis.given(some)
    def run(data):
        getattr(strangers, door)(data.decode("utf-8", "surrogateescape"))

    run()


# ---------------------------------------------------------------- zips that mean harm


def spoiled(path, at, *, flag=None, method=None):
    """Change an entry of a zip: bytes of its content, its flags, its method."""
    data = bytearray(path.read_bytes())
    central = data.rindex(b"PK\x01\x02")
    if flag is not None:
        data[6] = data[central + 8] = flag
    if method is not None:
        data[8:10] = data[central + 10 : central + 12] = struct.pack("<H", method)
    if at is not None:
        data[at : at + 8] = b"\xff" * 8
    path.write_bytes(data)


HARM = {
    "deflate": lambda p: spoiled(zipped(p, (NAME, os.urandom(50) * 9)), 30 + len(NAME) + 3),
    "bzip2": lambda p: spoiled(zipped(p, (NAME, b"a" * 999), method=zipfile.ZIP_BZIP2), 49),
    "lzma": lambda p: spoiled(zipped(p, (NAME, b"a" * 999), method=zipfile.ZIP_LZMA), 46),
    "called bzip2": lambda p: spoiled(zipped(p, (NAME, b"a" * 999)), None, method=12),
    "called lzma": lambda p: spoiled(zipped(p, (NAME, b"a" * 999)), None, method=14),
    "called deflate64": lambda p: spoiled(zipped(p, (NAME, b"a" * 999)), None, method=9),
    "encrypted": lambda p: spoiled(zipped(p, (NAME, b"a" * 999)), None, flag=1),
    "cut": lambda p: p.write_bytes(zipped(p, (NAME, os.urandom(999))).read_bytes()[:-30]),
    "text": lambda p: p.write_bytes(b"no zip"),
    "empty": lambda p: p.write_bytes(b""),
    "names": lambda p: zipped(p, (f"{NAME}/x.py", b"x"), (NAME, b"y"), (f"{NAME}/", b""),
                              ("../../../x.py", b"z"), ("C:\\x.py", b"z"), ("con.py", b"z")),
}


@pytest.mark.parametrize("name", HARM)
def test_a_students_zip_costs_its_own_student(name, tmp_path):
    folder = tmp_path / "in"
    for student in ("ann", "zoe"):
        (folder / student).mkdir(parents=True)
        (folder / student / NAME).write_text("x = 1\n", encoding="utf-8")
    HARM[name](folder / "mia.zip") if folder.exists() else None
    found = {s.student: s for s in intake.survey(folder, tmp_path / "room").submissions}
    assert set(found) == {"ann", "mia", "zoe"}
    assert found["ann"].read()[0] == found["zoe"].read()[0] == b"x = 1\n"
    assert name == "names" or found["mia"].unseen and found["mia"].note


@pytest.mark.parametrize("name", [n for n in HARM if n not in ("text", "empty", "cut")])
def test_a_bad_entry_in_the_zip_of_a_class_costs_its_own_student(name, tmp_path):
    """The bad entry comes last, after two students' sound ones."""
    bad = tmp_path / "bad.zip"
    HARM[name](bad)
    whole = tmp_path / "class.zip"
    with zipfile.ZipFile(whole, "w") as file:
        file.writestr(f"ann/{NAME}", "x = 1\n")
        file.writestr("mia/mine.zip", bad.read_bytes())
        file.writestr(f"zoe/{NAME}", "x = 1\n")
    found = {s.student: s for s in intake.survey(whole, tmp_path / "room").submissions}
    assert set(found) == {"ann", "mia", "zoe"} and found["zoe"].read()[0] == b"x = 1\n"


@pytest.mark.parametrize("method", [zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_unpacks_to_gigabytes_is_not_unpacked(method, tmp_path):
    """Zipfile hands as much to bzip2 and LZMA as it is asked for, and takes what comes."""
    with zipfile.ZipFile(tmp_path / "a.zip", "w", method) as file:
        with file.open("lab15_grpo.py", "w") as entry:
            for _ in range(160):
                entry.write(bytes(1 << 20))
    tracemalloc.start()
    with zipfile.ZipFile(tmp_path / "a.zip") as file:
        data = archives._data(file, file.infolist()[0], archives.LARGEST)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert archives.LARGEST <= len(data) < 2 * archives.LARGEST and peak < 128 << 20


def test_entries_of_one_name_are_all_kept(tmp_path):
    path = zipped(tmp_path / "a.zip", *[("x/a.py", b"%d" % n) for n in range(40)],
                  ("x/a~2.py", b"other"), ("x/A.py", b"capital"))
    archives.unpack(path, tmp_path / "out")
    kept = {p.read_bytes() for p in (tmp_path / "out").rglob("*.py")}
    assert kept == {b"%d" % n for n in range(40)} | {b"other", b"capital"}


def test_one_folder_cannot_take_the_place_of_the_others(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "OF_ONE", 3)
    many = [(f"ann/venv/{n}.py", b"x") for n in range(9)]
    found = archives.unpack(zipped(tmp_path / "a.zip", *many, (f"zoe/{NAME}", b"z")),
                            tmp_path / "out")
    left = [entry for entry in found.entries if entry.why]
    assert len(left) == 6 and all(e.parts[:2] == ("ann", "venv") and e.path is None for e in left)
    (zoe,) = [entry.path for entry in found.entries if entry.parts == ("zoe", NAME)]
    assert zoe.read_bytes() == b"z"


@pytest.mark.parametrize("name", [
    "ann/{}.py", "ann/sub{}/a.py", "class/ann/sub{}/a.py", "ann_11_{}_a.py",
    "A B_7_assignsubmission_file_/{}.py",
])
def test_the_bytes_of_one_student_leave_room_for_the_others(name, tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "BYTES_OF_ONE", 1000)
    zoe = {"ann_": "zoe_12_900_lab15_grpo.py", "clas": f"class/zoe/{NAME}",
           "A B_": f"Z B_8_assignsubmission_file_/{NAME}"}.get(name[:4], f"zoe/{NAME}")
    path = zipped(tmp_path / "a.zip", *[(name.format(n), b"x" * 300) for n in range(9)],
                  (zoe, b"z"), (zoe.replace(NAME, "b.py"), b"b"))
    found = archives.unpack(path, tmp_path / "out")
    assert [e.why for e in found.entries] == [()] * 4 + [archives.LARGE] * 5 + [()] * 2
    assert found.entries[-2].path.read_bytes() == b"z"


def test_a_full_zip_costs_those_who_come_last_and_they_are_told(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "TOTAL", 1000)
    path = zipped(tmp_path / "class.zip", *[(f"s{n}/{NAME}", b"x" * 300) for n in range(6)])
    found = intake.survey(path, tmp_path / "room").submissions
    assert [s.path is not None for s in found] == [True] * 4 + [False] * 2
    assert all("beyond the first" in s.note for s in found[4:])


# ---------------------------------------------------------------- what cannot be looked at


def refuse(monkeypatch, name, error=PermissionError):
    """Let every folder and file of this name be closed to this account."""
    scan, opened = os.scandir, os.open

    def closed(path):
        return name in Path(os.fsdecode(path)).parts if not isinstance(path, int) else False

    def scandir(path="."):
        if closed(path):
            raise error(13, "Permission denied", path)
        return scan(path)

    def open_(path, *args, **kwargs):
        if closed(path):
            raise error(13, "Permission denied", path)
        return opened(path, *args, **kwargs)

    monkeypatch.setattr(os, "scandir", scandir)
    monkeypatch.setattr(os, "open", open_)


@pytest.mark.parametrize("closed", ["mia", NAME])
def test_an_unreadable_file_is_no_zero(closed, tmp_path, monkeypatch):
    (tmp_path / "in" / "mia").mkdir(parents=True)
    (tmp_path / "in" / "mia" / NAME).write_text("x = 1\n", encoding="utf-8")
    (tmp_path / "in" / "zoe").mkdir()
    refuse(monkeypatch, closed)
    mia, zoe = intake.survey(tmp_path / "in", tmp_path / "room").submissions
    with pytest.raises(intake.Unseen, match="cannot be read"):
        judging.judge(mia, None, None)
    assert not zoe.unseen and zoe.read()[0] is None


def test_a_file_beyond_all_reason_is_not_parsed(tmp_path):
    for text in ("a=1\n" * (intake.LINES + 1), "a=1\r" * (intake.LINES + 1)):
        (tmp_path / "a.py").write_bytes(text.encode())
        assert "lines" in intake.read(tmp_path / "a.py")[1]

