"""Train TinyLM with many losses, the same seeds and batches, and say what really differs.

    python -m beyond.compare --losses grpo,dapo,dr_grpo --seeds 5
    python -m beyond.compare --task long --seeds 10        the standard set on the longer task
    python -m beyond.compare --advantages group,leave_one_out --losses grpo
    python -m beyond.compare --list                        every name, with its settings
    python -m beyond.compare --kept                        table and claims of the kept results

Runs go to OUT/TASK/VARIANT/seedN.jsonl, one line an evaluation. Killed, or stopped with Ctrl-C,
the same command continues where it stopped: what is finished is not done again, and a half-done run
starts from its last evaluation. More seeds or variants later only add what is missing.
"""

import argparse
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from filelock import FileLock, Timeout

import tinylm
from beyond.compare import stats
from beyond.compare.pool import run_all
from beyond.compare.run import Spec, finished, read_lines, write_lines
from beyond.compare.stats import BASE
from beyond.compare.tables import claims_text, markdown, markdown_claims, table, write_csv
from beyond.compare.tasks import SETS, TASKS
from beyond.losses import KL_ESTIMATORS, LOSSES
from beyond.losses.advantages import ADVANTAGES
from beyond.losses.names import VARIANTS, resolve
from beyond.settings import default_path
from lab15_run import TOP, about, counted, piped

KEPT = TOP / "beyond" / "bench" / "results"
FIGURES = TOP / "notebooks" / "figures"
KEPT_FIGURES = ("short_differences", "long_differences", "long_accuracy", "long_entropy",
                "long_length_wrong", "long_cut", "hack")  # fmt: skip
DIGITS = 4  # of the kept results


def words(text: str) -> list[str]:
    """Return the parts of "a,b,c"."""
    return [word.strip() for word in text.split(",") if word.strip()]


