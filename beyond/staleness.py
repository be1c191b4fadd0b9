"""What samples cost that are older than the policy: accuracy over updates and over seconds.

    python -m beyond.staleness                  measure what is missing (Linux, Monarch)
    python -m beyond.staleness --seeds 1        one seed of every setting
    python -m beyond.staleness --sets main      only some sets: main, ratio, fast
    python -m beyond.staleness --busy           repeat what was timed beside other work
    python -m beyond.staleness --list           what has been measured

Every run is one of beyond.services, in exact mode: each update uses samples that are exactly
--staleness updates old. Corrections: none (the trainer's policy is the old policy of the loss, and
who sampled is ignored), tis (the same, times truncated weights), ratio (the sampler is the old
policy). "plain" is the lab's own loop in one process, for its seconds. Set main holds what is
timed; ratio and fast (three times the learning rate) are only about accuracy.

One run at a time, in a process of its own; seed by seed, so that a machine that slows down slows
all settings alike. Results go to beyond/bench/results/staleness.jsonl after every run. Killed, or
stopped with Ctrl-C, the same command continues with what is missing. Seconds are those of the
updates: no evaluation and no start of processes is in them, for any setting.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import psutil

from lab15_run import TOP, counted, piped

RESULTS = TOP / "beyond" / "bench" / "results" / "staleness.jsonl"
ITERS, LR, FAST = 300, 3e-4, 1e-3
STALENESS = (0, 1, 4, 16)
MISSING = ("beyond.staleness needs Monarch, which runs on Linux and on macOS with Apple chips: "
           "pip install -r beyond/requirements-monarch.txt")
CALM = 0.3  # cores that others may use while a run is timed
PATIENCE = 60  # seconds that a run may take to end its processes


class Setting(NamedTuple):
    """What one curve of the figure is about.

    staleness: updates; correction: none, tis, ratio, or plain for the loop without services.
    """

    staleness: int
    correction: str
    lr: float = LR

    @property
    def name(self) -> str:
        """Return a word for it, as in the results: tis_16, none_16_fast, plain."""
        if self.correction == "plain":
            return "plain"
        return f"{self.correction}_{self.staleness}" + ("_fast" if self.lr != LR else "")

    def flags(self) -> list[str]:
        """Return the flags of beyond.services.staleness_run."""
        if self.correction == "plain":
            return ["--plain", "--lr", str(self.lr)]
        return ["--staleness", str(self.staleness), "--correction", self.correction,
                "--lr", str(self.lr)]


SETS = {
    "main": [Setting(0, "plain"), *(Setting(k, c) for k in STALENESS for c in ("none", "tis"))],
    "ratio": [Setting(k, "ratio") for k in STALENESS if k],
    "fast": [Setting(0, "none", FAST), *(Setting(16, c, FAST) for c in ("none", "tis"))],
}

# ============================================================== results


def read(path: Path = RESULTS) -> tuple[dict, list[dict]]:
    """Return (what all runs have in common, the runs); ({}, []) if nothing was measured.

    Raises:
        ValueError: the file is damaged.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        head, *runs = [json.loads(line) for line in lines if line]
        return head, runs
    except FileNotFoundError:
        return {}, []
    except ValueError:
        raise ValueError(f"{path} is damaged: bring it back, or delete it and measure") from None


def by_setting(runs: list[dict]) -> dict[str, list[dict]]:
    """Return the runs of every setting, in the order of their seeds."""
    found: dict[str, list[dict]] = {}
    for run in sorted(runs, key=lambda run: run["seed"]):
        found.setdefault(run["setting"], []).append(run)
    return found


def keep(path: Path, head: dict, runs: list[dict]) -> None:
    """Write the results: a line about all, then one a run, in the order of the sets.

    Args:
        path: the file.
        head: what all runs have in common.
        runs: as read returns them.
    """
    import tinylm

    order = [s.name for settings in SETS.values() for s in settings]
    runs = sorted(runs, key=lambda run: (order.index(run["setting"]), run["seed"]))
    head = head | {"seeds": sorted({run["seed"] for run in runs}),
                   "quiet": all(run["quiet"] for run in runs if run["set"] == "main"),
                   "seconds": round(sum(run["seconds"] for run in runs))}
    data = "".join(json.dumps(line) + "\n" for line in [head, *runs]).encode()
    tinylm.write_file(path, lambda file: file.write(data))


def cores_in_use(seconds: float = 1.0) -> float:
    """Return how many cores work for others, before a run.

    The calmest of up to three readings: processes of the last run may take a moment to end.
    """
    found: list[float] = []
    while len(found) < 3 and min(found, default=CALM) >= CALM:
        share = psutil.cpu_percent(seconds) / 100
        found.append(round(share * (psutil.cpu_count() or 1), 2))
    return min(found)


def table(runs: list[dict]) -> str:
    """Return what has been measured, as text."""
    lines = [f"{'setting':15} seeds  accuracy at the end  seconds of {ITERS} updates  measured"]
    found = by_setting(runs)
    for name in (s.name for settings in SETS.values() for s in settings):
        some = found.get(name, [])
        if not some:
            lines.append(f"{name:15}     0")
            continue
        end = sum(run["sampled"][-1] for run in some) / len(some)
        seconds = sum(run["at"][-1] for run in some) / len(some)
        quiet = "alone" if all(run["quiet"] for run in some) else "beside other work"
        lines.append(f"{name:15} {len(some):5}  {end:19.3f}  {seconds:22.1f}  {quiet}")
    return "\n".join(lines)


