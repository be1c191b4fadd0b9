"""Inner steps: the same runs over iterations (samples drawn) and over gradient steps."""

from notebooks.experiments import load
from notebooks.figures.style import (
    SAMPLED,
    columns,
    draw_seeds,
    ends,
    last,
    looks,
    mean,
    new_figure,
    sources,
)

NAMES = {"inner1": 1, "default": 2, "inner8": 8}
EARLY = 50  # the iteration at which the curves are compared
SHOWN = 600  # gradient steps on the right; the run with 8 per batch has four times as many


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for name, steps in NAMES.items():
        runs = load(name)
        at = runs[0]["history"]["eval_iter"].index(EARLY)
        early = [run["history"]["acc_sampled"][at] for run in runs]
        summary |= ends(f"acc_{steps}", last(runs, "acc_sampled"))
        summary[f"acc_at_{EARLY}_{steps}"] = mean(early)
    return {"summary": summary, "sources": sources(*NAMES)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"{steps} per batch: {s[f'acc_at_{EARLY}_{steps}']:.2f} after {EARLY} iterations, "
             f"{s[f'acc_{steps}']:.2f} at the end" for steps in NAMES.values()]
    return ("Sampled accuracy for 1, 2 and 8 gradient steps on each batch, left over iterations, "
            f"right over the first {SHOWN} gradient steps, mean and range of 5 seeds. "
            + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    figure, panels = new_figure(1, 2, 3.4, sharey=True)
    for (name, steps), look in zip(NAMES.items(), looks(SAMPLED, len(NAMES))):
        x, seeds = columns(load(name), "acc_sampled")
        for axes, factor in zip(panels, (1, steps)):
            at = [factor * i for i in x]
            draw_seeds(axes, at, seeds, alpha=0.15, markevery=3, label=f"{steps} per batch", **look)
    panels[0].set(title="over iterations", xlabel="iteration", ylabel="sampled accuracy",
                  ylim=(0.4, 1))
    panels[1].set(title=f"over gradient steps, the first {SHOWN}", xlabel="gradient step",
                  xlim=(0, SHOWN))
    most, iters = max(NAMES.values()), len(load("default")[0]["history"]["loss"])
    panels[1].annotate(f"{most} per batch\ncontinues to {most * iters:,}", (SHOWN, 0.72), (-6, 0),
                       textcoords="offset points", ha="right", va="center")
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3)
    return figure
