"""The data flow of one GRPO step, with the shapes that a step with the default settings has."""

from notebooks.figures.style import CLIP, SAMPLED, shade

# (left, bottom, width, height, kind, text): "task" is written by the student, "given" is not.
BOXES = (
    (16, 47, 17, 9, "task", "Task 1\nsample_group\n(sample, reward)"),
    (62, 47, 17, 9, "task", "Task 2\ngroup_advantages"),
    (16, 31, 17, 9, "given", "sequence_logprobs\nno_grad, once"),
    (5, 7, 17, 8, "given", "sequence_logprobs"),
    (40, 6.5, 18, 17, "task", "Task 4\ngrpo_loss\n\nTask 3\nk3_kl"),
    (71, 7, 20, 8, "given", "backward, clip the\nnorm, opt.step()"),
)
# (x, y, text): data; {B} and so on are put in from the measured shapes.
DATA = (
    (6.5, 51.5, "prompts,\nanswers\n({P},)"),
    (45, 54, "rewards ({B},)"),
    (45, 48, "ids ({B}, {S})\nmask ({B}, {T})"),
    (91, 51.5, "adv\n({B},)"),
    (6, 35.5, "policy,\nref"),
    (48.5, 35.5, "old_logp ({B}, {T})\nref_logp ({B}, {T})"),
    (31, 11, "logp\n({B}, {T})"),
    (64.5, 11, "loss\n()"),
)
# ((x, y), (x, y), ...): an arrow along these points.
ARROWS = (
    ((11, 51.5), (16, 51.5)),
    ((33, 54), (37.5, 54)), ((33, 48.5), (38, 48.5)),
    ((52.5, 54), (62, 54)), ((79, 51.5), (87.5, 51.5)),
    ((9.5, 35.5), (16, 35.5)), ((33, 35.5), (39.5, 35.5)),
    ((45, 45.5), (45, 42.5), (24.5, 42.5), (24.5, 40)),
    ((49, 32.5), (49, 23.5)),
    ((91, 48), (91, 19), (58, 19)),
    ((22, 11), (27, 11)), ((35, 11), (40, 11)), ((58, 11), (62, 11)), ((67, 11), (71, 11)),
    ((81, 7), (81, 2.5), (13.5, 2.5), (13.5, 7)),
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
        f"go into sample_group (task 1), which calls sample and reward: ids ({B}, {s['S']}), mask "
        f"({B}, {T}) and rewards ({B},). group_advantages (task 2) makes adv ({B},) of the "
        f"rewards. Once, without gradient, sequence_logprobs of policy and ref gives old_logp and "
        f"ref_logp ({B}, {T}). Then, {s['inner_steps']} times: logp ({B}, {T}) of the policy, "
        "grpo_loss (task 4, with k3_kl of task 3), backward, clipping the norm and a step of the "
        "optimizer, which changes the policy and with it only logp."
    )


def draw(results):
    """Return the figure."""
    from matplotlib.figure import Figure
    from matplotlib.patches import FancyArrowPatch, FancyBboxPatch, Path, Rectangle

    s = results["summary"]
    figure = Figure(figsize=(7, 4.5))
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(-1, 101), ylim=(-2, 64))
    axes.axis("off")
    axes.add_patch(Rectangle((0, 0), 100, 60.5, fill=False, lw=2, ec=SAMPLED))
    axes.text(1, 61.5, "Task 5: grpo_step", weight="bold")
    axes.text(99, 61.5, f"P = {s['P']}, G = {s['G']}, B = P*G = {s['B']}, L = {s['L']}, "
              f"T = {s['T']}", ha="right")
    axes.add_patch(Rectangle((2.5, 1), 95, 24.5, fill=False, ls="--", lw=1.2, ec=CLIP))
    axes.text(62, 22.5, f"inner_steps = {s['inner_steps']} times", ha="left", va="center")
    axes.text(47, 3.6, "the new policy changes logp, and nothing above", ha="center",
              style="italic")
    for x, y, width, height, kind, text in BOXES:
        own = {"fc": shade(SAMPLED, -0.8), "ec": SAMPLED, "lw": 1.8}
        look = own if kind == "task" else {"fc": "0.95", "ec": "0.3", "lw": 0.8, "ls": ":"}
        axes.add_patch(FancyBboxPatch((x, y), width, height, boxstyle="round,pad=0,rounding_size=1",
                                      **look))
        axes.text(x + width / 2, y + height / 2, text, ha="center", va="center")
    for x, y, text in DATA:
        axes.text(x, y, text.format(**s), ha="center", va="center")
    for points in ARROWS:
        axes.add_patch(FancyArrowPatch(path=Path(points), arrowstyle="-|>", mutation_scale=9,
                                       lw=1, fc="black"))
    axes.text(64, 34, "blue, solid: you write it\ngrey, dotted: given", va="center")
    return figure
