"""Build the book: the chapter and the notebooks as web pages that need no network.

    python -m notebooks.book            then open notebooks/book/_build/html/index.html

Runs the notebooks first (the solutions if they are there), unless that was done since the last
change. A warning of Sphinx, such as a dead link or a formula that cannot be drawn, is an error.

    python -m notebooks.book --students         without the teacher's pages and the answers
    python -m notebooks.book --add slides.html  with a finished page; the front page links to it
"""

import argparse
import json
import os
import shutil
import sys
import tempfile
from pathlib import Path

from lab15_run import piped
from notebooks import execute
from notebooks.book import build, extras
from notebooks.first_cell import TOP
from tinylm import write_file

BUILT = build.HERE / "_build"
SOLUTION = TOP / "solutions" / "lab15_grpo.py"
# Trained as long as a student does: shortened, its curves would show nothing.
WHOLE = ("2_watch_it_train",)
WATCHED = ("*.py", "notebooks/*.py", "notebooks/*.ipynb", "notebooks/figures/runs/*.json",
           "tests/*.py", "solutions/*.py")


def newest():
    """Return when something that the notebooks show was last changed."""
    return max(path.stat().st_mtime for pattern in WATCHED for path in TOP.glob(pattern))


def run_notebooks(folder):
    """Put the notebooks with their outputs into a folder, those that are not new enough."""
    lab = SOLUTION if SOLUTION.exists() else TOP / "lab15_grpo.py"
    for name in execute.NAMES:
        path = folder / f"{name}.ipynb"
        if path.exists() and path.stat().st_mtime > newest():
            continue
        print(f"running {name}.ipynb", flush=True)
        with tempfile.TemporaryDirectory() as runs:
            book, _ = execute.run(name, lab, runs, fast=name not in WHOLE)
        data = json.dumps(book).encode()
        write_file(path, lambda file, data=data: file.write(data))


def sphinx(source, out):
    """Run Sphinx; return its exit code."""
    from sphinx.cmd.build import main as build_main

    with tempfile.TemporaryDirectory() as doctrees:
        return build_main(["-b", "html", "-W", "--keep-going", "-q", "-n", "-E",
                           "-d", doctrees, str(source), str(out)])


def main(argv=None):
    """Build; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.book", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=BUILT / "html", metavar="DIR",
                        help="where the pages go; default notebooks/book/_build/html")
    parser.add_argument("--executed", type=Path, metavar="DIR",
                        help="notebooks that were run already; default: run them")
    parser.add_argument("--students", action="store_true",
                        help="leave out what is for teachers, and the answers")
    parser.add_argument("--add", type=Path, action="append", default=[], metavar="FILE",
                        help="a finished HTML page to put beside index.html; again for more")
    flags = parser.parse_args(argv)
    out = flags.out.absolute()
    if out.exists() and any(out.iterdir()) and not (out / ".buildinfo").exists():
        print(f"{out} is not empty and no book; give another folder with --out")
        return 2
    try:
        executed = flags.executed or BUILT / "executed"
        if not flags.executed:
            run_notebooks(executed)
        # Beside the goal, so that the finished book is moved there in one go.
        with tempfile.TemporaryDirectory(dir=make(out.parent)) as folder:
            source, made = Path(folder) / "source", Path(folder) / "book"
            source.mkdir()
            added = extras.found(flags.add)
            dropped = build.gather(source, executed, {n: e[:2] for n, e in added.items()},
                                   flags.students)
            for name, lines in dropped.items():
                print(f"{name}: lines of progress and warnings not shown: {lines}")
            if code := sphinx(source, made):
                return code
            for name, (_, _, data) in added.items():
                (made / name).write_bytes(data)
            shutil.rmtree(out, ignore_errors=True)
            os.replace(made, out)
    except (OSError, ValueError) as error:
        print(error)
        return 2
    except KeyboardInterrupt:
        print("stopped; the same command starts again")
        return 130
    print(f"{out / 'index.html'}")
    return 0


def make(folder):
    """Return a folder, made if it was not there."""
    folder.mkdir(parents=True, exist_ok=True)
    return folder


if __name__ == "__main__":
    sys.exit(piped(main))
