"""What all figures share: colours, curves with their range, JSON results, saving a picture."""

from pathlib import Path

from lab15_run import about, mean, read_json, short, write_json

__all__ = ["about", "mean", "read_json", "short", "write_json"]  # what figures also need
HERE = Path(__file__).resolve().parent
TOP = HERE.parent.parent

# ============================================================== pictures

# One colour per quantity, here and in the chapter; told apart by the colour-blind, and, since
# paper may be grey, by line and mark as well.
SAMPLED, GREEDY, KL = "#0072B2", "#D55E00", "#CC79A7"
ENTROPY, CLIP, SILENT = "#009E73", "#E69F00", "#56B4E9"
QUANTITIES = {  # key in a history: (what stands at the axis, colour, line and mark)
    "acc_sampled": ("sampled accuracy", SAMPLED, "o-"),
    "acc_greedy": ("greedy accuracy", GREEDY, "s--"),
    "reward": ("reward", SAMPLED, "-"),
    "true_reward": ("share right", "black", ":"),
    "loss": ("loss", "black", "-"),
    "loss_first": ("loss, 1st inner step", "black", "-"),
    "kl": ("KL", KL, "-"),
    "entropy": ("entropy", ENTROPY, "-"),
    "clip_frac": ("clip_frac", CLIP, "-"),
    "ratio_max": ("ratio_max", CLIP, "-"),
    "frac_zero_signal": ("zero-signal", SILENT, "-"),
    "length": ("tokens", "black", "-"),
}
WINDOW = 10  # iterations that one drawn point of a per-iteration curve is the mean of


def settings():
    """Return matplotlib's settings for all figures; bytes depend on nothing but the results."""
    return {"font.size": 8, "axes.grid": True, "grid.alpha": 0.3, "axes.linewidth": 0.6,
            "lines.linewidth": 1.2, "lines.markersize": 3, "legend.frameon": False,
            "axes.titlesize": 8, "svg.fonttype": "none", "svg.hashsalt": "lab15"}


def new_figure(rows=1, columns=1, height=2.6, **options):
    """Return (figure, axes) 7 inches wide: readable in a column of 700 pixels."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(settings()):
        figure = Figure(figsize=(7, height), layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def points(history, key):
    """Return (x, y) of a curve: evaluations as they are, else means over WINDOW iterations."""
    values = history[key]
    if len(values) == len(history["eval_iter"]) and key.startswith("acc"):
        return history["eval_iter"], values
    starts = range(0, len(values), WINDOW)
    return ([min(s + WINDOW, len(values)) for s in starts],
            [mean(values[s : s + WINDOW]) for s in starts])


def columns(runs, key):
    """Return (x, list of the seeds' values at every x); a run that stopped early ends earlier."""
    curves = [points(run["history"], key) for run in runs]
    x = max((c[0] for c in curves), key=len)
    return x, [[c[1][i] for c in curves if i < len(c[1])] for i in range(len(x))]


def band(axes, runs, key, label=None, style=None, **options):
    """Draw a quantity of some runs: the mean as a line, the range of the seeds as a band."""
    name, color, own = QUANTITIES[key]
    color = options.pop("color", color)
    x, seeds = columns(runs, key)
    axes.fill_between(x, [min(c) for c in seeds], [max(c) for c in seeds],
                      color=color, alpha=0.2, lw=0)
    every = max(1, len(x) // 10)
    axes.plot(x, [mean(c) for c in seeds], style or own, color=color, label=label or name,
              markevery=every, **options)


def last(runs, key, n=50):
    """Return every seed's value at the end: the last evaluation, or the mean of n iterations."""
    if key.startswith("acc"):
        return [run["history"][key][-1] for run in runs]
    return [mean(run["history"][key][-n:]) for run in runs]


def first(runs, key, n=20):
    """Return every seed's value at the start: the first evaluation, or the mean of n iterations."""
    if key.startswith("acc"):
        return [run["history"][key][0] for run in runs]
    return [mean(run["history"][key][:n]) for run in runs]


def spread(values, digits=2):
    """Return "0.93 (0.92 to 0.95)": mean and range."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return f"{mean(values):.{digits}f}" + (f" ({low} to {high})" if low != high else "")


def sources(*names):
    """Return where the runs of these experiments come from, for a figure's JSON."""
    from notebooks.experiments import RUNS

    keys = ("commit", "machine", "torch", "threads", "quiet", "seeds", "changes", "edit")
    stored = {name: read_json(RUNS / f"{name}.json") for name in names}
    return {name: {k: s[k] for k in keys if k in s} | {"seconds": [r["seconds"] for r in s["runs"]]}
            for name, s in stored.items()}


LINES = ("-", "--", "-.", ":")
MARKS = ("o", "s", "^", "D")


def shade(color, t):
    """Return a colour mixed with white (t from 0 down to -1) or with black (up to 1)."""
    from matplotlib.colors import to_rgb

    target = 0 if t > 0 else 1
    return [c + (target - c) * abs(t) for c in to_rgb(color)]


def compare(axes, runs_of, key):
    """Draw one quantity of up to four experiments: one colour, light to dark, four marks.

    runs_of: dict from label to runs.
    """
    shades = {1: [0], 2: [-0.4, 0.3], 3: [-0.5, 0, 0.45], 4: [-0.6, -0.2, 0.2, 0.6]}[len(runs_of)]
    for (label, runs), t, line, mark in zip(runs_of.items(), shades, LINES, MARKS):
        band(axes, runs, key, label, line + mark, color=shade(QUANTITIES[key][1], t))
