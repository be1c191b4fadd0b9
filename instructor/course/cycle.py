"""The whole nbgrader cycle of the lab in one command, from an empty folder to grades.csv.

    python -m instructor.course.cycle FOLDER --submissions ZIPS_OR_FOLDER

builds the course in FOLDER if it is not there, then generates and releases the assignment,
collects, repairs damaged notebooks, grades the .py files in the sandbox, autogrades, generates
feedback and exports FOLDER/grades.csv. Run again it does the same again: the grader keeps what has
not changed, and points that you gave by hand stay.
"""

import argparse
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import zipfile
from collections.abc import Callable
from pathlib import Path, PurePosixPath

from tests.labfile import ROOT

from ..builders import course as builder
from .lab15_nbgrader import collect, kernel, repair

ASSIGNMENT = builder.ASSIGNMENT


class Stopped(Exception):
    """A step failed and the rest would make no sense; the text says what to do."""


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
    """Run an nbgrader command without which nothing goes on.

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
        for path in zips:
            if not collect.NAME.fullmatch(path.stem):
                print(f"    {ascii_text(path.name)}: left out, its name does not tell the student")
    for note in collect.from_folder(place, course / "submitted"):
        print(f"    {ascii_text(note)}")


def unpack(path: Path, folder: Path) -> None:
    """Unpack a zip of students' zips or folders, of each student only what is wanted.

    Raises:
        Stopped: it is no zip.
    """
    try:
        with zipfile.ZipFile(path) as file:
            for entry, parts in _wanted(file.infolist()[: 10 * collect.MOST]):
                target = folder.joinpath(*([parts[0], parts[-1]] if len(parts) > 1 else parts))
                target.parent.mkdir(parents=True, exist_ok=True)
                with file.open(entry) as source:
                    target.write_bytes(source.read(2 * collect.LARGEST))
    except Exception as error:  # zlib.error, LZMAError and others of a damaged archive
        raise Stopped(f"{path} cannot be unpacked ({type(error).__name__})") from None


def _wanted(entries: list[zipfile.ZipInfo]) -> list[tuple[zipfile.ZipInfo, list[str]]]:
    """Return (entry, parts of its path), without a folder that is around all of them."""
    found = []
    for entry in entries:
        parts = [p for p in PurePosixPath(entry.filename).parts if p not in ("..", ".", "/")]
        if parts and (parts[-1].endswith(".zip") or parts[-1] in collect.WANTED):
            if not entry.is_dir() and "__MACOSX" not in parts:
                found.append((entry, parts))
    around = {parts[0] for _, parts in found}
    if len(around) == 1 and len(found) > len(collect.WANTED) and all(p[2:] for _, p in found):
        found = [(entry, parts[1:]) for entry, parts in found]
    return found


def from_exchange(course: Path) -> None:
    """Collect what students have submitted through nbgrader's exchange, if anything."""
    inbound = course / "exchange" / "lab15" / "inbound"
    if inbound.is_dir() and any(inbound.iterdir()):
        must(course, "collect", ASSIGNMENT, "--update")


def mend(course: Path) -> None:
    """Repair the submissions and say what was done."""
    print("repair", flush=True)
    for student, notes in repair.repair_all(course).items():
        print(f"    {ascii_text(student)}: {ascii_text('; '.join(notes))}")
    if not any((course / "submitted").glob(f"*/{ASSIGNMENT}/*")):
        raise Stopped("nobody has handed anything in: name the place with --submissions")


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
    return max(code, autograde(course))


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
    sys.exit(main())
