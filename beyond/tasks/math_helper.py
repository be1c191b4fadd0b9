"""A process that does mathematics for this one: math-verify, with a time limit that always holds.

`same(gold, given)` may be called from any thread, in an actor, on any system. The process is
started at the first question, with none of this one's memory and no GPU, and is used again. One
that does not answer in time is killed, and the next question starts another. It ends with this
process: its input ends then, and a question that is still open ends by its own limit.

Run as a program this file is that process: a line of JSON in, a line of JSON out.
"""

import atexit
import importlib.util
import json
import os
import queue
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

SECONDS = 5.0  # for one comparison
START_SECONDS = 300.0  # for importing sympy on a busy machine
LONGEST = 1000  # characters of a formula; longer ones are not compared

# ============================================================== this side


class Helper:
    """The process and the way to it."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.pid = os.getpid()
        self.process: subprocess.Popen | None = None
        self.broken = False  # it did not start, and is not tried again
        self.answers: queue.Queue = queue.Queue()

    def start(self) -> bool:
        """Start the process and wait until it is ready; False where it does not start."""
        if importlib.util.find_spec("math_verify") is None:
            return False
        options: dict[str, Any] = {}
        if sys.platform == "win32":
            options["creationflags"] = subprocess.CREATE_NO_WINDOW
        # -P: the folder of this file is not on the path; its data.py is not what sympy looks for.
        self.process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).resolve())], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env=os.environ | {"CUDA_VISIBLE_DEVICES": "", "PYTHONIOENCODING": "utf-8"}, **options)
        self.answers = queue.Queue()
        threading.Thread(target=self._listen, args=(self.process.stdout, self.answers),
                         daemon=True).start()
        return self._next(START_SECONDS) == {"ready": True}

    @staticmethod
    def _listen(pipe, answers: queue.Queue) -> None:
        """Put the process's lines into the queue, and None at their end."""
        with pipe:
            for line in pipe:
                answers.put(line)
        answers.put(None)

    def _next(self, seconds: float) -> Any:
        """Return the process's next answer; None where there is none in time."""
        try:
            line = self.answers.get(timeout=seconds)
            return None if line is None else json.loads(line)
        except (queue.Empty, ValueError):
            return None

    def stop(self) -> None:
        """End the process."""
        process, self.process = self.process, None
        if process is not None:
            process.kill()
            process.wait()
            if process.stdin:
                try:
                    process.stdin.close()
                except OSError:
                    pass  # what was not read yet is not wanted any more

    def ask(self, question: dict[str, Any], seconds: float) -> Any:
        """Return the answer to a question, or None: in vain, too late, or no such process."""
        with self.lock:
            try:
                if self.broken:
                    return None
                if self.process is None and not self.start():
                    self.stop()
                    self.broken = True
                    _warn_of_no_start()
                    return None
                assert self.process and self.process.stdin
                line = json.dumps(question | {"seconds": seconds}) + "\n"
                self.process.stdin.write(line.encode("ascii"))
                self.process.stdin.flush()
                found = self._next(seconds + 2)
            except OSError:
                found = None
            except BaseException:  # Ctrl-C: the answer to this question must not meet the next one
                self.stop()
                raise
            if found is None:
                self.stop()
                return None
            return found.get("same")


def _warn_of_no_start() -> None:
    """Warn that formulas are not compared, and why."""
    why = (f"its process does not start; try: {sys.executable} -P {Path(__file__).resolve()}"
           if importlib.util.find_spec("math_verify")
           else "math-verify is not installed: pip install -r beyond/requirements.txt")
    warnings.warn(f"formulas are not compared (score None): {why}", stacklevel=2)


_HELPER = Helper()


def same(gold: str, given: str, seconds: float = SECONDS) -> bool | None:
    """Return whether two formulas in LaTeX have the same value, exactly; None: undecidable.

    Args:
        gold: what is right.
        given: what is compared with it.
        seconds: time limit, above 0.
    """
    global _HELPER
    if max(len(gold), len(given)) > LONGEST:
        return None
    if _HELPER.pid != os.getpid():  # this process was forked: the other one is its parent's
        _HELPER = Helper()
    return _HELPER.ask({"gold": gold, "given": given}, seconds)


