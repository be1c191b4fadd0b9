"""The figures of beyond.compare: curves of every seed, and differences to grpo with intervals."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from beyond.compare.stats import BASE, LEVEL, Summaries, column, compared, summaries, values
from lab15_run import counted
from tinylm import write_file

BLUE, ORANGE, BLACK = "#0072B2", "#D55E00", "black"
# Those of the chapter's other figures: notebooks/figures/style.py, which may not be imported here;
# a test compares them.
WIDTH, POINTS, DPI = 7.5, 10, 200
SETTINGS: dict[str, Any] = {
    "font.size": POINTS, "axes.titlesize": POINTS, "axes.labelsize": POINTS,
    "xtick.labelsize": POINTS, "ytick.labelsize": POINTS, "legend.fontsize": POINTS,
    "axes.grid": True, "grid.alpha": 0.3, "axes.linewidth": 0.8, "lines.linewidth": 1.5,
    "lines.markersize": 4.5, "legend.frameon": False, "legend.handlelength": 2.6,
    "svg.fonttype": "path",
}  # fmt: skip
CURVES = (  # (key of an evaluation, file name, what the y axis says)
    ("sampled", "accuracy", "sampled accuracy, held-out sums"),
    ("greedy", "greedy", "greedy accuracy, held-out sums"),
    ("entropy", "entropy", "entropy per token (nats)"),
    ("kl", "kl", "KL to the SFT model, per token"),
    ("length", "length", "tokens per response"),
    ("length_wrong", "length_wrong", "tokens per wrong response"),
    ("cut", "cut", "share of responses cut off"),
    ("train_clip_frac", "clip", "share of tokens clipped (last inner step)"),
)
FOREST = (("sampled", "sampled accuracy"), ("area", "area under the curve"),
          ("entropy", "entropy"), ("length", "tokens"))  # fmt: skip


def saved(draw: Callable[[], Figure], name: str) -> dict[str, bytes]:
    """Return a figure as {"svg": bytes, "png": bytes}, the same ones every time.

    Args:
        draw: a function that returns the figure.
        name: the figure's; the ids in the SVG depend on it, so that two can stand in one page.
    """
    found = {}
    with rc_context(cast(Any, SETTINGS | {"svg.hashsalt": name})):
        figure = draw()
        kinds: dict[str, dict[str, None]] = {"svg": {"Date": None, "Creator": None},
                                             "png": {"Software": None}}  # fmt: skip
        for kind, metadata in kinds.items():
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
            found[kind] = file.getvalue()
    return found


def by_variant(runs: list[dict]) -> dict[str, list[dict]]:
    """Return the runs of each variant, failed ones left out."""
    found: dict[str, list[dict]] = {}
    for run in runs:
        if "failed" not in run["done"]:
            found.setdefault(run["variant"], []).append(run)
    return found


def _figure(height: float) -> Figure:
    """Return an empty figure as wide as the book's column."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def _counts(groups: dict[str, list[dict]]) -> str:
    """Return "10 seeds each", or how many seeds which variants have."""
    counts = {name: len(found) for name, found in groups.items()}
    most = max(counts.values())
    fewer = [f"{name} {n}" for name, n in counts.items() if n != most]
    return f"{counted(most, 'seed')} each" + (f" ({', '.join(fewer)})" if fewer else "")


