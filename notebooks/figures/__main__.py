"""Draw the figures of the chapter from their results.

    python -m notebooks.figures                  draw all of them
    python -m notebooks.figures beta gallery     draw these
    python -m notebooks.figures --measure        measure first what is not a training run
    python -m notebooks.figures --check          write nothing; fail if something is out of date
    python -m notebooks.figures --alt beta       print the alternative text
    python -m notebooks.figures --chapter        draw, and put the texts into chapter.md and beyond

The training runs are measured by python -m notebooks.experiments, and those of the README's
figure, with their seconds, by python -m notebooks.figures.accuracy --measure.
"""

import argparse
import importlib
import os
import re
import sys
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

from lab15_run import counted, piped
from notebooks.figures.style import HERE, TOP, about, read_json, saved, short, write_json

FIGURES = ("accuracy", "step", "teacher", "zero_signal", "baseline", "beta", "clip", "inner",
           "surrogate", "curves", "loss", "passk", "estimators", "gallery", "group_size", "hacked",
           "detective", "staleness")
TRAINING = ("beta", "clip", "inner", "curves", "loss", "passk", "gallery", "group_size", "hacked",
            "detective")  # drawn from runs of notebooks.experiments
DIGITS = 8  # of a summary: texts round its numbers, and a number must be rounded only once
IMAGE = re.compile(r"!\[([^\]]*)\]\((?:\.\./)*notebooks/figures/(\w+)\.(?:png|svg)\)")
# Texts with figures whose alternative texts are put in and checked here.
TEXTS = ("chapter.md", "beyond/comparison.md", "beyond/many_machines.md")


def module_of(name):
    """Return the module that draws a figure."""
    room = "notebooks.figures.training" if name in TRAINING else "notebooks.figures"
    return importlib.import_module(f"{room}.{name}")


def pictures_of(name):
    """Return the paths of a figure's pictures: {"svg": the book's, "png": for all others}."""
    return {kind: HERE / f"{name}.{kind}" for kind in ("svg", "png")}


def results_of(name, measure=False):
    """Return a figure's results: what was measured for it, and from that its summary and alt."""
    module, path = module_of(name), HERE / f"{name}.json"
    stored = read_json(path) if path.exists() else {}
    kept = {k: v for k, v in stored.items() if k not in ("summary", "alt", "sources")}
    if hasattr(module, "measure") and (measure or "data" not in stored):
        start = time.perf_counter()
        data = module.measure()
        seconds = round(time.perf_counter() - start, 1)
        origin = about(f"python -m notebooks.figures --measure {name}")
        kept = origin | {"seconds": seconds, "data": data}
    results = kept | module.collect(kept.get("data"))
    results["summary"] = {k: short(v, DIGITS) for k, v in results["summary"].items()}
    return results | {"alt": module.alt(results)}


def bytes_of(name, results):
    """Return a figure's pictures, {"svg": bytes, "png": bytes}: the same ones every time."""
    return saved(lambda: module_of(name).draw(results), name)


def redraw(names, measure):
    """Write results and pictures; print the paths."""
    import tinylm

    for name in names:
        results = results_of(name, measure)
        write_json(HERE / f"{name}.json", results)
        drawn = bytes_of(name, results)
        for kind, path in pictures_of(name).items():
            tinylm.write_file(path, lambda file, data=drawn[kind]: file.write(data))
        places = [path.relative_to(TOP).as_posix() for path in pictures_of(name).values()]
        print(", ".join(places), flush=True)


def texts():
    """Return the paths of TEXTS that are there."""
    return [TOP / name for name in TEXTS if (TOP / name).is_file()]


def fill_texts(names):
    """Put the alternative texts of the figures into the texts that show them.

    Returns:
        The names of the figures that none of the texts shows.
    """
    import textwrap

    import tinylm

    unseen = dict.fromkeys(names)

    def put(match):
        if match[2] not in names:
            return match[0]
        unseen.pop(match[2], None)
        image = match[0].replace(f"[{match[1]}]", f"[{results_of(match[2])['alt']}]", 1)
        return textwrap.fill(image, 88, break_long_words=False, break_on_hyphens=False)

    for path in texts():
        with open(path, encoding="utf-8", newline="") as file:
            text = file.read()  # a checkout may have CRLF, and keeps it
        new = IMAGE.sub(put, text.replace("\r\n", "\n"))
        data = (new.replace("\n", "\r\n") if "\r\n" in text else new).encode()
        tinylm.write_file(path, lambda file, data=data: file.write(data))
    return list(unseen)


def complaints(names):
    """Return what is out of date, a line each."""
    wrong = []
    shown = {name: (path.name, " ".join(text.split())) for path in texts()
             for text, name in IMAGE.findall(path.read_text(encoding="utf-8"))}
    for name in names:
        results = results_of(name)
        path = HERE / f"{name}.json"
        same = path.exists() and read_json(path) == results
        if not same or not all(path.exists() for path in pictures_of(name).values()):
            wrong.append(f"{name}: not drawn from the results as they are; "
                         f"run python -m notebooks.figures {name}")
        if min(map(len, bytes_of(name, results).values())) < 1000:
            wrong.append(f"{name}: nothing is drawn")
        place, text = shown.get(name, ("", results["alt"]))
        if text != results["alt"]:
            wrong.append(f"{place}, {name}: the alternative text is not that of the results; "
                         "run python -m notebooks.figures --chapter")
    return wrong


def main(argv=None):
    """Draw, check or print."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.figures", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="of a figure; all if none")
    parser.add_argument("--measure", action="store_true", help="measure first")
    parser.add_argument("--check", action="store_true", help="write nothing, fail if out of date")
    parser.add_argument("--alt", action="store_true", help="print the alternative texts")
    parser.add_argument("--chapter", action="store_true",
                        help="draw, and put them into chapter.md and beyond")
    flags = parser.parse_args(argv)
    names = flags.names or FIGURES
    if unknown := [name for name in names if name not in FIGURES]:
        parser.error(f"unknown: {', '.join(unknown)}. There are: {', '.join(FIGURES)}")
    try:
        if flags.alt:
            print("\n\n".join(f"{name}: {results_of(name)['alt']}" for name in names))
        elif flags.check:
            if wrong := complaints(names):
                sys.exit("\n".join(wrong))
            print(f"up to date: {counted(len(names), 'figure')}")
        else:
            redraw(names, flags.measure)
            if flags.chapter and (unseen := fill_texts(names)):
                print(f"in none of {', '.join(TEXTS)}: {', '.join(unseen)}")
    except FileNotFoundError as error:  # a run that was never measured
        sys.exit(str(error))


if __name__ == "__main__":
    piped(main)
