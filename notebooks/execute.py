"""Run a notebook from top to bottom in a kernel of its own, as "Run All Cells" does."""

import os
import re
import time
from pathlib import Path

from notebooks.first_cell import TOP

HERE = Path(__file__).resolve().parent
NAMES = ("1_by_hand", "2_watch_it_train", "3_ablate", "4_play")
WIDGET = "application/vnd.jupyter.widget-view+json"
# What needs says; with all tasks written it must not appear.
UNFINISHED = ("not written yet", "This cell stopped")


class CellError(ValueError):
    """A cell raised an exception, or took too long."""


def read(name, folder=HERE):
    """Return a notebook as nbformat reads it."""
    import nbformat

    return nbformat.read(Path(folder) / f"{name}.ipynb", as_version=4)


def run(name, lab, runs, fast=True, timeout=300):
    """Execute a notebook of this folder; return it with its outputs, and the seconds it took.

    Args:
        name: such as "1_by_hand".
        lab: the lab file it uses.
        runs: a folder for the runs it makes.
        fast: train only shortly.
        timeout: seconds for one cell.

    Raises:
        CellError: which cell failed, and the error's last line.
    """
    from nbclient import NotebookClient
    from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

    book = read(name)
    settings = {"LAB15_LAB": str(lab), "LAB15_RUNS": str(runs), "LAB15_FAST": "1" if fast else ""}
    env = os.environ | settings | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(TOP)}
    client = NotebookClient(book, timeout=timeout, startup_timeout=timeout, kernel_name="python3",
                            store_widget_state=False,
                            extra_arguments=["--log-level=ERROR"],
                            resources={"metadata": {"path": str(HERE)}})
    start = time.monotonic()
    try:
        client.execute(env=env)
    except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
        at = sum(cell.get("execution_count") is not None for cell in book.cells)
        colored = str(error).strip().splitlines()[-1]
        last = re.sub(r"\x1b\[[\d;]*m", "", colored)
        raise CellError(f"{name}.ipynb, code cell {at or 1} "
                        f"({first_line(book, at or 1)}): {last}") from error
    return book, time.monotonic() - start


def first_line(book, number):
    """Return the first line of a code cell."""
    code = [cell.source for cell in book.cells if cell.cell_type == "code"]
    return code[number - 1].strip().splitlines()[0]


def outputs(book):
    """Return what the cells printed and displayed, as text: a list of strings."""
    texts = []
    for cell in book.cells:
        for output in cell.get("outputs", []):
            texts.append(output.get("text") or output.get("data", {}).get("text/plain", ""))
    return texts
