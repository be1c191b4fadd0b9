"""Grade a class: one file or a folder of submissions, each judged in a sandbox.

    python -m instructor.grade SUBMISSIONS --out OUT [-j 2] [--seed-file FILE]

Writes OUT/scores.csv, OUT/results.json and OUT/feedback/. Stopped and started again it goes on
where it was. instructor/README.md has the first hour, and what the sandbox stops and what not.
"""

import argparse
import builtins
import fnmatch
import hashlib
import importlib
import os
import re
import secrets
import sys
import tempfile
import time
import traceback
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"  # before torch

import torch

from tests.labfile import ROOT, TASKS, ascii_line

from . import intake
from .hidden import common
from .results import Results, write
from .sandbox import Clock, Failed, Limits, Maker, SandboxError

CAP = 0.5  # of a task's points at most, unless all of its tests pass
DEFINITIONS = (
    "Only its imports and definitions were used; keep what trains or runs under "
    "if __name__ == '__main__'"
)
ERRORS = re.compile(r"(\w+Error|\w+Exception|StopIteration|KeyboardInterrupt|SystemExit)")
REMEDY = """Without bubblewrap a student's code has all rights of your account. Either
install it and let it make namespaces:
    apt-get install bubblewrap        (Debian, Ubuntu; not on macOS or Windows)
    sysctl kernel.apparmor_restrict_unprivileged_userns=0        (Ubuntu 24.04)
or, only if you trust every file, say --trust: the same tests, without any protection of your
files, your network and the other students' results."""


# ---------------------------------------------------------------- judging


class Course:
    """The hidden tests with the numbers of one seed."""

    def __init__(self, seed):
        self.modules = {n: importlib.import_module(f"instructor.hidden.task{n}") for n in TASKS}
        self.cases = {n: module.make(seed) for n, module in self.modules.items()}
        files = sorted((ROOT / "instructor" / "hidden").glob("*.py"))
        code = ("worker", "isolate", "wire", "sandbox", "grade")
        files += [ROOT / "instructor" / f"{name}.py" for name in code]
        files += [ROOT / "tinylm.py", ROOT / "tests" / "labfile.py"]
        files += [ROOT / "solutions" / "lab15_grpo.py"]
        digest = hashlib.sha256(seed.encode())
        for path in files:
            digest.update(hashlib.sha256(path.read_bytes()).digest())
        self.hash = digest.hexdigest()[:16]
        self.version = str(common.reference().LAB_VERSION)


def builtin_error(name):
    """Return the name of an exception if it is one of Python's own.

    A student's class could carry a hidden test's numbers in its name.
    """
    known = isinstance(name, str) and ERRORS.fullmatch(name) and hasattr(builtins, name)
    return name if known else "an error"


def run_cases(box, module, cases):
    """Return (verdicts, messages) of all cases of a task in an open box."""
    verdicts, replies, messages = [], [], []
    dead = None
    for case in cases:
        nothing = {test: set() for test in case.tests}
        if dead:
            verdicts.append(nothing)
            continue
        answer = case.answer() if case.answer else None
        try:
            reply = box.call(case.send, answer)
        except Failed as error:
            dead = str(error)
            verdicts.append(nothing)
            continue
        replies.append(reply)
        if reply.get("ok") is not True:
            line = reply.get("line")
            where = f" (your line {line})" if type(line) is int and 0 < line < 10**5 else ""
            messages.append(f"a call ended with {builtin_error(reply.get('error'))}{where}")
            verdicts.append(nothing)
            continue
        reply["asked"] = answer.asked if answer else []
        try:
            verdicts.append(module.judge(case, reply))
        except Exception:  # an odd reply that judge was not made for is a wrong one
            verdicts.append(nothing)
    if hasattr(module, "across"):
        try:
            verdicts.append(module.across(cases, [] if dead else replies))
        except Exception:
            verdicts.append({test: set() for test in module.TESTS})
    return verdicts, list(dict.fromkeys([*([dead] if dead else []), *messages]))[:3]


