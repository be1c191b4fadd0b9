"""Curves while a run is going on, runs side by side, and what is kept in runs/."""

import html
import json
import tempfile
import time
from pathlib import Path

import lab15_run
from notebooks.show import BLUE, ORANGE, STYLES, Shown, display, image, new_figure, picture, table

PANELS = {"accuracy": "accuracy on held-out sums", "reward": "mean reward of the samples",
          "loss": "loss", "kl": "KL to the SFT model (k3)",
          "clip_frac": "share of tokens clipped",
          "frac_zero_signal": "share of zero-signal groups",
          "entropy": "entropy (nats per token)"}
WINDOW = 10  # iterations that one point of a curve is the mean of

# ============================================================== while it trains


class Live:
    """Accuracy, entropy and a progress bar, updated in place while train_grpo runs.

    Args:
        lab: a loaded lab file; two of its functions are wrapped while it trains.
        cfg: its GRPOConfig.
    """

    def __init__(self, lab, cfg):
        if error := lab15_run.next_task(vars(lab)):  # before anything is drawn or saved
            raise error
        self.lab, self.cfg = lab, cfg
        self.entropy, self.sampled, self.greedy, self.reward = [], [], [], []
        self.start = self.drawn = time.monotonic()
        self.first = None  # when the first step ended: time is extrapolated from there
        self.pause = 0.5
        self.figure, self.curves = empty_curves(cfg.iters)
        self.handle = display(self.shown(), display_id=True)

    def train(self, out_dir):
        """Train as `python lab15_grpo.py` does and redraw; return (policy, history).

        Where out_dir cannot be written, one line says so and the run is not kept.
        """
        import torch

        step, accuracy = self.lab.grpo_step, self.lab.accuracy

        def watched_step(*args, **kwargs):
            stats = step(*args, **kwargs)
            self.first = self.first or time.monotonic()
            for values, key in ((self.entropy, "entropy"), (self.reward, "reward")):
                # What is no number, train_grpo reports.
                if isinstance(stats, dict) and lab15_run.is_number(stats.get(key)):
                    values.append(stats[key])
            if time.monotonic() - self.drawn > self.pause:
                self.draw()
            return stats

        def watched_accuracy(model, **kwargs):
            value = accuracy(model, **kwargs)
            (self.greedy if kwargs.get("greedy") else self.sampled).append(value)
            return value

        self.lab.grpo_step, self.lab.accuracy = watched_step, watched_accuracy
        threads = torch.get_num_threads()
        torch.set_num_threads(1)  # whatever the notebook did before: the same numbers, and faster
        try:
            return self.lab.train_grpo(self.cfg, verbose=False, out_dir=writable(out_dir))
        finally:
            torch.set_num_threads(threads)
            self.lab.grpo_step, self.lab.accuracy = step, accuracy
            self.draw()

    def draw(self):
        """Replace the last state by the current one."""
        begun = time.monotonic()
        if self.handle is not None:
            self.handle.update(self.shown())
        self.drawn = time.monotonic()
        # Drawing takes a tenth of the time at most, also on a slow machine.
        self.pause = max(0.5, 9 * (self.drawn - begun))

    def words(self):
        """Return the state as one line."""
        last = [f"{name} {values[-1]:.3f}" for name, values in (
            ("sampled accuracy", self.sampled), ("greedy", self.greedy),
            ("reward", self.reward), ("entropy", self.entropy)) if values]
        return (f"iteration {len(self.entropy)} of {self.cfg.iters}, "
                f"{time.monotonic() - self.start:.0f} s{self.left()}: "
                f"{', '.join(last) or 'starting'}")

    def left(self):
        """Return ", about 12 s left", or nothing before that can be told."""
        done, todo = len(self.entropy) - 1, self.cfg.iters - len(self.entropy)
        if done < 5 or todo <= 0:
            return ""
        return f", about {(time.monotonic() - self.first) / done * todo:.0f} s left"

    def shown(self):
        """Return the progress bar, the line of text and the two curves."""
        words = self.words()
        bar = (f'<progress aria-label="training" max="{max(self.cfg.iters, 1)}" '
               f'value="{len(self.entropy)}" style="width:60%"></progress>')
        alt = f"Two curves: accuracy on held-out sums, entropy of the policy. Now {words}."
        self.put_curves()
        return Shown(f"<div>{bar}<p>{html.escape(words)}</p>{image(self.figure, alt, 80)}</div>",
                     words)

    def put_curves(self):
        """Bring both curves up to now."""
        sampled, greedy, entropy = self.curves
        for line, values in ((sampled, self.sampled), (greedy, self.greedy)):
            x = [min(i * self.cfg.eval_every, self.cfg.iters) for i in range(len(values))]
            line.set_data(x, values)
        entropy.set_data(range(1, len(self.entropy) + 1), self.entropy)
        entropy.axes.set_ylim(0, 1.05 * max(self.entropy, default=0) or 1)


def empty_curves(iters):
    """Return a figure of two panels, and its three lines: sampled, greedy, entropy."""
    figure, (left, right) = new_figure(9, 3, ncols=2)
    lines = [left.plot([], [], style, color=color, ms=3, label=name)[0]
             for color, style, name in ((BLUE, "o-", "sampled"), (ORANGE, "s--", "greedy"))]
    lines += right.plot([], [], color=BLUE, lw=1)
    left.set(title=PANELS["accuracy"], ylim=(0, 1.02), xlabel="iteration")
    right.set(title=PANELS["entropy"], xlabel="iteration")
    left.legend(loc="lower right")
    for axes in (left, right):
        axes.set_xlim(0, max(iters, 1))
    # Laid out once: to do it again for every picture takes longer than the drawing.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    return figure, lines