# ============================================================== measuring


def missing(sets: list[str], seeds: int, runs: list[dict]) -> Iterator[tuple[str, Setting, int]]:
    """Yield (set, setting, seed) of what is not measured yet: the timed ones first, by seed.

    Args:
        sets: names of SETS.
        seeds: how many, from 0 on.
        runs: those there are.
    """
    have = {(run["setting"], run["seed"]) for run in runs}
    for name in sets:
        for seed in range(seeds):
            for setting in SETS[name]:
                if (setting.name, seed) not in have:
                    yield name, setting, seed


def one(setting: Setting, seed: int, tell: Callable[[], Any], extra: list[str]) -> dict | str:
    """Make one run in a process of its own; return what it measured, or what went wrong.

    Args:
        setting: of the run.
        seed: of the run.
        tell: called after every update.
        extra: more flags for it.
    """
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run.json"
        command = [sys.executable, "-m", "beyond.services.staleness_run", *setting.flags(),
                   "--seed", str(seed), "--out", str(out), *extra]
        last = ""
        with subprocess.Popen(command, cwd=TOP, text=True, encoding="utf-8", errors="replace",
                              env=os.environ | {"OMP_NUM_THREADS": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as process:
            try:
                for line in process.stdout or ():
                    if line.strip().isdigit():
                        tell()
                    else:
                        last = line.strip() or last
                code = process.wait(timeout=PATIENCE)
            except subprocess.TimeoutExpired:  # it said its last word, and hangs
                process.kill()
                code = process.wait()
            except BaseException:  # Ctrl-C
                process.terminate()
                raise
        if code or not out.exists():
            return f"{setting.name} seed {seed}: ended with code {code}: {last[:200]}"
        return json.loads(out.read_text(encoding="utf-8"))


def measure(flags: argparse.Namespace, wrong: list[str]) -> None:
    """Measure what is missing; add to wrong what went wrong, a line each."""
    from tqdm import tqdm

    from lab15_run import commit, machine

    head, runs = read(flags.out)
    here = {"machine": machine(), "threads": 1}
    if head and any(head[k] != here[k] for k in here):
        wrong.append(f"{flags.out} was measured on {head['machine']}; seconds of two machines "
                     "cannot be compared. Give another --out, or delete it and measure all")
        return
    if flags.busy:
        runs = [run for run in runs if run["quiet"] or run["set"] != "main"]
    head = head or {"command": "python -m beyond.staleness", **here, "iters": ITERS, "lr": LR,
                    "fast": FAST, "tis_cap": 2.0}
    left = list(missing(flags.sets, flags.seeds, runs))
    total = ITERS * len(left)
    with tqdm(total=total, unit="update", ascii=True, desc=counted(len(left), "run")) as bar:
        for name, setting, seed in left:
            bar.set_postfix_str(f"{setting.name}, seed {seed}")
            others = cores_in_use()
            found = one(setting, seed, bar.update, [])
            if isinstance(found, str):
                wrong.append(found)
                continue
            head |= {"torch": found.pop("torch"), "commit": commit()}
            runs.append({"setting": setting.name, "set": name, "seed": seed, **setting._asdict(),
                         "commit": commit(), "others": others,
                         "quiet": others < CALM} | found)
            keep(flags.out, head, runs)


def main(args: list[str] | None = None) -> int:
    """Measure what is missing and print the table; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m beyond.staleness", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, default=5, help="5: seeds 0 to 4")
    parser.add_argument("--sets", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--busy", action="store_true", help="repeat runs timed beside other work")
    parser.add_argument("--out", type=Path, default=RESULTS, help="file of the results")
    parser.add_argument("--list", action="store_true", help="list the experiments and exit")
    flags = parser.parse_args(args)
    try:
        if flags.list:
            print(table(read(flags.out)[1]))
            return 0
        if flags.seeds < 1:
            parser.error(f"--seeds {flags.seeds}: give 1 or more")
        return finish(flags)
    except (OSError, ValueError) as error:
        print(error)
        return 2


def finish(flags: argparse.Namespace) -> int:
    """Measure alone, print the table, return the exit code."""
    from importlib.util import find_spec

    from filelock import FileLock, Timeout

    if find_spec("monarch") is None:
        print(MISSING)
        return 2
    flags.out.parent.mkdir(parents=True, exist_ok=True)
    wrong: list[str] = []
    stopped = ""
    try:
        with FileLock(f"{flags.out}.lock", timeout=0):
            measure(flags, wrong)
    except Timeout:
        print(f"another one is measuring into {flags.out}; wait, or stop it")
        return 2
    except KeyboardInterrupt:
        stopped = "Stopped by Ctrl-C; finished runs are kept; the same command continues."
    print(*filter(None, [table(read(flags.out)[1]), *wrong, stopped]), sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(piped(main))