def curves(runs: list[dict], key: str, label: str) -> Figure:
    """Return small panels, one a variant: every seed thin, mean and range; grpo's mean dashed.

    Args:
        runs: of one task.
        key: of an evaluation.
        label: of the y axis.
    """
    groups = by_variant(runs)
    columns = min(3, len(groups))
    rows = -(-len(groups) // columns)
    figure = _figure(1.55 * rows + 0.9)
    panels = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    base = groups.get(BASE)
    for axes, (name, found) in zip(panels.flat, groups.items()):
        _panel(axes, found, key)
        if base and name != BASE:
            x, y = column(base[0], "iter"), _mean([column(run, key) for run in base])
            axes.plot(x, y, "--", color=BLACK, lw=1.2)
        axes.set_title(name)
    for axes in panels.flat[len(groups) :]:
        axes.set_visible(False)
    figure.supxlabel(f"iteration; {_counts(groups)}; dashed: mean of {BASE}", fontsize=POINTS)
    figure.supylabel(label, fontsize=POINTS)
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
        axes.plot(x, row, color=BLUE, lw=0.6, alpha=0.6)
    axes.fill_between(x, np.fmin.reduce(table), np.fmax.reduce(table), color=BLUE, alpha=0.15, lw=0)
    axes.plot(x, _mean(table), "-", color=BLUE, lw=2)


def forest(found: Summaries, task: str) -> Figure:
    """Return the differences to grpo at the end: every seed, mean, interval, and what holds."""
    names = [name for name in found if name != BASE]
    rows = -(-len(FOREST) // 2)
    figure = _figure(rows * (0.27 * len(names) + 0.5) + 1)
    panels = figure.subplots(rows, 2, sharey=True, squeeze=False)
    counted = 0
    for axes, (key, label) in zip(panels.flat, FOREST):
        base = values(found, BASE, key)
        for y, (name, d) in enumerate(compared(found, key).items()):
            if d is None:
                continue
            counted = d.comparisons
            ours = values(found, name, key)
            dots = [ours[s] - base[s] for s in sorted(ours.keys() & base.keys())]
            axes.plot(dots, [y] * len(dots), "|", color=BLUE, ms=8, alpha=0.7)
            axes.plot([d.low, d.high], [y, y], "-", color=ORANGE, lw=2.5)
            axes.plot(d.mean, y, "D" if d.significant else "o", ms=7, color=ORANGE,
                      mfc=ORANGE if d.significant else "white")  # fmt: skip
        axes.axvline(0, color=BLACK, lw=1)
        axes.set_title(label)
        axes.grid(axis="y", visible=False)
        axes.set_yticks(range(len(names)), names)
        axes.set_ylim(len(names) - 0.4, -0.6)
        axes.xaxis.set_major_locator(MaxNLocator(4))
    for axes in panels[-1]:
        axes.set_xlabel(f"difference to {BASE}, {task} task")
    handles = [
        Line2D([], [], color=BLUE, marker="|", ls="", ms=8, label="one seed"),
        Line2D([], [], color=ORANGE, lw=2.5, label="bootstrap interval"),
        Line2D([], [], color=ORANGE, marker="D", ls="", ms=7,
               label=f"mean, p below {LEVEL:g} (Holm, {counted})"),
        Line2D([], [], color=ORANGE, marker="o", ls="", ms=7, mfc="white", label="mean, otherwise"),
    ]
    figure.legend(handles=handles, loc="outside lower center", ncols=4, columnspacing=1,
                  handletextpad=0.4, handlelength=1.6)
    return figure


HACKS = (("hack", "paid: answer anywhere"), ("long", "paid: answer at the end"))


def hack(by_task: dict[str, list[dict]]) -> Figure:
    """Return what was rewarded and what was right, under the hackable and the true reward."""
    figure = _figure(3.7)
    panels = figure.subplots(1, 3, sharex=True)
    found = {task: [r for r in by_task.get(task, []) if r["variant"] == "grpo_beta0"]
             for task, _ in HACKS}
    most = max((column(run, "iter")[-1] for runs in found.values() for run in runs), default=1)
    for axes, (task, title) in zip(panels, HACKS):
        for key, color, style, label in (
            ("anywhere", ORANGE, "s--", "answer anywhere"),
            ("sampled", BLUE, "o-", "answer at the end (right)"),
        ):
            _curve(axes, found[task], key, color, style, label)
        axes.set(title=title, ylim=(0, 1.02))
    panels[1].tick_params(labelleft=False)
    for (task, title), color, style in zip(HACKS, (ORANGE, BLUE), ("^-.", "D:")):
        _curve(panels[2], found[task], "length", color, style, title)
    panels[2].set(title="tokens per response", ylim=(0, 25))
    for axes in panels:
        axes.set(xlabel="iteration", xlim=(0, most))
    for axes, (task, _) in zip(panels, HACKS):
        last = max((column(run, "iter")[-1] for run in found[task]), default=most)
        if last < most:
            axes.axvline(last, color=BLACK, lw=1, ls=":")
            axes.annotate(f"trained\nfor {last:.0f}", (last, 0.03), (3, 0), va="bottom",
                          textcoords="offset points")
    panels[0].set_ylabel("share of responses")
    handles = [*panels[0].get_legend_handles_labels()[0], *panels[2].get_legend_handles_labels()[0]]
    figure.legend(handles=handles, loc="outside lower center", ncols=2)
    return figure


def _curve(axes: Axes, runs: list[dict], key: str, color: str, style: str, label: str) -> None:
    """Draw the mean of the seeds as a line and their range as a band; nothing without runs."""
    if runs:
        x, table = column(runs[0], "iter"), [column(run, key) for run in runs]
        axes.fill_between(x, np.fmin.reduce(table), np.fmax.reduce(table), color=color, alpha=0.15,
                          lw=0)
        axes.plot(x, _mean(table), style, color=color, label=label)


def save_all(by_task: dict[str, list[dict]], folder: Path, only: tuple = ()) -> list[Path]:
    """Draw all figures that the runs allow, as SVG and as PNG; return the PNG files.

    Args:
        by_task: task -> finished runs.
        folder: for compare_TASK_WHAT.svg and .png.
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
            for kind, data in saved(draw, f"compare_{name}").items():
                path = folder / f"compare_{name}.{kind}"
                write_file(path, lambda file, data=data: file.write(data))
            drawn.append(folder / f"compare_{name}.png")
    return drawn
