"""Build the zip that Gradescope makes an autograder from.

Upload it under "Configure autograder" with an image of Ubuntu 22.04 or newer, 2 GB of memory or
more. It runs instructor.grade on every submission, and gives no points at all where the grader
itself fails. Gradescope's containers may refuse user namespaces, and so the sandbox: then nothing
is graded, unless the zip was built with --trust. Without a sandbox a student's code runs as the
user that grades: it can read the hidden tests and the seed, and write itself any points. Better
then: download all submissions from Gradescope and run instructor.grade on that zip elsewhere.
"""

import argparse
import re
from pathlib import Path

from lab15_run import counted
from tests.labfile import ROOT, ascii_line
from tinylm import write_file

from .bundle import listed, zipped

HERE = ROOT / "instructor" / "gradescope"
AT_ROOT = ("setup.sh", "run_autograder")  # Gradescope looks for them there
NEEDED = re.compile(
    r"(instructor/\w+\.py|tests/.*|"
    r"instructor/(box|grading|hidden|gradescope|records|submissions)/\w+\.py|tinylm\.py"
    r"|lab15_grpo\.py|lab15_run\.py|solutions/lab15_grpo\.py|LICENSE)"
)
PACKAGES = ("torch", "numpy", "pytest", "tqdm", "filelock")  # what grading imports


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this builder."""
    parser.add_argument("--seed-file", type=Path, required=True, metavar="FILE",
                        help="the course's secret, the same as for instructor.grade")
    parser.add_argument("--out", type=Path, required=True, metavar="FILE", help="the zip")
    parser.add_argument("--torch-index", default="", metavar="URL",
                        help="address of PyTorch's small CPU build (see pytorch.org); without "
                        "it the image gets the large one")
    parser.add_argument("--trust", action="store_true",
                        help="grade without a sandbox where there is none; read first what is lost")


def pins() -> str:
    """Return the lines of requirements.txt that grading needs.

    Raises:
        ValueError: one is missing.
    """
    text = (ROOT / "requirements.txt").read_text(encoding="utf-8")
    lines = [line for line in text.splitlines() if line.split("==")[0] in PACKAGES]
    if len(lines) != len(PACKAGES):
        raise ValueError(f"requirements.txt must pin {', '.join(PACKAGES)}")
    return "\n".join(lines) + "\n"


def contents(seed: str, trust: bool = False, torch_index: str = "") -> dict[str, bytes]:
    """Return name -> bytes of the files of the zip.

    Args:
        seed: of the hidden tests.
        trust: grade without a sandbox where none works.
        torch_index: address of PyTorch's CPU build; empty: the package index's own.
    """
    files = {f"lab/{n}": (ROOT / n).read_bytes() for n in listed() if NEEDED.fullmatch(n)}
    for name in AT_ROOT:
        text = (HERE / name).read_text(encoding="utf-8").replace("\r\n", "\n")
        files[name] = text.encode("utf-8")
    extra = {"seed.txt": seed + "\n", "requirements.txt": pins(), "torch-index.txt": torch_index,
             "trust.txt": "built with --trust\n" if trust else ""}
    return files | {n: t.encode("utf-8") for n, t in extra.items() if t}


def run(flags: argparse.Namespace) -> int:
    """Write the zip; return the exit code.

    Raises:
        ValueError: the seed file is empty.
    """
    seed = flags.seed_file.read_text(encoding="utf-8").strip()
    if not seed:
        raise ValueError(f"{flags.seed_file} is empty")
    files = contents(seed, flags.trust, flags.torch_index)
    data = zipped(files, runnable=AT_ROOT)
    write_file(flags.out, lambda file: file.write(data))
    print(ascii_line(f"{counted(len(files), 'file')}, {len(data) / 1e6:.1f} MB: {flags.out}", 300))
    print("It holds the hidden tests, the solution and the seed: upload it and delete it.")
    return 0
