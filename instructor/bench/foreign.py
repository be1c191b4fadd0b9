"""Measure what text of strangers costs the grader: twice as long may take twice the time, no more.

    python -m instructor.bench.foreign [--json FILE] [--only NAME]

Every function of the grader that works on bytes from a sandbox, a zip, a notebook or a file's name
is listed in FOREIGN, and runs on 16 KiB and on 1 MiB of blanks, brackets, quotes and the like.
64 times the length may take 150 times the time at most. What takes less than FLOOR is not
measured: it was cut to a size. The exit code is 1 if a function takes longer.
"""

import argparse
import contextlib
import importlib
import io
import json
import os
import platform
import struct
import sys
import tempfile
import time
import zipfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch

from lab15_run import piped
from tests.labfile import TASKS, ascii_line

from ..box import wire
from ..gradescope import run as gradescope
from ..grading import judging, practice
from ..records import feedback as page
from ..records import files, lateness, results, roster, tables, uploads
from ..reporting import anonymous, copies, load, similar
from ..submissions import archives, choice, exports, intake, listing, skipped

SHORT, LONG, MOST, TIMES = 16 << 10, 1 << 20, 150, 5
FLOOR = 2e-3  # seconds of processor time
# Pieces that regular expressions, parsers and layouts are known to stumble over.
PIECES = {
    "blank": " ", "tab": "\t", "newline": "\n", "crlf": "\r\n", "zero": "\0", "letter": "a",
    "digit": "9", "minus": "-", "underscore": "_", "dot": ".", "slash": "/", "backslash": "\\",
    "quote": '"', "apostrophe": "'", "bracket": "[", "brackets": "[]", "brace": "{", "less": "<",
    "entity": "&", "hash": "#", "equals": "=", "comma": ",", "at": "@", "plus": "+",
    "combining": "\u0301", "direction": "\u202e", "surrogate": "\ud800", "astral": "\U0001f600",
    "blank-newline": " \n", "def": "def k3_kl(\n", "import": "import ", "moodle": "_1",
    "json": '{"a":', "canvas": "a_1_1_", "words": "a ", "error": "Error", "comment": '# "\n',
    "indent": "(\n ", "marks": "\u0301\u0316", "copies": " (1)", "path": "a/", "lab": "_lab15",
}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _file(work: Callable[[Path], object], text: str, name: str = "lab15_grpo.py") -> object:
    """Let something work on a file with this text."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(_bytes(text))
        return work(path)


def _zip(text: str) -> object:
    """Unpack a zip that has the text in its names and in its files."""
    names = [f"{i}{text[i : i + 9000]}" for i in range(0, len(text), 9000)]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            for name in names:
                with contextlib.suppress(UnicodeError):
                    file.writestr(f"{name.replace(chr(0), '')}.py", "x")
            file.writestr("lab15_grpo.py", _bytes(text))
        return archives.unpack(path, Path(folder, "out"))


def _frame(text: str) -> object:
    """Decode the text as the head of a frame, and as a string in one."""
    for head in (_bytes(text), json.dumps({"$d": [["text", text]]}).encode()):
        if len(head) <= wire.HEAD_LIMIT:
            with contextlib.suppress(wire.WireError):
                wire.decode(struct.pack("<I", len(head)) + head)
    return None


def _reply(text: str) -> object:
    row = [text, text, text]
    return practice.read({"failures": [row] * 3}, 2)


def _task(text: str) -> dict[str, Any]:
    """Return a task's result with the text where a file's words can be, cut as they are."""
    words = judging.clean(text)
    said, mistakes = practice.read({"failures": [[text, text, text]]}, 2)
    return {"points": 0.0, "tests": {"a test": False}, "messages": [words], "hints": [words],
            "state": "written", "public": said, "mistakes": mistakes}


def _result(text: str) -> dict[str, Any]:
    words = judging.clean(text)
    tasks = {n: _task(text) for n in TASKS}
    return {"student": intake._student(text[:255]), "tasks": tasks, "notes": [words] * 12,
            "seconds": 1.0, "file": "f", "version": None, "submitted": None, "late": None,
            "hashes": {n: "h" for n in TASKS}, "lab_version": "1.0"}


def _record(text: str) -> object:
    """Read a results.json that has the text where there is text."""
    found = results.document(_result(""))
    line = {"task": text, "before": 0, "after": 0, "reason": text}
    found["extra_data"] |= {"student": text, "notes": [text], "by_hand": [line]}
    found["tests"][0]["extra_data"] |= {"public": text, "mistakes": [text], "hidden": {text: True}}
    for data in (json.dumps(found).encode(), _bytes(text)):
        with contextlib.suppress(ValueError):
            load.parse(data, Path("x"))
    return None


def _lab_text(path: Path) -> str:
    return load.lab_text(load.Record("x", path.parent, 0.0, 0.0, {}))


def _odd_case(text: str) -> object:
    """Judge replies that are this text, in the place of numbers."""
    odd = {"ok": True, "kept": True, "out": {"out": text, "responses": [text], "rewards": text}}
    for number, module in _modules().items():
        for case in _cases(number)[:2]:
            judging._judge(module, case, odd | {"asked": [{"ask": text}] * 2})
    return None


@cache
def _modules() -> dict[int, Any]:
    return {n: importlib.import_module(f"instructor.hidden.task{n}") for n in TASKS}


@cache
def _cases(number: int) -> list[Any]:
    return _modules()[number].make("a seed for measuring")


def _outputs(text: str) -> object:
    """Clean the outputs of a notebook."""
    from ..course.lab15_nbgrader import execute

    outputs: list[Any] = [
        {"output_type": "stream", "text": text},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [text] * 3},
        {"output_type": "display_data", "data": {"image/png": text, "text/plain": text}},
    ]
    return execute.clean(outputs)


def _notebook(text: str) -> object:
    """Read a notebook and write it anew."""
    from ..course.lab15_nbgrader import repair

    with contextlib.suppress(ValueError):
        _file(repair._read, text, "lab15.ipynb")
    cells = [{"cell_type": "markdown", "source": text, "id": text, "attachments": {text: text}}]
    released = SimpleNamespace(cells=[], metadata={}, nbformat=4, nbformat_minor=5)
    return repair.rebuild(released, {"cells": cells})  # type: ignore[arg-type]


def _shown(name: str) -> Callable[[str], object]:
    """Return a function of show.py, which needs nbconvert."""
    def work(text: str) -> object:
        from ..course.lab15_nbgrader import show

        return getattr(show, name)(text)

    return work


def _course_zip(text: str) -> object:
    """Take a student's two files out of a zip that has the text in its names and in a file."""
    from ..course.lab15_nbgrader import collect

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "a.zip")
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            with contextlib.suppress(UnicodeError):
                file.writestr(f"{text[:9000].replace(chr(0), '')}/lab15_grpo.py", "x")
            file.writestr("lab15.ipynb", _bytes(text))
        return collect.take(path, Path(folder, "out"))


