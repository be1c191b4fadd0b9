"""The whole nbgrader cycle of the lab in one command, from an empty folder to grades.csv.

    python -m instructor.course.cycle FOLDER --submissions ZIPS_OR_FOLDER

builds the course in FOLDER if it is not there, then generates and releases the assignment,
collects, repairs damaged notebooks, grades the .py files in the sandbox, autogrades, generates
feedback and exports FOLDER/grades.csv. Run again it does the same again: the grader keeps what has
not changed, and points that you gave by hand stay.
"""

import argparse
import contextlib
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from lab15_run import counted, piped
from tests.labfile import ROOT

from ..builders import course as builder
from ..submissions import archives, exports, intake
from .lab15_nbgrader import collect, kernel, repair, scores

ASSIGNMENT = builder.ASSIGNMENT


class Stopped(Exception):
    """A step failed, and the next ones depend on it; the message says what to do."""


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(prog="python -m instructor.course.cycle", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("folder", type=Path, metavar="FOLDER", help="the course's folder")
    parser.add_argument(
        "--submissions",
        type=Path,
        metavar="PLACE",
        help="a folder with a zip or a folder for each student, or one zip of such a folder; "
        "without it, what is in the exchange and in FOLDER/submitted",
    )
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="of the grader")
    parser.add_argument("--seed-file", type=Path, metavar="FILE", help="for the grader")
    parser.add_argument("--checkpoint", type=Path, default=ROOT / builder.CHECKPOINT)
    parser.add_argument("--trust", action="store_true", help="no sandbox at all: see README.md")
    parser.add_argument("--as-root", action="store_true", help="run although you are root")
    return parser.parse_args(args)


def check(flags: argparse.Namespace) -> str | None:
    """Say what speaks against a start, or nothing."""
    if sys.platform == "win32":
        return "nbgrader's exchange and the sandbox need Linux (macOS with --trust)."
    if os.geteuid() == 0 and not flags.as_root:
        return "You are root. Run this as an ordinary user, or say --as-root."
    if flags.submissions and not flags.submissions.exists():
        return f"there is no {flags.submissions}"
    if not flags.trust and (reason := kernel.problem()):
        return f"{reason}. {kernel.REMEDY.replace('set LAB15_TRUST=1', 'say --trust')}"
    return None


# ---------------------------------------------------------------- nbgrader's commands


def _in_child(course: Path, log: Path, args: list[str]) -> None:
    """Run one nbgrader command in this forked process, its output in a file."""
    os.chdir(course)
    # Not only the descriptors: sys.stderr need not write to 2.
    sys.stdout = sys.stderr = open(log, "w", encoding="utf-8", errors="replace", buffering=1)
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stdout.fileno(), 2)
    code = 1
    try:
        from nbgrader.apps import NbGraderApp

        NbGraderApp.launch_instance(args)
        code = 0
    except SystemExit as error:
        code = error.code if isinstance(error.code, int) else int(error.code is not None)
    except BaseException:  # it goes to the log, whatever it is
        traceback.print_exc()
    sys.stdout.flush()
    os._exit(code)


def nbgrader(course: Path, *args: str) -> int:
    """Run an nbgrader command in the course's folder; return its exit code.

    It is what `nbgrader ARGS` runs. The two seconds that its imports take are spent once.
    """
    import nbgrader.apps  # noqa: F401

    folder = course / "log"
    folder.mkdir(exist_ok=True)
    log = folder / f"{args[0]}.txt"
    context = multiprocessing.get_context("fork")
    process = context.Process(target=_in_child, args=(course, log, list(args)))
    process.start()
    process.join()
    return process.exitcode or 0


def must(course: Path, *args: str) -> None:
    """Run an nbgrader command that the next steps depend on.

    Raises:
        Stopped: it failed; the text holds the end of its log.
    """
    print(f"nbgrader {' '.join(args)}", flush=True)
    if nbgrader(course, *args):
        log = course / "log" / f"{args[0]}.txt"
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        tail = "\n".join(f"    {line}"[:200] for line in lines[-12:])
        raise Stopped(f"nbgrader {args[0]} failed; the end of {log}:\n{ascii_text(tail)}")


def ascii_text(text: str) -> str:
    """Return text that any terminal can show."""
    return text.encode("ascii", "backslashreplace").decode("ascii")


# ---------------------------------------------------------------- the steps


def collect_from(course: Path, place: Path) -> None:
    """Bring the submissions to submitted/."""
    if place.is_file():
        with tempfile.TemporaryDirectory(prefix="lab15-zip-") as folder:
            unpack(place, Path(folder))
            collect_from(course, Path(folder))
        return
    zips = sorted(place.glob("*.zip"))
    if zips:
        archive = course / "downloaded" / ASSIGNMENT / "archive"
        shutil.rmtree(archive, ignore_errors=True)
        archive.mkdir(parents=True)
        for path in zips:
            shutil.copyfile(path, archive / path.name)
        must(course, "zip_collect", ASSIGNMENT, "--force")
    for note in collect.from_folder(place, course / "submitted"):
        print(f"    {ascii_text(note)}")
    for note in collect_others(course, place):
        print(f"    {ascii_text(note)}")


