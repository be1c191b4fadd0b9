"""Judge a student's file: the hidden tests, task by task, and the result.

Nothing here runs, imports or parses student code; that is done in a sandbox (see sandbox.py).
"""

import ast
import builtins
import hashlib
import importlib
import re
import time
from pathlib import Path

from tests.labfile import ROOT, TASKS, ascii_line

from ..hidden import common
from ..submissions.intake import Unseen, handed_in
from . import points, practice
from .engine import closure
from .sandbox import Clock, Failed, SandboxError

DEFINITIONS = (
    "Only its imports and definitions were used; keep what trains or runs under "
    "if __name__ == '__main__'"
)
TOO_LONG = (
    "What took too long while the file was loaded was left out; keep what trains or runs under "
    "if __name__ == '__main__'"
)
ERRORS = re.compile(r"(\w+Error|\w+Exception|StopIteration|KeyboardInterrupt|SystemExit)")
# Slow packages that a file may import at its top: the sandbox imports them once for all tasks.
SLOW = re.compile(rb"^(?:import|from)[ \t]+(matplotlib|pandas|scipy|sklearn|seaborn)\b", re.M)
VERSION = re.compile(rb"^LAB_VERSION[ \t]*=[ \t]*[\"']([\w.+-]{1,20})[\"']", re.M)
LONGEST = 4000  # characters of a text that are looked at
NOTES, NOTE = 12, 400  # of a file; characters of the one on what was handed in
UNCLEAR = "it cannot be judged"
LATE = "its def did not end within 4 s: what do its decorator and its defaults do?"

# What decides about points is all that this file and a sandbox's worker need, but for this: what
# the public tests say gives none; a file's own hash stands beside this one, however it was found;
# and the stand-ins count for the tasks whose hidden tests need them.
NO_SAY = ("instructor/grading/practice.py", "instructor/box/public_tests.py",
          "instructor/submissions/intake.py")
ENGINE = ("instructor/grading/judging.py", "instructor/box/worker.py",
          "instructor/hidden/common.py")
STANDINS = "instructor/box/standins.py"
ORACLES = {4: ("grpo_loss", "k3_kl"), 5: ("grpo_step",)}  # functions of the solution


class Course:
    """The hidden tests with the numbers of one seed."""

    def __init__(self, seed):
        self.modules = {n: importlib.import_module(f"instructor.hidden.task{n}") for n in TASKS}
        self.cases = {n: module.make(seed) for n, module in self.modules.items()}
        self.hashes = {n: fingerprint(n, seed) for n in TASKS}
        self.version = str(common.reference().LAB_VERSION)


def fingerprint(number, seed, root=ROOT):
    """Return a hash of everything but the student's file that decides a task's points.

    Args:
        number: of the task.
        seed: of the hidden tests.
        root: of the repository.
    """
    files = closure(ENGINE, root, without=(*NO_SAY, STANDINS))
    own = closure([f"instructor/hidden/task{number}.py"], root, without=files)
    digest = hashlib.sha256(f"{seed}/{TASKS[number].points}".encode())
    for name in [*files, *own]:
        digest.update(hashlib.sha256(Path(root, name).read_bytes()).digest())
    source = Path(root, "solutions", "lab15_grpo.py").read_text(encoding="utf-8")
    wanted = ORACLES.get(number, (TASKS[number].name,))
    for node in ast.parse(source).body:
        if getattr(node, "name", "") in wanted:
            digest.update(ast.dump(node).encode())
    return digest.hexdigest()[:16]


# ---------------------------------------------------------------- one task


def builtin_error(name):
    """Return the name of an exception if it is one of Python's own.

    A student's class could carry a hidden test's numbers in its name.
    """
    known = isinstance(name, str) and len(name) < 40 and ERRORS.fullmatch(name)
    return name if known and hasattr(builtins, name) else "an error"


def clean(text, limit=160):
    """Return text that came out of the sandbox as one short harmless line."""
    return re.sub(r"[^ -~]|[`<>|\[\]\\]", "'", ascii_line(str(text)[:LONGEST], limit))


def run_cases(box, module, cases):
    """Return (verdicts, messages) of all cases of a task in an open box.

    The messages hold nothing that a file can choose freely after it has seen a hidden input: no
    text, no line, and of its errors only what Python calls the first one.

    Args:
        box: a Box.
        module: of the task's hidden tests.
        cases: what its make returned.
    """
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
            messages.append(f"a call ended with {builtin_error(reply.get('error'))}")
            verdicts.append(nothing)
            continue
        reply["asked"] = answer.asked if answer else []
        verdicts.append(_judge(module, case, reply) or nothing)
    if hasattr(module, "across"):
        try:
            verdicts.append(module.across(cases, [] if dead else replies))
        except Exception:
            verdicts.append({test: set() for test in module.TESTS})
    return verdicts, [*([dead] if dead else []), *messages[:1]]