def _plain_name(text: str) -> object:
    from ..course.lab15_nbgrader import collect

    return collect.plain_name(text)


def _pieces(text: str) -> list[choice.Piece]:
    """Return files of one student that have the text in their names, one of a folder's depth."""
    names = (f"{text}.py", f"lab15_grpo{text}.py", f"a/{text}/lab15_grpo.py", text)
    return [choice.Piece(name, None) for name in names]


def _entries(text: str) -> list[archives.Entry]:
    return [archives.Entry(archives._parts(f"ann/{text}/{n}.py"), None, False) for n in "ab"]


def _student(text: str) -> intake.Submission:
    return intake.Submission(intake._student(text), None, "", text)


def _matched(text: str) -> object:
    """Look for somebody of this name on a roster, where another has the same id."""
    member = roster.Member("Lee, Ann", "", "", exports.Ids("1"), 0.0, 2)
    table = tables.Table(["Student", "ID"], [["Lee, Ann", "1"]], [2])
    return roster.match(roster.Roster([member], table, [], True), [_student(text)] * 3, "")


def _upload(text: str) -> object:
    cells = dict(zip(results.COLUMNS, results.row_of(results.document(_result(text))), strict=True))
    rows = [uploads.Row(cells | {"id": "1", "login": "ann"}, None)]
    with tempfile.TemporaryDirectory() as folder:
        return [uploads.write(system, Path(folder), rows, None) for system in uploads.SYSTEMS]


