"""Grade a class: one file or a folder of submissions, each judged in a sandbox.

    python -m instructor.grade SUBMISSIONS --out OUT [-j 2] [--seed-file FILE]

Writes OUT/scores.csv and, for every student, OUT/STUDENT/results.json and feedback.html. If it is
stopped, the same command continues. instructor/README.md describes the first hour, and what the
sandbox does and does not stop.
"""

import argparse
import contextlib
import fnmatch
import os
import secrets
import shutil
import signal
import sys
import tempfile
import threading
import time
import traceback
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch

import torch

from lab15_run import counted, piped
from tests.labfile import ascii_line

from . import at_least_one
from .box import syscalls
from .grading import points
from .grading.bwrap import PREFIX, complaint, python, sweep
from .grading.judging import Course, file_hash, judge
from .grading.sandbox import Clock, Limits, Maker, SandboxError
from .records import classlist, lateness, uploads
from .records.files import write
from .records.results import ByHand, Results
from .submissions import intake

REMEDY = """Without bubblewrap a student's code has all rights of your account. Either
install it and let it make namespaces:
    apt-get install bubblewrap        (Debian, Ubuntu; not on macOS or Windows)
    sysctl kernel.apparmor_restrict_unprivileged_userns=0        (Ubuntu 24.04)
    docker run --security-opt seccomp=unconfined --security-opt systempaths=unconfined ...
or, only if you trust every file, say --trust: the same tests, without any protection of your
files, your network and the other students' results."""
READABLE = (
    "Bubblewrap itself works here; the sandbox runs as a user of its own, who must be able to "
    "read Python, its packages and the folders above them:"
)
SECONDS = {  # flag: (field of Limits, help)
    "call-seconds": ("call", "for one call of a function"),
    "load-seconds": ("load", "to load a file"),
    "submission-seconds": ("submission", "for a file, all in all"),
    "practice-seconds": ("practice", "for what the public tests say"),
}
SIZES = {
    "memory-mib": ("memory", "for all processes of a file together"),
    "process-mib": ("process", "for one process, above what torch takes"),
    "scratch-mib": ("scratch", "of files in the sandbox"),
    "file-mib": ("file", "of one file there"),
    "processes": ("processes", "and threads at a time"),
    "files": ("files", "open at a time in a process"),
}


def arguments(args):
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(prog="python -m instructor.grade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("submissions", type=Path, metavar="SUBMISSIONS")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT")
    parser.add_argument("-j", "--jobs", type=at_least_one, default=1, metavar="N",
                        help="files at a time")
    parser.add_argument(
        "--seed-file",
        type=Path,
        metavar="FILE",
        help="the course's secret: any text; without it OUT/seed.txt is made",
    )
    parser.add_argument(
        "--points", action=points.Show, nargs=0, help="print how points come about, and end"
    )
    parser.add_argument("--student", metavar="GLOB", help="only these students")
    parser.add_argument(
        "--regrade", metavar="WHO",
        help="one student, by name or any id: judge anew, and say what changed and why",
    )
    hand = parser.add_argument_group("the class, and points by hand; see README.md")
    hand.add_argument("--roster", type=Path, metavar="FILE",
                      help="CSV of the students, as the course system exports it")
    hand.add_argument("--overrides", type=Path, metavar="FILE",
                      help="points by hand: student,task,points,change,reason "
                      "(default OUT/overrides.csv)")
    hand.add_argument("--due", metavar="TIME", help='such as "2026-11-29 23:59"')
    hand.add_argument("--late", metavar="RULE", help=f"what is taken off: {lateness.FORMS}"
                      .replace("%", "%%"))
    hand.add_argument("--for", dest="system", choices=uploads.SYSTEMS,
                      help="also write OUT/scores-SYSTEM.csv, for that system to take")
    hand.add_argument("--column", metavar="NAME",
                      help="the lab's column in that file, as the system calls it")
    parser.add_argument("--again", action="store_true", help="judge also what has a result")
    parser.add_argument("--trust", action="store_true", help="no sandbox: see README.md")
    parser.add_argument("--as-root", action="store_true", help="run although you are root")
    for name, (field, words) in SECONDS.items():
        value = getattr(Limits, field)
        parser.add_argument(
            f"--{name}", type=_positive, default=value, metavar="S",
            help=f"{words} (default {value:g})",
        )
    for name, (field, words) in SIZES.items():
        shift = 20 * name.endswith("-mib")
        parser.add_argument(
            f"--{name}", type=_positive, default=getattr(Limits, field) >> shift, metavar="N",
            help=f"{words} (default %(default)g)",
        )
    return parser.parse_args(args)


