"""Draw the accuracy of five training runs: the figure on the README's first screen.

"python -m notebooks.figures.accuracy" draws accuracy.png from accuracy.json; with --measure it
first trains the SFT model and five seeds, which takes about two minutes, and writes that file.
These runs are timed, so measure them on a machine that does nothing else.
"""

import argparse
import os
import tempfile
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_run import commit, machine, mean, piped, read_json, write_json
from notebooks.figures.style import GREEDY, HERE, SAMPLED, TOP, draw_seeds, ends, new_figure

RESULTS = HERE / "accuracy.json"
SEEDS = range(5)


def measure_runs():
    """Train the SFT model and one policy per seed; write RESULTS after each run."""
    import torch

    import tinylm
    from tests.labfile import load_lab

    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    results = {
        "command": "python -m notebooks.figures.accuracy --measure",
        "commit": commit(),
        "machine": machine(),
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "config": vars(lab.GRPOConfig()) | {"seed": list(SEEDS)},
        "runs": [],
    }
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "tinylm_sft.pt"
        start = time.perf_counter()
        tinylm.load_or_train_sft(path)
        results["sft_seconds"] = round(time.perf_counter() - start, 1)
        for seed in SEEDS:
            start = time.perf_counter()
            _, hist = lab.train_grpo(lab.GRPOConfig(seed=seed), path)
            seconds = round(time.perf_counter() - start, 1)
            results["runs"].append({"seed": seed, "seconds": seconds, "history": hist})
            write_json(RESULTS, results)


def caption(results):
    """Return the sentence that stands below the figure, its numbers taken from the results."""
    first, last, greedy, seconds = [], [], [], []
    for run in results["runs"]:
        first.append(run["history"]["acc_sampled"][0])
        last.append(run["history"]["acc_sampled"][-1])
        greedy.append(run["history"]["acc_greedy"][-1])
        seconds.append(run["seconds"])
    return (
        f"Sampled accuracy on 500 held-out sums rises from {mean(first):.2f} to {mean(last):.2f} "
        f"(mean of {len(last)} seeds; {min(last):.2f} to {max(last):.2f}); greedy accuracy ends at "
        f"{mean(greedy):.2f}. Measured on {results['machine']}, one thread: "
        f"{results['sft_seconds']:.0f} s for the SFT model, {mean(seconds):.0f} s a run."
    )


def collect(_):
    """Return the figure's results: the runs as they are, and the numbers quoted in prose."""
    results = read_json(RESULTS)
    runs = [run["history"] for run in results["runs"]]
    summary = {
        "acc_start": mean([h["acc_sampled"][0] for h in runs]),
        **ends("acc_end", [h["acc_sampled"][-1] for h in runs]),
        "greedy_start": mean([h["acc_greedy"][0] for h in runs]),
        "greedy_end": mean([h["acc_greedy"][-1] for h in runs]),
        "sft_seconds": results["sft_seconds"],
        "seconds": mean([run["seconds"] for run in results["runs"]]),
    }
    return results | {"summary": summary}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]
    return (
        f"Accuracy over 300 iterations, mean and range of {len(results['runs'])} seeds: sampled "
        f"accuracy rises steeply from {s['acc_start']:.2f} and levels off at {s['acc_end']:.2f}; "
        f"greedy accuracy starts at {s['greedy_start']:.2f} and ends at {s['greedy_end']:.2f}."
    )


def draw(results):
    """Return the figure: mean over the seeds as a line, their range as a band."""
    figure, axes = new_figure(1, 1, 3.9)
    styles = (("acc_greedy", "greedy", GREEDY, "s--"), ("acc_sampled", "sampled", SAMPLED, "o-"))
    for key, label, color, style in styles:
        columns = list(zip(*(run["history"][key] for run in results["runs"])))
        x = results["runs"][0]["history"]["eval_iter"]
        draw_seeds(axes, x, columns, style, color=color, label=label)
    axes.set(xlabel="GRPO iteration (16 prompts x 8 responses)", ylabel="accuracy, held-out sums",
             ylim=(0, 1.02))
    axes.legend(title="mean and range of 5 seeds", loc="lower right")
    return figure


def main():
    """Measure if asked to, then draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="train first (about 2 minutes)")
    if parser.parse_args().measure:
        measure_runs()
    from notebooks.figures.__main__ import redraw

    redraw(["accuracy"], False)
    print(caption(read_json(RESULTS)))


if __name__ == "__main__":
    piped(main)