def points(number, tests, passed):
    """Return the points of a task: all, or a share of CAP by the tests that give credit."""
    most = TASKS[number].points
    if all(passed.values()):
        return float(most)
    parts = [passed[name] for name, test in tests.items() if test.counts]
    return round(CAP * most * sum(parts) / len(parts), 2)


def blank(number, tests, message):
    """Return the result of a task that could not be judged."""
    names = {test.name: False for test in tests.values()}
    return {"points": 0.0, "max": TASKS[number].points, "tests": names, "messages": [message]}


def judge_task(number, box, course, loaded):
    """Return the result of one task whose file has been loaded."""
    module = course.modules[number]
    if loaded.get("kind") != "written":
        return blank(number, module.TESTS, clean(loaded.get("text", "it cannot be judged")))
    verdicts, messages = run_cases(box, module, course.cases[number])
    passed = common.combine(module.TESTS, verdicts)
    hints = [
        f"not passed: {test.name} - {test.hint}"
        for name, test in module.TESTS.items()
        if not passed[name]
    ]
    return {
        "points": points(number, module.TESTS, passed),
        "max": TASKS[number].points,
        "tests": {test.name: passed[name] for name, test in module.TESTS.items()},
        "messages": messages + hints,
    }


def clean(text):
    """Return text that came out of the sandbox as one short harmless line."""
    return re.sub(r"[^ -~]|[`<>|\[\]\\]", "'", ascii_line(text, 160))


def judge_file(data, course, maker):
    """Return (results by task, notes) of one file."""
    with maker.open() as sandbox:
        return judge_tasks(data, course, maker, sandbox)


def judge_tasks(data, course, maker, sandbox):
    """Return (results by task, notes) of one file in an open sandbox."""
    tasks, notes = {}, {}
    clock, definitions_only, hopeless, again = Clock(maker.limits.submission), False, "", True
    while len(tasks) < len(TASKS):
        number = len(tasks) + 1
        if hopeless:
            tasks[number] = blank(number, course.modules[number].TESTS, hopeless)
            continue
        try:
            with sandbox.open(number, clock) as box:
                loaded = box.load(data, definitions_only)
                notes.update(dict.fromkeys(map(clean, _texts(loaded.get("problems")))))
                if loaded.get("printed") is True:
                    notes["it prints a lot while it is loaded; what it prints is not read"] = None
                tasks[number] = judge_task(number, box, course, loaded)
        except Failed as error:  # of load: judge_task catches those of its calls
            if definitions_only or clock.left <= 0:
                hopeless = f"the file cannot be loaded: {error}"
            definitions_only = True
            notes[f"loading the file: {error}. {DEFINITIONS}"] = None
        except SandboxError:  # perhaps the file before this task has hurt it: once more
            if not again:
                raise
            again = False
            sandbox.kill()
    return tasks, list(notes)[:12]


def _texts(value):
    return [x for x in value if isinstance(x, str)][:5] if isinstance(value, list) else []


def judge(submission, course, maker):
    """Return the result of one submission as plain data."""
    began = time.monotonic()
    data, problem = (None, submission.note)
    if submission.path is not None:
        data, problem = intake.read(submission.path)
    problem, note = clean(problem), clean(submission.note)
    if data is None:
        tasks = {n: blank(n, course.modules[n].TESTS, problem) for n in TASKS}
        notes = [f"nothing was graded: {problem}"]
    else:
        tasks, notes = judge_file(data, course, maker)
        notes = [note, *notes] if note else notes
    return {
        "student": submission.student,
        "key": key_of(submission, course, data),
        "total": round(sum(t["points"] for t in tasks.values()), 2),
        "tasks": {str(n): t for n, t in tasks.items()},
        "notes": notes,
        "seconds": round(time.monotonic() - began, 2),
    }


def key_of(submission, course, data):
    """Return what a result depends on: the file, the tests, the lab."""
    content = data if data is not None else f"nothing: {submission.note}".encode()
    return f"{hashlib.sha256(content).hexdigest()[:16]}-{course.hash}"


# ---------------------------------------------------------------- the command


