"""Compare recipes for the SFT model: what it knows, how it samples, what training makes of it.

"python -m beyond.bench.sft" prints the table from results/sft.json; with --measure it first
trains every recipe with three seeds, and the lab's loop from the first of them (15 minutes).
"""

import argparse
import json
import os
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from tqdm import tqdm

import tinylm
from beyond.bench.common import save
from lab15_run import TOP, about, mean, piped
from tests.labfile import load_lab

RESULTS = Path(__file__).resolve().parent / "results" / "sft.json"
SEEDS = (2, 3, 4)  # tinylm.py's own comes first
RECIPES: dict[str, dict] = {
    "as in tinylm.py": {},
    "careless from the start, 1200 steps": {"right": 0.0, "wrong": 0.45, "steps": 1200,
                                            "lr": 2.5e-3, "warmup": 50, "hold": 0.7},
    "careless from the start": {"right": 0.0},
    "careless in the last quarter": {"right": 0.75},
    "careless in 20%": {"wrong": 0.2},
    "careless in 45%": {"wrong": 0.45},
    "never careless": {"wrong": 0.0},
    "never careless, 200 steps": {"wrong": 0.0, "steps": 200},
    "500 steps": {"steps": 500},
    "batch 64, 960 steps": {"batch": 64, "steps": 960},
    "learning rate 2.5e-3": {"lr": 2.5e-3},
    "learning rate 6e-3": {"lr": 6e-3},
    "8 heads": {"heads": 8},
    "width 96, 400 steps": {"width": 96, "steps": 400},
    "all sums equally often": {"weights": (1.0, 1.0, 1.0)},
}


def train(change: dict, seed: int) -> tinylm.TinyLM:
    """Return an SFT model of tinylm's recipe with some settings changed."""
    old = tinylm.MODEL.copy(), tinylm.RECIPE.copy(), tinylm.TRAIN_WEIGHTS.copy()
    try:
        tinylm.MODEL.update({k: v for k, v in change.items() if k in tinylm.MODEL})
        tinylm.RECIPE.update({k: v for k, v in change.items() if k in tinylm.RECIPE}, seed=seed)
        if "weights" in change:
            short = [(a < 10) + (b < 10) for a, b in tinylm.TRAIN_PAIRS]
            tinylm.TRAIN_WEIGHTS[:] = [change["weights"][n] for n in short]
        return tinylm.train_sft()
    finally:
        tinylm.MODEL.update(old[0])
        tinylm.RECIPE.update(old[1])
        tinylm.TRAIN_WEIGHTS[:] = old[2]


def measure() -> None:
    """Train every recipe with every seed; write the results after each recipe."""
    lab = load_lab(TOP / "solutions" / "lab15_grpo.py")
    results = about("python -m beyond.bench.sft --measure") | {"seeds": SEEDS, "recipes": []}
    for name, change in tqdm(RECIPES.items()):
        row = {"name": name, "change": change, "sampled": [], "greedy": [], "seconds": []}
        for seed in SEEDS:
            start = time.process_time()
            model = train(change, seed)
            row["seconds"].append(round(time.process_time() - start, 1))
            row["sampled"].append(tinylm.accuracy(model, 2000))
            row["greedy"].append(tinylm.accuracy(model, greedy=True))
            if seed == SEEDS[0]:
                lab.load_or_train_sft = lambda path, model=model: _copy(model)
                _, hist = lab.train_grpo(lab.GRPOConfig(eval_every=100), "unused", verbose=False)
                row["after"] = [hist["acc_sampled"][-1], hist["acc_greedy"][-1]]
        results["recipes"].append(row)
        save(RESULTS, results)


def _copy(model: tinylm.TinyLM) -> tinylm.TinyLM:
    """Return a model with the same shape and weights."""
    width, heads = model.head.in_features, model.blocks[0].heads
    twin = tinylm.TinyLM(**tinylm.MODEL | {"width": width, "heads": heads})
    twin.load_state_dict(model.state_dict())
    return twin


def table(results: dict) -> str:
    """Return the results as a Markdown table."""
    lines = ["| recipe | greedy | sampled | after GRPO: sampled, greedy | CPU seconds |",
             "|---|---|---|---|---|"]
    for row in results["recipes"]:
        cells = [f"{mean(row[k]):.2f} ({min(row[k]):.2f} to {max(row[k]):.2f})"
                 for k in ("greedy", "sampled")]
        cells.append("{:.2f}, {:.2f}".format(*row["after"]))
        cells.append(f"{mean(row['seconds']):.0f}")
        lines.append(f"| {row['name']} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Measure if asked to, then print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--measure", action="store_true", help="train first (about 15 minutes)")
    if parser.parse_args().measure:
        measure()
    print(table(json.loads(RESULTS.read_text(encoding="utf-8"))))


if __name__ == "__main__":
    piped(main)