def parser() -> argparse.ArgumentParser:
    """Return the command line's parser."""
    p = argparse.ArgumentParser(prog="python -m beyond.compare", description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--losses", type=words, help="names, with commas; default: the task's set")
    p.add_argument("--advantages", type=words, default=[], help="each loss with each of these")
    p.add_argument("--kl", type=words, default=[], help="each loss with each of these estimators")
    p.add_argument("--seeds", type=int, default=5, help="5: seeds 0 to 4")
    p.add_argument("--task", choices=list(TASKS), default="short", help="short (2 digits), long "
                   "(with working), hack (long, answer accepted anywhere)")
    p.add_argument("--iters", type=int, help="iterations of a run; default: the task's")
    p.add_argument("--eval-every", type=int, help="iterations between evaluations")
    p.add_argument("--inner-steps", type=int, default=4, help="gradient steps a batch; the "
                   "lab's 2 clip 1%% of the tokens, too few for losses that differ in their clip")
    p.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at a time")
    p.add_argument("--out", type=Path, default=Path("runs") / "compare", help="folder for the runs")
    p.add_argument("--lab", default=str(default_path()), help="lab file with the five functions")
    p.add_argument("--save", action="store_true", help="keep the results in beyond/bench/results")
    p.add_argument("--kept", action="store_true", help="train nothing: show the kept results")
    p.add_argument("--markdown", action="store_true", help="with --kept: as the chapter has it")
    p.add_argument("--list", action="store_true", help="show the names and end")
    return p


def check(flags: argparse.Namespace) -> None:
    """End with one line if a number makes no sense or the lab file cannot be used."""
    for name, low in (("seeds", 1), ("iters", 1), ("eval_every", 1), ("inner_steps", 1),
                      ("jobs", 1)):  # fmt: skip
        value = getattr(flags, name)
        if value is not None and value < low:
            sys.exit(f"--{name.replace('_', '-')} {value}: give {low} or more")
    if not Path(flags.lab).is_file():
        sys.exit(f"--lab {flags.lab}: there is no such file")
    from tests.labfile import TASKS as LAB_TASKS
    from tests.labfile import load_lab, task_state

    lab = load_lab(flags.lab)
    states = [task_state(lab, n) for n in LAB_TASKS if n != 5]
    if bad := [state.text for state in states if state.kind != "written"]:
        sys.exit(f"--lab {flags.lab}: tasks 1 to 4 are needed. {bad[0]}")


def listing() -> str:
    """Return every name with its settings."""
    lines = ["variants (--losses):"]
    for v in VARIANTS.values():
        extras = "".join(f" {k}={x:g}" for k, x in v.extras.items())
        lines.append(f"  {v.name:14} {v.loss}, {v.advantage}, clip {v.clip_eps:g}, beta {v.beta:g}"
                     f"{extras}\n{'':17}{v.note}")
    rest = [name for name in LOSSES if name not in VARIANTS]
    lines += [f"losses with their own defaults: {', '.join(rest)}",
              f"advantages: {', '.join(ADVANTAGES)}", f"KL estimators: {', '.join(KL_ESTIMATORS)}"]
    return "\n".join([*lines, *(f"set of task {t}: {', '.join(s)}" for t, s in SETS.items())])


# ============================================================== results


def read_run(path: Path) -> dict | None:
    """Return a finished run as a dict, or None."""
    lines = read_lines(path)
    if not lines or "done" not in lines[-1]:
        return None
    about = lines[0]["run"]
    return {"task": about["task"], "variant": about["variant"]["name"], "seed": about["seed"],
            "run": about, "evaluations": lines[1:-1], "done": lines[-1]["done"]}  # fmt: skip


def pack(run: dict) -> dict:
    """Return a run in the kept form: one list for each measure."""
    keys = run["evaluations"][-1]
    curves = {k: [_short(row.get(k)) for row in run["evaluations"]] for k in keys}
    done = {k: _short(v) for k, v in run["done"].items()}
    return {k: run[k] for k in ("task", "variant", "seed")} | {"done": done, "curves": curves}


def _short(value: float | str | None) -> float | str | None:
    return round(value, DIGITS) if isinstance(value, float) else value


def unpack(line: dict) -> dict:
    """Return a kept run in the form of read_run."""
    rows = [dict(zip(line["curves"], row)) for row in zip(*line["curves"].values())]
    return {k: line[k] for k in ("task", "variant", "seed", "done")} | {"evaluations": rows}


def kept_path(task: str) -> Path:
    """Return where the results of a task are kept in the repository."""
    return KEPT / f"compare_{task}.jsonl"


def keep(task: str, runs: list[dict], command: str) -> None:
    """Write the runs of a task to the repository: a line about all, then one a run.

    Args:
        task: a name of TASKS.
        runs: finished ones, as read_run returns them.
        command: that made them.
    """
    settings = {run["variant"]: run["run"]["variant"] for run in runs}
    same = {k: runs[0]["run"][k] for k in ("iters", "eval_every", "inner_steps", "lab", "sft")}
    head = {**about(command), "threads": 1, "seeds": sorted({r["seed"] for r in runs}),
            "seconds": round(sum(r["done"]["seconds"] for r in runs)), **same,
            "variants": settings}
    write_lines(kept_path(task), [head, *map(pack, runs)])


def kept_runs() -> dict[str, list[dict]]:
    """Return task -> runs that are kept in the repository."""
    lines = {task: read_lines(kept_path(task)) for task in TASKS}
    return {task: [unpack(line) for line in found[1:]] for task, found in lines.items() if found}


def show(by_task: dict[str, list[dict]], as_markdown: bool = False) -> None:
    """Print tables and claims."""
    found = {task: stats.summaries(runs) for task, runs in by_task.items()}
    if as_markdown:
        print(*(markdown(found[task], task) for task in found), markdown_claims(found), sep="\n\n")
        return
    for task, runs in by_task.items():
        print(table(found[task], task) + "\n")
        for run in runs:
            if "failed" in run["done"]:
                print(f"{run['variant']} seed {run['seed']} failed: {run['done']['failed']}")
    print(claims_text(found))


# ============================================================== main


def wanted(flags: argparse.Namespace) -> list[Spec]:
    """Return the runs that the flags ask for, seed by seed, so that seeds are soon complete."""
    task = TASKS[flags.task]
    variants = resolve(flags.losses or SETS[flags.task], flags.advantages, flags.kl)
    if BASE not in [v.name for v in variants]:
        variants.insert(0, VARIANTS[BASE])
        print(f"{BASE} added: the others are compared with it")
    lab = str(Path(flags.lab).resolve())
    return [Spec(task.name, v, seed, flags.iters or task.iters, flags.eval_every or task.eval_every,
                 flags.inner_steps, lab) for seed in range(flags.seeds) for v in variants]


def train_missing(left: list[Spec], flags: argparse.Namespace) -> tuple[bool, list[str]]:
    """Train the runs, alone in this folder; return what run_all returns."""
    folder = flags.out / flags.task
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(folder / "compare.lock", timeout=0):
            return run_all(left, flags.out, flags.jobs)
    except Timeout:
        sys.exit(f"another compare is at work in {folder}; wait, stop it, or give another --out")


def main() -> int:
    """Train what is missing, then show, draw and perhaps keep the results."""
    flags = parser().parse_args()
    if flags.list:
        print(listing())
        return 0
    if flags.kept:
        if not (kept := kept_runs()):
            sys.exit(f"no results are kept in {KEPT}; measure with --task short --seeds 10 --save")
        show(kept, flags.markdown)
        return 0
    check(flags)
    specs = wanted(flags)
    task = TASKS[flags.task]
    task.model.load_or_train_sft(Path(tinylm.__file__).resolve().with_name(task.sft))  # once
    left = [spec for spec in specs if not finished(spec, flags.out)]
    print(f"{counted(len(specs), 'run')}, {len(specs) - len(left)} of them done already; "
          f"{flags.out}")
    ended, errors = train_missing(left, flags) if left else (True, [])
    print(*errors, sep="\n", end="\n" if errors else "")
    paths = [spec.folder(flags.out) / f"seed{spec.seed}.jsonl" for spec in specs
             if finished(spec, flags.out)]
    runs = [run for path in paths if (run := read_run(path))]
    if runs:
        show({flags.task: runs})
        folder = flags.out / flags.task
        write_csv(stats.summaries(runs), folder / "table.csv")
        from beyond.compare.figures import save_all  # here: each run's process imports this module

        drawn = save_all({flags.task: runs}, folder)
        print(f"{folder}: table.csv and {counted(len(drawn), 'figure')}")
    if not ended:
        print(f"Stopped: {len(runs)} of {len(specs)} runs are done. The same command continues.")
    elif flags.save and not errors:
        keep(flags.task, runs, "python -m beyond.compare " + " ".join(sys.argv[1:]))
        pictures = save_all(kept_runs(), FIGURES, KEPT_FIGURES)
        print(f"kept: {kept_path(flags.task)} and {counted(len(pictures), 'figure')}")
    return 1 if errors else 0


if __name__ == "__main__":
    sys.exit(piped(main))
