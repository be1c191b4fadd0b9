"""What the benchmarks share: a clock, sides in processes of their own, the file of results."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tinylm
from lab15_run import TOP

# CPU time leaves out what other programs take; Windows counts it in ticks of 16 ms, too coarse.
cpu_time = time.perf_counter if sys.platform == "win32" else time.process_time


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """Return (seconds on the clock, seconds of this process on the CPU) of a call."""
    cpu, clock = cpu_time(), time.perf_counter()
    work()
    return time.perf_counter() - clock, cpu_time() - cpu


def side(name: str, command: list[str], threads: int = 1, **variables: str) -> dict[str, Any]:
    """Return what a command reports in its last line, "RESULT " and JSON.

    Args:
        name: of the side, for the error.
        command: its words.
        threads: OMP_NUM_THREADS of its processes.
        variables: more environment variables.

    Raises:
        RuntimeError: the command failed; its last lines.
    """
    done = subprocess.run(
        command, cwd=TOP, capture_output=True, text=True, encoding="utf-8", errors="replace",
        check=False, env=os.environ | {"OMP_NUM_THREADS": str(threads)} | variables)
    lines = [x for x in done.stdout.splitlines() if x.startswith("RESULT ")]
    if done.returncode or not lines:
        raise RuntimeError(f"{name} failed:\n{(done.stdout + done.stderr)[-2000:]}")
    return json.loads(lines[-1].removeprefix("RESULT "))


def show(measure: Callable[[], dict[str, Any]], table: Callable[[dict[str, Any]], str],
         path: Path | None) -> int:
    """Measure, print a table, keep the results if a path is given; return the exit code."""
    try:
        results = measure()
    except (OSError, RuntimeError) as error:
        print(error)
        return 1
    print(table(results))
    if path:
        save(path, results)
    return 0


def save(path: Path, results: dict[str, Any]) -> None:
    """Write results as JSON, whole or not at all."""
    data = json.dumps(results, indent=1).encode() + b"\n"
    tinylm.write_file(path, lambda file: file.write(data))