def _positive(text):
    value = float(text)
    if not 0 < value < 1e7:
        raise argparse.ArgumentTypeError(f"{text}: give a number above 0")
    return value


def limits_of(flags):
    """Return the Limits that the flags ask for."""
    given = {field: getattr(flags, n.replace("-", "_")) for n, (field, _) in SECONDS.items()}
    for name, (field, _) in SIZES.items():
        given[field] = int(getattr(flags, name.replace("-", "_"))) << 20 * name.endswith("-mib")
    return Limits(**given)


def seed_of(flags):
    """Return the course's seed."""
    path = flags.seed_file or flags.out / "seed.txt"
    if flags.seed_file is None and not path.exists():
        own = path.with_name(f"seed.{os.getpid()}.tmp")
        write(own, secrets.token_hex(16) + "\n")
        own.chmod(0o600)
        try:
            os.link(own, path)  # of several that start at once, one wins
        except FileExistsError:
            pass
        except OSError:  # a file system without links
            shutil.copyfile(own, path)
            path.chmod(0o600)
        own.unlink()
    seed = path.read_text(encoding="utf-8").strip()
    if not seed:
        raise ValueError(f"{path} is empty")
    return seed


def check_rights(flags):
    """Say what speaks against a start, or nothing."""
    if os.name == "nt":
        return "This grader needs Linux (macOS with --trust)."
    if os.geteuid() == 0 and not flags.as_root:
        return (
            "You are root. Grade as an ordinary user, or say --as-root: the sandboxes then run "
            "under user ids of their own, from 61000 on."
        )
    if flags.trust and flags.as_root:
        return "--trust as root would give every student's code all rights on this machine."
    return None


class Run:
    """Run the command on a class.

    Args:
        everybody: all submissions; those of others than `found` only have their row kept.
        found: the submissions to grade.
        course, maker, results: a Course, a Maker, a Results.
        jobs: how many at a time.
        again: ignore earlier results.
    """

    def __init__(self, everybody, found, course, maker, results, jobs=1, again=False):
        self.found, self.course, self.maker, self.results = found, course, maker, results
        self.jobs, self.again, self.ungraded = max(1, jobs), again, 0
        self.group = None
        wanted = {s.student for s in found}
        self.others = [s.student for s in everybody if s.student not in wanted]

    def waiting(self):
        """Return [(submission, {task: result that is still valid})] of what remains to be done."""
        todo = []
        for sub in self.found:
            old = {}
            if not self.again:
                with contextlib.suppress(OSError):  # judging it reports why
                    data, problem = sub.read()
                    old = self.results.known(sub.student, file_hash(data, problem))
            if len(old) < len(self.course.modules) or not self.results.keep(sub.student):
                todo.append((sub, old))
        for student in self.others:
            if not self.results.keep(student, ours=False):
                self.results.ungraded(student)
        return todo

    def go(self):
        """Grade; return the number of students for whom the grader itself failed."""
        from tqdm import tqdm

        todo = self.waiting()
        self.results.note_class()
        self.results.table()
        done = len(self.found) - len(todo)
        bar = tqdm(total=len(self.found), initial=done, ascii=True, disable=None, unit="file")
        todo, running, written = iter(todo), {}, time.monotonic()
        with bar, ThreadPoolExecutor(self.jobs) as pool:
            try:
                while True:
                    # No more than what is running: Ctrl-C waits for these few only.
                    while len(running) < self.jobs and (next_one := next(todo, None)):
                        sub, old = next_one
                        running[pool.submit(judge, sub, self.course, self.maker, old)] = sub
                    if not running:
                        break
                    for future in wait(running, return_when=FIRST_COMPLETED).done:
                        self._take(running.pop(future), future, bar)
                    if time.monotonic() - written > 2:
                        self.results.table()
                        written = time.monotonic()
            except BaseException:
                self.maker.stop()  # else the pool waits for what is running
                raise
            finally:
                self.results.table()
        return self.ungraded

    def _take(self, sub, future, bar):
        """Record the result of one submission, and print one line about it."""
        name = ascii_line(sub.student, 40)
        try:
            result, data = future.result()
            self.results.add(result, data)
        except Exception as error:  # ours, not the student's: no verdict is written
            self.ungraded += 1
            named = isinstance(error, intake.Unseen | SandboxError)
            why = ascii_line(error if named else f"{type(error).__name__}: {error}")
            self.results.failed(sub.student, why)
            bar.write(f"{name}: NOT GRADED: {why}")
            if not isinstance(error, SandboxError | OSError):
                traceback.print_exc()
        else:
            total = self.results.total(sub.student)
            note = f"  {ascii_line(result['notes'][0], 60)}" if result["notes"] else ""
            bar.write(f"{name}: {total}  ({result['seconds']:.1f} s){note}")
        bar.update()


