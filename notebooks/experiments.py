"""The chapter's training runs: a table of settings, and what was measured with them.

    python -m notebooks.experiments --list           list the experiments, and which are measured
    python -m notebooks.experiments                  measure what is missing
    python -m notebooks.experiments g2 beta0 --force measure these two again
    python -m notebooks.experiments detective        the six runs of notebooks/detective.py

Results go to notebooks/figures/runs/NAME.json, written after every run: stop with Ctrl-C at any
time, the next call continues. Same seeds, same numbers; only the seconds depend on the machine.
"""

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import lab15_run
from lab15_run import TOP, about, mean, piped, read_json, short, write_json
from notebooks.show import chances
from tests.labfile import load_lab

RUNS = TOP / "notebooks" / "figures" / "runs"
SOLUTION = TOP / "solutions" / "lab15_grpo.py"
SEEDS = (0, 1, 2, 3, 4)
WINDOW = 10  # iterations that one point of a per-iteration curve is the mean of
PROBE_EVERY = 50  # iterations between two looks at the probability of every right answer
SIZES = (1, 2, 4, 8, 16)  # k of pass@k, and G of the expected share of zero-signal groups

# Changes of the solution's text: name -> (text as it is, text in its place).
EDITS = {
    "sample_std": ("keepdim=True, unbiased=False)", "keepdim=True, unbiased=True)"),
    "part_is_enough": (
        "[reward(response, answer) for response, answer in zip(responses, answers)]",
        "[float(response in answer) for response, answer in zip(responses, answers)]",
    ),
    "signed_log_ratio": ("k3 = k3_kl(logp, ref_logp)", "k3 = ref_logp - logp"),
    "ratio_against_ref": ("rho = torch.exp(logp - old_logp)", "rho = torch.exp(logp - ref_logp)"),
}


@dataclass(frozen=True)
class Experiment:
    """One row of the table.

    Args:
        name: of the row and of the file with its results.
        label: the text in a legend.
        changes: fields of GRPOConfig that differ from the default.
        edit: None, or which of EDITS is made in the solution's text.
        seeds: the seeds to train with.
    """

    name: str
    label: str
    changes: dict = field(default_factory=dict)
    edit: str | None = None
    seeds: tuple = SEEDS


_ROWS = [
    Experiment("default", "default settings"),
    Experiment("lr_high", "learning rate 1e-2", {"lr": 1e-2}),
    Experiment("beta0", "beta = 0", {"beta": 0.0}),
    Experiment("g2_few", "G = 2", {"G": 2}),
    Experiment("g2", "G = 2, 64 prompts", {"G": 2, "prompts_per_iter": 64}),
    Experiment("no_clip_8", "8 inner steps, no clip", {"clip_eps": 1e6, "inner_steps": 8}),
    Experiment("t07", "sampled at T = 0.7, scored at 1", {"temperature": 0.7}),
    Experiment("sample_std", "sample std", edit="sample_std"),
    Experiment("hacked", "reward: response in answer", edit="part_is_enough"),
    Experiment("inner1", "1 inner step", {"inner_steps": 1}),
    Experiment("inner8", "8 inner steps", {"inner_steps": 8}),
    Experiment("beta02", "beta = 0.2", {"beta": 0.2}),
    Experiment("beta1", "beta = 1", {"beta": 1.0}),
    Experiment("kl_sign", "signed log-ratio as KL", edit="signed_log_ratio"),
    Experiment("ratio_ref", "ratio against the SFT model", edit="ratio_against_ref"),
    Experiment("no_std", "no division by the std", {"scale_std": False}),
    Experiment("g4", "G = 4, 32 prompts", {"G": 4, "prompts_per_iter": 32}),
    Experiment("g16", "G = 16, 8 prompts", {"G": 16, "prompts_per_iter": 8}),
]
TABLE = {row.name: row for row in _ROWS}


# ============================================================== one run


def edited_lab(*pairs):
    """Return the solution as a module, with every (old, new) of pairs replaced in its text."""
    import tinylm  # before the file is loaded: reading torch counts as its time

    if not SOLUTION.exists():
        raise FileNotFoundError(f"there is no {SOLUTION}, with which the experiments are trained")
    text = SOLUTION.read_text(encoding="utf-8")
    for old, new in pairs:
        if text.count(old) != 1:
            raise ValueError(f"{SOLUTION.name} has {text.count(old)} times, not once: {old}")
        text = text.replace(old, new)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "lab15_grpo.py"
        path.write_text(text, encoding="utf-8")
        lab = load_lab(path, tinylm, limit=600)  # a busy machine may take its time
    if lab.__problems__:
        raise RuntimeError(f"the edited solution: {lab.__problems__[0].text}")
    return lab


