"""Facts of this repository that check comments may use: settings, sizes, measured results."""

import json
import math
import re
from functools import cache, partial
from types import SimpleNamespace

from instructor.tests.chapter import formulas, other_losses
from lab15_run import read_json
from notebooks.experiments import load
from notebooks.figures import style
from tests.labfile import ROOT, load_lab, read_source
from tests.spec import oracle

FIGURES = ROOT / "notebooks" / "figures"


@cache
def lab():
    """The solution as a module."""
    import tinylm  # noqa: F401 (before the file is loaded: reading torch counts as its time)

    return load_lab(ROOT / "solutions" / "lab15_grpo.py")


def cfg(name: str):
    """A default setting of GRPOConfig."""
    return getattr(lab().GRPOConfig, name)


def recipe(name: str):
    """A setting of the SFT model's recipe."""
    import tinylm

    return tinylm.RECIPE[name]


@cache
def parameters() -> int:
    """The number of parameters of TinyLM."""
    import tinylm

    return sum(p.numel() for p in tinylm.TinyLM(**tinylm.MODEL).parameters())


def heldout() -> int:
    """The number of held-out sums."""
    import tinylm

    return len(tinylm.EVAL_PAIRS)


@cache
def results(name: str) -> dict:
    """The results behind a figure."""
    return read_json(FIGURES / f"{name}.json")


def fig(name: str, key: str) -> float:
    """A number of a figure's summary."""
    return results(name)["summary"][key]


def run(name: str, key: str) -> float:
    """The end of an experiment's curve: last evaluation, or last 50 iterations; mean of seeds."""
    return formulas.mean(style.last(load(name), key))


def run_at(name: str, key: str, it: int, pick=formulas.mean) -> float:
    """An experiment after an iteration: its evaluation, or the mean of the ten iterations up to it.

    Mean of the seeds, or what `pick` (min, max) takes of them.
    """
    histories = [run["history"] for run in load(name)]
    if key.startswith("acc_"):
        return pick([h[key][h["eval_iter"].index(it)] for h in histories])
    return pick([formulas.mean(h[key][it - 10 : it]) for h in histories])


def bug(letter: str, key: str) -> float:
    """The end of the detective's run with this bug; the text need not give its number away."""
    from notebooks import detective

    numbers = detective.NUMBERS
    found = [n for n in numbers if detective.digest(n, letter) in detective.PAIRS]
    return run(f"detective_{found[0]}", key)


def trial(name: str, key: str, it: int | None = None) -> float:
    """A quantity of notebooks/trials.json: at an iteration, or at the end."""
    from notebooks import trials

    return trials.at(name, key, it)


@cache
def story() -> dict:
    """The eight responses to 37+48= and what one step makes of them."""
    return read_json(ROOT / "notebooks" / "story.json")["story"]


def curve(key: str, at: int) -> float:
    """A point of the base runs' curves, mean over the seeds."""
    return formulas.mean([run["history"][key][at] for run in results("accuracy")["runs"]])


def tail(key: str, at: int) -> float:
    """Mean over the first 10 (at = 0) or last 50 iterations of the base runs, then the seeds."""
    end = style.first if at == 0 else style.last
    return formulas.mean(end(results("accuracy")["runs"], key))


def bench(part: str) -> float:
    """Milliseconds of a part of grpo_step."""
    return read_json(ROOT / "beyond" / "bench" / "results" / "step.json")["cpu_ms"][part]


@cache
def comparison(task: str) -> list[dict]:
    """The kept runs of beyond.compare on a task; the first entry says how they were made."""
    path = ROOT / "beyond" / "bench" / "results" / f"compare_{task}.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def compared(task: str, variant: str, key: str, last: int = 3) -> float:
    """A variant's curve, mean of the seeds and of the last evaluations (0: all but the first)."""
    rows = [run["curves"][key] for run in comparison(task)[1:] if run["variant"] == variant]
    return formulas.mean([formulas.mean(row[-last:] if last else row[1:]) for row in rows])


def compared_iters(task: str) -> int:
    """Iterations of the runs on a task."""
    return comparison(task)[0]["iters"]


