"""Draw any run: a folder of train_hf or sft (training_log.jsonl), or of the lab (history.json).

    python -m beyond.plot RUN [MORE_RUNS] [--out curves.png]

Several runs are drawn into the same panels; first and last values are printed as text.
"""

import argparse
import json
import sys
from pathlib import Path

from lab15_run import piped

# TRL's name of a metric, and the lab's for the same thing.
NAMES = {"reward": "reward", "loss": "loss", "kl": "kl", "entropy": "entropy",
         "clip_ratio/region_mean": "clip_frac", "frac_reward_zero_std": "frac_zero_signal"}
TITLES = {
    "reward": "mean reward of the samples", "eval/accuracy": "held-out, sampled",
    "eval/greedy": "held-out, greedy", "loss": "loss (no sign of progress)",
    "kl": "KL to the reference (k3)", "entropy": "entropy (nats per token)",
    "clip_ratio/region_mean": "share of tokens clipped", "completions/mean_length": "mean length",
    "frac_reward_zero_std": "share of zero-signal groups",
}
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
LINES = ("-", "--", "-.", ":")


def read(folder: str | Path) -> dict[str, list[tuple[float, float]]]:
    """Return metric -> [(step, value)] of a run, with TRL's names whoever wrote it.

    Raises:
        OSError: it is no run, has logged nothing yet, or cannot be read.
    """
    folder = Path(folder)
    if (folder / "training_log.jsonl").is_file():
        series = _of_log((folder / "training_log.jsonl").read_text(encoding="utf-8"))
    elif (folder / "history.json").is_file():
        try:
            series = _of_lab(json.loads((folder / "history.json").read_text(encoding="utf-8")))
        except (ValueError, AttributeError) as error:
            raise OSError(f"{folder}/history.json is no history of the lab: {error}") from None
    else:
        raise OSError(f"{folder} has neither training_log.jsonl nor history.json: it is no run")
    numbers = {name: [(x, y) for x, y in points if isinstance(y, (int, float))]
               for name, points in series.items()}
    if not any(numbers.values()):
        raise OSError(f"{folder}: nothing is logged yet")
    return {name: points for name, points in numbers.items() if points}


Series = dict[str, list[tuple[float, float]]]


def _of_log(text: str) -> Series:
    series: Series = {}
    for line in text.split("\n"):
        try:
            entry = json.loads(line)
            step = entry.pop("step")
        except (ValueError, KeyError, AttributeError, TypeError):  # half a line of a killed run
            continue
        for name, value in entry.items():
            series.setdefault(name, []).append((step, value))
    return series


def _of_lab(history: dict) -> Series:
    series: Series = {ours: list(enumerate(history.get(labs, []), 1))
                      for ours, labs in NAMES.items()}
    for ours, labs in (("eval/accuracy", "acc_sampled"), ("eval/greedy", "acc_greedy")):
        series[ours] = list(zip(history.get("eval_iter", []), history.get(labs, [])))
    return series


def draw(runs: dict[str, dict]):
    """Return a matplotlib Figure: one panel a metric, one line a run."""
    from matplotlib.figure import Figure

    shown = [name for name in TITLES if any(name in series for series in runs.values())]
    rows = max(1, -(-len(shown) // 3))
    figure = Figure(figsize=(12, 3.2 * rows), layout="constrained")
    panels = list(figure.subplots(rows, 3, squeeze=False).flat)
    for panel, name in zip(panels, shown):
        for i, (run, series) in enumerate(runs.items()):
            if name in series:
                x, y = zip(*series[name])
                style = {"color": COLORS[i % len(COLORS)], "ls": LINES[i % len(LINES)]}
                panel.plot(x, y, label=run, marker="o" if len(x) < 20 else None, ms=3, **style)
        panel.set(title=TITLES[name], xlabel="step")
    for panel in panels[len(shown) :]:
        panel.remove()
    if len(runs) > 1 and shown:
        panels[0].legend(fontsize=8)
    return figure


def described(runs: dict[str, dict]) -> str:
    """Return the first and last value of every metric as text."""
    lines = []
    for run, series in runs.items():
        parts = [f"{name} {points[0][1]:.4g} -> {points[-1][1]:.4g}"
                 for name, points in series.items() if name in TITLES]
        lines.append(f"{run}: " + ", ".join(parts))
    return "\n".join(lines)


def main(args: list[str] | None = None) -> int:
    """Draw; return the exit code."""
    from tinylm import write_file

    parser = argparse.ArgumentParser(prog="python -m beyond.plot", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN")
    parser.add_argument("--out", type=Path, help="the picture; default RUN/curves.png")
    flags = parser.parse_args(args)
    try:
        runs = {str(folder): read(folder) for folder in flags.runs}
        path = flags.out or flags.runs[0] / "curves.png"
        kind = path.suffix.lstrip(".") or "png"
        write_file(path, lambda file: draw(runs).savefig(file, format=kind, dpi=110))
    except (OSError, ValueError) as error:
        print(error)
        return 2
    print(f"{described(runs)}\n{path}")
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
