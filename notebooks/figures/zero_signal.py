"""Groups without signal: p^G + (1-p)^G against what is measured."""

from notebooks.experiments import SEEDS, SIZES, TOP, load
from notebooks.figures.style import (
    FROM_TO,
    SILENT,
    band,
    ends,
    first,
    last,
    mean,
    new_figure,
    shade,
    sources,
)

GROUPS = SIZES[1:]  # 2, 4, 8, 16
SAMPLES = 32  # per held-out prompt and seed, cut into groups of G


def measure():
    """Sample the SFT model on the held-out prompts; return the share of silent groups per G."""
    import torch
    from tqdm import tqdm

    import tinylm

    sft = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt")
    prompts, answers = tinylm._as_text(tinylm.EVAL_PAIRS)
    shares = {G: [] for G in GROUPS}
    for seed in tqdm(SEEDS, "zero_signal", ascii=True, leave=False):
        generator = torch.Generator().manual_seed(seed)
        right = []  # SAMPLES lists of 500
        for _ in range(SAMPLES):
            responses = tinylm.decode_responses(tinylm.sample(sft, prompts, generator=generator))
            right.append([tinylm.reward(r, a) for r, a in zip(responses, answers)])
        for G in GROUPS:
            sums = (torch.tensor(right).view(SAMPLES // G, G, -1)).sum(1)
            shares[G].append(((sums == 0) | (sums == G)).float().mean().item())
    return {"measured": {str(G): [round(x, 5) for x in v] for G, v in shares.items()},
            "seeds": list(SEEDS), "prompts": len(prompts), "samples_per_prompt": SAMPLES}


def collect(data):
    """Return the figure's results: the numbers quoted in prose."""
    runs = load("default")
    start = runs[0]["history"]
    p = start["pass_at"][0][0]  # pass@1 is the mean of p
    summary = {"p": p, "start_8": mean(first(runs, "frac_zero_signal")),
               "end_8": mean(last(runs, "frac_zero_signal"))}
    for G in GROUPS:
        found = data["measured"][str(G)]
        summary |= ends(f"measured_{G}", found)
        summary |= {f"naive_{G}": p**G + (1 - p) ** G,
                    f"formula_{G}": start["zero_expected"][0][SIZES.index(G)]}
    final = [run["history"] for run in runs]
    summary["formula_8_end"] = mean([h["zero_expected"][-1][SIZES.index(8)] for h in final])
    summary["naive_8_end"] = naive(final, -1)
    return {"summary": summary, "sources": sources("default")}


def naive(histories, probe):
    """Return the formula with each run's mean p, G = 8, at a probe: mean of the runs."""
    means = [h["pass_at"][probe][0] for h in histories]
    return mean([p**8 + (1 - p) ** 8 for p in means])


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"G = {G}: measured {s[f'measured_{G}']:.3f}, formula with every prompt's own p "
             f"{s[f'formula_{G}']:.3f}, with the mean p {s[f'naive_{G}']:.3f}" for G in GROUPS]
    return (
        "Left, share of groups without signal at the SFT start, held-out prompts, mean and range "
        "of 5 seeds. " + "; ".join(parts) + f". Right, training with G = 8 (5 seeds): the "
        f"share, {FROM_TO}, grows from {s['start_8']:.2f} to {s['end_8']:.2f}; the formula with "
        f"every prompt's own p ends at {s['formula_8_end']:.2f}, with the mean p at "
        f"{s['naive_8_end']:.2f}."
    )


def draw(results):
    """Return the figure."""
    s = results["summary"]
    figure, (left, right) = new_figure(1, 2, 3.8)
    at = range(len(GROUPS))
    found = [s[f"measured_{G}"] for G in GROUPS]
    error = [[f - s[f"measured_{G}_min"] for f, G in zip(found, GROUPS)],
             [s[f"measured_{G}_max"] - f for f, G in zip(found, GROUPS)]]
    left.bar(at, found, 0.6, yerr=error, color=SILENT, edgecolor="black", lw=0.8, capsize=3)
    left.plot(at, [s[f"formula_{G}"] for G in GROUPS], "kx", ms=8, mew=2)
    left.plot(at, [s[f"naive_{G}"] for G in GROUPS], "wo", mec="black", ms=6)
    left.set(xticks=at, xticklabels=GROUPS, xlabel="group size G", ylim=(0, 0.6),
             ylabel="share of zero-signal groups", title="SFT model, held-out sums")
    runs = load("default")
    band(right, runs, "frac_zero_signal", "measured", color=shade(SILENT, 0.15))
    x = runs[0]["history"]["probe_iter"]
    probes = [run["history"] for run in runs]
    own = [mean([h["zero_expected"][i][SIZES.index(8)] for h in probes]) for i in range(len(x))]
    crosses = right.plot(x, own, "kx", ms=8, mew=2)
    alike = [naive(probes, i) for i in range(len(x))]
    dots = right.plot(x, alike, "o", mfc="white", mec="black", ms=6)
    right.set(xlabel="iteration", title="in training, G = 8", ylim=(0, 1))
    figure.legend([right.lines[0], *crosses, *dots],
                  ["measured", "formula, each prompt's own p", "formula, with the mean p"],
                  loc="outside lower center", ncols=3)
    return figure
