"""Run many runs of beyond.compare at once: one process a run, one thread a process.

The processes come from a fork server that has imported torch already, so that one costs 0.1 s and
not 3 (Windows has none: there each imports it again). They report over a pipe of their own, and
stop when the pipe's other end is gone: a killed parent leaves no orphans.
"""

import multiprocessing
import os
import signal
import time
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from tqdm import tqdm  # type: ignore[import-untyped]

from beyond.compare.run import Spec, train
from lab15_run import TOP, counted

PRELOAD = ["torch", "beyond.compare.run"]


def work(spec: Spec, out: Path, pipe: Connection) -> None:
    """Train one run, in a process of its own; tell the parent after every iteration.

    Args:
        spec: the run.
        out: folder of all runs.
        pipe: to the parent; gets iterations done, and a text if something fails.
    """
    import torch

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's: it asks us to stop
    torch.set_num_threads(1)

    def tell(iteration: int) -> bool:
        try:
            pipe.send(iteration)
            return not pipe.poll()  # whatever comes means stop
        except (OSError, EOFError):  # the parent is gone
            return False

    try:
        train(spec, out, tell)
    except Exception as error:
        text = f"{spec.task} {spec.variant.name} seed {spec.seed}: {type(error).__name__}: {error}"
        pipe.send(text)


class Pool:
    """The runs that are under way, and the bar that counts iterations."""

    def __init__(self, specs: list[Spec], out: Path, jobs: int):
        self.waiting, self.out, self.jobs = list(specs), out, jobs
        methods = multiprocessing.get_all_start_methods()
        self.context: Any = multiprocessing.get_context(
            "forkserver" if "forkserver" in methods else "spawn"
        )
        if "forkserver" in methods:
            self.context.set_forkserver_preload(PRELOAD)
        self.running: dict[Any, list] = {}  # pipe -> [process, spec, iterations counted]
        self.errors: list[str] = []

    def start_some(self) -> None:
        """Start runs until as many as allowed are under way."""
        while self.waiting and len(self.running) < self.jobs:
            spec = self.waiting.pop(0)
            ours, theirs = self.context.Pipe()
            process = self.context.Process(target=work, args=(spec, self.out, theirs), daemon=True)
            process.start()
            theirs.close()
            self.running[ours] = [process, spec, 0]

    def listen(self, bar: tqdm) -> None:
        """Take in what the runs report, for up to a second."""
        ready: list[Any] = wait(list(self.running), timeout=1)
        for pipe in ready:
            entry = self.running[pipe]
            try:
                told = pipe.recv()
            except (EOFError, OSError):  # it has ended, or was killed
                self._end(pipe, bar)
                continue
            if isinstance(told, str):
                self.errors.append(told)
            else:
                bar.update(told - entry[2])
                entry[2] = told

    def _end(self, pipe: Any, bar: tqdm) -> None:
        process, spec, counted = self.running.pop(pipe)
        process.join()
        name = f"{spec.task} {spec.variant.name} seed {spec.seed}"
        if process.exitcode:
            self.errors.append(f"{name}: its process ended with code {process.exitcode}")
        bar.update(spec.iters - counted)
        bar.set_postfix_str(f"last: {name}")

    def stop(self, bar: tqdm, seconds: float = 20.0) -> None:
        """Ask the runs under way to save and stop; end those that do not."""
        self.waiting.clear()
        for pipe in self.running:
            try:
                pipe.send("stop")
            except OSError:
                pass
        end = time.monotonic() + seconds
        while self.running and time.monotonic() < end:
            self.listen(bar)
        for process, _, _ in self.running.values():
            process.terminate()


def run_all(specs: list[Spec], out: Path, jobs: int) -> tuple[bool, list[str]]:
    """Train the runs; return (False if Ctrl-C ended it, a list of lines about what went wrong).

    Args:
        specs: the runs.
        out: folder of all runs.
        jobs: processes at a time, 1 or more.
    """
    os.environ["OMP_NUM_THREADS"] = "1"
    # Some Pythons start the fork server without sys.path, and then skip what they cannot import.
    paths = [str(TOP), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    pool = Pool(specs, out, jobs)
    total = sum(spec.iters for spec in specs)
    with tqdm(total=total, unit="it", ascii=True, desc=counted(len(specs), "run"),
              smoothing=0) as bar:
        try:
            pool.start_some()
            while pool.running:
                pool.listen(bar)
                pool.start_some()
        except KeyboardInterrupt:
            bar.set_postfix_str("saving")
            pool.stop(bar)
            return False, pool.errors
    return True, pool.errors
