"""What a baseline does to the noise: five advantages on the same batches.

The gradient is the plain policy gradient, mean of A * log-probability of the whole response: for
it every baseline that leaves the response itself out keeps the mean gradient what it is. Measured
for the SFT model and for a trained policy.
"""

from notebooks.experiments import SEEDS, TOP
from notebooks.figures.style import POINTS, SAMPLED, ends, new_figure, shade

P, G, BATCHES = 16, 8, 60
LABELS = {"raw": "A = r", "batch": "r - batch mean", "group": "r - group mean",
          "loo": "r - mean of the others", "std": "(r - group mean) / std"}


def advantages(lab, rewards):
    """Return dict name -> (B,) advantages."""
    groups = rewards.view(-1, G)  # (P, G)
    others = (groups.sum(1, keepdim=True) - groups) / (G - 1)
    return {"raw": rewards, "batch": rewards - rewards.mean(),
            "group": lab.group_advantages(rewards, G, scale_std=False),
            "loo": (groups - others).view(-1), "std": lab.group_advantages(rewards, G)}


def one_set(lab, policy, seed, step_done):
    """Return dict name -> (variance, squared length of the mean) of the policy gradient."""
    import random

    import torch

    import tinylm

    torch.manual_seed(seed)
    rng = random.Random(seed)
    sums = {name: [0.0, 0.0] for name in LABELS}  # of the gradients, of their squared lengths
    for _ in range(BATCHES):
        prompts, answers = tinylm.make_batch(P, rng)
        groups = lab.sample_group(policy, prompts, answers, G)
        score = tinylm.sequence_logprobs(policy, groups["out"]).sum(1)  # (B,)
        for name, adv in advantages(lab, groups["rewards"]).items():
            grads = torch.autograd.grad((adv * score).mean(), policy.parameters(),
                                        retain_graph=True)
            flat = torch.cat([g.flatten() for g in grads]).double()
            sums[name][0] += flat
            sums[name][1] += flat.square().sum().item()
        step_done()
    found = {}
    for name, (total, squares) in sums.items():
        average = total / BATCHES
        variance = (squares - BATCHES * average.square().sum().item()) / (BATCHES - 1)
        # The mean of n gradients is too long by variance / n; taken out, this is unbiased.
        signal = average.square().sum().item() - variance / BATCHES
        found[name] = {"variance": variance, "signal": signal}
    return found


def measure():
    """Return variance and signal of five sets of batches, for both policies."""
    from tqdm import tqdm

    import tinylm
    from notebooks.experiments import edited_lab
    from notebooks.figures.style import short

    lab, path = edited_lab(), TOP / "tinylm_sft.pt"
    sft = tinylm.load_or_train_sft(path)
    trained, _ = lab.train_grpo(lab.GRPOConfig(), path, verbose=False)
    data = {"seeds": list(SEEDS), "batches": BATCHES, "trained_with_seed": 0}
    with tqdm(total=2 * len(SEEDS) * BATCHES, desc="baseline", ascii=True, leave=False) as bar:
        for word, policy in (("start", sft), ("end", trained)):
            sets = [one_set(lab, policy, seed, bar.update) for seed in SEEDS]
            data[word] = [{n: {k: short(x) for k, x in v.items()} for n, v in found.items()}
                          for found in sets]
    return data


def collect(data):
    """Return the figure's results: squared signal over variance, start without a prefix."""
    summary = {}
    for word, prefix in (("start", ""), ("end", "end_")):
        for name in LABELS:
            snr = [s[name]["signal"] / s[name]["variance"] for s in data[word]]
            summary |= ends(f"{prefix}snr_{name}", snr)
        for name in LABELS:  # at equal length of the mean gradient
            summary[f"{prefix}var_{name}"] = (summary[f"{prefix}snr_group"]
                                              / summary[f"{prefix}snr_{name}"])
    return {"summary": summary}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    parts = [f"{label}: {s[f'snr_{n}']:.3f} and {s[f'end_snr_{n}']:.3f}"
             for n, label in LABELS.items()]
    return ("Signal to noise of one batch's policy gradient: squared length of the mean gradient "
            f"over its variance, {BATCHES} batches of {P} x {G} responses, mean of 5 seeds, for "
            "the SFT model and after GRPO. " + "; ".join(parts) + ".")


def draw(results):
    """Return the figure."""
    s = results["summary"]
    figure, panels = new_figure(1, 2, 3.8, sharey=True, sharex=True)
    places = (0, 1, 2, 3, 4.5)  # the last one apart: its mean gradient is another
    for axes, prefix, title in zip(panels, ("", "end_"), ("SFT model", "after GRPO")):
        whole = s[f"{prefix}snr_raw"]
        for at, name in zip(places, LABELS):
            value, low, high = (s[f"{prefix}snr_{name}{end}"] / whole
                                for end in ("", "_min", "_max"))
            axes.barh(at, value, 0.65, xerr=[[value - low], [high - value]], capsize=3,
                      color="white" if name == "std" else shade(SAMPLED, -0.45),
                      edgecolor=SAMPLED, hatch="//" if name == "std" else "")
            axes.annotate(f"{whole * value:.3f}", (high, at), (6, 0), va="center",
                          textcoords="offset points",
                          bbox={"fc": "white", "ec": "none", "pad": 1.5})
        axes.axvline(1, color="black", ls=":", lw=1)
        axes.set_title(title)
        axes.margins(x=0.28)
    panels[0].set(yticks=places, yticklabels=[*list(LABELS.values())[:-1],
                                              "(r - group mean) / std,\na different mean gradient"])
    panels[0].invert_yaxis()
    figure.supxlabel("signal-to-noise ratio of one batch's gradient; raw rewards = 1\n"
                     "longer is better; beside each bar: the ratio itself", fontsize=POINTS)
    return figure
