"""Inner steps and the clip: 1, 2 and 8 gradient steps on the same samples, and 8 without clip."""

from notebooks.experiments import load
from notebooks.figures.style import LAST, compare, ends, last, new_figure, one_legend, sources

NAMES = {"inner1": ("1", "1 step"), "default": ("2", "2 steps"), "inner8": ("8", "8 steps"),
         "no_clip_8": ("8_noclip", "8 steps, no clip")}
KEYS = {"acc": "acc_sampled", "greedy": "acc_greedy", "kl": "kl", "ent": "entropy",
        "clip_frac": "clip_frac", "ratio_max": "ratio_max"}


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for name, (tag, _) in NAMES.items():
        for word, key in KEYS.items():
            n = 300 if word in ("clip_frac", "ratio_max") else 50
            summary |= ends(f"{word}_{tag}", last(load(name), key, n))
    return {"summary": summary, "sources": sources(*NAMES)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"{label}: accuracy {s[f'acc_{tag}']:.2f}, KL {s[f'kl_{tag}']:.2f}, share clipped "
             f"{s[f'clip_frac_{tag}']:.3f}, largest ratio {s[f'ratio_max_{tag}']:.2f}"
             for tag, label in NAMES.values()]
    return ("Accuracy, KL, share of tokens clipped and largest ratio for 1, 2 and 8 inner steps "
            "and 8 without clip, mean and range of 5 seeds. Accuracy at the "
            f"last evaluation, KL averaged over the last {LAST} iterations, the others over all: "
            + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    figure, grid = new_figure(2, 2, 5.4, sharex=True)
    runs = {label: load(name) for name, (_, label) in NAMES.items()}
    for axes, key, title in zip(grid.flat, ("acc_sampled", "kl", "clip_frac", "ratio_max"), (
            "sampled accuracy", "KL to the SFT model", "share of tokens clipped",
            "largest ratio of an iteration")):
        compare(axes, runs, key)
        axes.set_title(title)
    for axes in grid[1]:
        axes.set_xlabel("iteration")
    grid[0, 0].set_ylim(0.4, 1)
    for axes, title in ((grid[0, 1], "KL to the SFT model"), (grid[1, 1], "largest ratio")):
        axes.set_yscale("log")
        axes.set_title(f"{title} (log scale)")
    grid[1, 1].set(yticks=(1, 2, 5, 10), yticklabels=("1", "2", "5", "10"))
    grid[1, 1].minorticks_off()
    grid[0, 1].set(yticks=(0.01, 0.1, 1), yticklabels=("0.01", "0.1", "1"))
    grid[0, 1].minorticks_off()
    grid[1, 0].annotate("1 step, and no clip:\nalways 0", (0.96, 0.93), ha="right", va="top",
                        xycoords="axes fraction")
    one_legend(figure, list(runs))
    return figure
