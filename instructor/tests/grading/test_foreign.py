"""Bytes of strangers cause no exception, nothing above a size, and only linear work.

The properties need hypothesis; without it the rest of the file runs.
"""

import io
import json
import os
import struct
import subprocess
import sys
import tracemalloc
import warnings
import zipfile
from pathlib import Path

import pytest
import torch

from instructor.bench import foreign
from instructor.box import wire
from instructor.grading import judging, points, practice
from instructor.hidden import common
from instructor.records import feedback, lateness
from instructor.records import results as grader_results
from instructor.reporting import load
from instructor.submissions import archives, choice, exports, intake
from tests.labfile import ROOT, TASKS, ascii_line

NAME = intake.NAME

# ---------------------------------------------------------------- the list


def public_functions(name):
    """Yield the functions of a module that do not begin with an underscore."""
    import ast

    path = ROOT / "instructor" / (name.replace(".", "/") + ".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            yield f"{name}.{node.name}"


@pytest.mark.parametrize("name", foreign.MODULES)
def test_every_function_is_measured_or_takes_nothing_foreign(name):
    known = set(foreign.FOREIGN) | set(foreign.OURS)
    assert not set(public_functions(name)) - known, "put it into bench/foreign.py"


def test_every_module_is_looked_through_or_has_a_reason():
    """A new module must be in one of the lists."""
    top = ROOT / "instructor"
    listed, rest = {*foreign.MODULES, *foreign.APART}, []
    for path in sorted(top.rglob("*.py")):
        parts = path.relative_to(top).with_suffix("").parts
        if "wheats" in parts or parts[0] == "tests" or parts[-1] == "__init__":
            continue
        if not {".".join(parts[: n + 1]) for n in range(len(parts))} & listed:
            rest.append(".".join(parts))
    assert not rest, "put them into MODULES or APART of bench/foreign.py"
    assert not set(foreign.MODULES) & set(foreign.APART)
    assert all((top / n.replace(".", "/")).is_dir()
               or (top / f"{n.replace('.', '/')}.py").is_file() for n in listed)


def test_the_list_names_nothing_that_is_gone():
    every = {f for name in foreign.MODULES for f in public_functions(name)}
    assert set(foreign.OURS) <= every
    assert set(foreign.FOREIGN) - every == {"tests.labfile.ascii_line"}
    assert not set(foreign.OURS) & set(foreign.FOREIGN)


# What is worse than linear takes minutes on that much; a limit of processor time stops it.
WORK = """
import resource, sys
from instructor.bench import foreign as b
resource.setrlimit(resource.RLIMIT_CPU, (100, 100))
for name in sys.argv[2:]:
    for piece in sys.argv[1].split("|"):
        print(name, ascii(piece), flush=True)
        b.FOREIGN[name](b.text_of(b.PIECES[piece], 1 << 18))
print("done")
"""
QUICK = "blank|tab|newline|blank-newline|marks|minus|copies|path|lab"


@pytest.mark.skipif(os.name == "nt", reason="needs a limit of processor time")
def test_the_work_on_a_long_text_is_linear():
    names = [n for n in foreign.FOREIGN if not n.startswith(("course.", "reporting.similar"))]
    command = [sys.executable, "-c", WORK, QUICK, *names]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, encoding="utf-8")
    assert done.returncode == 0 and done.stdout.endswith("done\n"), (
        done.stdout.splitlines()[-1:], done.stderr[-500:])


# ---------------------------------------------------------------- properties


def some_bytes():
    """Return a strategy: bytes of any kind, and longer ones of few pieces."""
    st = pytest.importorskip("hypothesis.strategies",
                             reason="pip install -r instructor/requirements.txt")
    pieces = st.sampled_from([p.encode("utf-8", "replace") for p in foreign.PIECES.values()])
    parts = st.lists(st.tuples(pieces, st.integers(1, 400)), max_size=6)
    return st.binary(max_size=300) | parts.map(lambda found: b"".join(p * n for p, n in found))


def each(test, examples=60):
    """Run a test on many bytes; the same ones each time."""
    hypothesis = pytest.importorskip("hypothesis",
                                     reason="pip install -r instructor/requirements.txt")
    checks = hypothesis.HealthCheck
    hypothesis.settings(max_examples=examples, deadline=None, derandomize=True, database=None,
                        suppress_health_check=[checks.too_slow, checks.function_scoped_fixture])(
        hypothesis.given(some_bytes())(test))()


def words(data):
    """Return bytes as text, in the way that lets most of it through."""
    return data.decode("utf-8", "surrogateescape")


def test_any_bytes_are_a_file_or_a_reason(tmp_path):
    def test(data):
        path = tmp_path / "a.py"
        path.write_bytes(data)
        found, why = intake.read(path)
        assert (found is None) == bool(why) and len(why) < 200
        assert found is None or len(found) <= 2 * len(data)
        assert len(judging.file_hash(found, why)) == 16
        assert judging.file_version(found) is None

    each(test)