def watch(lab, step_done):
    """Wrap four functions of a loaded lab; return the dict that its runs then fill.

    Beside what train_grpo notes: true_reward (of tinylm.reward, whatever the run is paid for),
    length (tokens per response, END included), loss_first (of the first inner step), ratio_max
    (of the last), and in the iterations probe_iter what p_right and expected return.
    The wrappers leave the random numbers alone: a watched run is the run itself.
    """
    import tinylm

    history = {}
    inner = []  # (loss, stats) of the inner steps of the iteration that runs
    sample_group, grpo_loss, grpo_step = lab.sample_group, lab.grpo_loss, lab.grpo_step

    def watched_group(model, prompts, answers, G, temperature=1.0):
        groups = sample_group(model, prompts, answers, G, temperature)
        asked = [a for a in answers for _ in range(G)]
        right = [tinylm.reward(r, a) for r, a in zip(groups["responses"], asked)]
        length = groups["out"]["mask"].sum(1).mean().item()
        add(history, true_reward=mean(right), length=length)
        return groups

    def watched_loss(*args, **kwargs):
        loss, stats = grpo_loss(*args, **kwargs)
        inner.append((loss.item(), stats))
        return loss, stats

    def watched_step(*args, **kwargs):
        inner.clear()
        stats = grpo_step(*args, **kwargs)
        add(history, **stats, loss_first=inner[0][0], ratio_max=inner[-1][1]["ratio_max"])
        step_done()
        return stats

    lab.sample_group, lab.grpo_loss, lab.grpo_step = watched_group, watched_loss, watched_step
    watch_accuracy(lab, history)
    return history


def watch_accuracy(lab, history):
    """Wrap a loaded lab's accuracy: it notes its values, and the probes."""
    accuracy = lab.accuracy

    def watched(model, n, greedy):
        value = accuracy(model, n=n, greedy=greedy)
        add(history, **{"acc_greedy" if greedy else "acc_sampled": value})
        it = len(history.get("loss", []))
        if not greedy:
            add(history, eval_iter=it)
        if not greedy and it % PROBE_EVERY == 0:
            p = p_right(model)
            passed, silent = expected(p)
            add(history, probe_iter=it, pass_at=passed, zero_expected=silent)
            history["p_right"] = [short(x, 3) for x in p]  # of the last probe
        return value

    lab.accuracy = watched


def add(history, **values):
    """Put values at the end of the lists of a history."""
    for key, value in values.items():
        history.setdefault(key, []).append(value)


def p_right(model):
    """Return the exact probability of every right answer, END included: 500 held-out sums."""
    import tinylm

    return chances(model, *tinylm._as_text(tinylm.EVAL_PAIRS))


def expected(p):
    """Return (pass@k for the k in SIZES, share of zero-signal groups for the G in SIZES).

    Both exactly, from the probabilities p of the right answers: pass@k is the mean of
    1 - (1 - p)^k, and the other the mean of p^G + (1 - p)^G.
    """
    passed = [mean([1 - (1 - x) ** k for x in p]) for k in SIZES]
    silent = [mean([x**G + (1 - x) ** G for x in p]) for G in SIZES]
    return [short(x) for x in passed], [short(x) for x in silent]


def train(seed, changes, pairs=(), step_done=lambda: None):
    """Train once with the solution, edited by pairs; return the record of the run.

    A run that ends in NaN is a result: its history stops there, and "stopped" says why.
    None means that Ctrl-C ended it.
    """
    lab = edited_lab(*pairs)
    cfg = lab.GRPOConfig(seed=seed, **changes)
    history = watch(lab, step_done)
    start = time.perf_counter()
    record = {"seed": seed}
    try:
        with lab15_run.unwatched():
            lab.train_grpo(cfg, TOP / "tinylm_sft.pt", verbose=False)
        if len(history.get("loss", [])) < cfg.iters:
            return None
    except FloatingPointError as error:
        record["stopped"] = str(error)
    history = {k: [short(v) for v in values] for k, values in history.items()}
    return record | {"seconds": round(time.perf_counter() - start, 1), "history": history}


# ============================================================== the table's results


def _stored(path, same):
    """Return what path holds, or {} if it is not there or was measured with other settings."""
    if not path.exists():
        return {}
    stored = read_json(path)
    return stored if all(stored.get(k) == v for k, v in same.items()) else {}


def _runs(path, same):
    """Return the runs that path holds with these settings: dict from seed to record."""
    return {run["seed"]: run for run in _stored(path, same).get("runs", [])}


def load(name, folder=RUNS):
    """Return the runs of an experiment, a list of dicts: name, seed, config, history, seconds.

    Raises:
        FileNotFoundError: it was never measured; the message says what to do.
    """
    path = Path(folder) / f"{name}.json"
    if not path.exists():
        raise FileNotFoundError(
            f"there is no {path}; measure it: python -m notebooks.experiments {name}"
        )
    stored = read_json(path)
    return [{"name": name, "config": stored["config"] | {"seed": run["seed"]}} | run
            for run in stored["runs"]]


