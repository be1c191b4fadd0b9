"""What the first cell of every notebook loads: the versions here, the lab file, needs and check.

Three environment variables change what it does: LAB15_LAB=FILE takes another lab file than
lab15_grpo.py, LAB15_FAST=1 trains shortly with the same code, LAB15_RUNS=DIR keeps the runs in
another folder than runs/.
"""

import contextlib
import os
import sys
from importlib import metadata
from pathlib import Path

import lab15_run

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads are slower on matrices this small

TOP = Path(__file__).resolve().parent.parent
LAB = Path(os.environ.get("LAB15_LAB") or TOP / "lab15_grpo.py").expanduser().absolute()
RUNS = Path(os.environ.get("LAB15_RUNS") or TOP / "runs").expanduser().absolute()
FAST = os.environ.get("LAB15_FAST", "") not in ("", "0")
# Oldest versions that the notebooks ran with, and the first ones not expected to work.
RANGES = {"torch": ("2.6", "3"), "numpy": ("1.26", "3")}
NEEDED = ("matplotlib", "ipywidgets", "pytest", "tqdm", "filelock")  # any version will do


class Unfit(RuntimeError):
    """Something here does not fit the lab; a notebook shows the message alone."""

    def _render_traceback_(self):
        return [str(self)]


def numbers(version):
    """Return "2.13.0+cpu" as (2, 13, 0)."""
    parts = version.split("+")[0].split(".")
    return tuple(int(p) for p in parts if p.isdigit())


def unfit(installed, python):
    """Return what is wrong with the versions here, one line, or None.

    Args:
        installed: dict from the names in RANGES and NEEDED to a version, None if not there.
        python: sys.version_info.
    """
    from tests.install import NEWEST, OLDEST, dotted

    if not OLDEST <= tuple(python[:2]) <= NEWEST:
        return (f"This is Python {dotted(python[:2])}; the lab works with {dotted(OLDEST)} to "
                f"{dotted(NEWEST)}. Choose another kernel.")
    wrong, wanted = [], []
    for name, version in installed.items():
        low, high = RANGES.get(name, ("0", "9999"))
        if version is None or not numbers(low) <= numbers(version) < numbers(high):
            wrong.append(f"{name} {version}" if version else f"no {name}")
            wanted.append(f'"{name}>={low},<{high}"' if name in RANGES else name)
    if wrong:
        return (f"The notebooks cannot run with: {', '.join(wrong)}. In a cell, run  "
                f"%pip install {' '.join(wanted)}  and restart the kernel.")
    return None


def pinned():
    """Return the versions of requirements.txt as a dict."""
    lines = (TOP / "requirements.txt").read_text(encoding="utf-8").splitlines()
    return dict(line.split("==") for line in lines if "==" in line and line[0] != "#")


def start():
    """Check the versions and say in one line what is used.

    Raises:
        Unfit: a version is outside the accepted range.
    """
    installed = dict.fromkeys([*RANGES, *NEEDED])
    for name in installed:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    if problem := unfit(installed, sys.version_info):
        raise Unfit(problem)
    torch, pin = installed["torch"], pinned().get("torch", "")
    other = "" if numbers(torch) == numbers(pin) else (
        f" (the lab was measured with {pin}; yours is accepted, numbers may differ a little)")
    print(f"Lab file: {LAB.name}. torch {torch}{other}, numpy {installed['numpy']}. Ready.")


# ============================================================== the student's functions

_loaded = {}  # (path, time of its last change) -> module


def lab():
    """Return the lab file as a module, read anew whenever it was saved."""
    from tests.labfile import load_lab

    key = LAB, LAB.stat().st_mtime_ns if LAB.exists() else None
    if key not in _loaded:
        _loaded.clear()
        _loaded[key] = load_lab(LAB)
    return _loaded[key]


def check(task=None, **options):
    """Judge one task, or all, of the lab file that the notebook uses."""
    from tests import notebook

    notebook.check(task, lab=LAB, **options)


@contextlib.contextmanager
def needs(*tasks):
    """Run a cell's code with your functions; say so in one line when it needs one more.

        with needs(1, 2) as lab:
            ...

    An unwritten task ends the `with` block, not the notebook. So does a mistake in one of the
    tasks; check says more about it.
    """
    from tests.labfile import error_text, task_state

    module = lab()
    states = [task_state(module, n) for n in tasks]
    missing = next((s.text for s in states if s.kind != "written"), None)
    if missing:
        print(f"{missing}. Write it, save the file, run this cell again.")
    try:
        yield module
    except lab15_run.TaskError as error:  # a mistake that showed while the five trained
        if not missing:
            print(f'{error} Here: check("task{error.task}")')
    except Exception as error:
        wrong = missing or first_wrong(tasks)
        if not wrong:
            raise
        if not missing:
            print(f"This cell stopped ({error_text(error)}): task {wrong} is not right yet. "
                  f'check("task{wrong}") says more.')


def first_wrong(tasks):
    """Return the number of the first task whose tests do not pass, or None."""
    from tests.notebook import report

    return next((n for n in tasks if any(
        v.kind != "passed" for v in report(n, LAB).verdicts)), None)
