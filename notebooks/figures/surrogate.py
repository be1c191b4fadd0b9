"""The clipped objective of one token and its gradient against rho, for both signs of A."""

from notebooks.figures.style import CLIP, ENTROPY, SAMPLED, new_figure, visible

EPS = 0.2
LOW, HIGH = 0.1, 2.0  # the ratios drawn


def objective(rho, A, eps=EPS):
    """Return (unclipped term, clipped term, their minimum, its gradient with respect to logp)."""
    plain, clipped = rho * A, min(max(rho, 1 - eps), 1 + eps) * A
    return plain, clipped, min(plain, clipped), 0.0 if clipped < plain else plain


def measure():
    """Return the objective and its gradient with respect to logp, by the solution's grpo_loss."""
    import torch

    from notebooks.experiments import edited_lab

    lab = edited_lab()
    rhos = [round(0.02 * i, 2) for i in range(5, 101)]
    data = {"rho": rhos, "eps": EPS}
    for name, A in (("good", 1.0), ("bad", -1.0)):
        obj, slope = [], []
        for rho in rhos:
            logp = torch.tensor([[rho]], dtype=torch.float64).log().requires_grad_()
            zero, one = torch.zeros_like(logp).detach(), torch.ones(1, 1)
            loss, _ = lab.grpo_loss(logp, zero, logp.detach(), torch.tensor([A]), one, EPS, 0.0)
            loss.backward()
            obj.append(round(-loss.item(), 6))
            slope.append(round(-logp.grad.item(), 6))
        data[name] = {"A": A, "obj": obj, "gradient": slope}
    return data


def collect(data):
    """Return the figure's results: where the gradient is zero, and that the loss agrees.

    Exactly at a kink the gradient has two values; which of them a rounded ratio gets says nothing.
    """
    eps, off = data["eps"], 0.0
    for name in ("good", "bad"):
        part = data[name]
        for rho, obj, slope in zip(data["rho"], part["obj"], part["gradient"]):
            _, _, value, gradient = objective(rho, part["A"], eps)
            off = max(off, abs(obj - value))
            if min(abs(rho - 1 - eps), abs(rho - 1 + eps)) > 1e-9:
                off = max(off, abs(slope - gradient))
    return {"summary": {"good_flat_from": 1 + eps, "good_flat_to": HIGH, "bad_flat_from": LOW,
                        "bad_flat_to": 1 - eps, "largest_difference": off}}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"The objective of one token against rho, eps = {EPS}, and below it its gradient. For "
        f"A = 1 the unclipped term rises without a bound, the clipped one is flat below "
        f"{s['bad_flat_to']:g} and above {s['good_flat_from']:g}; the objective, the smaller of "
        f"the two, rises up to rho = {s['good_flat_from']:g} and is flat from there on, where the "
        f"gradient jumps to 0. For A = -1 the objective is flat, without gradient, up to rho = "
        f"{s['bad_flat_to']:g}, and then falls with rho without a bound."
    )


def ends(A, eps):
    """Return (the kink, the ratios without gradient, those with one), each as (from, to)."""
    if A > 0:
        return 1 + eps, (1 + eps, HIGH), (LOW, 1 + eps)
    return 1 - eps, (LOW, 1 - eps), (1 - eps, HIGH)


def draw(results):
    """Return the figure."""
    eps = results["data"]["eps"]
    figure, grid = new_figure(2, 2, 5.4, sharex=True)
    for (top, below), A in zip(grid.T, (1, -1)):
        kink, flat, steep = ends(A, eps)
        xs = [LOW, 1 - eps, 1 + eps, HIGH]
        plain, clipped, smaller, _ = zip(*(objective(x, A, eps) for x in xs))
        top.plot(xs, smaller, color=CLIP, lw=7, alpha=0.5, solid_capstyle="butt",
                 label="objective: the smaller term")
        top.plot(xs, plain, color="black", ls=":", lw=2, label="rho * A")
        top.plot(xs, clipped, color=SAMPLED, ls="--", label="clip(rho) * A")
        top.plot(kink, A * kink, "o", color="black", ms=5)
        top.set_title(f"A = {A:g}: {'a good' if A > 0 else 'a bad'} response")
        for part, look in ((flat, "-"), (steep, "-")):
            slope = [0 if part is flat else x * A for x in part]
            below.plot(part, slope, look, color=visible(ENTROPY), lw=2.5)
        below.plot([kink, kink], [0, A * kink], color=visible(ENTROPY), lw=1, ls=":")
        for axes in (top, below):
            axes.axvspan(*flat, color=CLIP, alpha=0.15, lw=0)
            axes.axvline(1, color="black", lw=0.8, ls="-", alpha=0.4)
        middle, up = sum(flat) / 2, 0.12
        below.annotate("clipped:\nno gradient", (middle, A * up), ha="center",
                       va="bottom" if A > 0 else "top")
        below.set(xlabel="ratio rho", xlim=(LOW, HIGH), xticks=(0.5, 1 - eps, 1, 1 + eps, 1.5, 2),
                  xticklabels=("0.5", f"{1 - eps:g}", "1", f"{1 + eps:g}", "1.5", "2"))
        below.axhline(0, color="black", lw=0.8)
    grid[0, 0].set_ylabel("objective")
    grid[1, 0].set_ylabel("gradient w.r.t. logp")
    figure.legend(*grid[0, 0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    return figure