def test_any_bytes_are_a_frame_or_none():
    def test(data):
        for body in (data, struct.pack("<I", len(data)) + data,
                     wire.encode({"out": [torch.ones(3), words(data)]})[4:] + data):
            try:
                wire.decode(body)
            except wire.WireError:
                pass

    each(test)


def test_any_text_is_cut_and_harmless():
    def test(data):
        text = words(data)
        assert len(ascii_line(text, 100)) <= 100 and "\n" not in ascii_line(text)
        assert len(judging.clean(text)) <= 160 and not set(judging.clean(text)) & set("<>`[]|\n\\")
        said, mistakes = practice.read({"failures": [[text, text, text]] * 500}, 2)
        assert len(said) < 4000 and said.isascii() and not mistakes
        assert judging.builtin_error(text) == "an error"
        assert len(grader_results.file_name(text)) <= 100

    each(test)


def test_any_names_are_students():
    def test(data):
        text = words(data)
        names = [text, f"{text}.py", f"a_1_2_lab15{text}.py", f"{text}_1_assignsubmission_file_"]
        for some in (names, names[:2], names[2:3], names[3:]):
            system, found = exports.recognized(some)
            assert bool(system) == bool(found) and set(found) <= set(names)
            assert all(named.student for named in found.values())
        exports.time_of(text), lateness.moment(text), choice.rank(text)
        assert len(intake._student(text)) <= intake.LONGEST + 4
        foreign._matched(text)

    each(test)


def test_any_words_make_a_page_and_a_row():
    def test(data):
        found = grader_results.document(foreign._result(words(data)))
        assert grader_results.tasks_of(found).keys() == TASKS.keys()
        page = feedback.page(found)
        assert len(page) < 100_000 and "<script" not in page.lower()
        assert all(len(str(cell)) < 2000 for cell in grader_results.row_of(found))
        json.dumps(found)

    each(test)


def test_any_results_are_a_record_or_a_reason(tmp_path):
    def test(data):
        sound = json.dumps(grader_results.document(foreign._result(words(data)))).encode()
        for content in (data, sound, sound.replace(b"1", data[:9]), sound[: len(data)]):
            try:
                record = load.parse(content, tmp_path)
            except ValueError:
                continue
            assert len(record.student) <= 200 and len(record.notes) <= 20

    each(test)


def test_any_reply_is_judged():
    def test(data):
        text = words(data)
        out = {"out": {"ids": text, "mask": None}, "responses": [text], "rewards": text, text: text}
        for number, module in foreign._modules().items():
            for value in (text, out, [text], {"kl": text}, (text, {text: 1.0})):
                reply = {"ok": True, "kept": True, "out": value, text: text}
                case = foreign._cases(number)[0]
                verdict = judging._judge(module, case, reply) or {}
                # Form may be right by chance; what gives points is not.
                passed = common.combine(module.TESTS, [verdict])
                assert not any(passed[test] for test in points.SHARES[number])

    each(test, 20)


def test_any_bytes_are_a_zip_or_a_reason(tmp_path):
    count = iter(range(10**6))

    def test(data):
        sound = io.BytesIO()
        with warnings.catch_warnings(), zipfile.ZipFile(sound, "w", zipfile.ZIP_DEFLATED) as file:
            warnings.simplefilter("ignore")
            file.writestr("ann/lab15_grpo.py", data)
            name = words(data)[:200].encode("utf-8", "replace").decode().replace("\0", "")
            file.writestr(f"n{name}.py", "x")
        whole = sound.getvalue()
        middle = len(whole) // 2
        for content in (data, whole, whole[:middle] + data[:40] + whole[middle + 40:], whole[9:]):
            path = tmp_path / "a.zip"
            path.write_bytes(content)
            room = tmp_path / str(next(count))
            try:
                archives.unpack(path, room)
            except ValueError:
                continue
            assert all(p.resolve().is_relative_to(room.resolve()) for p in room.rglob("*"))

    each(test)


# ---------------------------------------------------------------- zips that mean harm


def zipped(path, *entries, method=zipfile.ZIP_DEFLATED):
    """Write a zip of (name, bytes); the same name may come twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as file:
        warnings.simplefilter("ignore")
        for name, content in entries:
            file.writestr(name, content)
    return path


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
    found = {s.student: s for s in intake.find(folder, tmp_path / "room")}
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
    found = {s.student: s for s in intake.find(whole, tmp_path / "room")}
    assert set(found) == {"ann", "mia", "zoe"} and found["zoe"].read()[0] == b"x = 1\n"


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
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
    found = intake.find(path, tmp_path / "room")
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
    mia, zoe = intake.find(tmp_path / "in", tmp_path / "room")
    with pytest.raises(intake.Unseen, match="cannot be read"):
        judging.judge(mia, None, None)
    assert not zoe.unseen and zoe.read()[0] is None


def test_a_file_beyond_all_reason_is_not_parsed(tmp_path):
    for text in ("a=1\n" * (intake.LINES + 1), "a=1\r" * (intake.LINES + 1)):
        (tmp_path / "a.py").write_bytes(text.encode())
        assert "lines" in intake.read(tmp_path / "a.py")[1]

