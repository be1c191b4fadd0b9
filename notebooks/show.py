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


def image(figure, alt, dpi=100):
    """Return an <img> element that holds the picture and its alternative text."""
    file = io.BytesIO()
    figure.savefig(file, format="png", dpi=dpi)
    data = base64.b64encode(file.getvalue()).decode()
    return (f'<img alt="{html.escape(alt)}" style="max-width:100%;height:auto" '
            f'src="data:image/png;base64,{data}">')


def picture(figure, alt, caption=""):
    """Return a picture with its description, ready to be displayed."""
    below = f"<figcaption>{html.escape(caption)}</figcaption>" if caption else ""
    text = f"[picture: {alt}]" + ("\n" + caption if caption else "")
    return Shown(f'<figure style="margin:0">{image(figure, alt)}{below}</figure>', text)


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
    """Return the table prompts x responses: what was said, its reward and its advantage."""
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


def tokens(out, rho, k3, adv, clipped, when):
    """Return two heat maps, ratio and k3 of every token, and the same in one sentence.

    Args:
        out: what sample returned.
        rho: (B, T) ratio.
        k3: (B, T) KL estimate.
        adv: (B,) advantages, shown at the left.
        clipped: (B, T) bool, where the clip changes the objective.
        when: words for the title, such as "after one update".
    """
    names, real = token_names(out), out["mask"].bool()
    figure, (left, right) = new_figure(9, 0.8 + 0.28 * len(names), ncols=2)
    heat(left, rho, names, f"ratio rho, {when}", ("PuOr_r", 0.5, 1.5), clipped)
    heat(right, k3, names, f"k3, {when}", ("Blues", 0.0, 0.1))
    left.set_yticklabels([f"{i}: A = {float(a):+.2f}" for i, a in enumerate(adv)], fontsize=8)
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


def step(lab, out, logp, old_logp, ref_logp, adv, when, G=8, eps=0.2):
    """Return the heat maps of the first two groups that have a signal."""
    import torch

    chosen = adv.view(-1, G).abs().sum(1).nonzero().flatten().tolist()[:2] or [0]
    rows = torch.tensor([p * G + i for p in chosen for i in range(G)])
    part = {"ids": out["ids"][rows], "mask": out["mask"][rows], "prompt_len": out["prompt_len"]}
    A = adv[rows].unsqueeze(1)
    with torch.no_grad():
        rho = (logp - old_logp)[rows].exp()
        clipped = rho.clamp(1 - eps, 1 + eps) * A < rho * A
        return tokens(part, rho, lab.k3_kl(logp, ref_logp)[rows], adv[rows], clipped, when)
