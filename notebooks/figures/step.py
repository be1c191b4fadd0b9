"""The data flow of one GRPO step, with the shapes that a step with the default settings has."""

from notebooks.figures.style import CLIP, SAMPLED, WIDTH, shade

# (left, bottom, width, height, kind, text): "task" is written by the student, "given" is not.
BOXES = (
    (19, 60, 21, 14, "task", "Task 1\nsample_group\n(sample, reward)"),
    (63, 64.5, 22, 11, "task", "Task 2\ngroup_advantages"),
    (18, 42, 24, 10.5, "given", "sequence_logprobs\nno_grad, once"),
    (72, 42, 20, 10.5, "given", "token_entropy\nof policy, once"),
    (3, 11.5, 23.5, 9, "given", "sequence_logprobs"),
    (40, 8.5, 20, 20, "task", "Task 4\ngrpo_loss\n\nTask 3\nk3_kl"),
    (72, 9.5, 22, 13.5, "given", "backward,\nclip the norm,\nopt.step()"),
)
# (x, y, text): data; {B} and so on are put in from the measured shapes.
DATA = (
    (8, 71, "prompts,\nanswers\n({P},)"),
    (8, 62.5, "policy"),
    (51.5, 71.5, "rewards\n({B},)"),
    (51.5, 62, "ids ({B}, {S})\nmask ({B}, {T})"),
    (93.5, 70, "adv\n({B},)"),
    (7.5, 47.2, "policy,\nref"),
    (58.5, 47.2, "old_logp, ref_logp\n({B}, {T}) each"),
    (86, 36.5, "entropy"),
    (33.2, 16, "logp\n({B}, {T})"),
    (66, 16, "loss\n()"),
    (29.5, 31.2, "ids, mask"),
)
BUS = 55  # the height at which ids and mask are handed to all who need them
# ((x, y), (x, y), ...): an arrow along these points.
ARROWS = (
    ((13.5, 71), (19, 71)), ((12.5, 62.5), (19, 62.5)),
    ((40, 71.5), (46, 71.5)), ((40, 62.5), (43.5, 62.5)),
    ((57, 71.5), (63, 71.5)), ((85, 70), (89, 70)),
    ((51.5, 59), (51.5, BUS), (30, BUS), (30, 52.5)),
    ((51.5, 59), (51.5, BUS), (82, BUS), (82, 52.5)),
    ((12, 47.2), (18, 47.2)), ((42, 47.2), (47.5, 47.2)),
    ((86, 42), (86, 38)),
    ((45, BUS), (45, 28.5)), ((45, 33.5), (14.5, 33.5), (14.5, 20.5)),
    ((51, 44.2), (51, 28.5)),
    ((96, 66.8), (96, 32), (57, 32), (57, 28.5)),
    ((26.5, 16), (28.5, 16)), ((37.7, 16), (40, 16)), ((60, 16), (63.2, 16)),
    ((68.6, 16), (72, 16)),
    ((83, 9.5), (83, 5), (14.5, 5), (14.5, 11.5)),
)


def measure():
    """Return the shapes that one step of the solution meets."""
    import random

    import torch

    import tinylm
    from notebooks.experiments import TOP, edited_lab

    lab = edited_lab()
    cfg = lab.GRPOConfig()
    torch.manual_seed(cfg.seed)
    sft = tinylm.load_or_train_sft(TOP / "tinylm_sft.pt")
    prompts, answers = tinylm.make_batch(cfg.prompts_per_iter, random.Random(cfg.seed))
    out = lab.sample_group(sft, prompts, answers, cfg.G)["out"]
    B, T = out["mask"].shape
    return {"P": len(prompts), "G": cfg.G, "B": B, "L": out["prompt_len"], "T": T,
            "S": out["ids"].shape[1], "inner_steps": cfg.inner_steps, "seed": cfg.seed}


def collect(data):
    """Return the figure's results: the shapes."""
    return {"summary": dict(data)}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    B, T = s["B"], s["T"]
    return (
        f"Data flow of grpo_step (task 5) with the default settings. {s['P']} prompts and answers "
        f"and the policy go into sample_group (task 1), which calls sample and reward: ids ({B}, "
        f"{s['S']}), mask ({B}, {T}) and rewards ({B},). group_advantages (task 2) makes adv "
        f"({B},) of the rewards. Once, without gradient, sequence_logprobs of policy and ref makes "
        f"old_logp and ref_logp ({B}, {T}) of ids and mask, and token_entropy the entropy. Then, "
        f"{s['inner_steps']} times: sequence_logprobs of the policy makes logp ({B}, {T}) of ids "
        "and mask; grpo_loss (task 4, with k3_kl of task 3) takes logp, old_logp, ref_logp, adv "
        "and mask; backward, clipping the norm and a step of the optimizer follow, which changes "
        "the policy and with it only logp."
    )


def shorter(start, end, by=2.5):
    """Return a point on the way from start to end (both (x, y)), so far before the end."""
    length = sum(abs(b - a) for a, b in zip(start, end))
    share = max(0, 1 - by / length)
    return tuple(a + share * (b - a) for a, b in zip(start, end))


def draw(results):
    """Return the figure."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Path, Rectangle

    s = results["summary"]
    figure = Figure(figsize=(WIDTH, 6.7))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, 101), ylim=(-8, 83))
    axes.axis("off")
    axes.add_patch(Rectangle((0, 0), 100, 78, fill=False, lw=2, ec=SAMPLED))
    axes.text(1, 79.5, "Task 5: grpo_step", weight="bold")
    axes.text(99, 79.5, f"P = {s['P']}, G = {s['G']}, B = P*G = {s['B']}, L = {s['L']}, "
              f"T = {s['T']}", ha="right")
    axes.add_patch(Rectangle((1.5, 1), 97, 28.9, fill=False, ls="--", lw=1.5, ec=CLIP))
    axes.text(97.5, 26.2, f"inner_steps = {s['inner_steps']} times", ha="right", va="center")
    axes.text(48, 2.4, "the new policy changes logp, and nothing above", ha="center",
              style="italic")
    for order, points in enumerate(ARROWS):
        # White below a line that crosses an earlier one: a bridge, and no crossing.
        axes.plot(*zip(*points[:-1], shorter(*points[-2:])), color="white", lw=6, zorder=order)
        axes.add_patch(FancyArrowPatch(path=Path(points), arrowstyle="-|>", mutation_scale=11,
                                       lw=1.2, fc="black", zorder=order + 0.5))
    axes.plot([45, 45, 51.5], [BUS, 33.5, BUS], "ko", ms=4, zorder=40)
    for x, y, width, height, kind, text in BOXES:
        own = {"fc": shade(SAMPLED, -0.85), "ec": SAMPLED, "lw": 2}
        look = own if kind == "task" else {"fc": "0.95", "ec": "0.3", "lw": 1, "ls": ":"}
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1",
                                      zorder=50, **look))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", zorder=60)
    for x, y, text in DATA:
        axes.text(x, y, text.format(**s), ha="center", va="center", zorder=60)
    axes.text(0, -4.5, "blue frame, solid: you write it; grey frame, dotted: given", va="center")
    return figure
