"""The clipped objective of one token and its gradient against rho, for both signs of A."""

from notebooks.figures.style import CLIP, new_figure

EPS = 0.2


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
    """Return the figure's results: where the gradient is zero."""
    summary = {}
    for name in ("good", "bad"):
        flat = [r for r, g in zip(data["rho"], data[name]["gradient"]) if g == 0]
        summary |= {f"{name}_flat_from": min(flat), f"{name}_flat_to": max(flat)}
    return {"summary": summary}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        "The objective of one token against rho, eps = 0.2, and below it its gradient. For A = 1 "
        "it rises with rho up to 1.2 and is flat, without gradient, from "
        f"{s['good_flat_from']:.2f} on. For A = -1 it is flat at -0.8, without gradient, up to "
        f"{s['bad_flat_to']:.2f}, then falls with rho without a bound."
    )


def draw(results):
    """Return the figure."""
    data = results["data"]
    figure, grid = new_figure(2, 2, 3.8, sharex=True)
    for column, (name, title) in enumerate((("good", "A = 1"), ("bad", "A = -1"))):
        top, below = grid[:, column]
        A, rho = data[name]["A"], data["rho"]
        flat = [r for r, g in zip(rho, data[name]["gradient"]) if g == 0]
        top.plot(rho, [r * A for r in rho], "k:", label="rho * A")
        top.plot(rho, data[name]["obj"], color=CLIP, lw=2.2, label="min of both terms")
        below.plot(rho, data[name]["gradient"], color="black", label="gradient by logp")
        for axes in (top, below):
            axes.axvspan(min(flat), max(flat), color=CLIP, alpha=0.18, lw=0, hatch="..")
            axes.axvline(1, color="black", lw=0.6, ls="--")
        top.set_title(title)
        top.legend(loc="upper left" if A > 0 else "lower left")
        below.set(xlabel="rho", xlim=(0.1, 2))
        middle = (min(flat) + max(flat)) / 2
        below.annotate("clipped:\nno gradient", (middle, A * 0.7), ha="center", va="center")
    grid[0, 0].set_ylabel("objective")
    grid[1, 0].set_ylabel("gradient by logp")
    return figure