def _named(text: str) -> object:
    """Look for a course system's names among names with the text in them."""
    forms = ("a_1_2_lab15{}.py", "{}_1_assignsubmission_file_", "lab15_{}_attempt_2026-11-29{}.py")
    return [exports.recognized([form.replace("{}", text[:400]) for _ in "ab"]) for form in forms]


FOREIGN: dict[str, Callable[[str], object]] = {
    "tests.labfile.ascii_line": ascii_line,
    "submissions.archives.unpack": _zip,
    "submissions.choice.choose": lambda text: choice.choose(_pieces(text)),
    "submissions.choice.rank": choice.rank,
    "course.lab15_nbgrader.collect.plain_name": _plain_name,
    "course.lab15_nbgrader.collect.take": _course_zip,
    "course.lab15_nbgrader.execute.clean": _outputs,
    "course.lab15_nbgrader.repair.rebuild": _notebook,
    "course.lab15_nbgrader.show.as_text": _shown("as_text"),
    "course.lab15_nbgrader.show.is_link": _shown("is_link"),
    "course.lab15_nbgrader.show.rendered": _shown("rendered"),
    "course.lab15_nbgrader.show.visible": _shown("visible"),
    "submissions.exports.gradescope": lambda text: _file(
        exports.gradescope, text[: 1 << 12], "m.yml"),
    "submissions.exports.info": lambda text: exports.info(f"Name: {text}"),
    "submissions.exports.is_info": lambda text: exports.is_info(
        f"{text}_attempt_2026-11-29-12.{text}"),
    "submissions.exports.is_litter": lambda text: exports.is_litter(f"._{text}", {text}),
    "submissions.exports.is_ones_own": exports.is_ones_own,
    "submissions.exports.recognized": _named,
    "submissions.exports.time_of": exports.time_of,
    "submissions.exports.time_of_name": exports.time_of_name,
    "records.feedback.page": lambda text: page.page(results.document(_result(text))),
    "records.feedback.parts": lambda text: page.parts(2, _task(text)),
    "records.feedback.text": lambda text: page.text(2, _task(text)),
    "gradescope.run.copy": lambda text: _file(
        lambda p: gradescope.copy(p.parent, p.parent / "copy"), text),
    "submissions.intake.read": lambda text: _file(intake.read, text),
    "submissions.intake.find": lambda text: _file(
        lambda p: intake.find(p.parent.parent / p.parent.name), text),
    "grading.judging.builtin_error": judging.builtin_error,
    "grading.judging.clean": judging.clean,
    "grading.judging.file_hash": lambda text: judging.file_hash(_bytes(text)),
    "grading.judging.file_version": lambda text: judging.file_version(_bytes(text)),
    "grading.judging.run_cases": _odd_case,
    "records.lateness.moment": lambda text: lateness.moment(f"2026-11-29 12:00{text}"),
    "submissions.listing.of_zip": lambda text: listing.of_zip(_entries(text)),
    "grading.practice.named": lambda text: practice.named(text, text, 2),
    "grading.practice.plain": practice.plain,
    "grading.practice.read": _reply,
    "reporting.anonymous.code": lambda text: anonymous.code(text, 3, text[:255]),
    "reporting.anonymous.function_tokens": lambda text: anonymous.function_tokens(text, 3),
    "reporting.anonymous.message": lambda text: anonymous.message(load.text(text), text[:200]),
    "reporting.copies.written": copies.written,
    "reporting.load.lab_text": lambda text: _file(_lab_text, text),
    "reporting.load.parse": _record,
    "reporting.load.text": load.text,
    "reporting.similar.parts": similar.parts,
    "records.results.clean": results.clean,
    "records.results.document": lambda text: results.document(_result(text)),
    "records.results.file_name": results.file_name,
    "records.results.finished": lambda text: results.finished(
        results.document(_result(text)), results.ByHand()),
    "records.results.row_of": lambda text: results.row_of(results.document(_result(text))),
    "records.results.tasks_of": lambda text: results.tasks_of(results.document(_result(text))),
    "records.roster.match": _matched,
    "records.roster.raw": lambda text: roster.raw(intake._student(text)),
    "submissions.skipped.without_litter": lambda text: skipped.without_litter(
        listing.of_zip(_entries(text)), 0),
    "records.tables.harmless": lambda text: tables.harmless([text]),
    "records.tables.written": lambda text: tables.written([[text]]),
    "records.uploads.write": _upload,
    "box.wire.decode": _frame,
}
# Modules that text of strangers goes through; each of their functions is in FOREIGN, or in OURS.
MODULES = (
    "submissions.archives", "submissions.choice", "submissions.exports", "submissions.intake",
    "submissions.listing", "submissions.skipped", "records.classlist", "records.feedback",
    "records.lateness", "records.overrides", "records.results", "records.roster",
    "records.tables", "records.uploads", "grading.judging", "grading.practice", "box.wire",
    "course.cycle", "course.lab15_nbgrader.collect", "course.lab15_nbgrader.execute",
    "course.lab15_nbgrader.formulas", "course.lab15_nbgrader.repair",
    "course.lab15_nbgrader.scores", "course.lab15_nbgrader.show", "gradescope.run",
    "reporting.anonymous", "reporting.copies", "reporting.load", "reporting.similar",
)
# The others, and why it goes through none of them; a folder stands for all in it.
APART = {
    "bench.foreign": "makes such text itself",
    "bench.grade": "measures on files of this repository",
    "build": "makes files of this repository",
    "builders": "makes files of this repository",
    "grading.bwrap": "makes a command line",
    "box.calls": "runs in the sandbox",
    "check": "judges variants of this repository",
    "course.assignment": "text of the released notebook",
    "course.lab15_nbgrader.export": "takes a gradebook of names that collect has checked",
    "course.lab15_nbgrader.hooks": "calls repair and cycle",
    "course.lab15_nbgrader.kernel": "starts a sandbox",
    "course.nbcheck": "runs in the student's own kernel",
    "course.nbgrader_config": "settings",
    "variants.direct": "puts variants of this repository through the hidden tests",
    "records.edited": "compares two tables of the grader, and the instructor's edits of one",
    "grading.engine": "reads this repository",
    "records.files": "writes bytes",
    "grade": "the command: classlist, judging and results",
    "hidden": "takes what wire has decoded; judging.run_cases is measured with all of them",
    "box.isolate": "runs in the sandbox",
    "box.standins": "runs in the sandbox",
    "launch": "holds no function",
    "mutate": "takes files of this repository",
    "variants.mutators": "takes files of this repository",
    "grading.points": "takes verdicts",
    "box.public_tests": "runs in the sandbox",
    "report": "the command: reporting",
    "reporting.doubt": "takes names that reporting.load has cut",
    "reporting.figures": "takes records that reporting.load has cut",
    "variants.runner": "judges variants of this repository",
    "grading.sandbox": "moves frames of bytes; wire reads them",
    "signatures": "puts variants of this repository through the hidden tests",
    "box.syscalls": "takes numbers",
    "variants.catalog": "reads this repository",
    "box.worker": "runs in the sandbox",
}
CUT = "takes a name that intake has cut"
INSTRUCTORS = "takes the instructor's own file, or what he or she types"
GIVEN = "takes numbers and texts that others here have cut"
STEPS = "runs steps that are listed here, or no text at all"
OURS = {
    "records.classlist.changes": GIVEN,
    "records.classlist.one": INSTRUCTORS,
    "records.classlist.read": "intake.survey, roster.match, and the instructor's own files",
    "records.classlist.some": CUT,
    "course.cycle.arguments": INSTRUCTORS,
    "course.cycle.ascii_text": "encodes",
    "course.cycle.autograde": STEPS,
    "course.cycle.check": INSTRUCTORS,
    "course.cycle.collect_from": "unpack, and collect",
    "course.cycle.collect_others": "submissions.intake.survey, and plain_name",
    "course.cycle.from_exchange": STEPS,
    "course.cycle.grade": STEPS,
    "course.cycle.main": STEPS,
    "course.cycle.mend": STEPS,
    "course.cycle.must": STEPS,
    "course.cycle.nbgrader": STEPS,
    "course.cycle.not_in_nbgrader": "takes results.json as the grader wrote it",
    "course.cycle.run": STEPS,
    "course.cycle.unpack": "takes a zip's parts by name, as collect.take",
    "course.lab15_nbgrader.collect.from_folder": "plain_name, for names that a file system has",
    "course.lab15_nbgrader.formulas.convert": "takes 200 formulas of 1,000 characters, for 5 s",
    "course.lab15_nbgrader.formulas.main": "runs in a process that convert ends",
    "course.lab15_nbgrader.repair.grade_id": "looks at types",
    "course.lab15_nbgrader.repair.main": STEPS,
    "course.lab15_nbgrader.repair.repair_all": STEPS,
    "course.lab15_nbgrader.repair.repair_one": "rebuild, for names that a file system has",
    "course.lab15_nbgrader.scores.find": "takes results.json as the grader wrote it",
    "course.lab15_nbgrader.scores.left_out": "takes results.json as the grader wrote it",
    "course.lab15_nbgrader.scores.load": "takes results.json as the grader wrote it",
    "course.lab15_nbgrader.scores.same_file": "compares bytes",
    "course.lab15_nbgrader.show.harmless": "takes what rendered has drawn of 10,000 characters",
    "course.lab15_nbgrader.show.markdown2html": "calls rendered",
    "course.lab15_nbgrader.show.picture": "takes a picture up to a limit",
    "gradescope.run.command": STEPS,
    "gradescope.run.end_others": "lists processes",
    "gradescope.run.grade": STEPS,
    "gradescope.run.has_user": STEPS,
    "gradescope.run.judged": STEPS,
    "gradescope.run.main": STEPS,
    "gradescope.run.read": "takes results.json as the grader wrote it",
    "submissions.intake.handed_in": "raw_hash, of 100 files at most",
    "submissions.intake.raw_hash": "hashes bytes up to a limit",
    "submissions.intake.survey": "find calls it",
    "submissions.intake.unique": CUT,
    "records.lateness.due": INSTRUCTORS,
    "records.lateness.judge": "moment, and numbers",
    "records.lateness.rule": INSTRUCTORS,
    "records.lateness.span": "takes a number",
    "submissions.listing.below": "takes items that of_folder or of_zip has made",
    "submissions.listing.of_folder": "takes names that a file system has, six folders deep",
    "records.overrides.apply": INSTRUCTORS,
    "records.overrides.most": "takes a number",
    "records.overrides.read": INSTRUCTORS,
    "records.overrides.told": INSTRUCTORS,
    "records.overrides.words": INSTRUCTORS,
    "reporting.copies.find": "written, once for each file",
    "reporting.load.class_of": "takes names that the grader wrote",
    "reporting.load.hand": "parse calls it",
    "reporting.similar.available": "looks for a package",
    "records.results.computed": GIVEN,
    "records.roster.find": CUT,
    "records.roster.key": CUT,
    "records.roster.names_of": INSTRUCTORS,
    "records.roster.read": INSTRUCTORS,
    "submissions.skipped.of_class": CUT,
    "submissions.skipped.told": "takes names of a fixed list",
    "submissions.skipped.words": "counts",
    "records.tables.decoded": INSTRUCTORS,
    "records.tables.number": INSTRUCTORS,
    "records.tables.parse": INSTRUCTORS,
    "records.tables.plain": INSTRUCTORS,
    "records.tables.read": INSTRUCTORS,
    "records.tables.shown": INSTRUCTORS,
    "grading.judging.fingerprint": "reads this repository",
    "grading.judging.scored": "takes verdicts",
    "grading.judging.blank": "takes messages that are clean",
    "grading.judging.judge_task": "run_cases, and a text that is clean",
    "grading.judging.judge": "all of the others, and a sandbox",
    "grading.practice.files": "reads this repository",
    "grading.practice.tests_of": "takes a number",
    "reporting.anonymous.identifiers": "reads this repository",
    "reporting.anonymous.vocabulary": "reads this repository",
    "reporting.anonymous.labels": "hashes names and texts that load has cut",
    "reporting.load.plain_file": "reads bytes up to a limit",
    "reporting.load.amount": "takes a number",
    "reporting.load.dictionary": "looks at a type",
    "reporting.load.outcome": "called by parse",
    "reporting.load.places": "lists folders that the grader has made",
    "reporting.load.newer": "compares two short texts",
    "reporting.load.load": "parse, for every folder",
    "reporting.similar.fingerprints": "takes what parts has cut, once for each file",
    "reporting.similar.alike": "takes numbers",
    "reporting.similar.surprise": "takes numbers",
    "reporting.similar.limit": "takes numbers",
    "reporting.similar.find": "parts and numbers",
    "box.wire.encode": "takes what the grader sends",
    "box.wire.read_all": "runs in the sandbox",
    "box.wire.write_all": "runs in the sandbox",
}


