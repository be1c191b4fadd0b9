"""Samples that are older than the policy: accuracy lost against samples in step, and time."""

from statistics import median

from beyond.staleness import RESULTS, SETS, STALENESS, by_setting, read
from notebooks.figures.style import GREEDY, SAMPLED, draw_seeds, looks, mean, new_figure, shade

LAST = 5  # evaluations that "at the end" is the mean of
LEVEL = 0.85  # accuracy whose seconds are compared
TITLES = {"none": "no correction", "tis": "TIS", "ratio": "ratio to the sampler"}


def load(path=RESULTS):
    """Return (what is said about all runs, the runs of every setting).

    Raises:
        FileNotFoundError: a setting was never measured.
    """
    head, runs = read(path)
    found = by_setting(runs)
    names = [s.name for settings in SETS.values() for s in settings]
    if missing := [name for name in names if name not in found]:
        raise FileNotFoundError(f"not measured: {', '.join(missing)}; python -m beyond.staleness")
    return head, {name: found[name] for name in names}


def reached(run):
    """Return the seconds after which a run's accuracy is at LEVEL for the first time, or None."""
    points = list(zip(run["at"], run["sampled"]))
    for (s, a), (t, b) in zip(points, points[1:]):
        if b >= LEVEL:
            return s + (t - s) * (LEVEL - a) / (b - a)
    return None


def milliseconds(run):
    """Return the milliseconds of an update between every two points of a run's curve."""
    points = list(zip(run["updates"], run["at"]))
    return [1000 * (t - s) / (b - a) for (a, s), (b, t) in zip(points, points[1:])]


def numbers(runs):
    """Return what is quoted of a setting, the mean over its seeds, by the end of its key.

    ms is a median, over all seeds and stretches of the curve: a hiccup of the machine is no cost.
    """
    ends = [mean(run["sampled"][-LAST:]) for run in runs]
    told = {"end": mean(ends), "end_min": min(ends), "end_max": max(ends),
            "at50": mean([run["sampled"][run["updates"].index(50)] for run in runs]),
            "ms": median([ms for run in runs for ms in milliseconds(run)]),
            "clip": mean([mean(run["clip"]) for run in runs])}
    if all(times := [reached(run) for run in runs]):
        told["reach"] = mean(times)
    if "lag" in runs[0]:
        told["lag"] = mean([mean(run["lag"]) for run in runs])
        for part in ("train", "wait"):
            told[f"{part}_share"] = mean([run["parts"][part] / run["at"][-1] for run in runs])
    return told


def collect(_):
    """Return the figure's results: the numbers quoted in prose, from the runs."""
    head, found = load()
    summary = {f"{name}_{key}": value for name, runs in found.items()
               for key, value in numbers(runs).items()}
    for name in (f"{correction}_{k}" for correction in ("none", "tis") for k in STALENESS[1:]):
        base = summary[f"{name.split('_')[0]}_0_ms"]
        summary[f"{name}_gain"] = base / summary[f"{name}_ms"]
    summary |= {"seeds": min(map(len, found.values())), "level": LEVEL}
    return {"summary": summary, **head}


def alt(results):
    """Return the alternative text."""
    s = results["summary"]

    def ends(correction, ks):
        return ", ".join(f"{s[f'{correction}_{k}_end']:.2f}" for k in ks)

    return (
        f"Sampled accuracy of {s['seeds']} seeds, mean and range, for samples that are 1, 4 and 16 "
        "updates old: the difference to the same seed in step (0 updates old), and the run in step "
        "itself. The accuracies of 0, 1, 4 and 16 end at "
        f"{ends('none', STALENESS)} without correction and at {ends('tis', STALENESS)} with "
        f"truncated weights; with the ratio to the sampler at {ends('ratio', STALENESS[1:])} for "
        f"1, 4, 16, and after 50 updates the last is at {s['ratio_16_at50']:.2f} where 0 is at "
        f"{s['none_0_at50']:.2f}. An update takes "
        f"{s['none_0_ms']:.0f}, {s['none_1_ms']:.0f}, {s['none_4_ms']:.0f} and "
        f"{s['none_16_ms']:.0f} ms, in the plain loop {s['plain_ms']:.0f} ms. At three times the "
        f"learning rate 0 ends at {s['none_0_fast_end']:.2f}, and 16 at "
        f"{s['none_16_fast_end']:.2f} without correction and {s['tis_16_fast_end']:.2f} with "
        "weights."
    )


