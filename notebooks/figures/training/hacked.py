"""A reward that can be hacked: what the run is paid for, what it does, how long it speaks."""

from notebooks.experiments import load
from notebooks.figures.style import FROM_TO, band, ends, first, last, mean, new_figure, sources


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    runs, base = load("hacked"), load("default")
    summary = {}
    for word, key in (("reward", "reward"), ("true", "true_reward"), ("length", "length"),
                      ("acc", "acc_sampled"), ("greedy", "acc_greedy"), ("kl", "kl")):
        summary[f"{word}_start"] = mean(first(runs, key))
        summary |= ends(f"{word}_end", last(runs, key))
    summary |= {"base_length_end": mean(last(base, "length")),
                "base_acc_end": mean(last(base, "acc_sampled"))}
    return {"summary": summary, "sources": sources("hacked", "default")}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"A run that is paid if the response is a part of the answer, mean and range of 5 seeds. "
        f"Reward, share and length {FROM_TO}: the reward rises from {s['reward_start']:.2f} to "
        f"{s['reward_end']:.2f}, while the share of right responses goes from "
        f"{s['true_start']:.2f} to {s['true_end']:.2f} and sampled accuracy ends at "
        f"{s['acc_end']:.2f}; responses shrink from {s['length_start']:.2f} tokens to "
        f"{s['length_end']:.2f}, their end included."
    )


def draw(results):
    """Return the figure."""
    runs = load("hacked")
    figure, (left, right) = new_figure(1, 2, 3.3)
    band(left, runs, "reward", "the reward it is paid", "^-")
    band(left, runs, "true_reward", "share that is right")
    left.set(ylim=(0, 1.02), xlabel="iteration", title="samples of the run")
    left.legend()
    band(right, load("default"), "length", "default settings", ":")
    band(right, runs, "length", "paid for a part", "-")
    right.set(ylim=(0, 4), xlabel="iteration", title="tokens per response, END included")
    right.legend(loc="lower right")
    return figure
