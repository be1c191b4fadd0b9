"""What the notebooks show: pictures with a description, tables, the state of single tokens.

Everything is shown as HTML, with the same content as text for a terminal. A picture has its
alternative text inside, which a screen reader finds in JupyterLab and in the book.
"""

import base64
import html
import io

BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"
YELLOW, LIGHT, BLACK = "#E69F00", "#56B4E9", "#000000"
STYLES = [(BLUE, "-"), (ORANGE, "--"), (GREEN, "-."), (PURPLE, ":"), (YELLOW, "-"),
          (LIGHT, "--"), (BLACK, "-.")]


class Shown:
    """HTML for a notebook, text for everything else."""

    def __init__(self, code, text):
        self.code, self.text = code, text

    def __repr__(self):
        return self.text

    def _repr_html_(self):
        return self.code


def display(shown, **options):
    """Display as IPython does; without IPython's shell, print the text."""
    from IPython import display as ipython
    from IPython import get_ipython

    if get_ipython() is None:
        print(shown)
        return None
    return ipython.display(shown, **options)


# ============================================================== pictures


def new_figure(width=8.0, height=3.4, **options):
    """Return a matplotlib Figure and its axes; options go to subplots."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots(**options)


def image(figure, alt, dpi=100, sharp=1):
    """Return an <img> element that holds the picture and its alternative text.

    Args:
        figure: of matplotlib.
        alt: its description.
        dpi: pixels of the page for each of its inches.
        sharp: pixels of the file for each of these; 2 for a picture that stays.
    """
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=sharp * dpi)
    data = base64.b64encode(file.getvalue()).decode()
    width = round(figure.get_size_inches()[0] * dpi)
    return (f'<img alt="{html.escape(alt)}" width="{width}" style="max-width:100%;height:auto" '
            f'src="data:image/png;base64,{data}">')


def picture(figure, alt, caption=""):
    """Return a picture with its description, ready to be displayed."""
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    text = f"[picture: {alt}]" + ("\n" + caption if caption else "")
    return Shown(f'<figure style="margin:0">{image(figure, alt, sharp=2)}{below}</figure>', text)


# ============================================================== tables


def table(caption, head, rows):
    """Return a table; the first column names the row."""
    head, rows = [str(h) for h in head], [[str(c) for c in row] for row in rows]
    cells = "".join(f'<th scope="col">{html.escape(h)}</th>' for h in head)
    code = f"<table><caption>{html.escape(caption)}</caption><thead><tr>{cells}</tr></thead><tbody>"
    for first, *others in rows:
        cells = "".join(f"<td>{html.escape(c)}</td>" for c in others)
        code += f'<tr><th scope="row">{html.escape(first)}</th>{cells}</tr>'
    widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
    lines = ["  ".join(c.ljust(w) for c, w in zip(row, widths)).rstrip() for row in [head, *rows]]
    style = '<div style="overflow-x:auto">'
    return Shown(f"{style}{code}</tbody></table></div>", "\n".join([caption, *lines]))


def groups(prompts, responses, rewards, G, adv=None):
    """Return the table prompts x responses: the text, its reward and its advantage."""
    rows = []
    for p, prompt in enumerate(prompts):
        row = [prompt]
        for i in range(p * G, (p + 1) * G):
            cell = f"{responses[i] or '(empty)'}: {float(rewards[i]):.0f}"
            row.append(cell if adv is None else f"{cell}, {float(adv[i]):+.2f}")
        rows.append(row)
    what = "response: reward" + ("" if adv is None else ", advantage")
    head = ["prompt", *(f"response {i}" for i in range(1, G + 1))]
    return table(f"One row for each prompt. In a cell: {what}.", head, rows)


def digits(value, n=4):
    """Return a number with n decimals; 0.0000 where rounding would give -0.0000."""
    return f"{round(float(value), n) + 0.0:.{n}f}"


def numbers(caption, values):
    """Return a table of names and numbers."""
    return table(caption, ["name", "value"], [(k, digits(v)) for k, v in values.items()])


# ============================================================== tokens


def token_names(out):
    """Return for each row the characters of the response; END is the last one's name."""
    import tinylm

    rows = []
    for ids, n in zip(out["ids"][:, out["prompt_len"]:].tolist(), out["mask"].sum(1).int()):
        rows.append(["END" if i == tinylm.END else tinylm.CHARS[i] for i in ids[: int(n)]])
    return rows


def heat(axes, values, names, title, colors, clipped=None):
    """Draw a (B, T) tensor: a cell says the token and its value; padding stays empty.

    colors: (name of a colour map, value of its lowest colour, value of its highest).
    """
    from matplotlib import colormaps

    cmap, low, high = colors
    T = max(map(len, names))
    shown = [[float(values[b][t]) if t < len(row) else float("nan") for t in range(T)]
             for b, row in enumerate(names)]
    axes.imshow(shown, cmap=cmap, vmin=low, vmax=high, aspect="auto")
    for b, row in enumerate(names):
        for t, name in enumerate(row):
            color = colormaps[cmap]((shown[b][t] - low) / (high - low))
            dark = 0.3 * color[0] + 0.59 * color[1] + 0.11 * color[2] < 0.5
            mark = " clip" if clipped is not None and clipped[b][t] else ""
            axes.text(t, b, f"{name}  {shown[b][t]:.2f}{mark}", ha="center", va="center",
                      fontsize=8, color="white" if dark else "black",
                      weight="bold" if mark else "normal")
    axes.set(title=title, xlabel="token", xticks=range(T), yticks=range(len(names)))


