"""What all figures share: colours, curves with their range, JSON results, saving a picture.

Every figure is saved as SVG, which the book shows, and as PNG, for GitHub and for slides. All
letters have POINTS points at the width shown, every line has a contrast of 3 to white, and no two
lines differ in colour alone.
"""

from pathlib import Path

from lab15_run import TOP, about, averaged, mean, read_json, short, write_json
from notebooks.experiments import RUNS, WINDOW

# What figures also need.
__all__ = ["TOP", "about", "mean", "read_json", "short", "write_json"]
HERE = Path(__file__).resolve().parent

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

# What an alternative text says of a curve's two ends: first() and last() return these values.
LAST = 50  # iterations that are averaged at the end
AT_THE_END = f"averaged over the last {LAST} iterations (accuracy: at the last evaluation)"
FROM_TO = f"averaged over the first {WINDOW} iterations, then over the last {LAST}"

WIDTH = 7.5  # inches; 720 pixels in the book, whose column has 736
POINTS = 10  # of every letter, at that width
DPI = 200  # of the PNG


def settings(name="lab15"):
    """Return matplotlib's settings for all figures; bytes depend on nothing but the results.

    Letters are drawn as paths, so that no reader needs the font. The ids in an SVG differ from
    figure to figure with the name, so that two of them can stand in one page.
    """
    return {"font.size": POINTS, "axes.titlesize": POINTS, "axes.labelsize": POINTS,
            "xtick.labelsize": POINTS, "ytick.labelsize": POINTS, "legend.fontsize": POINTS,
            "axes.grid": True, "grid.alpha": 0.3, "axes.linewidth": 0.8, "lines.linewidth": 1.5,
            "lines.markersize": 4.5, "legend.frameon": False, "legend.handlelength": 2.6,
            "svg.fonttype": "path", "svg.hashsalt": name}


def new_figure(rows=1, columns=1, height=3.2, **options):
    """Return (figure, axes) as wide as the book's column."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context(settings()):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
        return figure, figure.subplots(rows, columns, **options)


def saved(draw, name):
    """Return a figure as {"svg": bytes, "png": bytes}, the same ones every time.

    Args:
        draw: a function that returns the figure.
        name: the figure's; no two in a page may have the same.
    """
    import io

    from matplotlib import rc_context

    found = {}
    with rc_context(settings(name)):
        figure = draw()
        for kind, metadata in (("svg", {"Date": None, "Creator": None}),
                               ("png", {"Software": None})):
            file = io.BytesIO()
            figure.savefig(file, format=kind, dpi=DPI, metadata=metadata)
            found[kind] = file.getvalue()
    return found


def points(history, key):
    """Return (x, y) of a curve: evaluations as they are, else means over WINDOW iterations."""
    values = history[key]
    if len(values) == len(history["eval_iter"]) and key.startswith("acc"):
        return history["eval_iter"], values
    return averaged(values, WINDOW)


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
    draw_seeds(axes, x, seeds, style or own, color=color, label=label or name,
               markevery=max(1, len(x) // 10), **options)


def draw_seeds(axes, x, seeds, *style, alpha=0.2, **look):
    """Draw the mean of the seeds as a line and their range as a band.

    Args:
        axes: where to.
        x: of the points.
        seeds: for every x, the values of the seeds.
        style: of the line, as in plot().
        alpha: of the band.
        look: of the line, with its color, which is the band's.
    """
    axes.fill_between(x, [min(c) for c in seeds], [max(c) for c in seeds],
                      color=look["color"], alpha=alpha, lw=0)
    look["color"] = visible(look["color"])
    axes.plot(x, [mean(c) for c in seeds], *style, **look)


def dotted(axes, runs, key):
    """Draw the mean of some runs thin and dotted, for others to be compared with."""
    x, seeds = columns(runs, key)
    axes.plot(x, [mean(c) for c in seeds], "k:", lw=0.9)


def visible(color):
    """Return a colour, made darker where a line in it would be too pale on white."""
    return color if contrast(color) >= 3 else against_white(color, 3.2)


def last(runs, key, n=LAST):
    """Return every seed's value at the end: the last evaluation, or the mean of n iterations."""
    if key.startswith("acc"):
        return [run["history"][key][-1] for run in runs]
    return [mean(run["history"][key][-n:]) for run in runs]


