"""Build the student's bundle: a zip that works on its own.

It holds what a student needs and nothing of beyond/ and instructor/; with --graded also no
solutions. tinylm_sft.pt is in it (trained now if it is missing), so that students need not wait
for it. The same files give the same bytes. Before a zip is written, and with --check, every file
in it is searched for lines of the solution (with --graded), of the hidden tests and of the wrong
variants.

What refers to a room that is not in it is changed: in README.md the sections of LEFT_OUT and the
names in the map of rooms go, in the Makefile the targets that cannot work; everywhere a link that
would lead nowhere becomes its text and "(not in this bundle)", which also stands after a command
whose module is missing.
"""

import argparse
import io
import subprocess
import tempfile
import warnings
import zipfile
from collections.abc import Collection
from fnmatch import fnmatch
from pathlib import Path

from lab15_run import counted
from tests.labfile import ROOT, ascii_line
from tinylm import write_file

from . import leaks, pages

TOP_FILES = ("README.md", "requirements.txt", "tinylm.py", "lab15_grpo.py", "lab15_run.py",
             "chapter.md", "Makefile", "pyproject.toml", "LICENSE")
ROOMS = ("tests", "notebooks", "solutions")
CHECKPOINT = "tinylm_sft.pt"
# Makes a web site with packages of instructor/requirements.txt.
NEVER = ("notebooks/book/*",)
# These run the solutions, and some of them are full of its lines.
NOT_GRADED = ("solutions/*", "notebooks/detective.py", "notebooks/story.py",
              "notebooks/trials.py", "notebooks/figures/*.py")
# Targets of the Makefile that need what is not there: developers' packages; the solutions.
NO_TARGETS = ("lint", "book", "test-all", "smollm")
NO_TARGETS_GRADED = (*NO_TARGETS, "figures", "experiments")
STILL_GRADED = ("notebooks/figures/__init__.py", "notebooks/figures/style.py")
TEXT = (".py", ".md", ".txt", ".toml", ".json", ".ipynb", ".svg", ".csv", ".js", ".html", ".css",
        "")
TIME = (1980, 1, 1, 0, 0, 0)  # the first that a zip can hold; any fixed one would do


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this builder."""
    parser.add_argument("--graded", action="store_true",
                        help="for a graded course: without the solutions")
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail if either bundle gives away what it should not")
    parser.add_argument("--out", type=Path, metavar="FILE",
                        help="the zip (default bundle/lab15-grpo.zip or lab15-grpo-graded.zip)")


# ---------------------------------------------------------------- which files


def listed() -> list[str]:
    """Return the repository's files as relative names with forward slashes."""
    git = ["git", "-c", "safe.directory=*", "ls-files", "-co", "--exclude-standard", "-z"]
    try:
        done = subprocess.run(git, cwd=ROOT, capture_output=True, encoding="utf-8", check=True)
        names = done.stdout.split("\0")
    except (OSError, subprocess.CalledProcessError):  # a download without .git, or no git
        skip = {"__pycache__", ".ipynb_checkpoints", "_build"}
        found = (p.relative_to(ROOT) for room in ROOMS for p in (ROOT / room).rglob("*"))
        names = [*TOP_FILES, *(p.as_posix() for p in found if not skip & set(p.parts))]
    return sorted({n for n in names if n and (ROOT / n).is_file()})


def belongs(name: str, graded: bool) -> bool:
    """Return whether a file of the repository is part of the bundle."""
    if name not in TOP_FILES and name.split("/")[0] not in ROOMS:
        return False
    if any(fnmatch(name, pattern) for pattern in NEVER):
        return False
    out = graded and any(fnmatch(name, pattern) for pattern in NOT_GRADED)
    return not out or name in STILL_GRADED


def contents(graded: bool) -> dict[str, bytes]:
    """Return name -> bytes of all files but the checkpoint.

    Raises:
        FileNotFoundError: one of the top-level files is missing.
    """
    files = {n: (ROOT / n).read_bytes() for n in listed() if belongs(n, graded)}
    if missing := set(TOP_FILES) - set(files):
        raise FileNotFoundError(f"not in the repository: {', '.join(sorted(missing))}")
    present = {*files, CHECKPOINT}
    for name, data in files.items():
        if Path(name).suffix not in TEXT:
            continue
        text = data.decode("utf-8").replace("\r\n", "\n")  # a checkout on Windows
        if name == "README.md":
            text = pages.readme(text, present)
        if name == "Makefile":
            text = pages.makefile(text, NO_TARGETS_GRADED if graded else NO_TARGETS)
        if name.endswith(".md"):
            text = pages.without_dead_links(name, text, present)
            text = pages.without_dead_commands(text, present)
        if graded and name.startswith("notebooks/") and name.endswith(".py"):
            text = leaks.without_strings(text)
        files[name] = text.encode("utf-8")
    return files


def problems(files: dict[str, bytes], graded: bool) -> list[str]:
    """Return what the bundle must not be handed out with: leaks and dead links."""
    texts = {n: d.decode("utf-8") for n, d in files.items() if Path(n).suffix in TEXT}
    present = {*files, CHECKPOINT}
    found = [f"{n}: dead link {link}" for n, text in texts.items() if n.endswith(".md")
             for link in pages.dead_links(n, text, present, texts)]
    for name, text in texts.items():
        found += leaks.find(name, text, graded)
    return found


# ---------------------------------------------------------------- the zip


def checkpoint() -> bytes:
    """Return the SFT model's file; it is trained if there is none that fits."""
    from tinylm import load_or_train_sft

    path = ROOT / CHECKPOINT
    if not path.is_file():
        print("training the SFT model, about 15 s (once)")
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")  # a folder that cannot be written to is handled here
        load_or_train_sft(path)
        if not path.is_file():
            path = Path(folder) / CHECKPOINT
            load_or_train_sft(path)
        return path.read_bytes()


def zipped(files: dict[str, bytes], runnable: Collection[str] = ()) -> bytes:
    """Return a zip of {name: content}, sorted, with fixed times: the same bytes for the same files.

    Those that are named in `runnable` are programs.
    """
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, TIME)
            entry.create_system = 3  # Unix, wherever it was made
            rights = 0o755 if name in runnable else 0o644
            entry.external_attr = (0o100000 | rights) << 16
            archive.writestr(entry, files[name], zipfile.ZIP_DEFLATED, 9)
    return out.getvalue()


def check() -> int:
    """Say what is wrong with either bundle; return the exit code."""
    wrong = 0
    for graded in (False, True):
        files = contents(graded)
        found = problems(files, graded)
        wrong += len(found)
        kind = "graded bundle" if graded else "bundle"
        print(f"{kind}: {counted(len(files), 'file')}, "
              f"{counted(len(leaks.secrets()), 'secret line')}, {counted(len(found), 'problem')}")
        for line in found:
            print(ascii_line(f"  {line}", 160))
    return 1 if wrong else 0


def run(flags: argparse.Namespace) -> int:
    """Write the bundle, or check; return the exit code."""
    if flags.check:
        return check()
    files = contents(flags.graded)
    found = problems(files, flags.graded)
    for line in found:
        print(ascii_line(line, 160))
    if found:
        print("nothing was written: this must not be handed out")
        return 1
    files[CHECKPOINT] = checkpoint()
    data = zipped(files)
    name = "lab15-grpo-graded.zip" if flags.graded else "lab15-grpo.zip"
    out = flags.out or ROOT / "bundle" / name
    write_file(out, lambda file: file.write(data))
    print(ascii_line(f"{counted(len(files), 'file')}, {len(data) / 1e6:.1f} MB: {out}", 300))
    return 0