def prepare(flags, unpacked):
    """Return the Run.

    Raises:
        OSError, ValueError: there is nothing to grade, or it cannot be read.
        SandboxError: there is no sandbox.
    """
    if flags.submissions.is_dir() and flags.submissions.resolve() in [
        flags.out.resolve(), *flags.out.resolve().parents
    ]:
        raise ValueError(f"{flags.out} is inside {flags.submissions}; write to another folder")
    group = classlist.read(flags, unpacked)
    everybody = found = group.submissions
    say(group.lines)
    if flags.student:
        found = [s for s in found if fnmatch.fnmatchcase(s.student, flags.student)]
        if not found:
            print(f"--student {ascii_line(flags.student)}: fits none of the "
                  f"{counted(len(everybody), 'student')} here")
    if flags.regrade:
        found = [classlist.one(flags.regrade, found)]
    course = Course(seed_of(flags))
    secret = [flags.out, flags.submissions, unpacked]
    secret += [flags.seed_file] if flags.seed_file else []
    sweep()
    maker = Maker(limits_of(flags), flags.trust, [p if p.is_dir() else p.parent for p in secret])
    try:
        if not maker.nested:  # otherwise it is known to work
            with maker.open() as sandbox, sandbox.open(1, Clock(1)):
                pass
    except SandboxError as error:
        maker.close()
        said = "" if flags.trust else complaint(maker.bwrap)
        found = SandboxError(f"{error}{'; bubblewrap says: ' * bool(said)}{said}")
        found.remedy = REMEDY if said else "" if flags.trust else f"{READABLE} {python()}"
        if not said and hasattr(error, "remedy"):
            found.remedy = error.remedy
        raise found from None
    by_hand = ByHand({s.student: s for s in everybody}, group.overrides, group.due)
    results = Results(flags.out, course, [s.student for s in everybody], by_hand)
    again = flags.again or bool(flags.regrade)
    run = Run(everybody, found, course, maker, results, flags.jobs, again)
    run.group = group
    return run


def conclude(flags, run, before):
    """Print what was changed by hand, and write the file for the course system.

    Args:
        flags: of the command line.
        run: a finished Run.
        before: with --regrade the student's earlier result, or None.
    """
    results, lines = run.results, []
    if flags.regrade:
        student = run.found[0].student
        lines += classlist.changes(student, before, results.read(student))
    lines += results.problems()
    if strays := results.strays():
        lines.append(f"{counted(len(strays), 'folder')} in {flags.out} of no student of this "
                     "class, neither in scores.csv nor counted in the report; delete them if you "
                     f"like: {classlist.some(strays)}")
    if flags.system:
        rows = [uploads.Row(row, run.group.numbers.get(row["student"]))
                for row in results.as_rows()]
        path, upload = uploads.write(flags.system, flags.out, rows, run.group.roster, flags.column)
        lines += [*upload.warnings, f"for {flags.system}: {path}"]
        if upload.left_out:
            lines.append(f"not in it, without points or an id: {len(upload.left_out)}: "
                         f"{classlist.some(upload.left_out)}")
    say(lines)


def say(lines):
    """Print lines that may hold students' names, for any terminal."""
    for line in lines:
        indent = "    " * line.startswith("    ")
        print(indent + ascii_line(line, 1000))


def main(args=None):
    """Run the command; return the exit code."""
    flags = arguments(args)
    if problem := check_rights(flags):
        print(problem)
        return 2
    torch.set_num_threads(1)
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)  # as a scheduler ends a job
    with tempfile.TemporaryDirectory(prefix=f"{PREFIX}{os.getpid()}-") as unpacked:
        try:
            run = prepare(flags, Path(unpacked))
        except (OSError, ValueError) as error:
            print(error)
            return 2
        except SandboxError as error:
            print(f"{error}. {getattr(error, 'remedy', REMEDY)}")
            return 2
        if not flags.trust and syscalls.library() is None:
            print("libseccomp2 is not installed: no filter of system calls; see README.md")
        if flags.trust:
            print("--trust: no sandbox. The students' code has the rights of your account.")
        before = run.results.read(run.found[0].student) if flags.regrade else None
        try:
            failed = run.go()
        except KeyboardInterrupt:
            print("stopped; the same command continues from here")
            return 130
        finally:
            run.maker.close()
            say(run.results.ledger.said)
    used, peak = run.maker.processor, run.maker.peak >> 20
    print(f"{used:.1f} s of processor time in sandboxes; the largest took {peak} MiB")
    conclude(flags, run, before)
    graded = len(run.found) - failed
    print(f"{graded} of {len(run.found)} graded: {flags.out / 'scores.csv'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(piped(main))