def _judge(module, case, reply):
    """Return the verdict on one reply, or None if it is too odd for one."""
    try:
        verdict = module.judge(case, reply)
    except Exception:
        return None
    if reply.get("kept") is not True:  # gradients switched off for good, another default dtype
        verdict = {test: set() if test == "unchanged" else v for test, v in verdict.items()}
    return verdict


def scored(number, module, cases, verdicts):
    """Return (points of a task, {id of a hidden test: passed}, points.by_test).

    Args:
        number: of the task.
        module: of its hidden tests.
        cases: that were run.
        verdicts: one for each case: {test: passed}, or None.
    """
    passed = common.combine(module.TESTS, verdicts)
    simple = [v for v, case in zip(verdicts, cases) if case.simple]
    both = passed, common.combine(module.TESTS, simple)
    return points.of_task(number, *both), passed, points.by_test(number, *both)


def blank(number, tests, message, state="broken"):
    """Return the result of a task that could not be judged.

    Args:
        number: of the task.
        tests: its hidden tests.
        message: why.
        state: of the task.
    """
    names = {test.name: False for test in tests.values()}
    result = {"points": 0.0, "tests": names, "messages": [message], "hints": [], "state": state}
    return result | {"public": "", "mistakes": [], "given": {}, "simple": ""}


def judge_task(number, box, course, kind, text=""):
    """Return the result of one task whose file has been loaded.

    Args:
        number: of the task.
        box: an open Box.
        course: a Course.
        kind: of the task's state, as the box reports it.
        text: the message about it from before the file saw any hidden input.
    """
    module = course.modules[number]
    if kind != "written":
        kind = kind if kind in ("unwritten", "missing") else "broken"
        text = UNCLEAR if text.startswith("written") else text or UNCLEAR
        return blank(number, module.TESTS, text, kind)
    verdicts, messages = run_cases(box, module, course.cases[number])
    given, passed, shares = scored(number, module, course.cases[number], verdicts)
    hints = [f"{t.name}: {t.hint}" for name, t in module.TESTS.items() if not passed[name]]
    return blank(number, module.TESTS, "", "written") | {
        "points": given,
        "tests": {test.name: passed[name] for name, test in module.TESTS.items()},
        "messages": messages,
        "hints": hints,
        "given": {module.TESTS[name].name: list(both) for name, both in shares.items()},
        "simple": getattr(module, "SIMPLE_CASES", ""),
    }


# ---------------------------------------------------------------- one file


