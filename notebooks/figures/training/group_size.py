"""Group sizes 2, 4, 8 and 16 at the same number of responses per iteration."""

from notebooks.experiments import load
from notebooks.figures.style import (
    FROM_TO,
    compare,
    ends,
    first,
    last,
    mean,
    new_figure,
    one_legend,
    sources,
)

NAMES = {"g2": 2, "g4": 4, "default": 8, "g16": 16}


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for name, G in NAMES.items():
        summary |= ends(f"acc_{G}", last(load(name), "acc_sampled"))
        summary |= {f"zero_{G}": mean(last(load(name), "frac_zero_signal")),
                    f"zero_start_{G}": mean(first(load(name), "frac_zero_signal"))}
    return {"summary": summary, "sources": sources(*NAMES)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"G = {G}: accuracy {s[f'acc_{G}']:.2f}, zero-signal groups from "
             f"{s[f'zero_start_{G}']:.0%} to {s[f'zero_{G}']:.0%}" for G in NAMES.values()]
    return ("Sampled accuracy and share of zero-signal groups for four group sizes, 128 responses "
            f"per iteration each, mean and range of 5 seeds. Accuracy at the last "
            f"evaluation, the share {FROM_TO}: " + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    figure, panels = new_figure(1, 2, 3.6)
    runs = {f"G = {G} ({128 // G} prompts)": load(name) for name, G in NAMES.items()}
    for axes, key, title in zip(panels, ("acc_sampled", "frac_zero_signal"),
                                ("sampled accuracy", "share of zero-signal groups")):
        compare(axes, runs, key)
        axes.set(title=title, xlabel="iteration", ylim=(0.4 if key == "acc_sampled" else 0, 1))
    one_legend(figure, list(runs), columns=2)
    return figure
