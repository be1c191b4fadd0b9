"""Measure what text of strangers costs the grader: twice as long may take twice the time, no more.

    python -m instructor.bench_foreign [--json FILE] [--only NAME]

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

from tests.labfile import TASKS, ascii_line

from . import archives, exports, intake, judging, practice, results, wire
from . import feedback as page
from .gradescope import run as gradescope
from .reporting import anonymous, load, similar

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
    "indent": "(\n ",
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
    found["extra_data"] |= {"student": text, "notes": [text]}
    found["tests"][0]["extra_data"] |= {"public": text, "mistakes": [text], "hidden": {text: True}}
    for data in (json.dumps(found).encode(), _bytes(text)):
        with contextlib.suppress(ValueError):
            load.parse(data, Path("x"))
    return None


def _lab_text(path: Path) -> str:
    return load.lab_text(load.Record("x", path.parent, 0.0, {}))


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


def _notebook(text: str) -> object:
    """Clean the outputs of a notebook, and write it anew."""
    from .course.lab15_nbgrader import execute, repair

    outputs: list[Any] = [
        {"output_type": "stream", "text": text},
        {"output_type": "error", "ename": text, "evalue": text, "traceback": [text] * 3},
        {"output_type": "display_data", "data": {"image/png": text, "text/plain": text}},
    ]
    with contextlib.suppress(ValueError):
        _file(repair._read, text, "lab15.ipynb")
    cells = [{"cell_type": "markdown", "source": text, "id": text, "attachments": {text: text}}]
    released = SimpleNamespace(cells=[], metadata={}, nbformat=4, nbformat_minor=5)
    repair.rebuild(released, {"cells": cells})  # type: ignore[arg-type]
    return execute.clean(outputs)


def _essay(text: str) -> object:
    from jinja2 import Environment

    from .course.lab15_nbgrader.show import markdown2html

    environment = Environment()
    environment.filters["m"] = markdown2html
    return environment.from_string("{{ text | m }}").render(text=text, cell={})


FOREIGN: dict[str, Callable[[str], object]] = {
    "tests.labfile.ascii_line": ascii_line,
    "archives.unpack": _zip,
    "course.essay": _essay,
    "course.notebook": _notebook,
    "exports.canvas": lambda text: exports.canvas([f"a_1_2_lab15{text}.py"]),
    "exports.gradescope": lambda text: _file(exports.gradescope, text[: 1 << 12], "m.yml"),
    "exports.moodle": exports.moodle,
    "exports.time_of": exports.time_of,
    "feedback.page": lambda text: page.page(results.document(_result(text))),
    "feedback.parts": lambda text: page.parts(2, _task(text)),
    "feedback.text": lambda text: page.text(2, _task(text)),
    "gradescope.copy": lambda text: _file(
        lambda p: gradescope.copy(p.parent, p.parent / "copy"), text),
    "intake.read": lambda text: _file(intake.read, text),
    "intake.find": lambda text: _file(lambda p: intake.find(p.parent.parent / p.parent.name), text),
    "judging.builtin_error": judging.builtin_error,
    "judging.clean": judging.clean,
    "judging.file_hash": lambda text: judging.file_hash(_bytes(text)),
    "judging.file_version": lambda text: judging.file_version(_bytes(text)),
    "judging.run_cases": _odd_case,
    "practice.named": lambda text: practice.named(text, text, 2),
    "practice.plain": practice.plain,
    "practice.read": _reply,
    "reporting.anonymous.code": lambda text: anonymous.code(text, 3, text[:255]),
    "reporting.anonymous.function_tokens": lambda text: anonymous.function_tokens(text, 3),
    "reporting.anonymous.message": lambda text: anonymous.message(load.text(text), text[:200]),
    "reporting.load.lab_text": lambda text: _file(_lab_text, text),
    "reporting.load.parse": _record,
    "reporting.load.text": load.text,
    "reporting.similar.parts": similar.parts,
    "results.document": lambda text: results.document(_result(text)),
    "results.file_name": results.file_name,
    "results.row_of": lambda text: results._harmless(
        results.row_of(results.document(_result(text)))),
    "results.tasks_of": lambda text: results.tasks_of(results.document(_result(text))),
    "wire.decode": _frame,
}
# Modules that text of strangers goes through; each of their functions is in FOREIGN, or here.
MODULES = ("archives", "exports", "feedback", "intake", "judging", "practice", "results", "wire",
           "reporting.anonymous", "reporting.load", "reporting.similar")
OURS = {
    "judging.fingerprint": "reads this repository",
    "judging.points": "takes verdicts",
    "judging.blank": "takes messages that are clean",
    "judging.judge_task": "run_cases, and a text that is clean",
    "judging.judge": "all of the others, and a sandbox",
    "practice.files": "reads this repository",
    "practice.tests_of": "takes a number",
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
    "results.write": "writes bytes",
    "wire.encode": "takes what the grader sends",
    "wire.read_all": "runs in the sandbox",
    "wire.write_all": "runs in the sandbox",
}


def text_of(piece: str, length: int) -> str:
    """Return a piece, repeated to this many characters."""
    return (piece * (length // len(piece) + 1))[:length]


def seconds(work: Callable[[str], object], text: str, times: int = TIMES) -> float:
    """Return the processor time that a function takes, the least of several."""
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
    parser = argparse.ArgumentParser(prog="python -m instructor.bench_foreign",
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
                 "command": "python -m instructor.bench_foreign", "short": SHORT, "long": LONG,
                 "most": MOST, "floor": FLOOR, "pieces": len(PIECES)}
        text = io.StringIO()
        json.dump(about | {"functions": found}, text, indent=1)
        results.write(flags.json, text.getvalue() + "\n")
    return 0 if all(one["good"] for one in found) else 1


if __name__ == "__main__":
    sys.exit(main())