def stop() -> None:
    """End the process, if there is one; the next question starts another."""
    if _HELPER.pid == os.getpid():
        _HELPER.stop()


atexit.register(stop)

# ============================================================== that side

EXAMPLES = [(r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"), ("(x+1)^2", "x^2+2x+1"),
            (r"(-\infty,2)\cup(3,\infty)", r"x > 3"), (r"\sin \frac{\pi}{6}", "0.5")]


def _parsed(text: str) -> Any:
    """Return what math-verify makes of a formula, or None."""
    from math_verify import parse
    from math_verify.parser import LatexExtractionConfig

    found = parse(rf"\boxed{{{text}}}", extraction_config=[LatexExtractionConfig()],
                  fallback_mode="no_fallback", parsing_timeout=None)
    return found[0] if found and not isinstance(found[0], str) else None


def _digits(text: str) -> int:
    """Return how many significant decimals a plain decimal fraction has; else 0."""
    whole, dot, rest = text.strip().lstrip("+-").partition(".")
    plain = dot and rest.isdecimal() and (whole.isdecimal() or not whole)
    return len(rest if int(whole or 0) else rest.lstrip("0")) if plain else 0


def _exact(expression: Any) -> Any:
    """Return an expression with its decimals as fractions."""
    from sympy import Float, Rational

    return expression.xreplace({x: Rational(str(x)) for x in expression.atoms(Float)})


def _equal(gold: Any, given: Any, decimals: int) -> bool | None:
    """Return whether two parsed formulas are equal; numbers exactly, or to the decimals given."""
    from math_verify import verify
    from sympy import Abs, Expr, N, S

    numbers = all(isinstance(x, Expr) and not x.free_symbols for x in (gold, given))
    if not numbers:
        return bool(verify(gold, given, timeout_seconds=None))
    gold, given = _exact(gold), _exact(given)
    difference = gold - given
    if difference.is_infinite or difference is S.NaN:
        return gold == given
    zero = difference.is_zero
    if zero is None:
        zero = difference.equals(0)
    if zero is None:
        size = N(Abs(difference), 50, maxn=400)
        if size > N(Abs(gold), 50) * S(10) ** -40:
            zero = False
    if zero is False and decimals >= 6 and not (gold.is_rational and given.is_rational):
        return bool(N(Abs(difference), 30) < S(10) ** -decimals)
    return None if zero is None else bool(zero)


def _answer(question: dict[str, Any]) -> bool | None:
    """Return the answer to a question; None if it is undecidable."""
    try:
        gold, given = _parsed(question["gold"]), _parsed(question["given"])
        if gold is None or given is None:
            return None
        return _equal(gold, given, max(_digits(question["gold"]), _digits(question["given"])))
    except (Exception, RecursionError):
        return None


def main() -> None:
    """Answer questions until the input ends."""
    import faulthandler
    import logging
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the other side's, which ends this one
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, resource.RLIM_INFINITY))
    except (ImportError, ValueError, OSError):
        pass  # Windows and macOS: the time limit alone
    out, sys.stdout = sys.stdout, open(os.devnull, "w", encoding="utf-8")
    logging.disable(logging.CRITICAL)
    for gold, given in EXAMPLES:  # the first questions load the grammar and much of sympy
        _answer({"gold": gold, "given": given})
    print(json.dumps({"ready": True}), file=out, flush=True)
    for line in sys.stdin:
        question = json.loads(line)
        # The one limit that ends a product of a million digits, and with the other side gone.
        faulthandler.dump_traceback_later(question["seconds"], exit=True,
                                          file=open(os.devnull, "w", encoding="utf-8"))
        found = _answer(question)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps({"same": found}), file=out, flush=True)


if __name__ == "__main__":
    main()
