"""The inside of the sandbox: load one student's file, call one task's function, hand back data.

Started by sandbox.py with a socket to the grader on 0. It imports torch once and forks a child for
every task, each in namespaces of its own (see isolate.py), so that nothing survives from one task
to the next; `python worker.py single` serves one task only. It holds no test, no expected value
and no solution. Whatever a student's code does to this process, all that leaves it are numbers
that the grader compares.
"""

import ast
import contextlib
import functools
import gc
import io
import os
import random
import resource
import signal
import socket
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE]

import isolate  # noqa: E402

MEMORY = 1500 << 20  # bytes above what torch itself takes
PROCESSES, FILES, FILE_SIZE, SECONDS = 24, 128, 32 << 20, 90
LOAD = 4.0  # seconds for all top-level statements; then the file's other statements go on
FLOOD = 1 << 20  # characters printed that are worth a word


def limit():
    """Set the limits of this process, after torch has taken what it needs."""
    used = 0
    with contextlib.suppress(OSError, ValueError):
        used = int(isolate.statm().split()[0]) * resource.getpagesize()
    wanted = {
        "RLIMIT_AS": used + MEMORY if used else None,
        "RLIMIT_CPU": SECONDS,
        "RLIMIT_CORE": 0,
        "RLIMIT_FSIZE": FILE_SIZE,
        "RLIMIT_NOFILE": FILES,
        "RLIMIT_NPROC": PROCESSES if "LAB15_SANDBOX" in os.environ else None,
    }
    for name, value in wanted.items():
        if value is not None and hasattr(resource, name):
            with contextlib.suppress(ValueError, OSError):
                resource.setrlimit(getattr(resource, name), (value, value))


class Counter(io.TextIOBase):
    """A place for prints: counts the characters and forgets them."""

    count = 0

    def write(self, text):
        """Forget the text."""
        self.count += len(text)
        return len(text)


class Empty(io.TextIOBase):
    """A keyboard that nobody sits at."""

    def readline(self, size=-1):
        """Say so."""
        raise EOFError("input() was called; nobody types while a file is graded")

    read = readline


# ---------------------------------------------------------------- loading


def _definition(node):
    """Whether a top-level statement only defines something."""
    if isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        return not any(isinstance(n, ast.Call) for n in ast.walk(node))
    if isinstance(node, ast.Try):
        return all(map(_definition, [*node.body, *node.orelse, *node.finalbody]))
    return False


def keep_definitions(path, labfile):
    """Blank out every top-level statement that does more than to define something."""
    text = labfile.read_source(path)[0].replace("\r\n", "\n").replace("\r", "\n")
    lines = text.split("\n")
    with contextlib.suppress(SyntaxError, ValueError, RecursionError, MemoryError):
        for node in ast.parse(text).body:
            if not _definition(node):
                lines[node.lineno - 1 : node.end_lineno] = [""] * (
                    node.end_lineno - node.lineno + 1
                )
    with open(path, "w", encoding="utf-8") as file:
        file.write("\n".join(lines))


def load(request):
    """Return (module, reply) for a file; see tests/labfile.py for what is done to broken ones."""
    from tests import labfile

    folder = os.environ["TMPDIR"] + "/submission"
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, "lab15_grpo.py")
    with open(path, "wb") as file:
        file.write(request["source"].numpy().tobytes())
    sys.stdout = sys.stderr = prints = Counter()
    sys.stdin = Empty()
    labfile._quiet = contextlib.nullcontext  # prints are counted here, not kept
    if request["definitions_only"]:
        keep_definitions(path, labfile)
    lab = labfile.load_lab(path, limit=LOAD)
    state = labfile.task_state(lab, request["task"])
    problems = [labfile.problem_line(lab, p) for p in lab.__problems__[:5]]
    return lab, {"kind": state.kind, "text": state.text, "problems": problems}, prints


# ---------------------------------------------------------------- calling


UNDO = []  # what the stand-ins of this call have replaced
HOOKS, REAL = {}, {}  # functions of tinylm: stand-ins of this call; its own


def hook(tinylm):
    """Let tinylm.sample and tinylm.reward ask HOOKS, under whatever name a file keeps them."""
    for name in ("sample", "reward"):
        REAL[name] = getattr(tinylm, name)

        @functools.wraps(REAL[name])
        def asks(*args, _name=name, **kwargs):
            return HOOKS.get(_name, REAL[_name])(*args, **kwargs)

        setattr(tinylm, name, asks)


def replace(lab, name, new):
    """Put `new` in the place of a name of the file's, and of other names of the same."""
    old = vars(lab).get(name)
    places = [(lab, k) for k, v in vars(lab).items() if old is not None and v is old]
    for space, key in [*places, (lab, name)]:
        UNDO.append((space, key, vars(space).get(key)))
        setattr(space, key, new)


def call_numbers(lab, function, case, ask):
    """Tasks 2 to 4: tensors in, tensors out, and the gradient if it is wanted."""
    import torch
    from standins import odd_k3

    args, kwargs = case["args"], case["kwargs"]
    if "k3" in case:
        replace(lab, "k3_kl", odd_k3(*case["k3"]))
    out = function(*args, **kwargs)
    grad, inputs = None, [*args, *kwargs.values()]
    if "weights" in case:
        root = out[0] if isinstance(out, tuple | list) and out else out
        logp = kwargs["logp"] if "logp" in kwargs else args[0]
        if isinstance(root, torch.Tensor) and root.requires_grad:
            weights = case["weights"].to(root.dtype).expand_as(root)
            (grad,) = torch.autograd.grad(root, [logp], weights, allow_unused=True)
    return {"out": out, "grad": grad, "after": inputs}


