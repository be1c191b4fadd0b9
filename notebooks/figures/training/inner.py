"""Inner steps: the same runs over iterations (samples drawn) and over gradient steps."""

from notebooks.experiments import load
from notebooks.figures.style import (
    LINES,
    MARKS,
    SAMPLED,
    columns,
    last,
    mean,
    new_figure,
    shade,
    sources,
)

NAMES = {"inner1": 1, "default": 2, "inner8": 8}
EARLY = 50  # the iteration at which the curves are compared


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for name, steps in NAMES.items():
        runs = load(name)
        ends = last(runs, "acc_sampled")
        at = runs[0]["history"]["eval_iter"].index(EARLY)
        early = [run["history"]["acc_sampled"][at] for run in runs]
        summary |= {f"acc_{steps}": mean(ends), f"acc_{steps}_min": min(ends),
                    f"acc_{steps}_max": max(ends), f"acc_at_{EARLY}_{steps}": mean(early)}
    return {"summary": summary, "sources": sources(*NAMES)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"{steps} a batch: {s[f'acc_at_{EARLY}_{steps}']:.2f} after {EARLY} iterations, "
             f"{s[f'acc_{steps}']:.2f} at the end" for steps in NAMES.values()]
    return ("Sampled accuracy for 1, 2 and 8 gradient steps on each batch, left over iterations, "
            "right over gradient steps, mean and range of 5 seeds. " + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    figure, panels = new_figure(1, 2, 2.7, sharey=True)
    styles = zip(NAMES.items(), (-0.5, 0, 0.45), LINES, MARKS)
    for (name, steps), t, line, mark in styles:
        x, seeds = columns(load(name), "acc_sampled")
        color = shade(SAMPLED, t)
        for axes, factor in zip(panels, (1, steps)):
            at = [factor * i for i in x]
            axes.fill_between(at, [min(c) for c in seeds], [max(c) for c in seeds],
                              color=color, alpha=0.2, lw=0)
            axes.plot(at, [mean(c) for c in seeds], line + mark, color=color, markevery=3,
                      label=f"inner_steps = {steps}")
    panels[0].set(title="over iterations", xlabel="iteration", ylabel="sampled accuracy",
                  ylim=(0.4, 1))
    panels[1].set(title="over gradient steps", xlabel="gradient step", xlim=(0, 610))
    panels[0].legend(loc="lower right")
    return figure
