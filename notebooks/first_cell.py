"""What the first cell of every notebook loads: the versions here, the lab file, needs and check.

Three environment variables change what it does: LAB15_LAB=FILE takes another lab file than
lab15_grpo.py, LAB15_FAST=1 trains shortly with the same code, LAB15_RUNS=DIR keeps the runs in
another folder than runs/.
"""

import contextlib
import os
import sys
import traceback
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


def start():
    """Check the versions and say in one line what is used.

    Raises:
        Unfit: a version is outside the accepted range.
    """
    # A bar that redraws its line with carriage returns is litter in a cell's output.
    os.environ.setdefault("TQDM_DISABLE", "1")
    installed = dict.fromkeys([*RANGES, *NEEDED])
    for name in installed:
        with contextlib.suppress(metadata.PackageNotFoundError):
            installed[name] = metadata.version(name)
    if problem := unfit(installed, sys.version_info):
        raise Unfit(problem)
    from tests.install import pinned
    from tests.notebook import no_file, place  # not before: it imports some of NEEDED

    torch, pin = installed["torch"], pinned("torch")
    other = "" if numbers(torch) == numbers(pin) else (
        f" (the lab was measured with {pin}; yours is accepted, numbers may differ a little)")
    print(f"Lab file: {place(LAB)}. torch {torch}{other}, numpy {installed['numpy']}. Ready.")
    if not LAB.is_file():
        print(no_file(LAB))
    if not (TOP / "tinylm_sft.pt").is_file():
        print("The SFT model is trained once, in the first cell that needs it: about 15 seconds "
              "on a quiet core.")
    if advice := wrong_root(server_root()):
        print(advice)


def server_root():
    """Return the root folder of the Jupyter server that this kernel belongs to, or None."""
    if "JPY_SESSION_NAME" not in os.environ:  # an editor, or no server at all
        return None
    try:
        import psutil
        from jupyter_server.serverapp import list_running_servers

        above = {os.getpid()} | {process.pid for process in psutil.Process().parents()}
        roots = [server["root_dir"] for server in list_running_servers() if server["pid"] in above]
        return Path(roots[0]).resolve() if roots else None
    except Exception:  # only good for a piece of advice: without it the notebook works as well
        return None


def wrong_root(root):
    """Return one line if a server with this root folder cannot open all links, or None."""
    if root is None or TOP.is_relative_to(root):
        return None
    return (f"This Jupyter was started in {root.name}/: from here links to the chapter and to the "
            f"lab file do not open. Stop it, and in {TOP} run: python -m notebooks.lab")


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
    tasks; check says more about it. So does a lab file that cannot be read.

    Raises:
        Unfit: the cell was interrupted, needs a cell above it, or a setting is not allowed.
    """
    from tests.labfile import task_state

    try:
        module, missing = lab(), None
        states = [task_state(module, n) for n in tasks]
        if unready := [s for s in states if s.kind != "written"]:
            verb = "Correct" if unready[0].kind == "broken" else "Write"
            missing = f"{unready[0].text}. {verb} it, save the file, run this cell again."
    except OSError as error:
        module, missing = Nothing(), unreadable(error)
    if missing:
        print(missing)
    try:
        yield module
    except KeyboardInterrupt:
        raise Unfit("Stopped by an interrupt. Run the cell again to start anew.") from None
    except lab15_run.TaskError as error:  # a mistake that showed while the five trained
        if not missing:
            print(f'{error} Here: check("task{error.task}")')
    except Exception as error:
        if not missing and not explained(error, module, tasks):
            raise


def explained(error, module, tasks):
    """Say in one line why a cell stopped; return False where only the traceback helps.

    Args:
        error: the exception.
        module: the lab file.
        tasks: the numbers that the cell needs.

    Raises:
        Unfit: the cell needs a cell above it, or a setting is not allowed.
    """
    from tests.labfile import error_text, problem_line

    if advice := cell_above(error):
        raise Unfit(advice) from None
    stopped = f"This cell stopped ({error_text(error)})"
    if wrong := first_wrong(tasks):
        print(f'{stopped}: task {wrong} is not right yet. check("task{wrong}") says more.')
        return True
    if advice := refused(error):
        raise Unfit(advice) from None
    if module.__problems__:
        print(f"{stopped}. Your file has a mistake outside the five tasks: "
              f"{problem_line(module, module.__problems__[0])}")
        return True
    return False


class Nothing:
    """Stands for a lab file that could not be read: has nothing in it."""

    def __getattr__(self, name):
        raise AttributeError(f"the lab file could not be read: there is no {name}")


def unreadable(error):
    """Return one line that says why the lab file cannot be read."""
    from tests.notebook import no_file

    if isinstance(error, FileNotFoundError):
        return no_file(LAB)
    return f"{LAB} cannot be read: {error.strerror or error}. Run this cell again afterwards."


def innermost(error):
    """Return the globals and the file of the code that raised an exception."""
    *_, (frame, _line) = traceback.walk_tb(error.__traceback__)
    return frame.f_globals, frame.f_code.co_filename


def cell_above(error):
    """Return one line if a cell used a name that a cell above it should have made, or None."""
    if isinstance(error, NameError) and innermost(error)[0].get("__name__") == "__main__":
        return (f"{error.name} comes from a cell above, which has not run or has stopped early. "
                "Run the cells above first, then this one (menu Run, Run All Above).")
    return None


def refused(error):
    """Return the line with which the lab file itself refused to load, or None."""
    kind = isinstance(error, ValueError | FloatingPointError)
    given = kind and Path(innermost(error)[1]).parent in (TOP, LAB.parent)
    return f"This cell stopped: {error}" if given else None


def first_wrong(tasks):
    """Return the number of the first task whose tests do not pass, or None."""
    from tests.notebook import report

    return next((n for n in tasks if any(
        v.kind != "passed" for v in report(n, LAB).verdicts)), None)
