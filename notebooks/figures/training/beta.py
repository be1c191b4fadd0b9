"""The price of KL: four values of beta, their accuracy, KL and entropy."""

from notebooks.experiments import load
from notebooks.figures.style import AT_THE_END, compare, ends, last, new_figure, one_legend, sources

NAMES = {"beta0": ("0", "0"), "default": ("0_04", "0.04"), "beta02": ("0_2", "0.2"),
         "beta1": ("1", "1")}
KEYS = {"acc": "acc_sampled", "kl": "kl", "ent": "entropy"}


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    summary = {}
    for name, (tag, _) in NAMES.items():
        for word, key in KEYS.items():
            summary |= ends(f"{word}_{tag}", last(load(name), key))
    return {"summary": summary, "sources": sources(*NAMES)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"beta {value}: accuracy {s[f'acc_{tag}']:.2f}, KL {s[f'kl_{tag}']:.2f}, entropy "
             f"{s[f'ent_{tag}']:.2f}" for tag, value in NAMES.values()]
    return ("Sampled accuracy, KL and entropy over 300 iterations for four values of beta, mean "
            f"and range of 5 seeds; {AT_THE_END}: " + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    figure, panels = new_figure(1, 3, 3.3)
    runs = {f"beta = {value}": load(name) for name, (_, value) in NAMES.items()}
    for axes, key, title in zip(panels, KEYS.values(), (
            "sampled accuracy", "KL to the SFT model", "entropy, nats per token")):
        compare(axes, runs, key)
        axes.set(title=title, xlabel="iteration")
        axes.set_xticks(range(0, 301, 100))
    panels[0].set_ylim(0.4, 1)
    panels[1].set_yscale("log")
    panels[1].set(title="KL to the SFT model (log)", yticks=(0.03, 0.1, 0.3, 1),
                  yticklabels=("0.03", "0.1", "0.3", "1"))
    panels[1].minorticks_off()
    one_legend(figure, list(runs))
    return figure
