"""pass@k before and after training: one right answer among k samples."""

from notebooks.experiments import SIZES, load
from notebooks.figures.style import SAMPLED, against_white, ends, new_figure, sources


def collect(_):
    """Return the figure's results: exact pass@k at the first and at the last probe."""
    runs = load("default")
    summary = {}
    for i, k in enumerate(SIZES):
        after = [run["history"]["pass_at"][-1][i] for run in runs]
        summary[f"before_{k}"] = runs[0]["history"]["pass_at"][0][i]
        summary |= ends(f"after_{k}", after)
    return {"summary": summary, "sources": sources("default")}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"k = {k}: {s[f'before_{k}']:.2f} before, {s[f'after_{k}']:.2f} after" for k in SIZES]
    return ("pass@k on 500 held-out sums, exact from the probabilities of the right answers, "
            "before GRPO and after it (mean and range of 5 seeds). " + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    s = results["summary"]
    figure, axes = new_figure(1, 1, 3.4)
    axes.plot(SIZES, [s[f"before_{k}"] for k in SIZES], "s--", color=against_white(SAMPLED, 3.4),
              label="before (SFT)")
    axes.fill_between(SIZES, [s[f"after_{k}_min"] for k in SIZES],
                      [s[f"after_{k}_max"] for k in SIZES], color=SAMPLED, alpha=0.2, lw=0)
    axes.plot(SIZES, [s[f"after_{k}"] for k in SIZES], "o-", color=SAMPLED, label="after GRPO")
    axes.set(xscale="log", xticks=SIZES, xticklabels=SIZES, xlabel="k, samples per sum",
             ylabel="pass@k", ylim=(0.4, 1.01))
    axes.minorticks_off()
    axes.legend(loc="lower right")
    return figure