def collect_others(course: Path, place: Path) -> list[str]:
    """Bring what is no folder and no zip with a student's name: whoever handed in has a row.

    Returns a line for each.
    """
    def taken(path: Path) -> bool:
        if path.is_symlink() or not path.is_dir():
            return path.suffix == ".zip" and bool(collect.NAME.fullmatch(path.stem))
        return not path.name.startswith((".", "__"))

    others = {p.name for p in place.iterdir() if not taken(p)}
    if not others:
        return []
    notes = []
    with tempfile.TemporaryDirectory(prefix="lab15-others-") as room:
        for sub in intake.survey(place, Path(room)).submissions:
            mine = [name for name in sub.entries if name in others]
            if not mine:
                continue
            folder = course / "submitted" / collect.plain_name(sub.student) / ASSIGNMENT
            folder.mkdir(parents=True, exist_ok=True)
            books = [place / n for n in mine if n.endswith(".ipynb")]
            for source, name in ((sub.path, "lab15_grpo.py"), *((b, "lab15.ipynb") for b in books)):
                if source and source.is_file() and not source.is_symlink():
                    if source.stat().st_size <= collect.LARGEST:
                        shutil.copyfile(source, folder / name)
            notes.append(f"{sub.student!a}: {', '.join(map(ascii, mine[:3]))}"
                         + f" and {len(mine) - 3} more" * (len(mine) > 3)
                         + f"; {sub.note}" * bool(sub.note))
    return notes


def unpack(path: Path, folder: Path) -> None:
    """Unpack a zip of students' zips or folders, of each student only what is wanted.

    Of other files the names are kept, so that no student who handed in anything is lost.

    Raises:
        Stopped: it is no zip, or holds more files than a class can have sent.
    """
    try:
        with zipfile.ZipFile(path) as file:
            entries = file.infolist()
            if len(entries) > archives.MOST:
                raise Stopped(f"{path} holds more than {archives.MOST} files")
            wanted, others = _sorted_out(entries)
            for parts in others:
                target = folder.joinpath(parts[0], *[p[-100:] for p in parts[-1:] if parts[1:]])
                with contextlib.suppress(OSError, ValueError):  # a name that no disk takes
                    target.parent.mkdir(parents=True, exist_ok=True)
                    target.touch()
            for entry, parts in wanted:
                target = folder.joinpath(*([parts[0], parts[-1]] if len(parts) > 1 else parts))
                target.parent.mkdir(parents=True, exist_ok=True)
                with file.open(entry) as source:
                    target.write_bytes(source.read(2 * collect.LARGEST))
    except Stopped:
        raise
    except Exception as error:  # zlib.error, LZMAError and others of a damaged archive
        raise Stopped(f"{path} cannot be unpacked ({type(error).__name__})") from None


NAMES = 5  # files that are taken of a student who has none of the wanted ones


def _sorted_out(
    entries: list[zipfile.ZipInfo],
) -> tuple[list[tuple[zipfile.ZipInfo, tuple[str, ...]]], list[tuple[str, ...]]]:
    """Return ([(entry, parts of its path)] of what is unpacked, parts of what is only named).

    A student without any of the wanted files keeps a few others. A folder that is around
    all of them is left out of the paths.
    """
    named = []
    for entry in entries:
        parts = tuple(p for p in PurePosixPath(entry.filename[:1000]).parts
                      if p not in ("..", ".", "/"))
        if parts and not entry.is_dir() and not any(p.lower() in exports.LITTER for p in parts):
            named.append((entry, parts))
    around = {parts[0] for _, parts in named}
    wanted = [parts for _, parts in named if _is_wanted(parts)]
    if len(around) == 1 and len(wanted) > len(collect.WANTED) and all(p[2:] for p in wanted):
        named = [(entry, parts[1:]) for entry, parts in named if parts[1:]]
    found = [(entry, parts) for entry, parts in named if _is_wanted(parts)]
    there = {parts[0] for _, parts in found}
    others: list[tuple[str, ...]] = []
    count: Counter = Counter()
    for entry, parts in named:
        count[parts[0]] += parts[0] not in there
        if parts[0] not in there and count[parts[0]] <= NAMES:
            if parts[-1].endswith(".py"):  # it may be the lab file under another name
                found.append((entry, parts))
            else:
                others.append(parts)
    return found, others


def _is_wanted(parts: tuple[str, ...]) -> bool:
    loose = len(parts) == 1 and parts[0].endswith((".py", ".ipynb"))
    return loose or parts[-1].endswith(".zip") or parts[-1] in collect.WANTED


