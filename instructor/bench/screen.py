"""How much a student has to read: lines and columns that pytest prints for every known mistake.

    python -m instructor.bench.screen                    # all variants: some minutes
    python -m instructor.bench.screen --only task2_a01_sample_std    # one, with its screen
    python -m instructor.bench.screen --json instructor/bench/screen.json --before OLD.json

Every chaff of chaffs.toml is tested by its task's tests, as `python -m pytest -q -k taskN` does
it, on a screen of 80 columns; what is printed is counted. All five tasks have more tests than fit
into one line of dots: for `python -m pytest -q` add one line. --before keeps the figures of an
earlier run (its --json, say of another commit) in the same file.
"""

import argparse
import json
import os
import statistics
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

from notebooks.figures.style import about
from tests.labfile import TASKS

from ..variants import runner
from ..variants.catalog import Variant, chaffs

LINES, COLUMNS = 24, 80  # of the smallest usual terminal


def rows(variants: Sequence[Variant], jobs: int) -> Iterable[tuple[Variant, runner.Result]]:
    """Yield every variant with what came of it; the screens stand in `output`."""
    from tqdm import tqdm

    tqdm.monitor_interval = 0  # its thread and fork do not go together
    os.environ["COLUMNS"] = str(COLUMNS)
    with tempfile.TemporaryDirectory(prefix="lab15-screen-") as folder:
        results = runner.run_all(variants, folder, jobs, keep=True)
        yield from tqdm(results, total=len(variants), ascii=True, disable=None)


def screen_of(result: runner.Result) -> list[str]:
    """Return the lines of the screen."""
    return result.output.rstrip("\n").split("\n")


def figures(table: Sequence[dict]) -> dict:
    """Return median, 95 % and largest of lines and columns, and how many fit the screen."""
    found: dict = {"variants": len(table)}
    for key, most in (("lines", LINES), ("columns", COLUMNS)):
        values = sorted(row[key] for row in table)
        found[key] = {
            "median": statistics.median_low(values),
            "95 %": values[max(0, -(-95 * len(values) // 100) - 1)],
            "largest": values[-1],
            "fit": sum(value <= most for value in values),
        }
    return found


def report(table: Sequence[dict]) -> list[str]:
    """Return the lines to print."""
    lines = []
    for name, chosen in [
        *((f"task {n}", [row for row in table if row["task"] == n]) for n in TASKS),
        ("all", list(table)),
    ]:
        if not chosen:
            continue
        found = figures(chosen)
        for key, most in (("lines", LINES), ("columns", COLUMNS)):
            f = found[key]
            lines.append(
                f"{name:<7}{len(chosen):>4} mistakes: {key:<8} median {f['median']:>3}, "
                f"95 % {f['95 %']:>3}, largest {f['largest']:>3}; "
                f"{f['fit']} ({100 * f['fit'] / len(chosen):.1f} %) of at most {most}"
            )
    wide = [row["id"] for row in table if row["lines"] > LINES or row["columns"] > COLUMNS]
    return lines + [f"too large: {', '.join(wide[:20])}{' ...' * (len(wide) > 20)}"] * bool(wide)


def arguments(args: Sequence[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    parser = argparse.ArgumentParser(prog="python -m instructor.bench.screen", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--task", type=int, choices=list(TASKS), help="only the mistakes of a task")
    parser.add_argument("--only", metavar="ID", help="only one mistake; shows its screen")
    parser.add_argument("-j", "--jobs", type=int, default=2, help="processes at a time (default 2)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE")
    parser.add_argument("--before", type=Path, metavar="FILE", help="the --json of an earlier run")
    return parser.parse_args(args)


def main(args: Sequence[str] | None = None) -> int:
    """Measure and print; return 0 if 95 % of the screens fit, else 1."""
    flags = arguments(args)
    wanted = [v for v in chaffs() if flags.task in (None, v.task) and flags.only in (None, v.id)]
    if not wanted:
        print("there is no such mistake")
        return 2
    before = json.loads(flags.before.read_text(encoding="utf-8")) if flags.before else None
    table, silent = [], []
    for variant, result in rows(sorted(wanted, key=lambda v: -v.task), flags.jobs):
        screen = screen_of(result)
        if flags.only:
            print("\n".join(screen))
        if result.code != 1:
            silent.append(variant.id)
            continue
        table.append({
            "id": variant.id, "task": variant.task, "failed": len(result.failures),
            "lines": len(screen), "columns": max(map(len, screen)),
        })
    table.sort(key=lambda row: (row["task"], row["id"]))
    print("\n".join(report(table)))
    if silent:
        print(f"not counted, {len(silent)} without a failing test: {', '.join(silent)}")
    if flags.json:
        from ..records.files import write

        kept = about("python -m instructor.bench.screen") | {"figures": figures(table)}
        kept["not counted"] = silent
        if before:
            kept["before"] = {k: before[k] for k in ("commit", "machine", "command", "figures")}
        rows_text = ",\n".join(json.dumps(row) for row in table)
        text = json.dumps(kept, indent=1)[:-2] + f',\n "table": [\n{rows_text}\n ]\n}}\n'
        write(flags.json, text)
    found = figures(table)
    return 0 if min(found[k]["fit"] for k in ("lines", "columns")) >= 0.95 * len(table) else 1


if __name__ == "__main__":
    sys.exit(main())
