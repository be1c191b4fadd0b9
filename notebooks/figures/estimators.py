"""k1, k2 and k3: exact on an alphabet of three symbols, and on the tokens of a trained policy."""

from notebooks.experiments import TOP
from notebooks.figures.style import KL, new_figure, shade

PI, REF = (1 / 2, 1 / 3, 1 / 6), (1 / 4, 1 / 4, 1 / 2)  # those of section 8 of the chapter
NAMES = ("k1", "k2", "k3")
ROWS, BATCH = 50, 128  # batches of a real policy, and responses in each
SHARES = (0, 0.01, 0.25, 0.5, 0.75, 0.99, 1)  # of the tokens that lie below a quantile
LINEAR = 0.01  # up to here the scale of the quantiles is linear


def estimates(lab, logp, ref_logp):
    """Return dict name -> tensor; k3 is the solution's own."""
    d = ref_logp - logp
    return {"k1": -d, "k2": d**2 / 2, "k3": lab.k3_kl(logp, ref_logp)}


def three_symbols(lab):
    """Return exact values, standard deviations and gradients by the three logits."""
    import torch

    ref = torch.tensor(REF, dtype=torch.float64)
    logits = torch.tensor(PI, dtype=torch.float64).log().requires_grad_()
    pi = logits.softmax(0)
    exact = (pi * (pi / ref).log()).sum()
    data = {"pi": PI, "ref": REF, "kl": exact.item(),
            "reverse_kl": (ref * (ref / pi).log()).sum().item(),
            "grad_kl": torch.autograd.grad(exact, logits, retain_graph=True)[0].tolist()}
    for name, k in estimates(lab, pi.log(), ref.log()).items():
        average = (pi.detach() * k).sum()  # the samples are given: no gradient through pi
        data[name] = {"values": k.tolist(), "mean": average.item(),
                      "std": (pi * (k - average) ** 2).sum().sqrt().item(),
                      "grad": torch.autograd.grad(average, logits, retain_graph=True)[0].tolist()}
    return data


def real_policy(lab):
    """Train with seed 0; return the estimates on its tokens beside the exact KL per token."""
    import torch
    from torch.nn.functional import log_softmax

    import tinylm

    path = TOP / "tinylm_sft.pt"
    policy, _ = lab.train_grpo(lab.GRPOConfig(), path, verbose=False)
    ref = tinylm.load_or_train_sft(path)
    found = {name: [] for name in ("exact", *NAMES)}
    prompts, _ = tinylm._as_text(tinylm.EVAL_PAIRS)
    generator = torch.Generator().manual_seed(0)
    for i in range(ROWS):
        rows = [prompts[(i * BATCH + j) % len(prompts)] for j in range(BATCH)]
        out = tinylm.sample(policy, rows, generator=generator)
        ids, start, real = out["ids"], out["prompt_len"] - 1, out["mask"] > 0
        with torch.no_grad():
            full, other = (log_softmax(m(ids[:, :-1])[:, start:], -1) for m in (policy, ref))
            found["exact"] += ((full.exp() * (full - other)).sum(-1)[real]).tolist()
            pair = [tinylm.sequence_logprobs(m, out) for m in (policy, ref)]
            for name, k in estimates(lab, *pair).items():
                found[name] += k[real].tolist()
    values = {name: torch.tensor(v, dtype=torch.float64) for name, v in found.items()}
    at = torch.tensor(SHARES, dtype=torch.float64)
    shares = {f"{k}_quantiles": values[k].quantile(at).tolist() for k in NAMES}
    below = {f"{k}_negative": (v < -1e-6).double().mean().item() for k, v in values.items()}
    return {"n_tokens": len(found["k1"]), **below, **shares,
            **{f"{k}_mean": v.mean().item() for k, v in values.items()},
            **{f"{k}_std": v.std(unbiased=False).item() for k, v in values.items()}}


def measure():
    """Return both parts."""
    from notebooks.experiments import edited_lab

    lab = edited_lab()
    return {"three_symbols": three_symbols(lab), "real": real_policy(lab), "seed": 0}


def collect(data):
    """Return the figure's results: the numbers quoted in prose."""
    abc, real = data["three_symbols"], data["real"]
    left_out = ("exact_mean", "exact_negative", *(f"{name}_quantiles" for name in NAMES))
    summary = {k: v for k, v in real.items() if k not in left_out}
    words = {"min": 0, "low": 1, "median": 3, "high": 5, "max": -1}
    summary |= {f"{name}_{word}": real[f"{name}_quantiles"][i]
                for name in NAMES for word, i in words.items()}
    summary |= {"exact": real["exact_mean"], "abc_kl": abc["kl"], "abc_reverse_kl":
                abc["reverse_kl"]}
    for name in NAMES:
        summary |= {f"abc_{name}_mean": abc[name]["mean"], f"abc_{name}_std": abc[name]["std"],
                    f"abc_{name}_bias": abc[name]["mean"] - abc["kl"]}
    for name, grad in (("kl", abc["grad_kl"]), *((n, abc[n]["grad"]) for n in NAMES)):
        summary |= {f"abc_{name}_grad_{i}": g for i, g in enumerate(grad, 1)}
    return {"summary": summary}


