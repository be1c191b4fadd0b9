"""Three things to turn knobs at: the clipped objective, k1 k2 k3, groups without signal.

Each has a function that computes (no picture), one that draws, and a row in SCENES. board(name)
shows the sliders where widgets work, and a still picture where they do not (the book, a printout).
"""

import html
from math import exp, log, sqrt
from random import Random

from notebooks.show import BLACK, BLUE, GREEN, ORANGE, PURPLE, Shown, display, image, new_figure

# ============================================================== the clipped objective


def objective(adv, rho, eps):
    """Return (objective, its gradient with respect to logp, whether it is clipped).

    d rho / d logp is rho, so that the gradient is rho * A; where the clipped term is the
    smaller one it does not depend on logp, and the gradient is 0.
    """
    clipped = min(max(rho, 1 - eps), 1 + eps) * adv
    unclipped = rho * adv
    if clipped < unclipped:
        return clipped, 0.0, True
    return unclipped, unclipped, False


def clip_words(adv, rho, eps):
    """Return what the sliders say, in words."""
    value, slope, clipped = objective(adv, rho, eps)
    why = "the clipped term is the smaller one: no gradient" if clipped else "not clipped"
    return (f"A = {adv:+.2f}, rho = {rho:.2f}, eps = {eps:.2f}: objective {value:+.3f}, "
            f"gradient with respect to logp {slope:+.3f}; {why}. "
            f"Range of the clip: {1 - eps:.2f} to {1 + eps:.2f}")


def clip_figure(adv, rho, eps):
    """Draw objective and gradient over the ratio."""
    figure, (left, right) = new_figure(9, 3.2, ncols=2)
    xs = [i / 200 for i in range(1, 501)]
    rows = [objective(adv, x, eps) for x in xs]
    left.plot(xs, [x * adv for x in xs], color=BLACK, ls=":", label="rho * A")
    left.plot(xs, [r[0] for r in rows], color=BLUE, label="objective")
    right.plot(xs, [r[1] for r in rows], color=ORANGE, label="gradient")
    value, slope, _ = objective(adv, rho, eps)
    for axes, y, title in ((left, value, "objective"), (right, slope, "gradient w.r.t. logp")):
        axes.axvspan(1 - eps, 1 + eps, color="grey", alpha=0.15, label="1 - eps to 1 + eps")
        axes.plot(rho, y, "D", color=PURPLE, ms=9, label="your ratio")
        axes.set(title=title, xlabel="ratio rho", ylim=(-5.3, 5.3), xlim=(0, 2.5))
        axes.axhline(0, color="grey", lw=0.8)
        axes.legend(fontsize=8, loc="lower left" if adv >= 0 else "upper left")
    return figure


# ============================================================== k1, k2, k3


def estimators(pi, ref):
    """Return (KL, dict name -> (value at the token, value at the other, bias, std)).

    Two symbols: the token, with probability pi under the policy and ref under the reference
    model, and all others together. Bias and std belong to one sample of the policy.
    """
    ds = [log(ref / pi), log((1 - ref) / (1 - pi))]
    weights = [pi, 1 - pi]
    kl = -sum(w * d for w, d in zip(weights, ds))
    table = {}
    for name, f in (("k1", lambda d: -d), ("k2", lambda d: d * d / 2),
                    ("k3", lambda d: exp(d) - d - 1)):
        values = [f(d) for d in ds]
        mean = sum(w * v for w, v in zip(weights, values))
        spread = sum(w * (v - mean) ** 2 for w, v in zip(weights, values))
        table[name] = (*values, mean - kl, sqrt(spread))
    return kl, table


def averages(pi, ref, samples, tries=200, seed=0):
    """Return a dict name -> list of `tries` averages, each over so many samples of the policy."""
    _, table = estimators(pi, ref)
    rng = Random(seed)
    hits = [sum(rng.random() < pi for _ in range(samples)) for _ in range(tries)]
    return {name: [(h * row[0] + (samples - h) * row[1]) / samples for h in hits]
            for name, row in table.items()}


def kl_words(pi, ref, samples):
    """Return what the sliders say, in words."""
    kl, table = estimators(pi, ref)
    parts = [f"{name}: bias {bias:+.3f}, std of the average {std / sqrt(samples):.3f}, "
             f"below 0 in {sum(v < 0 for v in values) / len(values):.0%} of 200 averages"
             for (name, (_, _, bias, std)), values in zip(
                 table.items(), averages(pi, ref, samples).values())]
    return (f"pi = {pi:.2f}, ref = {ref:.2f}: KL(pi, ref) = {kl:.4f}. "
            f"Averages over {samples} samples: {'; '.join(parts)}")