def arguments(args):
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(prog="python -m instructor.grade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("submissions", type=Path, metavar="SUBMISSIONS")
    parser.add_argument("--out", type=Path, required=True, metavar="OUT")
    parser.add_argument("-j", "--jobs", type=int, default=1, metavar="N", help="files at a time")
    parser.add_argument(
        "--seed-file",
        type=Path,
        metavar="FILE",
        help="the course's secret: any text; without it OUT/seed.txt is made",
    )
    parser.add_argument("--student", metavar="GLOB", help="only these students")
    parser.add_argument("--trust", action="store_true", help="no sandbox: see README.md")
    parser.add_argument("--as-root", action="store_true", help="run although you are root")
    for name, value in (("call", 10), ("load", 10), ("submission", 60)):
        parser.add_argument(f"--{name}-seconds", type=float, default=value, metavar="S")
    return parser.parse_args(args)


def seed_of(flags):
    """Return the course's seed."""
    path = flags.seed_file or flags.out / "seed.txt"
    if flags.seed_file is None and not path.exists():
        write(path, secrets.token_hex(16) + "\n")
        path.chmod(0o600)
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


def grade_all(found, course, maker, results, jobs):
    """Grade what has no result yet; return the number of files that could not be graded."""
    from tqdm import tqdm

    waiting, failed = [], 0
    for sub in found:
        data = intake.read(sub.path)[0] if sub.path else None
        old = results.known(sub, key_of(sub, course, data))
        if old is None:
            waiting.append(sub)
        else:
            results.add(old, save=False)
    bar = tqdm(total=len(found), initial=len(found) - len(waiting), ascii=True, disable=None)
    with bar, ThreadPoolExecutor(jobs) as pool:
        futures = {pool.submit(judge, sub, course, maker): sub for sub in waiting}
        try:
            for future in as_completed(futures):
                name = ascii_line(futures[future].student, 40)
                try:
                    result = future.result()
                except Exception as error:  # ours, not the student's: no verdict is written
                    failed += 1
                    bar.write(f"{name}: NOT GRADED: {type(error).__name__}: {error}")
                    if not isinstance(error, SandboxError):
                        traceback.print_exc()
                else:
                    results.add(result)
                    bar.write(f"{name}: {result['total']:g}  ({result['seconds']:.1f} s)")
                bar.update()
        except KeyboardInterrupt:
            pool.shutdown(cancel_futures=True)
            raise
    return failed


def prepare(flags, unpacked):
    """Return (submissions, course, maker, results).

    Raises:
        OSError, ValueError: there is nothing to grade, or it cannot be read.
        SandboxError: there is no sandbox.
    """
    found = intake.find(flags.submissions, unpacked)
    if flags.student:
        found = [s for s in found if fnmatch.fnmatchcase(s.student, flags.student)]
    course = Course(seed_of(flags))
    limits = Limits(call=flags.call_seconds, load=flags.load_seconds)
    limits.submission = flags.submission_seconds
    secret = [flags.out, flags.submissions, *([flags.seed_file] if flags.seed_file else [])]
    maker = Maker(limits, flags.trust, [p if p.is_dir() else p.parent for p in secret])
    try:
        with maker.open() as sandbox, sandbox.open(1, Clock(1)):  # does it work at all?
            pass
    except SandboxError:
        maker.close()
        raise
    return found, course, maker, Results(flags.out, course, [s.student for s in found])


def main(args=None):
    """Run the command; return the exit code."""
    flags = arguments(args)
    if problem := check_rights(flags):
        print(problem)
        return 2
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory(prefix="lab15-zip-") as unpacked:
        try:
            found, course, maker, results = prepare(flags, unpacked)
        except (OSError, ValueError) as error:
            print(error)
            return 2
        except SandboxError as error:
            print(f"{error}. {REMEDY}")
            return 2
        if flags.trust:
            print("--trust: no sandbox. The students' code has the rights of your account.")
        try:
            failed = grade_all(found, course, maker, results, max(1, flags.jobs))
        except KeyboardInterrupt:
            print("stopped; the same command goes on from here")
            return 130
        finally:
            maker.close()
    results.finish()
    print(f"{len(results.done)} of {len(found)} graded: {flags.out / 'scores.csv'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