def text_of(piece: str, length: int) -> str:
    """Return a piece, repeated to this many characters."""
    return (piece * (length // len(piece) + 1))[:length]


def seconds(work: Callable[[str], object], text: str, times: int = TIMES) -> float:
    """Return the processor time that a function takes, the least of several.

    Args:
        work: function of a text.
        text: the text.
        times: how often it is called, at most.
    """
    found = []
    for _ in range(times):
        began = time.process_time()
        work(text)
        found.append(time.process_time() - began)
        if found[-1] > 2:  # no noise is as long as that
            break
    return min(found)


def measure(name: str) -> dict[str, Any]:
    """Return what a function of FOREIGN takes on the worst of PIECES."""
    work = FOREIGN[name]
    worst: dict[str, Any] = {"ratio": 0.0, "long": 0.0}
    work("a")  # what it imports, or makes once
    for label, piece in PIECES.items():
        short = max(FLOOR, seconds(work, text_of(piece, SHORT)))
        long = seconds(work, text_of(piece, LONG))
        if (long / short, long) > (worst["ratio"], worst["long"]):
            worst = {"ratio": long / short, "long": long, "short": short, "piece": label}
    return {"name": name, "good": worst["ratio"] <= MOST} | {
        k: round(v, 5) if isinstance(v, float) else v for k, v in worst.items()
    }


def main(args: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m instructor.bench.foreign",
                                     description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    parser.add_argument("--only", default="", metavar="NAME", help="functions with this in them")
    flags = parser.parse_args(args)
    found = []
    for name in FOREIGN:
        if flags.only in name:
            found.append(measure(name))
            one = found[-1]
            print(f"{name:36} {one['long']:8.4f} s, {one['ratio']:6.1f} times "
                  f"({one.get('piece', '-')}){'' if one['good'] else '  TOO LONG'}", flush=True)
    if flags.json:
        about = {"schema": 1, "machine": platform.platform(), "python": platform.python_version(),
                 "command": "python -m instructor.bench.foreign", "short": SHORT, "long": LONG,
                 "most": MOST, "floor": FLOOR, "pieces": len(PIECES)}
        text = io.StringIO()
        json.dump(about | {"functions": found}, text, indent=1)
        files.write(flags.json, text.getvalue() + "\n")
    return 0 if all(one["good"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(piped(main))
