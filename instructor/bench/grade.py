"""Measure the grader: submissions an hour, with one and with two jobs, and what each costs.

    python -m instructor.bench.grade --count 200 [--jobs 1 2] [--json FILE]

The submissions are made up: a third right ones (wheats), the rest wrong in one task (chaffs), every
twentieth the untouched file. Under `processor` is the processor time of the sandboxes for one
submission, as a multiple of that of `import torch`. Measure on a machine that does nothing else.
"""

import argparse
import json
import os
import platform
import random
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lab15_run import counted, piped
from tests.labfile import ROOT

from .. import at_least_one
from ..variants.catalog import chaffs, wheats


def make(folder: Path, count: int, seed: int = 0) -> None:
    """Write the submissions.

    Args:
        folder: where to write them.
        count: how many: a third right, the others wrong, one in 20 not written.
        seed: draws the variants.
    """
    rng = random.Random(seed)
    right, wrong = [list(kind()) for kind in (wheats, chaffs)]
    stub = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
    for n in range(count):
        text = rng.choice(right if n % 3 == 0 else wrong).text
        path = folder / f"student{n:03}" / "lab15_grpo.py"
        path.parent.mkdir(parents=True)
        path.write_text(stub if n % 20 == 19 else text, encoding="utf-8")


def import_torch(times: int = 3) -> float:
    """Return the processor seconds of `import torch`, the median."""
    seconds = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", "import torch"], check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return sorted(seconds)[times // 2]


def grade(folder: Path, out: Path, jobs: int) -> dict:
    """Grade and return the figures of this run.

    Args:
        folder: the submissions.
        out: a new folder for the results.
        jobs: submissions at the same time.
    """
    command = [sys.executable, "-m", "instructor.grade", str(folder), "--out", str(out)]
    command += ["-j", str(jobs)] + ["--as-root"] * (os.geteuid() == 0)
    (out / "seed.txt").parent.mkdir()
    (out / "seed.txt").write_text("a seed for measuring\n", encoding="utf-8")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, encoding="utf-8")
    seconds, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    found = re.search(r"([\d.]+) s of processor time in sandboxes.* (\d+) MiB", done.stdout)
    assert found is not None, done.stdout
    own = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "jobs": jobs,
        "seconds": round(seconds, 1),
        "processor_sandboxes": float(found[1]),
        "processor_grader": round(own, 1),
        "peak_sandbox_mib": int(found[2]),
        "peak_grader_mib": after.ru_maxrss >> 10,
        "scores": (out / "scores.csv").read_text(encoding="utf-8"),
    }


def report(runs: list[dict], count: int, torch_seconds: float) -> list[str]:
    """Return the lines to print.

    Args:
        runs: what grade returned, once for each number of jobs.
        count: submissions in a run.
        torch_seconds: processor time of `import torch`, to compare with.
    """
    lines = [f"import torch: {torch_seconds:.2f} s of processor time"]
    for run in runs:
        each = run["processor_sandboxes"] / count
        lines.append(
            f"-j {run['jobs']}: {counted(count, 'submission')} in {run['seconds']} s, "
            f"{3600 * count / run['seconds']:.0f} an hour, "
            f"{3600 * count / run['seconds'] / run['jobs']:.0f} an hour and core; "
            f"{each:.2f} s of processor time each, {each / torch_seconds:.2f} x import torch; "
            f"the grader itself took {run['processor_grader']} s; peak memory "
            f"{run['peak_sandbox_mib']} MiB a sandbox, {run['peak_grader_mib']} MiB the grader"
        )
    for run in runs[1:]:
        ratio = runs[0]["seconds"] / run["seconds"]
        lines.append(f"-j {run['jobs']} is {ratio:.2f} times as fast as -j {runs[0]['jobs']}")
    same = len({run["scores"] for run in runs}) == 1
    return [*lines, "the same points in every run" if same else "THE POINTS DIFFER"]


def main(args: list[str] | None = None) -> int:
    """Run the command; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m instructor.bench.grade", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--count", type=at_least_one, default=200, metavar="N", help="submissions")
    parser.add_argument("--jobs", type=at_least_one, nargs="+", default=[1, 2], metavar="N")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    flags = parser.parse_args(args)
    with tempfile.TemporaryDirectory(prefix="lab15-bench-") as folder:
        make(Path(folder, "in"), flags.count)
        torch_seconds = import_torch()
        runs = [grade(Path(folder, "in"), Path(folder, f"out{n}"), n) for n in flags.jobs]
    for line in report(runs, flags.count, torch_seconds):
        print(line)
    if flags.json:
        from ..records.files import write

        about = {"schema": 1, "machine": platform.platform(), "cores": os.cpu_count()}
        about |= {"python": platform.python_version(), "count": flags.count, "seed": 0}
        about |= {"command": "python -m instructor.bench.grade", "import_torch": torch_seconds}
        kept = [{k: v for k, v in run.items() if k != "scores"} for run in runs]
        write(flags.json, json.dumps(about | {"runs": kept}, indent=1) + "\n")
    return 0 if len({run["scores"] for run in runs}) == 1 else 1


if __name__ == "__main__":
    sys.exit(piped(main))
