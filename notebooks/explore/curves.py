"""The stored curves of scene 7: runs of the chapter's experiments and of the detective."""

from importlib.util import find_spec

from notebooks.experiments import RUNS, TABLE
from notebooks.figures.style import columns, mean, read_json, short

KEYS = ("acc_sampled", "acc_greedy", "reward", "loss", "kl", "clip_frac", "frac_zero_signal",
        "entropy")
# Which setting an experiment shows, and its value there; one that changes several has none.
SETTINGS = {
    "G": {"g2": 2, "g4": 4, "default": 8, "g16": 16},
    "beta": {"beta0": 0, "default": 0.04, "beta02": 0.2, "beta1": 1},
    "inner": {"inner1": 1, "default": 2, "inner8": 8},
    "clip": {"inner8": "0.2, 8 inner steps", "no_clip_8": "none, 8 inner steps"},
    "lr": {"default": 3e-4, "lr_high": 1e-2},
    "temperature": {"t07": 0.7, "default": 1},
    "std": {"default": "divided by the std", "no_std": "not divided",
            "sample_std": "divided by the sample std"},
    "reward": {"default": "exact answer", "hacked": "answer contains the response"},
    "kl": {"default": "k3", "kl_sign": "signed log-ratio"},
    "ratio": {"default": "against the sampling policy", "ratio_ref": "against the SFT model"},
}


def curve(runs, key):
    """Return mean, low and high over the seeds, and the x they belong to.

    A run that ended early counts as far as it goes.

    Args:
        runs: records with a history.
        key: in the histories.
    """
    x, seeds = columns(runs, key)
    return {"x": x, "mean": [short(mean(c)) for c in seeds],
            "low": [short(min(c)) for c in seeds], "high": [short(max(c)) for c in seeds]}


def kept(path):
    """Return the curves of a file in notebooks/figures/runs and where they come from."""
    stored = read_json(path)
    runs = stored["runs"]
    about = {key: stored[key] for key in ("command", "commit", "machine", "seeds") if key in stored}
    keys = [key for key in KEYS if all(key in run["history"] for run in runs)]
    return {"about": about, "curves": {key: curve(runs, key) for key in keys}}


def experiments():
    """Return the experiments of the chapter that were measured, in the order of the table."""
    found = []
    for name, row in TABLE.items():
        if (path := RUNS / f"{name}.json").exists():
            shows = {setting: values[name] for setting, values in SETTINGS.items()
                     if name in values}
            found.append({"name": name, "label": row.label, "shows": shows} | kept(path))
    return found


def fnv(text):
    """Return the 32-bit FNV-1a hash of an ASCII text, as js/data.js computes it."""
    value = 0x811C9DC5
    for byte in text.encode("ascii"):
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value


def detective():
    """Return the runs of notebooks/detective.py, or None in a bundle that comes without it."""
    if find_spec("notebooks.detective") is None:
        return None
    from notebooks import detective as game

    paths = {n: RUNS / f"{game.name_of(n)}.json" for n in game.NUMBERS}
    runs = [{"number": n} | kept(path) for n, path in paths.items() if path.exists()]
    pairs = {(n, letter): fnv(f"{game.SALT} {n}={letter}")
             for n in game.NUMBERS for letter in game.BUGS}
    right = sorted(h for pair, h in pairs.items() if game.digest(*pair) in game.PAIRS)
    bugs = {letter: {"right": old, "wrong": new} for letter, (old, new) in game.BUGS.items()}
    return {"salt": game.SALT, "pairs": right, "runs": runs, "bugs": bugs, "hints": game.HINTS}
