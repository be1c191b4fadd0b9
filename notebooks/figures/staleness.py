"""Samples that are older than the policy: accuracy over updates and over seconds."""

from statistics import median

from beyond.staleness import RESULTS, SETS, STALENESS, by_setting, read
from notebooks.figures.style import SAMPLED, mean, new_figure, shade

LAST = 5  # evaluations that "at the end" is the mean of
LEVEL = 0.85  # accuracy whose seconds are compared
TITLES = {"none": "no correction", "tis": "truncated weights (TIS)",
          "ratio": "ratio to the sampler"}
LOOKS = {1: (-0.5, "-", "o"), 4: (0, "--", "s"), 16: (0.5, "-.", "^")}
DOTTED = ("black", ":", "")  # 0, as the default settings everywhere


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
        f"Sampled accuracy of {s['seeds']} seeds, mean and range, for samples that are 0, 1, 4 and "
        "16 updates old. Over updates the curves end at "
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


def line(axes, runs, x, label, look):
    """Draw a setting: the mean of the seeds over updates or seconds, and their range."""
    color, style, mark = look
    color = color if isinstance(color, str) else shade(SAMPLED, color)
    times = [mean(column) for column in zip(*(run[x] for run in runs))]
    columns = list(zip(*(run["sampled"] for run in runs)))
    axes.fill_between(times, [min(c) for c in columns], [max(c) for c in columns],
                      color=color, alpha=0.15, lw=0)
    axes.plot(times, [mean(c) for c in columns], linestyle=style, marker=mark, color=color,
              label=label, markevery=3)


def over(axes, found, x, correction):
    """Draw one correction's four curves over updates or seconds."""
    for k in STALENESS:
        name = f"{correction}_{k}" if f"{correction}_{k}" in found else f"none_{k}"
        label = {0: "in step", 1: "1 update late"}.get(k, f"{k} updates late")
        line(axes, found[name], x, label, LOOKS.get(k, DOTTED))


def draw(results):
    """Return the figure."""
    _, found = load()
    figure, (top, bottom) = new_figure(2, 3, 4.3, sharey=True)
    for axes, correction in zip(top, TITLES):
        over(axes, found, "updates", correction)
        axes.set(title=TITLES[correction], xlabel="update")
    timed = [run for name in found if not name.endswith("fast") for run in found[name]]
    limit = max(run["at"][-1] for run in timed if run["correction"] != "ratio")
    for axes, correction in zip(bottom, ("none", "tis")):
        over(axes, found, "at", correction)
        line(axes, found["plain"], "at", "plain loop, one process", ("#777777", "-", ""))
        axes.set(title=f"{TITLES[correction]}, by the clock", xlabel="seconds of training",
                 xlim=(-0.03 * limit, 1.03 * limit))
    for name, look in (("none_0", DOTTED), ("none_16", LOOKS[16]), ("tis_16", (-0.3, "-", "D"))):
        line(bottom[2], found[f"{name}_fast"], "updates", "16 updates late, TIS (last panel)", look)
    bottom[2].set(title="three times the learning rate", xlabel="update")
    for axes in (top[0], bottom[0]):
        axes.set(ylabel="sampled accuracy", ylim=(0.4, 1))
    handles = [*bottom[0].get_legend_handles_labels()[0], bottom[2].lines[-1]]
    names = [handle.get_label() for handle in handles]
    figure.legend(handles, names, loc="outside lower center", ncols=3)
    return figure
