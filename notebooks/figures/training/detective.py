"""Six runs without a label, for the exercise of notebooks/detective.py."""

from matplotlib.ticker import NullLocator

from notebooks.detective import NUMBERS, name_of
from notebooks.experiments import load
from notebooks.figures.style import (
    AT_THE_END,
    QUANTITIES,
    band,
    dotted,
    last,
    mean,
    new_figure,
    sources,
)

ROWS = ("acc_sampled", "reward", "loss", "kl", "entropy", "frac_zero_signal", "clip_frac")
NAMES = ("accuracy", "reward", "loss*", "KL*", "entropy", "zero-\nsignal", "share\nclipped")
LINEAR = {"loss": 0.01, "kl": 1e-3}  # up to here the log scales are linear
SCALES = {  # (scale, its options), limits, ticks; the others are shares, 0 to 1
    "loss": (("symlog", {"linthresh": LINEAR["loss"]}), (-3e4, 0.1), (-1e4, -1, 0)),
    "kl": (("symlog", {"linthresh": LINEAR["kl"]}), (-2e-4, 2), (0, 0.01, 1)),
    "clip_frac": (("linear", {}), (-0.001, 0.03), (0, 0.01, 0.02)),
    "entropy": (("linear", {}), (-0.05, 1.1), (0, 0.5, 1)),
}
SHARE = (("linear", {}), (-0.03, 1.05), (0, 0.5, 1))


def runs_of(number):
    """Return the runs of a number."""
    return load(name_of(number))


def collect(_):
    """Return the figure's results: where each run ends."""
    summary = {}
    for number in NUMBERS:
        runs = runs_of(number)
        for word, key in (("acc", "acc_sampled"), ("greedy", "acc_greedy"), ("reward", "reward"),
                          ("loss", "loss"), ("kl", "kl"), ("ent", "entropy"),
                          ("zero", "frac_zero_signal"), ("clip", "clip_frac")):
            summary[f"{word}_{number}"] = mean(last(runs, key))
    return {"summary": summary, "sources": sources(*map(name_of, NUMBERS))}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"run {n}: accuracy {s[f'acc_{n}']:.2f}, greedy {s[f'greedy_{n}']:.2f}, reward "
             f"{s[f'reward_{n}']:.2f}, loss {s[f'loss_{n}']:.4g}, KL {s[f'kl_{n}']:.2g}, entropy "
             f"{s[f'ent_{n}']:.2f}, zero-signal {s[f'zero_{n}']:.2f}, clip_frac "
             f"{s[f'clip_{n}']:.4f}" for n in NUMBERS]
    return ("Seven curves of six runs with one bug each, mean and range of 5 seeds, beside the run "
            f"without a bug; {AT_THE_END}: " + "; ".join(parts) + ".")


def scaled(axes, key):
    """Set an axis as the row needs it: the same for all six runs."""
    (scale, options), limits, ticks = SCALES.get(key, SHARE)
    axes.set_yscale(scale, **options)
    axes.set(ylim=limits, yticks=ticks, yticklabels=[f"{t:g}" for t in ticks])
    axes.yaxis.set_minor_locator(NullLocator())


def draw(results):
    """Return the figure."""
    base = load("default")
    figure, grid = new_figure(len(ROWS), len(NUMBERS), 9, sharex=True, sharey="row")
    for line, key, name in zip(grid, ROWS, NAMES):
        for axes, number in zip(line, NUMBERS):
            scaled(axes, key)
            dotted(axes, base, key)
            if key == "acc_sampled":
                band(axes, runs_of(number), "acc_greedy")
                axes.set_title(f"run {number}", weight="bold")
            band(axes, runs_of(number), key)
            axes.set(xlim=(0, 300), xticks=(0, 200))
        line[0].set_ylabel(name)
    figure.align_ylabels(grid[:, 0])
    for axes in grid[-1]:
        axes.set_xlabel("iteration")
    handles, _ = grid[0][0].get_legend_handles_labels()
    names = ["without a bug", *(QUANTITIES[k][0] for k in ("acc_greedy", "acc_sampled"))]
    figure.legend([grid[0][0].lines[0], *handles], names, loc="outside lower center", ncols=3,
                  title=f"* log scale, linear between -{LINEAR['loss']:g} and {LINEAR['loss']:g} "
                        f"(loss), up to {LINEAR['kl']:g} (KL)")
    return figure