def writable(folder):
    """Return the folder, made if need be; or None, and say so, if nothing can be saved there."""
    if folder is None:
        return None
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return folder
    except OSError as error:
        print(f"The run is not kept: {folder} cannot be written ({error.strerror or error}).")
        return None


# ============================================================== runs


def read_runs(folder):
    """Return the runs kept below a folder: a list of dicts name, seed, config, history, seconds."""
    runs = []
    for path in sorted(Path(folder).glob("*/history.json")):
        try:
            history = json.loads(path.read_text(encoding="utf-8"))
            config = json.loads((path.parent / "config.json").read_text(encoding="utf-8"))
        except (OSError, ValueError):
            continue  # a run that is being written, or one that was never whole
        if history.get("acc_sampled"):
            runs.append({"name": path.parent.name, "seed": config.get("seed"), "config": config,
                         "history": history, "seconds": history.get("seconds", 0)})
    return runs


def list_runs(runs, default):
    """Return a table of runs; settings are those that differ from the dict default."""
    rows = []
    for run in runs:
        history, settings = run["history"], run["config"]
        odd = [f"{k} = {settings[k]}" for k, v in default.items() if settings.get(k, v) != v]
        rows.append([run["name"], len(history["loss"]), f"{history['acc_sampled'][0]:.3f}",
                     f"{history['acc_sampled'][-1]:.3f}", f"{history['entropy'][-1]:.3f}"
                     if history["entropy"] else "-", ", ".join(odd) or "default"])
    head = ["run", "iterations", "accuracy at the start", "at the end", "entropy", "settings"]
    return table("Runs, sampled accuracy", head, rows)


def smooth(values):
    """Return (iterations, means over WINDOW iterations); the rest at the end counts too."""
    parts = [values[i:i + WINDOW] for i in range(0, len(values), WINDOW)]
    return ([i * WINDOW + (len(p) + 1) / 2 for i, p in enumerate(parts)],
            [sum(p) / len(p) for p in parts])


def curve(run, key):
    """Return (x, y) of one curve of a run."""
    history = run["history"]
    if key.startswith("acc_"):
        return history["eval_iter"][:len(history[key])], history[key]
    return smooth(history[key])


def band(axes, runs, key, color, style, label):
    """Draw the mean of some runs as a line and their range as a band; return the end's mean."""
    curves = [curve(run, key) for run in runs if run["history"].get(key)]
    if not curves:
        return None
    x = max((c[0] for c in curves), key=len)
    columns = [[y[i] for _, y in curves if i < len(y)] for i in range(len(x))]
    if len(curves) > 1:
        axes.fill_between(x, [min(c) for c in columns], [max(c) for c in columns],
                          color=color, alpha=0.2, lw=0)
    middle = [sum(c) / len(c) for c in columns]
    axes.plot(x, middle, color=color, ls=style, lw=1.5, label=label)
    return middle[-1]


def seven(sets):
    """Return seven panels that compare sets of runs: mean and range over the seeds.

    Args:
        sets: dict from a label to a list of runs, at most seven of them.
    """
    figure, grid = new_figure(8, 9.5, nrows=4, ncols=2)
    *panels, last = grid.flat
    words = []
    for (label, runs), (color, style) in zip(sets.items(), STYLES):
        ends = {}
        for axes, (key, title) in zip(panels, PANELS.items()):
            first = "acc_sampled" if key == "accuracy" else key
            ends[key] = band(axes, runs, first, color, style, label)
            axes.set_title(title, fontsize=10)
        said = ", ".join(f"{k} {v:.3f}" for k, v in ends.items() if v is not None)
        words.append(f"{label} ({lab15_run.counted(len(runs), 'run')}) ends at {said}")
    for axes in panels[-2:]:
        axes.set_xlabel("iteration")
    panels[0].set_ylim(0, 1.02)
    last.axis("off")
    last.legend(*panels[0].get_legend_handles_labels(), loc="center", frameon=False)
    rule = f"Line: mean; band: range over the seeds; a point: mean of {WINDOW} iterations."
    alt = f"Seven panels: {', '.join(PANELS.values())}. {rule} {'; '.join(words)}."
    return picture(figure, alt, rule)


def bars(sets):
    """Return the sampled accuracy at the end of sets of runs, the best on top."""
    ends = {label: [run["history"]["acc_sampled"][-1] for run in runs]
            for label, runs in sets.items()}
    ordered = sorted(ends, key=lambda label: sum(ends[label]) / len(ends[label]))
    figure, axes = new_figure(8, 0.9 + 0.3 * len(ordered))
    for y, label in enumerate(ordered):
        values = ends[label]
        axes.plot([min(values), max(values)], [y, y], color=BLUE, lw=6, alpha=0.3)
        axes.plot(values, [y] * len(values), "|", color=BLUE, ms=10)
        axes.plot(sum(values) / len(values), y, "o", color=ORANGE)
    axes.set(yticks=range(len(ordered)), yticklabels=ordered, xlim=(0, 1),
             xlabel="sampled accuracy at the end")
    axes.grid(axis="x", alpha=0.3)
    words = "; ".join(f"{label} {sum(ends[label]) / len(ends[label]):.3f}"
                      for label in reversed(ordered))
    return picture(figure, f"Sampled accuracy at the end, best first: {words}.",
                   "Dot: the mean; tick: one seed. The best is on top.")
