"""Draw accuracy and entropy of a class: every run that students have handed in, in one picture.

    python -m notebooks.figures.class_curves FOLDER --out class

FOLDER is searched for runs: folders with the history.json that `python lab15_grpo.py --out ...`
writes, however deep. Two files are written, class.svg and class.png; the text for those who cannot
see them is printed, and so is every file that could not be read. Names of students appear nowhere.
"""

import argparse
import json
import math
import sys
from pathlib import Path

from lab15_run import counted, piped
from notebooks.figures.style import ENTROPY, GREEDY, SAMPLED, new_figure, saved, visible

PANELS = (("acc_sampled", "sampled accuracy", SAMPLED, "o-"),
          ("acc_greedy", "greedy accuracy", GREEDY, "s--"),
          ("entropy", "entropy, nats per token", ENTROPY, "^-"))


def numbers(values):
    """Return whether something is a list of finite numbers, at least one."""
    return isinstance(values, list) and bool(values) and all(
        isinstance(v, int | float) and not isinstance(v, bool) and math.isfinite(v)
        for v in values)


def read(folder):
    """Return (histories, lines about files that are left out).

    Raises:
        OSError: the folder is not there.
    """
    folder = Path(folder)
    if not folder.is_dir():
        raise OSError(f"{folder} is no folder; name the one with the students' runs")
    runs, left_out = [], []
    for path in sorted(folder.rglob("history.json")):
        try:
            history = json.loads(path.read_text(encoding="utf-8"))
            wrong = [key for key, *_ in PANELS if not numbers(history.get(key))]
            if not numbers(history.get("eval_iter")):
                wrong.append("eval_iter")
        except (OSError, ValueError, AttributeError) as error:
            left_out.append(f"{path}: cannot be read ({error})")
            continue
        if wrong:
            left_out.append(f"{path}: no numbers for {', '.join(wrong)}")
        else:
            runs.append(history)
    return runs, left_out


def points(history, key):
    """Return (x, y) of a curve."""
    if key.startswith("acc"):
        n = min(len(history["eval_iter"]), len(history[key]))
        return history["eval_iter"][:n], history[key][:n]
    return list(range(1, len(history[key]) + 1)), history[key]


def quartiles(curves):
    """Return (x, quarter, median, three quarters) over the runs that have come as far."""
    import statistics

    columns = {}
    for x, y in curves:
        for at, value in zip(x, y):
            columns.setdefault(at, []).append(value)
    rows = []
    for at in sorted(columns):
        values = columns[at]
        parts = statistics.quantiles(values, n=4, method="inclusive") if len(values) > 1 else (
            values * 3)
        rows.append((at, *parts))
    return list(zip(*rows))


def draw(runs):
    """Return the figure: each run a thin line, the median thick, the middle half as a band."""
    figure, panels = new_figure(1, 3, 3.3)
    for axes, (key, title, color, style) in zip(panels, PANELS):
        curves = [points(run, key) for run in runs]
        for x, y in curves:
            axes.plot(x, y, color="0.6", lw=0.6, alpha=0.6)
        x, low, middle, high = quartiles(curves)
        axes.fill_between(x, low, high, color=color, alpha=0.3, lw=0)
        axes.plot(x, middle, style, color=visible(color), markevery=max(1, len(x) // 6), lw=2)
        axes.set(title=title, xlabel="iteration")
        if key.startswith("acc"):
            axes.set_ylim(0, 1.02)
    figure.supxlabel(f"{counted(len(runs), 'run')}: grey; line: the median; band: the middle half",
                     fontsize="medium")
    return figure


def described(runs):
    """Return the same as text."""
    parts = []
    for key, title, *_ in PANELS:
        starts, ends = ([run[key][at] for run in runs] for at in (0, -1))
        middle = sorted(ends)[len(ends) // 2]
        parts.append(f"{title} starts between {min(starts):.2f} and {max(starts):.2f} and ends "
                     f"between {min(ends):.2f} and {max(ends):.2f}, {middle:.2f} in the middle")
    return f"Curves of {counted(len(runs), 'run')} over the iterations: " + "; ".join(parts) + "."


def main(argv=None):
    """Draw; return the exit code."""
    from tinylm import write_file

    parser = argparse.ArgumentParser(prog="python -m notebooks.figures.class_curves",
                                     description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="with the students' runs, however deep")
    parser.add_argument("--out", type=Path, default=Path("class"), metavar="NAME",
                        help="of the two files, without .svg and .png; default: class")
    flags = parser.parse_args(argv)
    try:
        runs, left_out = read(flags.folder)
        print(*left_out, sep="\n", end="\n" if left_out else "")
        if not runs:
            print(f"{flags.folder}: no run (a history.json of python lab15_grpo.py --out ...)")
            return 2
        for kind, data in saved(lambda: draw(runs), "class_curves").items():
            path = flags.out.with_name(f"{flags.out.name}.{kind}")
            write_file(path, lambda file, data=data: file.write(data))
            print(path)
    except OSError as error:
        print(error)
        return 2
    print(described(runs) + (f" Left out: {len(left_out)}." if left_out else ""))
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
