"""k1, k2 and k3: exact on an alphabet of three symbols, and on the tokens of a trained policy."""

from notebooks.experiments import TOP
from notebooks.figures.style import KL, new_figure, shade

PI, REF = (1 / 2, 1 / 3, 1 / 6), (1 / 4, 1 / 4, 1 / 2)  # those of section 8 of the chapter
NAMES = ("k1", "k2", "k3")
ROWS, BATCH = 50, 128  # batches of a real policy, and responses in each


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
    below = {f"{k}_negative": (v < -1e-6).double().mean().item() for k, v in values.items()}
    return {"n_tokens": len(found["k1"]), **below,
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
    summary = {k: v for k, v in real.items() if k not in ("exact_mean", "exact_negative")}
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
    s = results["summary"]
    small = [f"{n} {s[f'abc_{n}_mean']:.4f}, standard deviation {s[f'abc_{n}_std']:.2f}"
             for n in NAMES]
    large = [f"{n} {s[f'{n}_mean']:.4f}, standard deviation {s[f'{n}_std']:.2f}" for n in NAMES]
    slopes = [f"{n} " + ", ".join(f"{s[f'abc_{n}_grad_{i}']:.3f}" for i in (1, 2, 3))
              for n in ("kl", *NAMES)]
    return (f"Left, three symbols, exact: KL {s['abc_kl']:.4f}; means: " + "; ".join(small)
            + ". Middle, gradients by the three logits: " + "; ".join(slopes)
            + f". Right, {s['n_tokens']} tokens of a trained policy: exact KL per token "
            f"{s['exact']:.4f}; means: " + "; ".join(large)
            + f"; k1 is negative at {s['k1_negative']:.0%} of the tokens.")


def spreads(axes, exact, means, stds):
    """Draw means with standard deviations beside the exact KL."""
    axes.axhline(exact, color="black", ls="--", lw=1, label="exact KL")
    for i, (m, s, mark) in enumerate(zip(means, stds, "os^")):
        axes.errorbar([i], [m], [[s], [s]], fmt=mark, color=shade(KL, 0.25 * i), capsize=4, ms=6)
        axes.annotate(f"{m:.3f}", (i, m), (5, 7), textcoords="offset points",
                      bbox={"fc": "white", "ec": "none", "pad": 0.5})
    axes.set(xticks=range(3), xticklabels=NAMES, xlim=(-0.5, 2.8))
    axes.legend(loc="upper center")


def draw(results):
    """Return the figure."""
    abc, real = results["data"]["three_symbols"], results["data"]["real"]
    figure, (left, middle, right) = new_figure(1, 3, 2.8)
    spreads(left, abc["kl"], *([abc[n][key] for n in NAMES] for key in ("mean", "std")))
    left.set_title("three symbols: mean and std")
    bars = (("exact KL", abc["grad_kl"], "0.3", ""), *(
        (n, abc[n]["grad"], shade(KL, t), h)
        for n, t, h in zip(NAMES, (-0.6, 0, 0.45), ("..", "//", "xx"))))
    for j, (label, grad, color, hatch) in enumerate(bars):
        middle.bar([i + 0.2 * j - 0.3 for i in range(3)], grad, 0.2, color=color, hatch=hatch,
                   edgecolor="black", lw=0.5, label=label + (" (0)" if label == "k1" else ""))
    middle.axhline(0, color="black", lw=0.6)
    middle.set(xticks=range(3), xticklabels=["logit 1", "logit 2", "logit 3"],
               title="three symbols: gradient")
    middle.legend(loc="lower left")
    spreads(right, real["exact_mean"], *([real[f"{n}_{k}"] for n in NAMES]
                                         for k in ("mean", "std")))
    right.set_title("a trained policy's tokens")
    return figure