def _refills() -> list[tuple[list[float], list[float]]]:
    """dapo_full's seeds: (batches drawn at the least until each evaluation, accuracies)."""
    found = []
    for run in comparison("long")[1:]:
        if run["variant"] == "dapo_full":
            curves, drawn = run["curves"], [0.0]
            silent = curves["train_frac_zero_signal"]
            for i in range(1, len(silent)):  # a batch with so few mixed groups is filled up
                steps = curves["iter"][i] - curves["iter"][i - 1]
                drawn.append(drawn[-1] + steps / (1 - silent[i]))
            found.append((drawn, curves["sampled"]))
    return found


def refill_batches() -> float:
    """How many batches dapo_full draws at the least, mean of the seeds."""
    return formulas.mean([drawn[-1] for drawn, _ in _refills()])


def refill_at_equal_samples() -> float:
    """dapo_full's accuracy, interpolated, where it has drawn as many batches as the others."""
    values, end = [], compared_iters("long")
    for drawn, accuracy in _refills():
        i = next(i for i, x in enumerate(drawn) if x >= end)
        t = (end - drawn[i - 1]) / (drawn[i] - drawn[i - 1])
        values.append(accuracy[i - 1] + t * (accuracy[i] - accuracy[i - 1]))
    return formulas.mean(values)


def band(i: int) -> float:
    """The numbers of the band in the line that a training run ends with."""
    source = read_source(ROOT / "lab15_run.py")[0]
    bands = re.findall(r"expected ([\d.]+) to ([\d.]+), then ([\d.]+) or more", source)
    return float(bands[0][i])


# ---------------------------------------------------------------- worked examples of section 5

# Two responses, of two tokens and of one: ratios, d = ref_logp - logp, advantages.
_RHO, _D, _MASK = [[1.5, 1.0], [0.5, 1.0]], [[1.0, 0.0], [-1.0, 0.0]], [[1.0, 1.0], [1.0, 0.0]]


def hand(key: str) -> float:
    """The loss or a statistic of the worked example, from the tests' oracle."""
    logp = [[math.log(r) for r in row] for row in _RHO]
    ref = [[a + d for a, d in zip(x, y)] for x, y in zip(logp, _D)]
    given = (logp, [[0.0] * 2] * 2, ref, [1.0, -1.0], _MASK, 0.2, 0.1)
    return oracle.loss(*given) if key == "loss" else oracle.stats(*given)[key]


# Five responses of one token: the logarithm of the ratio, and the advantage.
_LOGS = [-0.6, 0.3, -0.3, 0.2, -0.4]
FIVE = list(zip(map(math.exp, _LOGS), [1.2, -0.7, 0.4, -1.1, 0.6]))


def clip_share(tokens) -> float:
    """The share of tokens whose clipped term is the smaller one."""
    return formulas.mean([formulas.obj(r, a) < r * a for r, a in tokens])


def surrogate_loss(tokens) -> float:
    """The loss of responses of one token, without KL."""
    return -formulas.mean([formulas.obj(r, a) for r, a in tokens])


def names() -> dict:
    """All that an expression may use."""
    public = {k: v for k, v in vars(formulas).items() if not k.startswith("_")}
    own = (cfg, recipe, parameters, heldout, fig, run, run_at, bug, trial, curve,
           tail, bench, compared, compared_iters, refill_batches, refill_at_equal_samples, band,
           hand, clip_share, surrogate_loss)
    return {
        "__builtins__": {"min": min, "max": max, "sum": sum, "abs": abs, "round": round,
                         "range": range, "len": len},
        **public, "exp": math.exp, "log": math.log, "hypot": math.hypot, "FIVE": FIVE,
        "HAND_RHO": _RHO, "STORY": story(), "RHO": other_losses.RHO, "D": other_losses.D,
        "loss": SimpleNamespace(forge_rl=other_losses.forge_rl, **{
            name: partial(other_losses.value, name) for name in other_losses.ROWS}),
        **{f.__name__: f for f in own},
    }