def tokens(out, rho, k3, labels, clipped, when):
    """Return two heat maps, ratio and k3 of every token, and the same in one sentence.

    Args:
        out: what sample returned.
        rho: (B, T) ratio.
        k3: (B, T) KL estimate.
        labels: a text for each row, shown at the left.
        clipped: (B, T) bool, where the clip changes the objective.
        when: words for the title, such as "after one update".
    """
    names, real = token_names(out), out["mask"].bool()
    figure, (left, right) = new_figure(9, 0.8 + 0.28 * len(names), ncols=2)
    heat(left, rho, names, f"ratio rho, {when}", ("PuOr_r", 0.5, 1.5), clipped)
    heat(right, k3, names, f"k3, {when}", ("Blues", 0.0, 0.1))
    left.set_yticklabels(labels, fontsize=8)
    right.set_yticklabels(range(len(names)), fontsize=8)
    seen, n = rho[real], int(real.sum())
    words = (f"{when}: rho of the {n} tokens lies between {float(seen.min()):.2f} and "
             f"{float(seen.max()):.2f}; {int((clipped & real).sum())} are clipped; "
             f"mean k3 {float(k3[real].mean()):.4f}")
    words = words[0].upper() + words[1:] + "."
    alt = ("Two heat maps, one row per response, one cell per token. Left the ratio, right k3. "
           + words)
    return picture(figure, alt, words)


def k3_curve(function, d, k3):
    """Return the student's k3 over d = ref_logp - logp, as a picture."""
    figure, axes = new_figure(6, 3)
    axes.plot(d, k3, color=GREEN, label=f"{function} over d")
    axes.plot(d, d * d / 2, color=BLACK, ls=":", label="d*d / 2, for comparison")
    axes.set(xlabel="d = ref_logp - logp", ylabel="k3", ylim=(-0.2, 4))
    axes.axhline(0, color="grey", lw=0.8)
    axes.legend()
    at = {x: k3[int((d - x).abs().argmin())] for x in (-1, 0, 1)}
    words = "; ".join(f"d = {x}: {digits(v)}" for x, v in at.items())
    return picture(figure, f"{function} over d from -2 to 2: {words}.", words)


def step(lab, out, logp, old_logp, ref_logp, adv, when, prompts=None, G=8, eps=0.2):
    """Return the heat maps of all rows; row i belongs to prompt i // G.

    Args:
        lab: the loaded lab file.
        out: what sample returned.
        logp: (B, T) log-probabilities now; old_logp and ref_logp as in grpo_loss.
        old_logp: (B, T).
        ref_logp: (B, T).
        adv: (B,) advantages.
        when: words for the title, such as "after one update".
        prompts: the P prompts, shown beside their rows.
        G: responses per prompt.
        eps: of the clip.
    """
    import torch

    A = adv.unsqueeze(1)
    with torch.no_grad():
        rho = (logp - old_logp).exp()
        clipped = rho.clamp(1 - eps, 1 + eps) * A < rho * A
        labels = [(f"{prompts[i // G]}  " if prompts else "") + f"{i}: A = {float(a):+.2f}"
                  for i, a in enumerate(adv)]
        return tokens(out, rho, lab.k3_kl(logp, ref_logp), labels, clipped, when)


# ============================================================== over some steps


def chances(model, prompts, answers):
    """Return the probability that a model gives each of some answers, its END included."""
    import torch

    import tinylm

    rows = [[tinylm.CHARS.index(c) for c in a] + [tinylm.END] for a in answers]
    T = max(map(len, rows))
    tokens_ = torch.tensor([row + [tinylm.PAD] * (T - len(row)) for row in rows])
    ids = torch.cat([tinylm.encode(prompts), tokens_], 1)
    out = {"ids": ids, "prompt_len": ids.shape[1] - T, "mask": (tokens_ != tinylm.PAD).float()}
    with torch.no_grad():
        return (tinylm.sequence_logprobs(model, out) * out["mask"]).sum(1).exp().tolist()


def progress(prompts, answers, chance, steps):
    """Return two panels: the probability of each right answer, and reward and loss, over steps.

    Args:
        prompts: the P prompts.
        answers: their answers.
        chance: for the start and after each step, the P probabilities of the right answers.
        steps: what grpo_step returned for each step.
    """
    figure, (left, right) = new_figure(9, 3.4, ncols=2)
    for i, (prompt, answer, (color, line)) in enumerate(zip(prompts, answers, STYLES)):
        left.plot([row[i] for row in chance], color=color, ls=line, marker="os^Dv"[i % 5], ms=4,
                  label=f"{answer} after {prompt}")
    left.set(title="probability of the right answer", xlabel="step", ylim=(0, 1))
    left.legend(fontsize=9)
    x = range(1, len(steps) + 1)
    right.plot(x, [s["reward"] for s in steps], color=BLUE, marker="o", ms=4, label="mean reward")
    right.plot(x, [s["loss"] for s in steps], color=BLACK, ls=":", marker="s", ms=4, label="loss")
    right.axhline(0, color="grey", lw=0.8)
    right.set(title="what grpo_step returns", xlabel="step")
    right.legend(fontsize=9)
    words = "; ".join(f"p({a}) after {p} goes from {first:.2f} to {last:.2f}" for p, a, first, last
                      in zip(prompts, answers, chance[0], chance[-1]))
    words += (f"; the reward from {steps[0]['reward']:.2f} to {steps[-1]['reward']:.2f}, while the "
              f"loss stays between {min(s['loss'] for s in steps):.3f} and "
              f"{max(s['loss'] for s in steps):.3f}.")
    return picture(figure, f"Two panels over {len(steps)} steps: {words}", words)
