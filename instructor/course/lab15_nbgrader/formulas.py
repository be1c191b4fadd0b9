"""Formulas of a student's text as MathML, made in a process of its own.

The converter is compiled code, and what a student types can make it crash or run for ever; here
that costs the formulas of one cell, which are then shown as they were typed.
"""

import functools
import json
import subprocess
import sys

SECONDS = 5.0  # for all formulas of a cell
LONGEST, MOST = 1000, 200  # characters of a formula, formulas of a cell
MEMORY = 1 << 30


@functools.lru_cache(maxsize=256)
def convert(formulas: tuple[tuple[str, bool], ...]) -> tuple[str, ...]:
    """Return MathML for each (LaTeX, whether it stands alone); "" where there is none."""
    asked = [f if len(f[0]) <= LONGEST else ("", False) for f in formulas[:MOST]]
    command = [sys.executable, "-I", "-B", __file__]
    try:
        done = subprocess.run(command, input=json.dumps(asked), stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, encoding="ascii", timeout=SECONDS)
        said = done.stdout
    except subprocess.TimeoutExpired as error:
        half = error.stdout or ""  # bytes, but text on Windows
        said = half.decode("ascii", "replace") if isinstance(half, bytes) else half
    except OSError:
        said = ""
    # Without the last piece: it is empty, or half a line.
    found = [json.loads(line) for line in said.split("\n")[:-1]]
    return tuple((found + [""] * len(formulas))[: len(formulas)])


def main() -> None:
    """Answer one question; see convert."""
    try:
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    except (ImportError, ValueError, OSError):  # Windows; a lower limit than this one
        pass
    from math_core import LatexToMathML

    converter = LatexToMathML(fancy_error=False, max_expansions=0)
    for latex, alone in json.loads(sys.stdin.read()):
        try:
            made = converter.convert_with_local_state(latex, displaystyle=alone) if latex else ""
        except Exception:  # whatever a student can type
            made = ""
        print(json.dumps(made), flush=True)


if __name__ == "__main__":
    main()