def measure_one(path, same, pairs, seeds, force, bar):
    """Train the seeds that path does not hold yet; write it after each. False after Ctrl-C.

    Args:
        path: the JSON file.
        same: dict with at least "changes"; a file in which these differ is replaced.
        pairs: replacements in the solution's text.
        seeds: the seeds wanted.
        force: measure again what is there.
        bar: a tqdm bar; it moves one on for every iteration.
    """
    config = vars(edited_lab().GRPOConfig(**same["changes"]))
    config.pop("seed")
    for seed in seeds:
        if seed in _runs(path, same) and not force:
            bar.update(config["iters"])
            continue
        run = train(seed, same["changes"], pairs, bar.update)
        if run is None:
            return False
        if pairs or same["changes"]:  # 500 numbers that only the default's figure needs
            run["history"].pop("p_right", None)
        runs = _runs(path, same) | {seed: run}  # another process may have added some meanwhile
        done = {"config": config, "seeds": sorted(runs), "runs": [runs[s] for s in sorted(runs)]}
        write_json(path, same | about("python -m notebooks.experiments") | done)
    return True


def progress(runs, iters=300):
    """Return a bar over so many runs, moved by iterations."""
    from tqdm import tqdm

    return tqdm(total=runs * iters, unit="it", ascii=True, leave=False)


def measure(names=None, seeds=None, force=False, folder=RUNS, **changes):
    """Measure experiments; return True, or False after Ctrl-C. What is there is not done twice.

    Args:
        names: names in TABLE; None for all.
        seeds: seeds instead of the table's.
        force: measure again what is there.
        folder: where the results go; give another one together with changes.
        changes: fields of GRPOConfig set in every run, such as iters=20.
    """
    rows = [TABLE[name] for name in (TABLE if names is None else names)]
    total = sum(len(seeds or row.seeds) for row in rows)
    with progress(total, changes.get("iters", 300)) as bar:
        for row in rows:
            bar.set_description(row.name)
            same = {"name": row.name, "changes": row.changes | changes, "edit": row.edit}
            pairs = [EDITS[row.edit]] if row.edit else []
            path = Path(folder) / f"{row.name}.json"
            if not measure_one(path, same, pairs, seeds or row.seeds, force, bar):
                return False
    return True


def measure_detective(force=False):
    """Measure the runs of notebooks/detective.py; return False after Ctrl-C."""
    from notebooks import detective  # here: a graded bundle comes without its answers

    with progress(len(SEEDS) * len(detective.BUGS)) as bar:
        bar.set_description("detective")
        return all(measure_one(RUNS / f"{same['name']}.json", same, [pair], SEEDS, force, bar)
                   for same, pair in detective.runs())


def measure_named(names, force):
    """Measure rows of TABLE, and "detective"; return False after Ctrl-C."""
    done = measure([name for name in names if name in TABLE], force=force)
    return measure_detective(force) if done and "detective" in names else done


def listing():
    """Return the table as lines of text: name, how many seeds are measured, what it is."""
    lines = []
    for row in TABLE.values():
        same = {"name": row.name, "changes": row.changes, "edit": row.edit}
        runs = len(_runs(RUNS / f"{row.name}.json", same))
        lines.append(f"{row.name:12} {runs} of {len(row.seeds)} seeds  {row.label}")
    lines.append(f"{'detective':12} the six runs of python -m notebooks.detective")
    return "\n".join(lines)


def command(name, text, known, listing, measure, end, argv=None):
    """Run the command of a table of training runs: measure or list; return the exit code.

    Args:
        name: of the module in notebooks.
        text: its docstring, for --help.
        known: the names in the table.
        listing: returns the table as text.
        measure: called with (names, force); returns False after Ctrl-C.
        end: what is printed when everything is measured.
        argv: the words of the command line; None: those of this process.
    """
    parser = argparse.ArgumentParser(prog=f"python -m notebooks.{name}", description=text,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of the table; all if none")
    parser.add_argument("--force", action="store_true", help="measure again what is there")
    parser.add_argument("--list", action="store_true", help="print the table and stop")
    flags = parser.parse_args(argv)
    if unknown := [name for name in flags.names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}. There are: {', '.join(known)}")
    if flags.list:
        print(listing())
        return 0
    try:
        done = measure(flags.names or known, flags.force)
    except KeyboardInterrupt:  # between two runs
        done = False
    except OSError as error:
        sys.exit(str(error))
    print(end if done else
          "Stopped; the runs that were finished are kept. The same command continues.")
    return 0


def main(argv=None):
    """Measure, or list what was measured."""
    return command("experiments", __doc__, [*TABLE, "detective"], listing, measure_named,
                   f"Measured, in {RUNS}. Now: python -m notebooks.figures --chapter", argv)


if __name__ == "__main__":
    sys.exit(piped(main))
