"""The figures of beyond.compare: curves of every seed, and differences to grpo with intervals."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from beyond.compare.stats import BASE, LEVEL, Summaries, column, compared, summaries, values

BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "black"
CURVES = (  # (key of an evaluation, file name, what the y axis says)
    ("sampled", "accuracy", "sampled accuracy, held-out sums"),
    ("greedy", "greedy", "greedy accuracy, held-out sums"),
    ("entropy", "entropy", "entropy per token (nats)"),
    ("kl", "kl", "KL to the SFT model, per token"),
    ("length", "length", "tokens of a response"),
    ("length_wrong", "length_wrong", "tokens of a wrong response"),
    ("cut", "cut", "share of responses cut off"),
    ("train_clip_frac", "clip", "share of tokens clipped (last inner step)"),
)
FOREST = (("sampled", "sampled accuracy"), ("area", "area under the curve"),
          ("entropy", "entropy"), ("length", "tokens"))  # fmt: skip


def by_variant(runs: list[dict]) -> dict[str, list[dict]]:
    """Return the runs of each variant, failed ones left out."""
    found: dict[str, list[dict]] = {}
    for run in runs:
        if "failed" not in run["done"]:
            found.setdefault(run["variant"], []).append(run)
    return found


def curves(runs: list[dict], key: str, label: str) -> Figure:
    """Return small panels, one a variant: every seed thin, mean and range; grpo's mean dashed.

    Args:
        runs: of one task.
        key: of an evaluation.
        label: of the y axis.
    """
    groups = by_variant(runs)
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    figure = Figure(figsize=(2.6 * columns + 0.4, 1.9 * rows + 0.6), layout="constrained")
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    base = groups.get(BASE)
    for axes, (name, found) in zip(panels.flat, groups.items()):
        _panel(axes, found, key)
        if base and name != BASE:
            x, y = column(base[0], "iter"), _mean([column(run, key) for run in base])
            axes.plot(x, y, "--", color=BLACK, lw=1.1)
        axes.set_title(f"{name}, n = {len(found)}", fontsize=9)
        axes.grid(alpha=0.3)
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    figure.supxlabel(f"iteration; dashed: mean of {BASE}", fontsize=9)
    figure.supylabel(label, fontsize=9)
    return figure


def _mean(rows: list) -> np.ndarray:
    """Return the mean over seeds, NaN left out; NaN where no seed has a value."""
    table = np.array(rows, dtype=float)
    count = (~np.isnan(table)).sum(0)
    return np.where(count > 0, np.nansum(table, 0) / np.maximum(count, 1), np.nan)


def _panel(axes: Axes, found: list[dict], key: str) -> None:
    x = column(found[0], "iter")
    table = [column(run, key) for run in found]
    for row in table:
        axes.plot(x, row, color=BLUE, lw=0.5, alpha=0.5)
    axes.fill_between(x, np.fmin.reduce(table), np.fmax.reduce(table), color=BLUE, alpha=0.15, lw=0)
    axes.plot(x, _mean(table), "-", color=BLUE, lw=1.6)


def forest(found: Summaries, task: str) -> Figure:
    """Return the differences to grpo at the end: every seed, mean, interval, and what holds."""
    names = [name for name in found if name != BASE]
    figure = Figure(figsize=(10.5, 0.34 * len(names) + 1.5), layout="constrained")
    panels = figure.subplots(1, len(FOREST), sharey=True)
    counted = 0
    for axes, (key, label) in zip(panels, FOREST):
        base = values(found, BASE, key)
        for y, (name, d) in enumerate(compared(found, key).items()):
            if d is None:
                continue
            counted = d.comparisons
            ours = values(found, name, key)
            dots = [ours[s] - base[s] for s in sorted(ours.keys() & base.keys())]
            axes.plot(dots, [y] * len(dots), "|", color=BLUE, ms=6, alpha=0.6)
            axes.plot([d.low, d.high], [y, y], "-", color=ORANGE, lw=2)
            axes.plot(d.mean, y, "D" if d.significant else "o", ms=6, color=ORANGE,
                      mfc=ORANGE if d.significant else "white")  # fmt: skip
        axes.axvline(0, color=BLACK, lw=0.8)
        axes.set_title(label, fontsize=9)
        axes.grid(alpha=0.3, axis="x")
        axes.tick_params(labelsize=8)
    panels[0].set_yticks(range(len(names)), names, fontsize=8)
    panels[0].set_ylim(len(names) - 0.4, -0.6)
    figure.supxlabel(
        f"difference to {BASE}, task {task}: ticks are seeds, bar the bootstrap interval; filled "
        f"diamond: below {LEVEL} after Holm for {counted} comparisons, open circle: not",
        fontsize=8,
    )
    return figure


def hack(by_task: dict[str, list[dict]]) -> Figure:
    """Return what was rewarded and what was right, under the hackable and the true reward."""
    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    panels = figure.subplots(1, 2, sharex=True)
    for task, color, style in (("hack", ORANGE, "-"), ("long", BLUE, "--")):
        runs = [r for r in by_task.get(task, []) if r["variant"] == "grpo_beta0"]
        if not runs:
            continue
        for key, width in (("anywhere", 1.0), ("sampled", 2.0)):
            table = [column(run, key) for run in runs]
            for row in table:
                panels[0].plot(column(runs[0], "iter"), row, style, color=color, lw=0.3, alpha=0.5)
            what = "answer anywhere" if key == "anywhere" else "answer at the end"
            where = "anywhere" if task == "hack" else "the end"
            panels[0].plot(column(runs[0], "iter"), _mean(table), style, color=color, lw=width,
                           label=f"{what}, trained on {where}")
        table = [column(run, "length") for run in runs]
        for row in table:
            panels[1].plot(column(runs[0], "iter"), row, style, color=color, lw=0.3, alpha=0.5)
        panels[1].plot(column(runs[0], "iter"), _mean(table), style, color=color, lw=2)
    panels[0].set(title="share of responses", xlabel="iteration", ylim=(0, 1.02))
    panels[0].legend(fontsize=7, loc="lower left")
    panels[1].set(title="tokens of a response", xlabel="iteration")
    for axes in panels:
        axes.grid(alpha=0.3)
    return figure


def save_all(by_task: dict[str, list[dict]], folder: Path, only: tuple = ()) -> list[Path]:
    """Draw all figures that the runs allow; return the files.

    Args:
        by_task: task -> finished runs.
        folder: for compare_TASK_WHAT.png.
        only: names of figures such as "long_entropy"; empty: all.
    """
    figures: dict[str, Callable[[], Figure]] = {}
    for task, runs in by_task.items():
        if not by_variant(runs):
            continue
        for key, name, label in CURVES:
            if any(value == value for run in runs for value in column(run, key)):
                figures[f"{task}_{name}"] = partial(curves, runs, key, label)
        found = {name: told for name, told in summaries(runs).items() if told}
        if BASE in found and len(found) > 1:
            figures[f"{task}_differences"] = partial(forest, found, task)
    if "hack" in by_task:
        figures["hack"] = partial(hack, by_task)
    folder.mkdir(parents=True, exist_ok=True)
    drawn = []
    for name, draw in figures.items():
        if not only or name in only:
            drawn.append(folder / f"compare_{name}.png")
            draw().savefig(drawn[-1], dpi=110, metadata={"Software": None})
    return drawn
