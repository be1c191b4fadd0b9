"""The inside of the sandbox: load one student's file, call one function, send back data.

Started by sandbox.py with a socket to the grader on 0. It imports torch once and forks a child for
every task, each in its own namespaces (see isolate.py), so that nothing survives from one task
to the next; `python worker.py single` serves one task only. It holds no test, no expected value
and no solution. Whatever student code does to this process, only numbers leave it, and the
grader compares them.
"""

import ast
import contextlib
import gc
import importlib
import io
import os
import resource
import signal
import socket
import sys
import time
import types

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]

import isolate  # noqa: E402
import syscalls  # noqa: E402

LOAD = 4.0  # seconds for all top-level statements; the statements after it still run
PROBLEMS = 5  # of a file that are listed
FLOOD = 1 << 20  # characters printed before a note is made
# Decorators that take no time.
HARMLESS = {"torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()", "staticmethod"}
HARMLESS |= {"dataclass", "dataclasses.dataclass", "torch.no_grad", "classmethod", "property"}


def limit():
    """Set the limits of this process, after torch has taken what it needs."""
    used, wanted = 0, isolate.limits()
    with contextlib.suppress(OSError, ValueError):
        used = int(isolate.statm().split()[0]) * resource.getpagesize()
    limits = {
        "RLIMIT_AS": used + wanted["process"] if used else None,
        "RLIMIT_CPU": wanted["seconds"],
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": wanted["file"],
        "RLIMIT_NOFILE": wanted["files"],
        "RLIMIT_NPROC": wanted["processes"] if "LAB15_SANDBOX" in os.environ else None,
        "RLIMIT_MSGQUEUE": 0,
        "RLIMIT_MEMLOCK": 64 << 10,
    }
    for name, value in limits.items():
        if value is not None and hasattr(resource, name):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (value, value))


class Counter(io.TextIOBase):
    """An output stream that counts characters and discards them."""

    count = 0

    def write(self, text):
        """Discard the text."""
        self.count += len(text)
        return len(text)


class Empty(io.TextIOBase):
    """The worker's stdin: every read raises EOFError."""

    def readline(self, size=-1):
        """Refuse to read.

        Raises:
            EOFError: always.
        """
        raise EOFError("input() was called; there is no keyboard while a file is graded")

    read = readline


# ---------------------------------------------------------------- loading


def span(node, lines):
    """Return [first line, last line] of a statement: a decorator belongs to its function.

    Args:
        node: the statement.
        lines: of the file.
    """
    decorators = getattr(node, "decorator_list", [])
    first = min(n.lineno for n in [node, *decorators])
    while decorators and first > 1 and not lines[first - 1].lstrip().startswith("@"):
        first -= 1  # the expression is below its @
    return [first, node.end_lineno]


def _is_text(node):
    """Return whether a statement is a docstring, an ellipsis or nothing."""
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    return constant or isinstance(node, ast.Pass)


def _definition(node, strict=False):
    """Return whether a top-level statement only defines something.

    Args:
        node: the statement.
        strict: what a decorator, a default or a class does counts as well.
    """
    if isinstance(node, ast.FunctionDef | ast.ClassDef) and strict:
        known = all(ast.unparse(d) in HARMLESS for d in node.decorator_list)
        if isinstance(node, ast.ClassDef):
            return known and all(_is_text(n) or _definition(n, strict) for n in node.body)
        defaults = [*node.args.defaults, *filter(None, node.args.kw_defaults)]
        return known and not any(isinstance(n, ast.Call) for d in defaults for n in ast.walk(d))
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(n, ast.Call) for n in ast.walk(node))
    if isinstance(node, ast.Try):
        inside = [*node.body, *node.orelse, *node.finalbody]
        return all(_definition(n, strict) for n in inside)
    return False


