"""Grade the one submission of a Gradescope container: called by run_autograder.

A result is written only if the grader has come to one. Whatever else happens, there is no
results.json: Gradescope then reports that the autograder failed, and gives no points.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.labfile import TASKS

USER = "lab15"  # made by setup.sh
SECONDS = 480  # of everything; at 600 Gradescope itself stops, and gives a 0
FILES, BYTES, DEPTH = 50, 2 << 20, 4  # of a submission that are looked at
# Gradescope's default is half a processor.
PATIENCE = ("--load-seconds", "30", "--call-seconds", "30", "--submission-seconds", "180")
NO_SANDBOX = 2  # exit code of instructor.grade when it cannot begin


class NotGraded(Exception):
    """The grader came to no result; that is not the student's fault."""


def copy(source: Path, target: Path) -> int:
    """Copy the Python files of a submission, and the names of all other files.

    Links and huge files are left out. Returns how many files and folders were.
    """
    target.mkdir(parents=True)
    found, left = [], 0
    for at, folders, names in os.walk(source):
        if len(Path(at).relative_to(source).parts) >= DEPTH:
            left += len(folders)
            folders.clear()
        folders.sort()
        paths = [Path(at, name) for name in sorted(names)]
        ordinary = [p for p in paths if p.is_file() and not p.is_symlink()]
        left += len(paths) - len(ordinary)
        found += ordinary
    left += len(found[FILES:])
    for path in sorted(found, key=lambda p: p.suffix.lower() != ".py")[:FILES]:
        python = path.suffix.lower() == ".py"
        if python and path.stat().st_size > BYTES:
            left += 1
            continue
        place = target / path.relative_to(source)
        place.parent.mkdir(parents=True, exist_ok=True)
        if python:
            shutil.copyfile(path, place)
        else:  # so that the grader can name what is there instead
            place.touch()
    return left


def has_user() -> bool:
    """Return whether this is root with a user to grade as, as in Gradescope's container."""
    import pwd

    with contextlib.suppress(KeyError):
        return os.geteuid() == 0 and bool(pwd.getpwnam(USER))
    return False


def command(work: Path, trust: bool) -> list[str]:
    """Return the command that grades, as a user without rights where there is one."""
    args = [sys.executable, "-m", "instructor.grade", str(work / "submissions"), "--out",
            str(work / "results"), "--seed-file", str(work / "seed.txt"), *PATIENCE]
    if trust:
        args.append("--trust")
    if has_user():
        return ["runuser", "-u", USER, "--", *args]
    return [*args, "--as-root"] if os.geteuid() == 0 and not trust else args


def grade(work: Path, trust: bool) -> subprocess.CompletedProcess:
    """Run the grader.

    Raises:
        NotGraded: it did not come to an end.
    """
    try:
        return subprocess.run(command(work, trust), stdin=subprocess.DEVNULL, timeout=SECONDS,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        raise NotGraded(f"the grader did not end within {SECONDS} s") from None
    finally:
        end_others()


def end_others() -> None:
    """End what a student's code may have left running under the grader's user."""
    if not has_user():
        return
    import pwd

    uid = pwd.getpwnam(USER).pw_uid
    for _ in range(20):
        left = 0
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if folder.stat().st_uid == uid:
                    os.kill(int(folder.name), signal.SIGKILL)
                    left += 1
        if not left:
            return


def read(folder: Path) -> dict[str, Any]:
    """Return the result of the one submission, checked.

    Raises:
        NotGraded: there is none, or it is none.
    """
    found = sorted(folder.glob("*/results.json"))
    if len(found) != 1:
        raise NotGraded(f"the grader has written {len(found)} results, not one")
    try:
        result = json.loads(found[0].read_text(encoding="utf-8"))
        most = [test["max_score"] for test in result["tests"]]
        points = [test["score"] for test in result["tests"]]
        good = most == [task.points for task in TASKS.values()]
        good = good and all(0 <= p <= m for p, m in zip(points, most, strict=True))
        good = good and abs(sum(points) - result["score"]) < 0.01
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise NotGraded(f"the result cannot be read ({type(error).__name__})") from None
    if not good:
        raise NotGraded("the points of the result do not fit the tasks")
    return result


def judged(top: Path, work: Path) -> dict[str, Any]:
    """Return the result of the submission in top.

    Raises:
        NotGraded: there is none.
    """
    left = copy(top / "submission", work / "submissions" / "submission")
    shutil.copyfile(top / "source" / "seed.txt", work / "seed.txt")
    (work / "seed.txt").chmod(0o600)
    work.chmod(0o700)
    if has_user():
        for path in (work, *work.rglob("*")):
            shutil.chown(path, USER, USER)
    trust = (top / "source" / "trust.txt").exists()
    done = grade(work, False)
    if done.returncode == NO_SANDBOX and trust and (has_user() or os.geteuid() != 0):
        print("no sandbox here; graded without one, as the zip was built with --trust")
        done = grade(work, True)
    if done.returncode != 0:
        print(done.stdout.decode("utf-8", "replace")[-4000:])
        raise NotGraded(f"the grader ended with code {done.returncode}")
    result = read(work / "results")
    if left:
        why = (f"links, .py files of more than {BYTES >> 20} MiB, beyond the first {FILES}, more "
               f"than {DEPTH} folders deep")
        told = f"{result.get('output', '')}\nnot looked at: {left} files or folders ({why})"
        result["output"] = told.strip()
    return result


def main(args: Sequence[str] | None = None) -> int:
    """Write results/results.json; return the exit code."""
    top = Path((args if args is not None else sys.argv[1:])[0])
    try:
        with tempfile.TemporaryDirectory(prefix="lab15-") as work:
            result = judged(top, Path(work))
    except (NotGraded, OSError) as error:
        print(f"NOT GRADED, and no points given: {error}")
        return 1
    target = top / "results" / "results.json"
    target.parent.mkdir(exist_ok=True)
    temporary = target.with_suffix(".tmp")
    temporary.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    os.replace(temporary, target)
    print(f"graded: {result['score']:g} points")
    return 0


if __name__ == "__main__":
    sys.exit(main())