class Judgement:
    """Judge one file: collect results by task, and notes about the whole file.

    Args:
        data: the file's bytes.
        course: a Course.
        sandbox: an open Sandbox.
        wanted: the tasks to judge.
    """

    def __init__(self, data, course, sandbox, wanted=tuple(TASKS)):
        self.data, self.course, self.sandbox = data, course, sandbox
        self.wanted, self.tasks, self.notes = list(wanted), {}, {}
        self.clock = Clock(sandbox.maker.limits.submission)
        self.definitions_only, self.hopeless, self.again = 0, "", True
        self.skip = []  # lines of statements that took too long
        self.lines = data.count(b"\n") + 1
        self.seen, self.texts = False, {}  # a hidden input; what was said before of each task
        self.late = set()  # tasks whose def did not finish
        sandbox.preload = sorted({name.decode() for name in SLOW.findall(data)})
        sandbox.preload += ["torch._dynamo"] * (b"torch.compile" in data)

    def run(self):
        """Judge the tasks in turn; then collect the messages of the public tests."""
        while left := [n for n in self.wanted if n not in self.tasks]:
            number = left[0]
            if self.hopeless:
                tests = self.course.modules[number].TESTS
                self.tasks[number] = blank(number, tests, self.hopeless)
            else:
                self._try(number)
        short = [n for n, task in self.tasks.items() if task["state"] == "written"]
        short = [n for n in short if self.tasks[n]["points"] < TASKS[n].points]
        if short and self.clock.left > 0:
            self._practise(short)
        notes, more = list(self.notes)[:NOTES], len(self.notes) - NOTES
        return self.tasks, notes + [f"and {more} more note" + "s" * (more > 1)] * (more > 0)

    def _try(self, number):
        sandbox = self.sandbox
        try:
            with sandbox.open(number, self.clock) as box:
                box.skip = self.skip
                loaded = box.load(self.data, self.definitions_only)
                self._listen(loaded)
                if slow := self._slow(loaded.get("slow")):
                    self.skip += [pair[:2] for pair in slow]
                    self.late |= {pair[2] for pair in slow}
                    self.notes[TOO_LONG] = None
                    return  # once more: code that was stopped halfway may have left a mess
                self.clock.divide(len([n for n in self.wanted if n not in self.tasks]))
                kind = loaded.get("kind")
                text = LATE if number in self.late else self.texts.get(number, "")
                self.seen = self.seen or kind == "written"
                result = judge_task(number, box, self.course, kind, text)
            self.tasks[number] = result
        except Failed as error:  # of load: judge_task catches those of its calls
            if self.definitions_only > 1 or self.clock.left <= 0:
                self.hopeless = f"the file cannot be loaded: {error}"
            self.definitions_only += 1
            self.notes[f"loading the file: {error}. {DEFINITIONS}"] = None
        except SandboxError:  # an earlier task may have damaged it: try once more
            if not self.again:
                raise
            self.again = False
            sandbox.kill()

    def _listen(self, loaded):
        """Keep a box's messages about the file, until a box has seen a hidden input.

        Boxes share a kernel: what one has seen could leak to the next, and be reported by it.
        """
        if self.seen:
            return
        self.notes.update(dict.fromkeys(map(clean, _texts(loaded.get("problems")))))
        if loaded.get("printed") is True:
            self.notes["it prints a lot while it is loaded; what it prints is not read"] = None
        self.texts = dict(zip(TASKS, map(clean, _texts(loaded.get("texts"))), strict=False))

    def _slow(self, value):
        """Return the lines to leave out from now on, as [first, last, task or 0]."""
        if not isinstance(value, list) or len(self.skip) > 9:
            return []
        found = [p for p in value[:1] if isinstance(p, list) and len(p) == 3]
        found = [p for p in found if all(type(n) is int and 0 <= n <= self.lines for n in p)]
        return [p for p in found if 0 < p[0] <= p[1] and p[:2] not in self.skip]

    def _practise(self, numbers):
        """Add the public tests' messages; the tests enter the sandbox only now."""
        told, sandbox = {}, self.sandbox
        try:
            with sandbox.open(0, self.clock) as box:
                box.skip = self.skip
                for number, reply in box.practise(self.data, self.definitions_only, numbers):
                    if number in numbers:
                        told[number] = practice.read(reply, number)
        except (Failed, SandboxError):
            pass  # there are hints of the hidden tests, too
        for number in numbers:
            text, mistakes = told.get(number, ("the public tests did not end", []))
            self.tasks[number] |= {"public": text, "mistakes": mistakes}


def _texts(value):
    return [x for x in value if isinstance(x, str)][:6] if isinstance(value, list) else []


def judge(submission, course, maker, old=None):
    """Return the result of one submission as plain data; results.py makes files of it.

    Args:
        submission: an intake.Submission.
        course: a Course.
        maker: a Maker.
        old: {task: result} of tasks that need not be judged again.

    Raises:
        Unseen: the grader could not look at what was handed in.
    """
    if submission.unseen:
        raise Unseen(submission.note)
    began, old = time.monotonic(), old or {}
    data, problem = submission.read()
    wanted = [n for n in TASKS if n not in old]
    if data is None:
        tests = {n: course.modules[n].TESTS for n in wanted}
        tasks = {n: blank(n, tests[n], clean(problem, NOTE), "missing") for n in wanted}
        notes = [f"nothing was graded: {clean(problem, NOTE)}"]
    else:
        with maker.open() as sandbox:
            tasks, notes = Judgement(data, course, sandbox, wanted).run()
    note = clean(submission.note, NOTE)
    version = file_version(data)
    if data is not None and version not in (None, course.version):
        notes.append(f"the file is of lab version {version}; the tests are of {course.version}")
    return {
        "student": submission.student,
        "tasks": {n: (tasks | old)[n] for n in TASKS},
        "notes": ([note] if note and data is not None else []) + notes,
        "seconds": round(time.monotonic() - began, 2),
        "file": file_hash(data, problem),
        "handed_in": handed_in(submission.path),
        "version": version,
        "submitted": submission.submitted,
        "late": submission.late,
        "hashes": course.hashes,
        "lab_version": course.version,
    }, data


def file_version(data):
    """Return a file's own LAB_VERSION, or None."""
    found = VERSION.search(data or b"")
    return found and found[1].decode("ascii", "replace")


def file_hash(data, note=""):
    """Return a hash of a file, or of the reason why there is none."""
    content = data if data is not None else f"nothing: {note}".encode("utf-8", "replace")
    return hashlib.sha256(content).hexdigest()[:16]