def without(path, labfile, definitions_only, skip):
    """Blank out lines: those of skip, or all top-level statements that do more than define.

    Args:
        path: of the file.
        labfile: the module.
        definitions_only: 0: no; 1: yes; 2: and no function with a decorator of the student's own.
        skip: [first, last] lines.
    """
    text = labfile.read_source(path)[0].replace("\r\n", "\n").replace("\r", "\n")
    lines, skip = text.split("\n"), list(skip)
    if definitions_only:
        with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
            nodes = ast.parse(text).body
            more = [node for node in nodes if not _definition(node, definitions_only > 1)]
            skip += [span(node, lines) for node in more]
    for first, last in skip:
        lines[first - 1 : last] = [""] * (last - first + 1)
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def write_down(request, labfile):
    """Write the student's file and return its path; what it prints is counted, not kept."""
    folder = os.environ["TMPDIR"] + "/submission"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "lab15_grpo.py")
    with open(path, "wb") as file:
        file.write(request["source"].numpy().tobytes())
    if request["definitions_only"] or request["skip"]:
        without(path, labfile, request["definitions_only"], request["skip"])
    sys.stdout = sys.stderr = prints = Counter()
    sys.stdin = Empty()
    return path, prints


def forward(lab, names):
    """Redirect every reference to a task's function to the current value of its name.

    A stand-in replaces only the name. In

        def grpo_step(policy, ..., loss_of=grpo_loss):

    the default still holds the student's grpo_loss. So the function object itself gets the code
    of a trampoline: called by any reference, it looks up its name and calls what it finds.
    """
    done = []
    for name in names:
        held = vars(lab).get(name)
        if type(held) is types.FunctionType and held.__closure__ is None and held not in done:
            done.append(held)
            _make_trampoline(lab, name, held)


def _make_trampoline(lab, name, held):
    """Give a function the code that calls whatever has its name in the module.

    Args:
        lab: the student's module.
        name: of the function.
        held: the function.
    """
    original = types.FunctionType(held.__code__, held.__globals__, name, held.__defaults__)
    original.__kwdefaults__ = held.__kwdefaults__

    def lookup(*args, **kwargs):
        current = vars(lab).get(name, held)
        return (original if current is held else current)(*args, **kwargs)

    def trampoline(*args, _lookup=lookup, **kwargs):
        return _lookup(*args, **kwargs)

    held.__code__, held.__defaults__ = trampoline.__code__, None
    held.__kwdefaults__ = trampoline.__kwdefaults__


def load(request):
    """Return (module, reply) for a file; see tests/labfile.py for what is done to broken ones."""
    from tests import labfile

    path, prints = write_down(request, labfile)
    slow = []

    def noted(lines, node, error):
        if isinstance(error, labfile.OutOfTime) and not slow:  # the others had less time
            number = labfile.NUMBER_OF.get(getattr(node, "name", None), 0)
            slow.append([*span(node, lines), number])

    # Prints are counted here, so they are not discarded while the file is loaded.
    lab = labfile.load_lab(path, limit=LOAD, hush=contextlib.nullcontext, failed=noted)
    sys.modules["lab15_grpo"] = lab  # a file may import itself inside a function
    state = labfile.task_state(lab, request["task"])
    problems = [labfile.problem_line(lab, p) for p in lab.__problems__[:PROBLEMS]]
    if (more := len(lab.__problems__) - PROBLEMS) > 0:
        problems.append(f"and {more} more problem{'s' * (more != 1)}")
    forward(lab, [task.name for task in labfile.TASKS.values()])
    texts = [labfile.task_state(lab, number).text for number in labfile.TASKS]
    reply = {"kind": state.kind, "texts": texts, "problems": problems, "slow": slow}
    return lab, reply, prints


def practise(request, tell):
    """Run the public tests and exit."""
    import public_tests

    from tests import labfile

    public_tests.run(request, write_down(request, labfile)[0], tell)
    os._exit(0)


