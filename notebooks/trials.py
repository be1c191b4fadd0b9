"""What single changes do, measured for the chapter's tables and answers: no figure shows them.

    python -m notebooks.trials --list           list the trials, and which are measured
    python -m notebooks.trials                  measure what is missing
    python -m notebooks.trials t13 --force      measure this one again

Up to three seeds each, in notebooks/trials.json: the evaluations as they are, everything else as
means over 10 iterations. Stop with Ctrl-C at any time; the next call continues. The chapter uses
the seeds that all trials have.
"""

import os
import sys
from dataclasses import replace

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_run import TOP, about, mean, piped, read_json, short, write_json
from notebooks.experiments import WINDOW, Experiment, command, progress, train

PATH = TOP / "notebooks" / "trials.json"
SEEDS = (0, 1, 2)
EARLY, LATER = {"iters": 50}, {"iters": 100}  # the default settings are then at 0.90 and 0.94
KEYS = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy", "true_reward",
        "length", "ratio_max")

_NORM = "torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)"
_SCORES = "[reward(response, answer) for response, answer in zip(responses, answers)]"
_ADV = "adv = group_advantages(rewards, cfg.G, cfg.scale_std)"
# Changes of the solution's text: name -> (text as it is, text in its place).
EDITS = {
    "k2": ("k3 = k3_kl(logp, ref_logp)", "k3 = (ref_logp - logp) ** 2 / 2"),
    "first_digit": (_SCORES, _SCORES.replace(
        "reward(response, answer)",
        "max(reward(response, answer), 0.2 * (response[:1] == answer[:1]))")),
    "rows_mixed": (
        "prompts = [prompt for prompt in prompts for _ in range(G)]  # P*G, each G times in a row\n"
        "    answers = [answer for answer in answers for _ in range(G)]",
        "prompts, answers = prompts * G, answers * G"),
    "not_negated": ("loss = -per_response.mean()", "loss = per_response.mean()"),
    "plus_beta": ("torch.min(unclipped, clipped) - beta", "torch.min(unclipped, clipped) + beta"),
    "max_for_min": ("torch.min(unclipped, clipped)", "torch.max(unclipped, clipped)"),
    "clip_alone": ("torch.min(unclipped, clipped)", "clipped"),
    "no_zero_grad": ("opt.zero_grad()\n        loss.backward()", "loss.backward()"),
    "norm_too_early": (f"loss.backward()\n        {_NORM}", f"{_NORM}\n        loss.backward()"),
    "new_optimizer": (
        _ADV, f"{_ADV}\n    opt = torch.optim.Adam(policy.parameters(), lr=cfg.lr)"),
}


_ROWS = [
    # Answers to exercises 10, 11, 14 and 16.
    Experiment("lr_low", "learning rate 3e-5", LATER | {"lr": 3e-5}),
    Experiment("t13", "sampled at T = 1.3, scored at 1", LATER | {"temperature": 1.3}),
    Experiment("first_digit", "0.2 for a right first digit", LATER, "first_digit"),
    Experiment("k2", "k2 in the place of k3", EARLY, "k2"),
    Experiment("k2_beta1", "k2 in the place of k3, beta = 1", EARLY | {"beta": 1.0}, "k2"),
    # The tables of typical mistakes.
    Experiment("rows_mixed", "rows of the groups mixed", EARLY, "rows_mixed"),
    Experiment("not_negated", "loss not negated", EARLY, "not_negated"),
    Experiment("plus_beta", "+ beta * k3", EARLY, "plus_beta"),
    Experiment("max_for_min", "max for min", EARLY, "max_for_min"),
    Experiment("clip_alone", "clip without min", EARLY, "clip_alone"),
    Experiment("no_zero_grad", "no zero_grad", EARLY, "no_zero_grad"),
    Experiment("norm_too_early", "norm clipped before backward", EARLY, "norm_too_early"),
    Experiment("new_optimizer", "a new optimizer in every call", EARLY, "new_optimizer"),
    Experiment("lr_3e3", "learning rate 3e-3", EARLY | {"lr": 3e-3}),
]
TABLE = {row.name: replace(row, seeds=SEEDS) for row in _ROWS}


def shortened(history):
    """Return a history with means over WINDOW iterations for all but the evaluations."""
    kept = {key: history[key] for key in ("eval_iter", "acc_sampled", "acc_greedy")}
    for key in KEYS:
        values = history.get(key, [])
        kept[key] = [short(mean(values[i : i + WINDOW])) for i in range(0, len(values), WINDOW)]
    return kept


def stored():
    """Return what is measured: dict from name to a record with changes, edit and runs."""
    return read_json(PATH)["trials"] if PATH.exists() else {}


def runs_of(row, found):
    """Return the runs of a row measured with its settings: dict from seed to run."""
    record = found.get(row.name, {})
    if (record.get("changes"), record.get("edit")) != (row.changes, row.edit):
        return {}
    return {run["seed"]: run for run in record["runs"]}


def measure(names, force=False):
    """Measure the trials of these names; return False after Ctrl-C."""
    rows = [TABLE[name] for name in names]
    total = sum(row.changes.get("iters", 300) for row in rows) * len(SEEDS)
    with progress(1, total) as bar:
        for seed in SEEDS:  # the first seed of all before the second of any
            for row in rows:
                bar.set_description(row.name)
                if seed in runs_of(row, stored()) and not force:
                    bar.update(row.changes.get("iters", 300))
                    continue
                run = train(seed, row.changes, [EDITS[row.edit]] if row.edit else [], bar.update)
                if run is None:
                    return False
                keep(row, run | {"history": shortened(run["history"])})
    return True


def keep(row, run):
    """Write one run to the file, beside what other processes may have added meanwhile."""
    found = stored()
    runs = runs_of(row, found) | {run["seed"]: run}
    origin = about(f"python -m notebooks.trials {row.name}")
    found[row.name] = {"label": row.label, "changes": row.changes, "edit": row.edit, **origin,
                       "runs": [runs[seed] for seed in sorted(runs)]}
    write_json(PATH, {"trials": {name: found[name] for name in TABLE if name in found}})


def common_seeds():
    """Return the seeds that every trial was measured with: only these are compared."""
    seeds = [{run["seed"] for run in record["runs"]} for record in stored().values()]
    return set.intersection(*seeds) if seeds else set()


def at(name, key, it=None):
    """Return the mean over the common seeds of a quantity at an iteration, or at the end.

    Args:
        name: of a trial.
        key: acc_sampled or acc_greedy (an evaluation), or one of KEYS.
        it: iteration: of the evaluation, or the last of the WINDOW averaged; None for the last
            evaluation, or the last 50 iterations.
    """
    values = []
    common = common_seeds()
    for run in stored()[name]["runs"]:
        history = run["history"]
        if run["seed"] not in common:
            continue
        if key.startswith("acc_"):
            values.append(history[key][-1 if it is None else history["eval_iter"].index(it)])
        elif it is None:
            values.append(mean(history[key][-50 // WINDOW :]))
        else:
            values.append(history[key][it // WINDOW - 1])
    return mean(values)


def listing():
    """Return a line for every trial."""
    found = stored()
    return "\n".join(f"{row.name:15} {len(runs_of(row, found))} of {len(SEEDS)} seeds  {row.label}"
                     for row in TABLE.values())


def main(argv=None):
    """Measure, or list what was measured."""
    return command("trials", __doc__, list(TABLE), listing, measure, f"Measured, in {PATH}.", argv)


if __name__ == "__main__":
    sys.exit(piped(main))
