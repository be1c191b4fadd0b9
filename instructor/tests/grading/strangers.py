"""The doors by which text of strangers comes in, and all that the grader does behind them.

Each function takes any text, goes the way of the grader with it to the end, and fails where the
text raises something, is not cut, or could do harm.
"""

import contextlib
import io
import json
import struct
import tempfile
import warnings
import zipfile
from functools import cache
from pathlib import Path
from types import SimpleNamespace

from instructor import report
from instructor.box import wire
from instructor.gradescope import run as gradescope
from instructor.grading import judging, points, practice
from instructor.records import lateness, results, roster, tables, uploads
from instructor.reporting import load
from instructor.submissions import archives, exports, intake, listing, skipped
from tests.labfile import ascii_line

# Pieces that regular expressions, parsers and layouts are known to stumble over.
PIECES = [
    " ", "\t", "\n", "\r\n", "\0", "a", "9", "-", "_", ".", "/", "\\", '"', "'", "[", "[]", "{",
    "<", "&", "#", "=", ",", "@", "+", "\u0301", "\u202e", "\ud800", "\U0001f600", " \n",
    "def k3_kl(\n", "import ", "_1", '{"a":', "a_1_1_", "a ", "Error", '# "\n', "(\n ",
    "\u0301\u0316", " (1)", "a/", "_lab15",
]
# What a course system, or a student, makes of a name.
FORMS = (
    "{}/lab15_grpo.py", "ann/{}.py", "ann/lab15_grpo{}.py", "._{}", "ann_1_2_lab15{}.py",
    "{}_1_assignsubmission_file_/a.py", "lab15_{}_attempt_2026-11-29-12-00-00.txt",
    "lab15_ann_attempt_2026-11-29-12-00-00_{}.py",
)
NAME = 9000  # characters of a name in a zip


def encoded(text):
    """Return a text as bytes, whatever is in it; bytes that were no text are as they were."""
    with contextlib.suppress(UnicodeEncodeError):
        return text.encode("utf-8", "surrogateescape")
    return text.encode("utf-8", "surrogatepass")


def zipped(path, *entries, method=zipfile.ZIP_DEFLATED):
    """Write a zip of (name, bytes) and return its path; the same name may come twice."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as file:
        warnings.simplefilter("ignore")
        for name, content in entries:
            file.writestr(name.encode("utf-8", "replace").decode().replace("\0", ""), content)
    return path


def folder():
    """Give a folder for a while."""
    return tempfile.TemporaryDirectory()


@cache
def course():
    """Return hidden tests with two cases each."""
    made = judging.Course("a seed for strangers")
    made.cases = {number: cases[:2] for number, cases in made.cases.items()}
    return made


def looked_at(found):
    """Read what was found, and look for its students on a roster."""
    assert len({s.student for s in found.submissions}) == len(found.submissions)
    for sub in found.submissions:
        data, why = sub.read()
        assert (data is None) == bool(why) and len(why) < 500 and len(sub.student) < 300
        assert len(judging.file_hash(data, why)) == 16
        assert judging.file_version(data) is None
        assert len(judging.clean(sub.note)) <= 160
    member = roster.Member("Lee, Ann", "", "", exports.Ids("1"), 0.0, 2)
    table = tables.Table(["Student", "ID"], [["Lee, Ann", "1"]], [2])
    roster.match(roster.Roster([member], table, [], True), found.submissions, found.system)


def names(text):
    """Hand in a class's zip for each form of a name, with the text in names and in files."""
    pieces = [text[:400], text[:600], *(text[i : i + NAME] for i in range(0, len(text), NAME))]
    for form in FORMS:
        entries = [(form.format(f"{number}{piece}"), encoded(f"Name: {text[:999]} (a)\n"))
                   for number, piece in enumerate(pieces)]
        with folder() as place:
            path = zipped(Path(place, "class.zip"), *entries, ("zoe/lab15_grpo.py", encoded(text)),
                          (exports.METADATA, encoded(text[: 1 << 12])))
            looked_at(intake.survey(path, Path(place, "room")))
    deep = [archives.Entry(archives._parts(f"ann/{4 * text}/{n}.py"), None, False) for n in "ab"]
    skipped.without_litter(listing.of_zip(deep if "/" in text else []), 0)
    assert len(results.file_name(text)) <= 100
    exports.info(f"Name: {text}"), exports.time_of(text)
    lateness.moment(f"2026-11-29 12:00{text}")


def zips(text):
    """Unpack a zip that is this text, and zips with a piece of it in the place of theirs."""
    with folder() as place:
        path = zipped(Path(place, "a.zip"), ("ann/lab15_grpo.py", encoded(text)),
                      (f"n{text[:200]}.py", b"x"))
        whole, piece = path.read_bytes(), encoded(text[:40])
        middle = len(whole) // 2
        spoiled = whole[:middle] + piece + whole[middle + len(piece) :]
        for number, content in enumerate((encoded(text), whole, spoiled, whole[9:])):
            path.write_bytes(content)
            room = Path(place, f"room{number}")
            with contextlib.suppress(ValueError):
                archives.unpack(path, room)
            assert all(p.resolve().is_relative_to(room.resolve()) for p in room.rglob("*"))


