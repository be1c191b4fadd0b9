"""Seven panels of five runs with the default settings: what a healthy run looks like."""

from notebooks.experiments import load
from notebooks.figures.style import FROM_TO, band, ends, first, last, mean, new_figure, sources

PANELS = ("reward", "loss", "entropy", "kl", "clip_frac", "frac_zero_signal")
TITLES = {"reward": "mean reward", "loss": "loss (last inner step)",
          "entropy": "entropy, nats per token", "kl": "KL to the SFT model",
          "clip_frac": "share clipped", "frac_zero_signal": "zero-signal groups"}


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    runs = load("default")
    summary = {}
    for name, key in (("acc", "acc_sampled"), ("greedy", "acc_greedy"), ("reward", "reward"),
                      ("ent", "entropy"), ("kl", "kl"), ("clip", "clip_frac"),
                      ("zero", "frac_zero_signal")):
        summary[f"{name}_start"] = mean(first(runs, key))
        summary |= ends(f"{name}_end", last(runs, key))
    summary |= {
        "loss_first_mean": mean(first(runs, "loss")), "loss_last_mean": mean(last(runs, "loss")),
        "seconds": mean([run["seconds"] for run in runs]),
    }
    return {"summary": summary, "sources": sources("default")}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"Seven panels over 300 iterations, mean and range of 5 seeds: sampled accuracy rises from "
        f"{s['acc_start']:.2f} to {s['acc_end']:.2f}, greedy accuracy is {s['greedy_start']:.2f} "
        f"before and after, with a small dip early on. The others are "
        f"{FROM_TO}: reward rises from {s['reward_start']:.2f} to {s['reward_end']:.2f}, the loss "
        f"goes from {s['loss_first_mean']:.3f} to {s['loss_last_mean']:.3f}, entropy falls "
        f"from {s['ent_start']:.2f} to {s['ent_end']:.2f} nats, KL grows from {s['kl_start']:.2f} "
        f"to {s['kl_end']:.2f}, the share of clipped tokens stays small "
        f"({s['clip_start']:.1%}, {s['clip_end']:.1%}), and zero-signal groups grow from "
        f"{s['zero_start']:.0%} to {s['zero_end']:.0%}."
    )


def draw(results):
    """Return the figure."""
    runs = load("default")
    figure, grid = new_figure(4, 2, 7.6, sharex=True)
    panels = grid.flat
    top = next(panels)
    band(top, runs, "acc_greedy", "greedy")
    band(top, runs, "acc_sampled", "sampled")
    top.set(title="accuracy, held-out sums", ylim=(0, 1.02))
    top.legend(loc="lower right")
    for axes, key in zip(panels, PANELS):
        band(axes, runs, key)
        axes.set_title(TITLES[key])
        if key != "loss":
            axes.set_ylim(0, 1.02 if key in ("reward", "frac_zero_signal") else None)
    for axes in (grid[-1, 0], grid[-2, 1]):
        axes.set(xticks=range(0, 301, 100), xlabel="iteration")
        axes.tick_params(labelbottom=True)
    spare = grid.flat[-1]
    spare.axis("off")
    spare.text(0, 0.5, f"line: mean of {len(runs)} seeds\nband: their range\n\n"
               "all but accuracy: means\nover 10 iterations", va="center",
               transform=spare.transAxes)
    return figure