def serve(fd):
    """Answer the grader's questions about one task until it hangs up."""
    import calls
    import wire

    import tinylm

    def tell(value):
        wire.write_all(fd, wire.encode(value))

    def ask(question):
        tell(question)
        return wire.read_all(fd)["answer"]

    limit()
    if "LAB15_SANDBOX" in os.environ:
        syscalls.restrict()
    tell({"ready": True})
    request = wire.read_all(fd)
    if "files" in request:
        practise(request, tell)
    calls.hook(tinylm)
    lab, reply, prints = load(request)
    while True:
        reply["printed"] = prints.count > FLOOD
        try:
            frame = wire.encode(reply)
        except BaseException as error:
            frame = wire.encode({"ok": False, "error": type(error).__name__})
        wire.write_all(fd, frame)
        reply = calls.call(lab, request["task"], wire.read_all(fd), ask)


# ---------------------------------------------------------------- one process per task


def close_all_but(fd):
    """Close every file but one, and point 0, 1 and 2 to /dev/null."""
    null = os.open(os.devnull, os.O_RDWR)
    for other in (0, 1, 2):
        os.dup2(null, other)
    os.closerange(3, fd)
    os.closerange(fd + 1, 4096)


class Nursery:
    """Fork a child for each task. The parent never loads a student's file.

    Args:
        control: the socket on which the grader asks for a child or has one killed.
    """

    def __init__(self, control):
        self.control, self.child = control, 0

    def run(self):
        """Serve until the grader hangs up."""
        self.control.send(b"r")
        while True:
            message, fds, _, _ = socket.recv_fds(self.control, 1, 1)
            if message == b"s":
                self.child = self.start(fds[0])
                os.close(fds[0])
                self.control.send(b"k" if self.child else b"n")
            elif message == b"e":
                self.end()
                self.control.send(b"d")
            else:
                return

    def start(self, fd):
        """Fork a child into namespaces of its own; return its process id, or 0."""
        read, write = os.pipe()
        middle = os.fork()
        if middle == 0:
            pid = 0
            try:
                isolate.enter()
                pid = os.fork()
                if pid == 0:
                    isolate.settle()
                    close_all_but(fd)
                    serve(fd)
            finally:
                if pid:
                    os.write(write, b"%d" % pid)
                os._exit(0)
        os.close(write)
        pid = os.read(read, 20)
        os.close(read)
        os.waitpid(middle, 0)
        return int(pid or 0)

    def end(self):
        """Kill the child, which is the first process of its namespace: all others go with it."""
        with contextlib.suppress(ProcessLookupError):
            for _ in range(2000):
                os.kill(self.child, signal.SIGKILL)
                time.sleep(0.001)
        self.child = 0


def folders():
    """Return descriptors of the places a task can write to: the grader counts their files."""
    if "LAB15_SANDBOX" not in os.environ:
        return []
    return [os.open(path, os.O_RDONLY) for path in (os.environ["TMPDIR"], "/dev/shm")]


def main():
    """Import torch once, then fork for every task, or serve a single one."""
    control = socket.socket(fileno=os.dup(0))
    with contextlib.suppress(OSError):  # if the machine runs out of memory, kill this process first
        with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
            file.write("1000")
    import calls  # noqa: F401
    import numpy  # noqa: F401
    import standins  # noqa: F401
    import torch
    import wire  # noqa: F401

    import tinylm  # noqa: F401 - before the student's file could bring another
    from tests import labfile  # noqa: F401

    torch.set_num_threads(1)
    syscalls.library()
    for name in sys.argv[2:]:
        with contextlib.suppress(Exception):
            importlib.import_module("matplotlib.pyplot" if name == "matplotlib" else name)
    if sys.argv[1] == "nested":
        gc.collect()
        gc.freeze()
        Nursery(control).run()
    else:
        socket.send_fds(control, [b"r"], folders())
        _, fds, _, _ = socket.recv_fds(control, 1, 1)
        control.send(b"k")
        fd = os.dup2(fds[0], 200)
        close_all_but(fd)
        serve(fd)


if __name__ == "__main__":
    try:
        main()
    finally:
        os._exit(0)
