"""Why RL after SFT: how likely the right answer is, sum by sum, before and after GRPO."""

from notebooks.experiments import TOP, load, p_right
from notebooks.figures.style import SAMPLED, mean, new_figure, shade, sources
from notebooks.show import chances

PROMPT, ANSWER = "37+48=", 85


def measure():
    """Return exact probabilities under the SFT model: of 500 right answers, and of one sum."""
    import tinylm

    sft = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt")
    numbers = [str(n) for n in range(tinylm.LIMIT)]
    example = chances(sft, [PROMPT] * len(numbers), numbers)
    return {"p_before": [round(p, 4) for p in p_right(sft)],
            "prompt": PROMPT, "example": [round(p, 5) for p in example],
            "teacher_right": 1 - tinylm.RECIPE["wrong"] + tinylm.RECIPE["wrong"] / tinylm.LIMIT}


def collect(data):
    """Return the figure's results: the numbers quoted in prose."""
    runs, before, example = load("default"), data["p_before"], data["example"]
    second = max((p, n) for n, p in enumerate(example) if n != ANSWER)
    after = [p for run in runs for p in run["history"]["p_right"]]
    ends = {word: [run["history"][key][-1] for run in runs]
            for word, key in (("sampled", "acc_sampled"), ("greedy", "acc_greedy"))}
    summary = {
        "p_before_mean": mean(before), "p_before_min": min(before), "p_before_max": max(before),
        "p_after_mean": mean(after), "teacher_right": data["teacher_right"],
        "share_before_above_half": mean([p > 0.5 for p in before]),
        "share_after_above_half": mean([p > 0.5 for p in after]),
        "share_after_above_0_9": mean([p > 0.9 for p in after]),
        "before_sampled": runs[0]["history"]["acc_sampled"][0],
        "before_greedy": runs[0]["history"]["acc_greedy"][0],
        "after_sampled": mean(ends["sampled"]), "after_greedy": mean(ends["greedy"]),
        "example_p": example[ANSWER], "example_second": second[1], "example_second_p": second[0],
    }
    return {"summary": summary, "sources": sources("default")}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"Histogram of the exact probability of the right answer over 500 held-out sums. Before "
        f"GRPO it lies around {s['p_before_mean']:.2f} ({s['p_before_min']:.2f} to "
        f"{s['p_before_max']:.2f}); the careless teacher is right with {s['teacher_right']:.3f}. "
        f"After GRPO (5 seeds together) the mean is {s['p_after_mean']:.2f}, and "
        f"{s['share_after_above_0_9']:.0%} of the sums lie above 0.9."
    )


def draw(results):
    """Return the figure."""
    figure, axes = new_figure(1, 1, 3.8)
    runs, s = load("default"), results["summary"]
    edges = [i / 25 for i in range(26)]
    before = results["data"]["p_before"]
    after = [p for run in runs for p in run["history"]["p_right"]]
    axes.hist(before, edges, weights=[1 / len(before)] * len(before), hatch="//",
              color=shade(SAMPLED, -0.55), edgecolor="white", lw=0.4, label="before (SFT model)")
    axes.hist(after, edges, weights=[1 / len(after)] * len(after), histtype="step", lw=2,
              color=SAMPLED, label=f"after GRPO ({len(runs)} seeds)")
    for at, style, words in (
        (s["p_before_mean"], "--", f"SFT model, mean {s['p_before_mean']:.2f}:\n"
                                   "these sums were\nnever in its lessons"),
        (s["teacher_right"], ":", "the careless teacher is\n"
                                  f"right {s['teacher_right']:.1%} of the time"),
    ):
        axes.axvline(at, color="black", ls=style, lw=1.2)
        left = style == "--"
        axes.annotate(words, (at, 0.42), (-8 if left else 8, 0), textcoords="offset points",
                      va="center", ha="right" if left else "left")
    axes.set(xlabel="probability of the right answer", ylabel="share of the 500 held-out sums",
             xlim=(0, 1))
    figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return figure
