"""What goes wrong: one setting or one line changed at a time, against the default."""

from matplotlib.ticker import NullLocator

from notebooks.experiments import TABLE, load
from notebooks.figures.style import (
    AT_THE_END,
    QUANTITIES,
    band,
    dotted,
    ends,
    last,
    new_figure,
    sources,
)

# Word in the summary's keys -> name of the experiment, in the order of the chapter's table.
RUNS = {"lr": "lr_high", "noclip": "no_clip_8", "t07": "t07", "hack": "hacked",
        "kl_sign": "kl_sign", "ratio_ref": "ratio_ref", "beta0": "beta0", "g2": "g2_few",
        "sample_std": "sample_std", "no_std": "no_std"}
PAID = ("t07", "hacked")  # runs whose reward and accuracy part ways
LINEAR = 0.01  # up to here the scale of the KL is linear
KEYS = {"acc": "acc_sampled", "greedy": "acc_greedy", "kl": "kl", "ent": "entropy",
        "reward": "reward", "zero": "frac_zero_signal", "clip": "clip_frac",
        "ratio": "ratio_max", "length": "length"}
PANELS = ("acc_sampled", "kl", "entropy", "frac_zero_signal")
TITLES = ("accuracy", "KL*", "entropy", "zero-signal")


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for word, name in {"base": "default", **RUNS}.items():
        for tag, key in KEYS.items():
            summary |= ends(f"{word}_{tag}", last(load(name), key))
    config = TABLE["lr_high"].changes
    return {"summary": summary | {"lr_value": config["lr"]},
            "sources": sources("default", *RUNS.values())}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"{label(name)}: accuracy {s[f'{w}_acc']:.2f}, KL {s[f'{w}_kl']:.2g}, "
             f"entropy {s[f'{w}_ent']:.2f}, zero-signal {s[f'{w}_zero']:.0%}"
             for w, name in {"base": "default", **RUNS}.items()]
    return ("Accuracy, KL, entropy and zero-signal share of the default and of "
            f"{len(RUNS)} changed runs, mean and range of 5 seeds; {AT_THE_END}: "
            + "; ".join(parts) + ".")


def row(panels, runs, base):
    """Draw one run's row of panels over the default's dotted line."""
    for axes, key in zip(panels, PANELS):
        dotted(axes, base, key)
        if key == "acc_sampled":
            band(axes, runs, "acc_greedy")
            axes.set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))
        if key == "kl":
            axes.set_yscale("symlog", linthresh=LINEAR)
            axes.set(ylim=(-1.5, 30), yticks=(-0.1, 0, 0.1, 10),
                     yticklabels=("-0.1", "0", "0.1", "10"))
            axes.yaxis.set_minor_locator(NullLocator())
        if key == "frac_zero_signal":
            axes.set(ylim=(-0.03, 1.03), yticks=(0, 0.5, 1))
        if key == "entropy":
            axes.set(ylim=(0, 2.6), yticks=(0, 1, 2))
        band(axes, runs, key)
        axes.set(xlim=(0, 300), xticks=(0, 200))


def draw(results):
    """Return the figure."""
    base = load("default")
    figure, grid = new_figure(len(RUNS), 5, 1.02 * len(RUNS) + 1, sharex=True, sharey="col",
                              width_ratios=[1.2, 1, 1, 1, 1])
    for line, name in zip(grid, RUNS.values()):
        line[0].axis("off")
        line[0].text(0, 0.5, wrapped(label(name)), va="center", weight="bold",
                     transform=line[0].transAxes)
        row(line[1:], load(name), base)
        if name in PAID:
            band(line[1], load(name), "reward", style="^-", color="black")
            paid = line[1].lines[-1]
    for axes, title in zip(grid[0][1:], TITLES):
        axes.set_title(title)
    for axes in grid[-1][1:]:
        axes.set_xlabel("iteration")
    handles, _ = grid[0][1].get_legend_handles_labels()
    names = ["default settings", *(QUANTITIES[k][0] for k in ("acc_greedy", "acc_sampled")),
             "the reward that is paid (rows 3, 4)"]
    figure.legend([grid[0][1].lines[0], *handles, paid], names, loc="outside lower center",
                  ncols=2, title=f"* log scale, linear between -{LINEAR:g} and {LINEAR:g}")
    return figure


def label(name):
    """Return what stands beside a row."""
    return {"g2_few": "G = 2, 16 prompts"}.get(name, TABLE[name].label)


def wrapped(text, width=15):
    """Return a label in lines of at most so many characters."""
    import textwrap

    return "\n".join(textwrap.wrap(text, width))