def alt(results):
    """Return the alternative text."""
    s, abc = results["summary"], results["data"]["three_symbols"]
    small = [f"{n} is " + ", ".join(f"{v:.2f}" for v in abc[n]["values"])
             + f" at a, b, c, mean {s[f'abc_{n}_mean']:.4f}" for n in NAMES]
    large = [f"{n} from {s[f'{n}_min']:.2f} to {s[f'{n}_max']:.2f}, median "
             f"{s[f'{n}_median']:.2f}, mean {s[f'{n}_mean']:.3f}" for n in NAMES]
    slopes = [f"{n} " + ", ".join(f"{s[f'abc_{n}_grad_{i}']:.3f}" for i in (1, 2, 3))
              for n in ("kl", *NAMES)]
    return (f"Above left, three symbols: exact KL {s['abc_kl']:.4f}; " + "; ".join(small)
            + ". Above right, gradients by the three logits: " + "; ".join(slopes)
            + f". Below, {s['n_tokens']} tokens of a trained policy: exact KL per token "
            f"{s['exact']:.3f}; " + "; ".join(large)
            + f"; k1 is negative at {s['k1_negative']:.1%} of the tokens, k2 and k3 at none.")


def atoms(axes, abc):
    """Draw what each estimator says at each of the three symbols, the area its probability."""
    axes.axhline(abc["kl"], color="black", ls="--", lw=1.2, label="exact KL")
    axes.axhline(0, color="black", lw=0.8)
    for i, name in enumerate(NAMES):
        for symbol, value, p in zip("abc", abc[name]["values"], abc["pi"]):
            axes.plot(i, value, "o", ms=28 * p**0.5, color=shade(KL, -0.3), mec="black", mew=0.8)
            axes.annotate(symbol, (i, value), ha="center", va="center")
        axes.plot([i + 0.12, i + 0.42], [abc[name]["mean"]] * 2, "k-", lw=3,
                  label="mean" if not i else None)
    axes.set(xticks=range(3), xticklabels=NAMES, xlim=(-0.5, 2.6), ylim=(-1.35, 1.35),
             title="three symbols: value at each,\narea: its probability")
    axes.legend(loc="lower right")


def gradients(axes, abc):
    """Draw the average gradients by the three logits."""
    bars = (("exact KL", abc["grad_kl"], "0.35", ""), *(
        (n, abc[n]["grad"], color, hatch)
        for n, color, hatch in zip(NAMES, ("white", shade(KL, -0.4), shade(KL, 0.5)),
                                   ("", "//", "..")) ))
    for j, (label, grad, color, hatch) in enumerate(bars):
        at = [i + 0.2 * j - 0.3 for i in range(3)]
        axes.bar(at, grad, 0.2, color=color, hatch=hatch, edgecolor="black", lw=0.8,
                 label=label if label != "k1" else None)
        if label == "k1":  # all 0: a bar without height cannot be seen
            axes.plot(at, grad, "D", color="white", mec="black", ms=6, label="k1: 0 everywhere")
    axes.axhline(0, color="black", lw=0.8)
    axes.set(xticks=range(3), xticklabels=["logit of a", "logit of b", "logit of c"],
             title="three symbols: average gradient")
    axes.legend(loc="lower left")


def quantiles(axes, real):
    """Draw where the tokens of a trained policy lie: all, 98% of them, half of them, the mean."""
    axes.axvline(real["exact_mean"], color="black", ls="--", lw=1.2,
                 label=f"exact KL {real['exact_mean']:.3f}")
    axes.axvline(0, color="black", lw=0.8)
    for i, name in enumerate(NAMES):
        least, low, quarter, middle, most, high, top = real[f"{name}_quantiles"]
        axes.plot([least, top], [i, i], "|-", color="black", lw=0.8, ms=12,
                  label="all tokens" if not i else None)
        axes.barh(i, high - low, 0.3, left=low, color=shade(KL, -0.5), edgecolor="black", lw=0.8,
                  label="98% of them" if not i else None)
        axes.barh(i, most - quarter, 0.5, left=quarter, color=KL, edgecolor="black", lw=0.8,
                  hatch="//", label="half of them" if not i else None)
        axes.plot(real[f"{name}_mean"], i, "D", color="white", mec="black", ms=8,
                  label="mean" if not i else None)
        axes.annotate(f"{real[f'{name}_mean']:.3f}", (real[f"{name}_mean"], i), (0, 16),
                      textcoords="offset points", ha="center",
                      bbox={"fc": "white", "ec": "none", "pad": 1})
    axes.set_xscale("symlog", linthresh=LINEAR)
    ticks = (-10, -1, -0.1, 0, 0.1, 1, 10, 100)
    axes.set(yticks=range(3), yticklabels=NAMES, ylim=(2.6, -0.7), xticks=ticks,
             xticklabels=[f"{t:g}" for t in ticks],
             xlabel=f"value at one token (log scale, linear up to {LINEAR:g} either side of 0)",
             title=f"{real['n_tokens']:,} tokens of a trained policy")


def draw(results):
    """Return the figure."""
    abc, real = results["data"]["three_symbols"], results["data"]["real"]
    figure, grid = new_figure(2, 2, 6.8)
    wide = grid[1, 0].get_gridspec()
    for axes in grid[1]:
        axes.remove()
    below = figure.add_subplot(wide[1, :])
    atoms(grid[0, 0], abc)
    gradients(grid[0, 1], abc)
    quantiles(below, real)
    figure.legend(*below.get_legend_handles_labels(), loc="outside lower center", ncols=5)
    return figure