def difference(runs, base):
    """Return (updates, one row of values a seed): how far a setting's accuracy is off base's.

    Seed by seed: a run and its base have the same seed.

    Raises:
        ValueError: a seed has no run to be compared with.
    """
    others = {run["seed"]: run for run in base}
    if missing := [run["seed"] for run in runs if run["seed"] not in others]:
        raise ValueError(f"staleness: no run in step with seed {missing[0]} to compare with")
    pairs = [(run, others[run["seed"]]) for run in runs]
    n = min(len(run["updates"]) for pair in pairs for run in pair)
    return runs[0]["updates"][:n], [
        [a - b for a, b in zip(run["sampled"][:n], other["sampled"][:n])] for run, other in pairs]


def line(axes, x, rows, label, look):
    """Draw one line: the mean of the seeds' rows, and their range as a band."""
    seeds = list(zip(*rows))
    draw_seeds(axes, x, seeds, alpha=0.13, label=label, markevery=max(1, len(x) // 6), **look)


def late(axes, found, correction, wanted):
    """Draw the difference to the runs in step, for one correction and several ages."""
    base = found.get(f"{correction}_0", found["none_0"])
    for k, look in zip(wanted, looks(SAMPLED, len(wanted))):
        label = "1 update late" if k == 1 else f"{k} updates late"
        line(axes, *difference(found[f"{correction}_{k}"], base), label, look)


def speed(axes, s):
    """Draw the milliseconds of an update."""
    names = {"plain": "plain loop", "none_0": "in step", "none_1": "1 late", "none_4": "4 late",
             "none_16": "16 late"}
    values = [s[f"{name}_ms"] for name in names]
    axes.barh(range(len(names)), values, 0.65, color=shade(SAMPLED, -0.45), edgecolor=SAMPLED,
              hatch=["//", "", "", "", ""])
    for i, value in enumerate(values):
        axes.annotate(f"{value:.0f} ms", (value, i), (-4, 0), textcoords="offset points",
                      va="center", ha="right",
                      bbox={"fc": "white", "ec": "none", "pad": 1})
    axes.set(yticks=range(len(names)), yticklabels=names.values(), title="time of an update",
             xlabel="milliseconds", xlim=(0, None))
    axes.invert_yaxis()


def draw(results):
    """Return the figure."""
    _, found = load()
    figure, (top, bottom) = new_figure(2, 3, 5.8)
    three = (top[1], top[2], bottom[0])
    for axes, correction in zip(three, TITLES):
        late(axes, found, correction, STALENESS[1:])
        axes.set_title(TITLES[correction])
    limits = [axes.get_ylim() for axes in three]
    for axes in three:
        axes.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
    top[2].tick_params(labelleft=False)
    step = {"color": "black", "ls": "-"}
    rows = [run["sampled"] for run in found["none_0"]]
    line(top[0], found["none_0"][0]["updates"], rows, "in step", step)
    top[0].set(title="in step", ylabel="accuracy", ylim=(0.4, 1))
    base = found["none_0_fast"]
    for correction, look in (("none", looks(SAMPLED, 3)[2]), ("tis", looks(GREEDY, 4)[3])):
        rows = difference(found[f"{correction}_16_fast"], base)
        line(bottom[1], *rows, "16 late, with TIS (last curves)", look)
    bottom[1].set_title("3 x learning rate")
    speed(bottom[2], results["summary"])
    for axes in (*top[1:], *bottom[:2]):
        axes.axhline(0, color="black", lw=1, ls=":")
    for axes in (*top, *bottom[:2]):
        axes.set(xlabel="update", xticks=(0, 150, 300))
    for axes in (top[1], *bottom[:2]):
        axes.set_ylabel("accuracy minus in step")
    handles = [*top[0].lines[:1], *top[1].lines[:3], bottom[1].lines[1]]
    names = [handle.get_label() for handle in handles]
    names[-1] = "16 late, TIS, 3 x learning rate"
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure
