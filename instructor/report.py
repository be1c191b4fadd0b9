"""One page on what a class got wrong, made from the grader's results.

    python -m instructor.report RESULTS [MORE_RESULTS ...] [--out report.html] [--names]

RESULTS is what instructor.grade wrote with --out, or a folder that holds several of them (one for
each machine). The page needs no network; its first line is what to teach again.
"""

import argparse
import functools
import json
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy and torch

from lab15_run import counted, piped
from tests.labfile import ascii_line

from .records import files, results, tables
from .records.classlist import some
from .reporting import anonymous, figures, load

TEMPLATES = Path(__file__).with_name("reporting")
PAGE = "page.html.j2"


def page(context: Mapping[str, Any]) -> str:
    """Return the page; everything in the context is escaped."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    environment = Environment(
        loader=FileSystemLoader(TEMPLATES, encoding="utf-8"), autoescape=True,
        undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True,
    )
    return environment.get_template(PAGE).render(context).strip() + "\n"


def merged(records: Sequence[load.Record]) -> str:
    """Return one table of points for all records, as the grader writes for one run."""
    return tables.written([results.COLUMNS, *map(_row, records)])


def _row(record: load.Record) -> list[str]:
    """Return a record's row; ids and points set by hand are only in its results.json."""
    try:
        data = load.plain_file(record.folder / "results.json", load.LARGEST)
        return [load.text(str(cell)) for cell in results.row_of(json.loads(data.decode("utf-8")))]
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # only what was checked
        points = [f"{record.tasks[n].final:g}" for n in sorted(record.tasks)]
        row = [record.student, *points, f"{record.final:g}", record.submitted, record.late]
        return [*row, "; ".join(record.notes), *[""] * (len(results.COLUMNS) - len(row) - 1)]


def arguments(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(
        prog="python -m instructor.report", description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("results", nargs="+", type=Path, metavar="RESULTS")
    parser.add_argument("--out", type=Path, default=Path("report.html"), metavar="FILE",
                        help="the page (default report.html)")
    parser.add_argument("--names", action="store_true",
                        help="students by name; without it they have labels")
    parser.add_argument("--scores", type=Path, metavar="FILE",
                        help="also write one scores.csv for all RESULTS (with names)")
    return parser.parse_args(args)


def run(flags: argparse.Namespace) -> int:
    """Read, count, write; return the exit code."""
    from tqdm import tqdm

    found = load.load(flags.results)
    for folder, reason in found.broken:
        print(ascii_line(f"not counted: {folder}: {reason}", 300))
    if found.withdrawn:
        print(ascii_line("not counted, in the class no more: "
                         f"{len(found.withdrawn)}: {some(found.withdrawn)}", 300))
    if found.ungraded:
        print(ascii_line(f"no result yet: {len(found.ungraded)}: {some(found.ungraded)}", 300))
    students = [r.student for r in found.records]
    label = dict(zip(students, students)) if flags.names else anonymous.labels(found.records)
    progress = functools.partial(tqdm, desc="similar files", ascii=True, disable=None, leave=False)
    context = figures.everything(found, label, progress, flags.names)
    files.write(flags.out, page(context | {"names": flags.names}))
    if flags.scores:
        files.write(flags.scores, merged(found.records))
        print(ascii_line(f"{counted(len(found.records), 'student')}: {flags.scores}", 300))
    first = context.get("lesson")
    if first:
        print(ascii_line(f"teach section {first['section']} again: {first['count']} of "
                         f"{context['files']} in Task {first['task']}: {first['text']}", 200))
    print(ascii_line(f"{counted(len(found.records), 'student')}: {flags.out}", 300))
    return 1 if found.broken else 0


def main(args: Sequence[str] | None = None) -> int:
    """Run the command; return the exit code: 1 if some results could not be read."""
    try:
        return run(arguments(args))
    except (OSError, ValueError) as error:
        print(ascii_line(error, 300))
        return 2
    except KeyboardInterrupt:
        print("stopped; nothing was written")
        return 130


if __name__ == "__main__":
    sys.exit(piped(main))
