"""The loss is no progress signal: loss and accuracy of one run, seed 0."""

from statistics import correlation

from notebooks.experiments import load
from notebooks.figures.style import FROM_TO, band, first, last, mean, new_figure, points, sources


def collect(_):
    """Return the figure's results."""
    runs = load("default")
    h = runs[0]["history"]
    summary = {
        "acc_start": h["acc_sampled"][0], "acc_end": h["acc_sampled"][-1],
        "loss_start": mean(first(runs[:1], "loss")), "loss_end": mean(last(runs[:1], "loss")),
        "loss_min": min(h["loss"]), "loss_max": max(h["loss"]),
        "first_step_start": h["loss_first"][0], "first_step_end": mean(last(runs, "loss_first")),
        "kl_price_end": 0.04 * mean(last(runs, "kl")),
        "correlation_loss_reward": mean(
            [correlation(r["history"]["loss"], r["history"]["reward"]) for r in runs]),
    }
    return {"summary": summary, "sources": sources("default")}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"One run, seed 0. Above: sampled accuracy rises from {s['acc_start']:.2f} to "
        f"{s['acc_end']:.2f}. Below: the loss of every iteration stays between "
        f"{s['loss_min']:.3f} and {s['loss_max']:.3f}; {FROM_TO}, it is "
        f"{s['loss_start']:.3f} and {s['loss_end']:.3f}: it does not fall."
    )


def draw(results):
    """Return the figure."""
    run = load("default")[0]
    h = run["history"]
    figure, (top, below) = new_figure(2, 1, 4.6, sharex=True)
    band(top, [run], "acc_sampled")
    top.set(ylabel="sampled accuracy", ylim=(0.4, 1))
    below.axhline(0, color="black", lw=0.6)
    its = range(1, len(h["loss"]) + 1)
    below.plot(its, h["loss"], color="0.55", lw=0.8, label="last inner step")
    below.plot(*points(h, "loss"), "k-", lw=2, label="its mean over 10")
    below.plot(*points(h, "loss_first"), "k:", lw=2, label="first inner step, mean over 10")
    below.set(ylabel="loss", xlabel="iteration", ylim=(-0.05, 0.1))
    figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
