"""A reader's own training runs for scene 7: their curves, and what sets them apart.

What cannot be drawn as it is (a value that is no number, a curve that is missing, other settings)
comes with a line that the page shows beside the curves.
"""

import json
import math
from pathlib import Path

from lab15_run import counted
from notebooks.explore.curves import KEYS
from notebooks.figures.style import points, short

MOST = 4  # runs in one page: more lines could not be told apart
ODD = "training_log.jsonl"  # what beyond's trainings leave instead


def runs(folders, training):
    """Return the runs in these folders as a list of dicts; see `own`.

    Args:
        folders: of runs, in the order in which they are drawn.
        training: the run of the page, a dict with its config and iterations.

    Raises:
        ValueError: too many, one of them twice, or one that cannot be used; one line.
    """
    if len(folders) > MOST:
        given = counted(len(folders), "time")
        raise ValueError(f"--run was given {given}; the page draws at most {MOST}")
    paths = [Path(folder).resolve() for folder in folders]
    if twice := [f for f, path in zip(folders, paths) if paths.count(path) > 1]:
        raise ValueError(f"{twice[0]} is given twice with --run")
    names = [path.name for path in paths]
    return [own(folder, training) | {"name": path.name if names.count(path.name) == 1
                                     else str(folder)}
            for folder, path in zip(folders, paths)]


def own(folder, training):
    """Return a run that `python lab15_grpo.py --out FOLDER` has written.

    Returns a dict: folder, iterations (how many), notes (lines about it), and curves, from key to
    {"x", "y"}; a y is None where a value was no number.

    Raises:
        ValueError: there is no such run, or it cannot be read; one line that says what to do.
    """
    path = Path(folder) / "history.json"
    if not path.is_file():
        raise ValueError(no_run(Path(folder)))
    history = read(path)
    try:
        n = checked(history)
    except ValueError as error:
        raise ValueError(f"{path} is no history of a run ({error}); give the folder that training "
                         "with --out has written") from None
    if n == 0:
        raise ValueError(f"{path} has no iteration yet; train first")
    keys = [key for key in KEYS if history.get(key)]
    config = Path(folder) / "config.json"
    settings = read(config) if config.is_file() else None
    return {"folder": str(folder), "iterations": n, "curves": {k: curve(history, k) for k in keys},
            "notes": [*differences(settings, n, training), *gaps(history, keys)]}


def read(path):
    """Return what a JSON file holds; an editor's byte-order mark is no error.

    Raises:
        ValueError: it is no JSON, or no text; one line.
    """
    try:
        return json.loads(path.read_text(encoding="utf-8-sig"))
    except ValueError as error:
        line = f", line {error.lineno}" if isinstance(error, json.JSONDecodeError) else ""
        why = "no text in UTF-8" if isinstance(error, UnicodeDecodeError) else "no whole JSON"
        raise ValueError(f"{path} cannot be read: {why}{line}; it is damaged, or was stored by "
                         "another program. Give another run, or train again") from None


def no_run(folder):
    """Return the line about a folder without a history."""
    if (folder / ODD).is_file():
        return (f"{folder} is a run of beyond ({ODD}), whose log has other curves; this page draws "
                "runs of: python lab15_grpo.py --out FOLDER")
    if folder.is_file():
        return f"{folder} is a file; give the folder of a run, such as runs/seed0"
    below = sorted(p.parent.name for p in folder.glob("*/history.json"))
    more = f" or {len(below) - 5} more" if len(below) > 5 else ""
    hint = (f"one of its folders: {', '.join(below[:5])}{more}" if below
            else "that of one, such as runs/seed0")
    return f"{folder} holds no run (no history.json); give {hint}"


def checked(history):
    """Return how many iterations a history has.

    Raises:
        ValueError: it is of another form, its lists do not belong together, or they hold something
            else than numbers.
    """
    if not isinstance(history, dict):
        raise ValueError("it is no dict of lists")
    if lacking := [key for key in ("loss", "eval_iter") if not isinstance(history.get(key), list)]:
        raise ValueError(f"it has no list {lacking[0]}")
    n, evals = len(history["loss"]), len(history["eval_iter"])
    for key in (*KEYS, "eval_iter"):
        values = history.get(key, [])
        if not isinstance(values, list):
            raise ValueError(f"{key} is no list")
        wanted = evals if key.startswith(("acc", "eval")) else n
        if values and len(values) != wanted:
            raise ValueError(f"{key} has {counted(len(values), 'value')}, not {wanted}")
        if odd := [v for v in values if isinstance(v, bool) or not isinstance(v, (int, float))]:
            raise ValueError(f"{key} holds {str(odd[0])[:40]!r}, which is no number")
    if sorted(history["eval_iter"]) != history["eval_iter"]:
        raise ValueError("eval_iter does not rise")
    return n


def curve(history, key):
    """Return the points of a curve; None where one of the values in it is no number."""
    x, y = points(history, key)
    return {"x": x, "y": [short(v) if math.isfinite(v) else None for v in y]}


def gaps(history, keys):
    """Return a line for each curve that is missing or has values that are no numbers."""
    lines = [f"It has no {key}." for key in KEYS if key not in keys]
    for key in keys:
        bad = sum(not math.isfinite(v) for v in history[key])
        if bad:
            lines.append(f"{key} is NaN or infinite in {bad} of {len(history[key])} values: "
                         "the curve has a gap there.")
    return lines


def differences(settings, n, training):
    """Return lines about a run that ended early, and about settings that are not the page's."""
    page = training["config"]
    if not isinstance(settings, dict):
        return ["It has no config.json, so its settings are not known."]
    other = [f"{key} = {settings[key]} (here {page[key]})" for key in page
             if key in settings and key != "iters" and settings[key] != page[key]]
    lines = [f"It was to have {settings['iters']}."] if settings.get("iters", n) != n else []
    return [*lines, f"Its settings differ: {', '.join(other)}."] if other else lines