def kl_figure(pi, ref, samples):
    """Draw the values of the three estimators, and 200 averages of each."""
    figure, (left, right) = new_figure(9, 3.2, ncols=2)
    kl, table = estimators(pi, ref)
    colors = dict(zip(table, (BLUE, ORANGE, GREEN)))
    rng = Random(1)
    for i, (name, values) in enumerate(averages(pi, ref, samples).items()):
        left.bar([i - 0.2, i + 0.2], table[name][:2], width=0.38, color=[colors[name], "white"],
                 edgecolor=colors[name], hatch=["", "//"])
        right.plot([i + rng.uniform(-0.25, 0.25) for _ in values], values, ".",
                   color=colors[name], ms=3)
        right.plot([i - 0.35, i + 0.35], [sum(values) / len(values)] * 2, color=BLACK, lw=2)
    left.set_title("value at the token (full), at the others (hatched)", fontsize=9)
    right.set_title(f"200 averages of {samples} samples; bar: their mean", fontsize=9)
    right.axhline(kl, color=PURPLE, ls="--", label=f"KL = {kl:.3f}")
    right.legend(fontsize=8)
    for axes in (left, right):
        axes.set_xticks(range(3), list(table))
        axes.axhline(0, color="grey", lw=0.8)
    return figure


# ============================================================== groups without signal


def silent(p, G):
    """Return the share of groups in which all G rewards are equal: all right or all wrong."""
    return p ** G + (1 - p) ** G


def groups_words(p, G):
    """Return what the sliders say, in words."""
    share = silent(p, G)
    return (f"p = {p:.2f}, G = {G}: all right {p ** G:.4f}, all wrong {(1 - p) ** G:.4f}, "
            f"without signal {share:.4f}: of 16 groups, {16 * share:.1f} teach nothing")


def groups_figure(p, G):
    """Draw the share of groups without signal over p, for this G and for others."""
    figure, axes = new_figure(7, 3.2)
    xs = [i / 200 for i in range(201)]
    for other, style in ((2, ":"), (8, "-."), (32, "--")):
        axes.plot(xs, [silent(x, other) for x in xs], color="grey", ls=style, lw=1,
                  label=f"G = {other}")
    axes.plot(xs, [silent(x, G) for x in xs], color=BLUE, lw=2, label=f"yours: G = {G}")
    axes.plot(p, silent(p, G), "D", color=PURPLE, ms=9, label="your p")
    axes.set(xlabel="p, probability of a right response", ylim=(0, 1.02), xlim=(0, 1),
             title="share of groups without signal: p^G + (1-p)^G")
    axes.legend(fontsize=8, loc="upper center")
    return figure


# ============================================================== sliders


# name -> (words, figure, sliders as (argument, text, lowest, highest, step, start))
SCENES = {
    "clip": (clip_words, clip_figure, [("adv", "advantage A", -2.0, 2.0, 0.1, 1.0),
                                       ("rho", "ratio rho", 0.05, 2.5, 0.05, 1.5),
                                       ("eps", "eps", 0.05, 0.95, 0.05, 0.2)]),
    "kl": (kl_words, kl_figure, [("pi", "pi", 0.01, 0.99, 0.01, 0.8),
                                 ("ref", "ref", 0.01, 0.99, 0.01, 0.5),
                                 ("samples", "samples", 1, 200, 1, 20)]),
    "groups": (groups_words, groups_figure, [("p", "p", 0.0, 1.0, 0.01, 0.9),
                                             ("G", "group size G", 2, 64, 1, 8)]),
}


def shown(name, values):
    """Return picture and text of a scene for these values of its sliders."""
    words, figure, _ = SCENES[name]
    text = words(**values) + "."
    # aria-live: a screen reader says the numbers when a slider has moved.
    code = (f'<div>{image(figure(**values), text, 80)}'
            f'<p aria-live="polite">{html.escape(text)}</p></div>')
    return Shown(code, text)


def sliders(name):
    """Return a box of sliders, with the picture below them that follows."""
    import ipywidgets as widgets

    below = widgets.HTML()
    made = {}

    def redraw(change=None):
        below.value = shown(name, {k: s.value for k, s in made.items()}).code

    for argument, text, low, high, step, value in SCENES[name][2]:
        kind = widgets.IntSlider if isinstance(step, int) else widgets.FloatSlider
        made[argument] = kind(value=value, min=low, max=high, step=step, description=text,
                              style={"description_width": "8em"}, layout={"width": "30em"})
        made[argument].observe(redraw, "value")
    redraw()
    return widgets.VBox([*made.values(), below])


def board(name):
    """Display the sliders of a scene; where there are no widgets, its picture at the start."""
    start = shown(name, {row[0]: row[5] for row in SCENES[name][2]})
    from IPython import get_ipython

    if get_ipython() is None:
        return display(start)
    from IPython.display import display as raw

    bundle = sliders(name)._repr_mimebundle_()
    bundle |= {"text/html": start.code, "text/plain": start.text}
    return raw(bundle, raw=True)