def from_exchange(course: Path) -> None:
    """Collect what students have submitted through nbgrader's exchange, if anything."""
    inbound = course / "exchange" / "lab15" / "inbound"
    if inbound.is_dir() and any(inbound.iterdir()):
        must(course, "collect", ASSIGNMENT, "--update")


def mend(course: Path) -> None:
    """Repair the submissions and report what was done."""
    print("repair", flush=True)
    for student, notes in repair.repair_all(course).items():
        print(f"    {ascii_text(student)}: {ascii_text('; '.join(notes))}")
    if not any((course / "submitted").glob(f"*/{ASSIGNMENT}/*")):
        raise Stopped("there are no submissions: give their folder with --submissions")


def grade(course: Path, flags: argparse.Namespace) -> int:
    """Grade the .py files; return the grader's exit code."""
    command = [sys.executable, "-m", "instructor.grade", str(course / "submitted")]
    command += ["--out", str(course / "results"), "-j", str(flags.jobs)]
    command += ["--seed-file", str(flags.seed_file.resolve())] if flags.seed_file else []
    command += ["--trust"] if flags.trust else []
    command += ["--as-root"] if flags.as_root else []
    print("python -m instructor.grade submitted --out results", flush=True)
    code = subprocess.run(command, cwd=ROOT).returncode
    if code:
        print(f"    the grader ended with code {code}: some files have no result, or an old one")
    return code


def not_in_nbgrader(course: Path) -> list[str]:
    """Return lines on what was done to totals, which nbgrader's grades do not have."""
    found = {}
    for path in sorted((course / "submitted").glob(f"*/{ASSIGNMENT}")):
        if more := scores.left_out(course / "results", path.parent.name):
            found[path.parent.name] = more
    if not found:
        return []
    names = [f"{student} ({more})" for student, more in found.items()]
    more = f" and {len(names) - 8} more" * (len(names) > 8)
    return [
        f"not in nbgrader's grades, but in results/scores.csv: {counted(len(found), 'change')} "
        f"of totals: {', '.join(names[:8])}{more}.",
        "Type each into formgrader (Manual Grading, the student): a plus as extra credit of any "
        "cell, a minus off the score of one; then export again. The note in grades.csv stays.",
    ]


def autograde(course: Path) -> int:
    """Autograde, make feedback, export; return 1 if some submission was given up by nbgrader."""
    print(f"nbgrader autograde {ASSIGNMENT} --force", flush=True)
    failed = nbgrader(course, "autograde", ASSIGNMENT, "--force")
    if failed:
        print(f"    some submissions were not autograded: see {course / 'log' / 'autograde.txt'}")
    print(f"nbgrader generate_feedback {ASSIGNMENT} --force", flush=True)
    if nbgrader(course, "generate_feedback", ASSIGNMENT, "--force"):
        failed = 1
        log = course / "log" / "generate_feedback.txt"
        print(f"    some students have no feedback; the others have theirs: see {log}")
    must(course, "export", "--to", "grades.csv")
    return int(failed != 0)


def run(flags: argparse.Namespace, grader: Callable[..., int] = grade) -> int:
    """Go through all steps.

    Args:
        flags: see arguments.
        grader: fills FOLDER/results; another one for tests of all the rest.
    """
    course = flags.folder.resolve()
    if not (course / "nbgrader_config.py").is_file():
        print(f"python -m instructor.build course --out {flags.folder}", flush=True)
        shape = argparse.Namespace(out=course, checkpoint=flags.checkpoint)
        if not flags.checkpoint.is_file() and flags.checkpoint == ROOT / builder.CHECKPOINT:
            shape.checkpoint = None
        if code := builder.run(shape):
            return code
    must(course, "generate_assignment", ASSIGNMENT, "--force")
    must(course, "release_assignment", ASSIGNMENT, "--force")
    if flags.submissions:
        collect_from(course, flags.submissions)
    else:
        from_exchange(course)
    mend(course)
    code = grader(course, flags)
    if code not in (0, 1):
        raise Stopped("the grader did not start: see above")
    code = max(code, autograde(course))
    for line in not_in_nbgrader(course):
        print(f"    {ascii_text(line)}")
    return code


def main(args: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    flags = arguments(args)
    if reason := check(flags):
        print(reason)
        return 2
    environment = os.path.dirname(sys.executable)
    os.environ["PATH"] = environment + os.pathsep + os.environ.get("PATH", "")
    os.environ["OMP_NUM_THREADS"] = "1"
    os.environ["LAB15_TRUST"] = "1" if flags.trust else ""
    if flags.trust:
        print("--trust: no sandbox. The students' code has the rights of your account.")
    began = time.monotonic()
    try:
        code = run(flags)
    except (Stopped, ValueError, OSError) as error:
        print(error)
        return 1
    except KeyboardInterrupt:
        print("stopped; the same command goes through all steps again")
        return 130
    print(f"{flags.folder / 'grades.csv'}: done after {time.monotonic() - began:.0f} s")
    return code


if __name__ == "__main__":
    sys.exit(piped(main))