def files(text):
    """Hand in a folder with the text as a lab file, as a zip, and as what a course system adds."""
    with folder() as place:
        top = Path(place, "in", "ann")
        top.mkdir(parents=True)
        for name in ("lab15_grpo.py", "a.zip", "timestamp.txt"):
            (top / name).write_bytes(encoded(text))
        (top.parent / exports.METADATA).write_bytes(encoded(text[: 1 << 12]))
        looked_at(intake.survey(top.parent, Path(place, "room")))
        gradescope.copy(top, Path(place, "copy"))


def frames(text):
    """Decode the text as a frame, as the head of one, and as a string in one."""
    head = json.dumps({"$d": [["text", text]]}).encode()
    for body in (encoded(text), *(struct.pack("<I", len(h)) + h for h in (encoded(text), head))):
        with contextlib.suppress(wire.WireError):
            wire.decode(body)


def answers(text):
    """Judge answers that are this text; return a result with all that was kept of it."""
    tasks = {}
    for number, module in course().modules.items():
        for value in (text, {"out": {"ids": text, "mask": None}, "responses": [text], "kl": text,
                             "rewards": text, text: text}, [text], (text, {text: 1.0})):
            for good in (True, False):
                reply = {"ok": good, "kept": True, "out": value, "error": text, text: text}
                box = SimpleNamespace(call=lambda send, answer, reply=reply: dict(reply))
                task = judging.judge_task(number, box, course(), "written")
                # Form may be right by chance; what gives points is not.
                passed = {i for i, t in module.TESTS.items() if task["tests"][t.name]}
                assert not passed & points.SHARES[number].keys()
        said, mistakes = practice.read({"failures": [[text, text, text]] * 500}, number)
        assert len(said) < 4000 and said.isascii() and not mistakes
        words = judging.clean(text)
        assert len(words) <= 160 and not set(words) & set("<>`[]|\n\\")
        tasks[number] = task | {"public": said, "mistakes": mistakes, "messages": [words]}
    assert judging.builtin_error(text) == "an error" and len(ascii_line(text, 100)) <= 100
    return {"student": intake._student(text), "tasks": tasks, "notes": [words] * 12,
            "seconds": 1.0, "file": "f", "version": None, "submitted": None, "late": None,
            "hashes": course().hashes, "lab_version": "1.0"}


def outcomes(text):
    """Write the result of such answers, for all who take it; report on the class."""
    result = answers(text)
    with folder() as place:
        student = result["student"]
        by_hand = results.ByHand({student: intake.Submission(student, Path("x"), text)})
        kept = results.Results(Path(place), course(), [student], by_hand)
        kept.add(result, encoded(text))
        kept.table()
        assert kept.keep(student)
        assert all(len(str(cell)) < 2000 for row in kept.as_rows() for cell in row.values())
        (path,) = Path(place).glob("*/feedback.html")
        page = path.read_text(encoding="utf-8")
        assert len(page) < 100_000 and "<script" not in page.lower()
        rows = [uploads.Row(row | {"id": "1", "login": "ann"}, None) for row in kept.as_rows()]
        for system in uploads.SYSTEMS:
            uploads.write(system, Path(place), rows, None)
        reported(Path(place), path.with_name("results.json"), text)


def reported(place, path, text):
    """Report on results in which the text stands wherever a text can, uncut; and on no results."""
    found = json.loads(path.read_text(encoding="utf-8"))
    line = {"task": text, "before": 0, "after": 0, "reason": text}
    found["extra_data"] |= {"student": text, "notes": [text], "by_hand": [line], "late": text}
    for test in found["tests"]:  # mistakes that count, so that the function is shown
        test["extra_data"] |= {"public": text, "hidden": {text: False},
                               "mistakes": [text, "task2.sample_std", "task3.k1"]}
    sound = json.dumps(found).encode()
    with contextlib.redirect_stdout(io.StringIO()):
        for data in (sound, sound.replace(b"1", encoded(text[:9])), encoded(text)):
            path.write_bytes(data)
            for flags in ([], ["--names", "--scores", str(place / "all.csv")]):
                code = report.main([str(place), "--out", str(place / "page.html"), *flags])
                assert code in (0, 1)
            for record in load.load([place]).records:
                assert len(record.student) <= 200 and all(len(n) <= 300 for n in record.notes)
    page = (place / "page.html").read_text(encoding="utf-8")
    assert len(page) < 200_000 and "<script" not in page.lower()


def notebooks(text):
    """Collect, mend, run and show a notebook of this text; needs nbgrader."""
    from instructor.course.lab15_nbgrader import collect, execute, repair, show

    with folder() as place:
        path = Path(place, "lab15.ipynb")
        path.write_bytes(encoded(text))
        with contextlib.suppress(ValueError):
            repair._read(path)
        packed = zipped(Path(place, "ann.zip"), (f"{text[:NAME]}/lab15_grpo.py", b"x"),
                        ("lab15.ipynb", encoded(text)))
        collect.take(packed, Path(place, "out"))
    collect.plain_name(text)
    cells = [{"cell_type": "markdown", "source": text, "id": text, "attachments": {text: text}}]
    released = SimpleNamespace(cells=[], metadata={}, nbformat=4, nbformat_minor=5)
    repair.rebuild(released, {"cells": cells})
    execute.clean([
        {"output_type": "stream", "text": text},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [text] * 3},
        {"output_type": "display_data", "data": {"image/png": text, "text/plain": text}},
    ])
    show.rendered(text), show.as_text(text), show.is_link(text)


DOORS = ("names", "zips", "files", "frames", "outcomes")