def first(runs, key):
    """Return every seed's value where its curve begins: see points()."""
    return [points(run["history"], key)[1][0] for run in runs]


def ends(name, values):
    """Return mean, smallest and largest of the seeds' values under the name, for a summary."""
    return {name: mean(values), f"{name}_min": min(values), f"{name}_max": max(values)}


def spread(values, digits=2):
    """Return "0.93 (0.92 to 0.95)": mean and range."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return f"{mean(values):.{digits}f}" + (f" ({low} to {high})" if low != high else "")


def sources(*names):
    """Return where the runs of these experiments come from, for a figure's JSON."""
    keys = ("commit", "machine", "torch", "threads", "quiet", "seeds", "changes", "edit")
    stored = {name: read_json(RUNS / f"{name}.json") for name in names}
    return {name: {k: s[k] for k in keys if k in s} | {"seconds": [r["seconds"] for r in s["runs"]]}
            for name, s in stored.items()}


LINES = ("-", "--", "-.", (0, (1, 1.2)))
MARKS = ("o", "s", "^", "D")
CONTRASTS = (3.2, 5.5, 9.5, 16)  # to white, of up to four lines in one colour


def shade(color, t):
    """Return a colour mixed with white (t from 0 down to -1) or with black (up to 1)."""
    from matplotlib.colors import to_rgb

    target = 0 if t > 0 else 1
    return [c + (target - c) * abs(t) for c in to_rgb(color)]


def contrast(color, other="white"):
    """Return the contrast of two colours as WCAG defines it, 1 to 21."""
    from matplotlib.colors import to_rgb

    def light(name):
        parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(name)]
        return sum(w * p for w, p in zip((0.2126, 0.7152, 0.0722), parts))

    low, high = sorted((light(color), light(other)))
    return (high + 0.05) / (low + 0.05)


def against_white(color, wanted):
    """Return the colour, lighter or darker, whose contrast to white is about as wanted."""
    steps = [i / 100 for i in range(-100, 101)]
    return shade(color, min(steps, key=lambda t: abs(contrast(shade(color, t)) - wanted)))


def ramp(color, n):
    """Return n shades of a colour, light to dark, all to be seen on white and told apart."""
    chosen = {1: CONTRASTS[1:2], 2: (3.5, 11), 3: (3.2, 6, 14), 4: CONTRASTS}[n]
    return [against_white(color, wanted) for wanted in chosen]


def looks(color, n):
    """Return n dicts for plot(): shade, line and mark."""
    return [{"color": c, "ls": line, "marker": mark}
            for c, line, mark in zip(ramp(color, n), LINES, MARKS)]


def compare(axes, runs_of, key):
    """Draw one quantity of up to four experiments: one colour, light to dark, four marks.

    The marks of the curves stand at different places, so that of two curves which lie on top of
    each other both can be seen.

    runs_of: dict from label to runs.
    """
    chosen = looks(QUANTITIES[key][1], len(runs_of))
    for i, ((label, runs), look) in enumerate(zip(runs_of.items(), chosen)):
        x, seeds = columns(runs, key)
        every = max(len(runs_of) + 1, len(x) // 5)
        start = i * every // len(runs_of)
        draw_seeds(axes, x, seeds, alpha=0.12, label=label, markevery=(start, every), **look)


def one_legend(figure, labels, columns=None, **more):
    """Put one legend below all panels of compare(): line and mark in grey, valid for each.

    Args:
        figure: whose panels have been drawn with the same labels in the same order.
        labels: of the curves.
        columns: of the legend; as many as there are labels if None.
        more: handles by their label, for what else is drawn.
    """
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], **look) for look in looks("#777777", len(labels))]
    names = [*labels, *more]
    figure.legend([*handles, *more.values()], names, loc="outside lower center",
                  ncols=columns or len(names))
