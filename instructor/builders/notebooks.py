"""Build the notebooks from notebooks/text, check that they are up to date, run them.

The sources are Python files with cells (percent format). A notebook is nothing but its source:
ids are the numbers of the cells, there are no outputs, and it is not edited by hand.
"""

import argparse
import json
import re
import tempfile
import time
from pathlib import Path

from notebooks import execute
from tinylm import write_file

TOP = Path(__file__).resolve().parents[2]
FOLDER = TOP / "notebooks"
SOLUTION = TOP / "solutions" / "lab15_grpo.py"
STUB = TOP / "lab15_grpo.py"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this builder."""
    parser.add_argument("--check", action="store_true",
                        help="write nothing; fail if a notebook differs from its source")
    parser.add_argument("--run", action="store_true",
                        help="also run all notebooks with the solutions (short training)")
    parser.add_argument("--out", type=Path, metavar="DIR",
                        help="with --run: keep the notebooks with their outputs there")


def repository() -> str:
    """Return the lab's address if CITATION.cff names one: Colab fetches the lab from there."""
    found = re.search(r'^repository-code: *"?([^"\s]+)',
                      (TOP / "CITATION.cff").read_text(encoding="utf-8"), re.M)
    return found[1] if found else ""


def source_cells(name: str) -> list:
    """Return the cells of a notebook's source, with the lab's address put in."""
    import jupytext

    source = (FOLDER / "text" / f"{name}.py").read_text(encoding="utf-8")
    source = source[source.index("# %%"):]  # the part above is for readers of the source
    source = source.replace('REPOSITORY = ""', f'REPOSITORY = "{repository()}"')
    return jupytext.reads(source, "py:percent").cells


def built(name: str) -> str:
    """Return the text of a notebook, made from its source."""
    first, *_ = execute.NAMES
    read = source_cells(name)
    if name != first:  # behind the title: the cell that finds the lab, the same in all
        read.insert(1, next(cell for cell in source_cells(first) if cell.cell_type == "code"))
    cells = []
    for number, cell in enumerate(read, 1):
        made = {"cell_type": cell.cell_type, "id": f"cell-{number:02d}", "metadata": {}}
        if cell.cell_type == "code":
            made |= {"execution_count": None, "outputs": []}
        cells.append(made | {"source": cell.source.splitlines(keepends=True)})
    notebook = {"cells": cells, "metadata": METADATA, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"


def stale() -> list[str]:
    """Return the names of the notebooks that differ from their source."""
    def present(name: str) -> str:
        path = FOLDER / f"{name}.ipynb"
        return path.read_text(encoding="utf-8") if path.exists() else ""

    return [name for name in execute.NAMES if present(name) != built(name)]


def run_all(out: Path | None) -> int:
    """Run the notebooks with the solutions, then the first one with the unfilled file.

    Raises:
        ValueError: a notebook calls a task unfinished although all are written, or the first one
            does not name Task 1 as the next task of the unfilled file.
    """
    began, jobs = time.monotonic(), [(name, SOLUTION) for name in execute.NAMES]
    with tempfile.TemporaryDirectory() as runs:
        for name, lab in [*jobs, ("1_by_hand", STUB)]:
            whole = lab == SOLUTION
            book, seconds = execute.run(name, lab, runs)
            said = "\n".join(execute.outputs(book))
            unfinished = [words for words in execute.UNFINISHED if words in said]
            if whole and unfinished:
                raise ValueError(f"{name}.ipynb says, with the solutions: {unfinished[0]}")
            if not whole and "not written yet: Task 1" not in said:
                raise ValueError(f"{name}.ipynb does not say that task 1 comes first")
            if whole and out:
                text = json.dumps(book, ensure_ascii=False).encode()
                write_file(out / f"{name}.ipynb", lambda file, text=text: file.write(text))
            print(f"{name}: {seconds:.1f} s with {'the solutions' if whole else 'an empty file'}")
    print(f"all notebooks ran, {time.monotonic() - began:.0f} s")
    return 0


def run(flags: argparse.Namespace) -> int:
    """Build, or check; then run if asked to."""
    old = stale()
    if flags.check and old:
        print(f"not up to date with their source: {', '.join(f'{n}.ipynb' for n in old)}; "
              "run: python -m instructor.build notebooks")
        return 1
    for name in old:
        data = built(name).encode()
        write_file(FOLDER / f"{name}.ipynb", lambda file, data=data: file.write(data))
    print(f"{len(old)} of {len(execute.NAMES)} notebooks written" if old else
          "all notebooks are up to date with their source")
    return run_all(flags.out) if flags.run else 0