def _state(model):
    return {k: v.clone() for k, v in model.state_dict().items()}


def call_sample_group(lab, function, case, ask):
    """Task 1."""
    import standins
    import torch

    import tinylm

    policy = standins.model(tinylm, case["shape"], case["state"])
    prompts, answers, who = case["prompts"], case["answers"], []

    def sample(model, *args, **kwargs):  # another backend: its dict has one entry more
        who.append(model is policy)
        return REAL["sample"](model, *args, **kwargs) | {"note": case["note"]}

    HOOKS["sample"] = sample
    if case["rule"]:
        HOOKS["reward"] = standins.odd_reward(case["rule"])
    if case["style"] == "keywords":
        out = function(model=policy, prompts=prompts, answers=answers, G=case["G"], **case["more"])
    else:
        out = function(policy, prompts, answers, case["G"], *case["more"].values())
    after = {"state": _state(policy), "prompts": prompts, "answers": answers}
    tensors = out["out"].values() if isinstance(out, dict) else []
    frozen = any(torch.is_tensor(t) and t.is_inference() for t in tensors)
    return {"out": out, **after, "train": policy.training, "who": who, "frozen": frozen}


def call_grpo_step(lab, function, case, ask):
    """Task 5, with stand-ins for tasks 1, 2 and 4; the first two are answered by the grader."""
    import standins

    import tinylm

    policy = standins.model(tinylm, case["shape"], case["policy"])
    ref = standins.model(tinylm, case["shape"], case["ref"])
    for p in ref.parameters():
        p.requires_grad_(case["ref_grad"])
    opt = standins.Momentum(policy.parameters(), case["lr"])
    cfg = standins.config(case["cfg"])

    def sample_group(model, prompts, answers, G, temperature=1.0):
        who = "policy" if model is policy else "ref" if model is ref else "other"
        asked = {"prompts": list(prompts), "answers": list(answers), "G": G}
        return ask({"ask": "sample_group", "who": who, "temperature": temperature, **asked})

    def group_advantages(rewards, G, scale_std=True, eps=1e-4):
        asked = {"rewards": rewards, "G": G, "scale_std": scale_std, "eps": eps}
        return ask({"ask": "group_advantages", **asked})

    replace(lab, "sample_group", sample_group)
    replace(lab, "group_advantages", group_advantages)
    replace(lab, "grpo_loss", standins.odd_loss)
    replace(lab, "token_entropy", standins.token_entropy)
    out = function(policy, ref, opt, case["prompts"], case["answers"], cfg)
    flags = [bool(p.requires_grad) for p in policy.parameters()]
    ref_flags = [bool(p.requires_grad) for p in ref.parameters()]
    touched = [float(p.grad.abs().sum()) for p in ref.parameters() if p.grad is not None]
    after = {"policy": _state(policy), "ref": _state(ref), "flags": flags, "touched": touched}
    after["ref_flags"] = ref_flags
    lists = {"prompts": case["prompts"], "answers": case["answers"], "cfg": vars(cfg)}
    return {"out": out, **after, **lists, "train": policy.training}


CALLS = {1: call_sample_group, 2: call_numbers, 3: call_numbers, 4: call_numbers}
CALLS[5] = call_grpo_step
NAMES = {1: "sample_group", 2: "group_advantages", 3: "k3_kl", 4: "grpo_loss", 5: "grpo_step"}


def call(lab, task, case, ask):
    """Return the reply to one case: the data, or the kind of error and its line."""
    import torch

    torch.manual_seed(case["seed"])
    random.seed(case["seed"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed(case["seed"])
    try:
        function = getattr(lab, NAMES[task])
        return {"ok": True, **CALLS[task](lab, function, case, ask)}
    except BaseException as error:
        line, tb = 0, error.__traceback__
        while tb is not None:
            if tb.tb_frame.f_code.co_filename == lab.__file__:
                line = tb.tb_lineno
            tb = tb.tb_next
        return {"ok": False, "error": type(error).__name__, "line": line}
    finally:
        HOOKS.clear()
        while UNDO:
            setattr(*UNDO.pop())


def serve(fd):
    """Answer the grader's questions about one task until it hangs up."""
    import wire

    import tinylm

    hook(tinylm)

    def ask(question):
        wire.write_all(fd, wire.encode(question))
        return wire.read_all(fd)["answer"]

    limit()
    wire.write_all(fd, wire.encode({"ready": True}))
    request = wire.read_all(fd)
    lab, reply, prints = load(request)
    while True:
        reply["printed"] = prints.count > FLOOD
        try:
            frame = wire.encode(reply)
        except BaseException as error:
            frame = wire.encode({"ok": False, "error": type(error).__name__, "line": 0})
        wire.write_all(fd, frame)
        reply = call(lab, request["task"], wire.read_all(fd), ask)


# ---------------------------------------------------------------- one process per task


def close_all_but(fd):
    """Close every file but one, and point 0, 1 and 2 to nowhere."""
    null = os.open(os.devnull, os.O_RDWR)
    for other in (0, 1, 2):
        os.dup2(null, other)
    os.closerange(3, fd)
    os.closerange(fd + 1, 4096)


class Nursery:
    """Forks a child for each task. The parent never loads a student's file.

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


def main():
    """Import torch once, then fork for every task, or serve a single one."""
    control = socket.socket(fileno=os.dup(0))
    import numpy  # noqa: F401
    import standins  # noqa: F401
    import torch
    import wire  # noqa: F401

    import tinylm  # noqa: F401 - before the student's file could bring another
    from tests import labfile  # noqa: F401

    torch.set_num_threads(1)
    if sys.argv[1] == "nested":
        gc.collect()
        gc.freeze()
        Nursery(control).run()
    else:
        control.send(b"r")
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
