"""The figures of README and chapter are what the kept results say."""

import functools
import json
import math
import re
import struct
from pathlib import Path

import pytest
from matplotlib import rc_context
from matplotlib.colors import to_rgb
from matplotlib.legend import Legend
from matplotlib.lines import Line2D
from matplotlib.text import Text

import lab15_run
from beyond.bench import sft
from beyond.compare import __main__ as compare
from beyond.compare import figures as compare_figures
from beyond.staleness import keep
from notebooks import experiments
from notebooks.figures import __main__ as figures
from notebooks.figures import accuracy, class_curves, estimators, staleness, style, zero_signal
from notebooks.figures.training import curves
from tests import labfile

TOP = Path(__file__).resolve().parents[3]


def test_readme_quotes_the_measured_numbers():
    results = json.loads(accuracy.RESULTS.read_text(encoding="utf-8"))
    readme = " ".join((TOP / "README.md").read_text(encoding="utf-8").split())
    assert accuracy.caption(results) in readme, (
        f"the caption of README.md should read: {accuracy.caption(results)}"
    )


def test_notes_quote_the_measured_recipes():
    notes = (TOP / "solutions" / "notes.md").read_text(encoding="utf-8")
    results = json.loads(sft.RESULTS.read_text(encoding="utf-8"))
    assert sft.table(results) in notes, "solutions/notes.md: put in what beyond.bench.sft prints"


def test_readme_quotes_what_a_student_sees_first():
    readme = (TOP / "README.md").read_text(encoding="utf-8")
    first = labfile.task_state(labfile.load_lab(), 1).text
    assert first in readme, f"README.md should quote: {first}"


@pytest.mark.parametrize("name", figures.FIGURES)
def test_stored_results_are_those_of_the_runs(name):
    results = figures.results_of(name)
    stored = figures.read_json(figures.HERE / f"{name}.json")
    assert json.loads(json.dumps(results)) == stored, f"run python -m notebooks.figures {name}"
    assert all(path.stat().st_size > 5000 for path in figures.pictures_of(name).values())
    assert all(math.isfinite(v) for v in results["summary"].values())
    assert results["alt"].isascii() and 60 < len(results["alt"]) and "]" not in results["alt"]
    origins = results["sources"].values() if "sources" in results else [results]
    assert all(o["commit"] and o["machine"] and o["torch"] for o in origins)


def test_same_results_give_the_same_bytes():
    for name in ("surrogate", "step"):
        results = figures.read_json(figures.HERE / f"{name}.json")
        assert figures.bytes_of(name, results) == figures.bytes_of(name, results)


def test_other_results_give_another_picture():
    results = figures.read_json(figures.HERE / "passk.json")
    before = figures.bytes_of("passk", results)
    results["summary"]["before_2"] += 0.1
    after = figures.bytes_of("passk", results)
    assert before["svg"] != after["svg"] and before["png"] != after["png"]


# ---------------------------------------------------------------- how they look

KEPT = [*figures.FIGURES, *(f"compare_{name}" for name in compare.KEPT_FIGURES)]


@functools.cache
def drawn(name):
    """Return a figure as matplotlib has it, those of beyond.compare too."""
    with rc_context(style.settings(name)):
        if name.startswith("compare_"):
            return compare_figure(name.removeprefix("compare_"))
        return figures.module_of(name).draw(figures.read_json(figures.HERE / f"{name}.json"))


def compare_figure(name):
    """Return a figure of beyond.compare, from the kept results."""
    kept = compare.kept_runs()
    if name == "hack":
        return compare_figures.hack(kept)
    task, _, what = name.partition("_")
    if what == "differences":
        return compare_figures.forest(compare_figures.summaries(kept[task]), task)
    key, _, label = next(row for row in compare_figures.CURVES if row[1] == what)
    return compare_figures.curves(kept[task], key, label)


@pytest.mark.parametrize("name", KEPT)
def test_pictures_are_sharp_and_need_no_font(name):
    svg = (figures.HERE / f"{name}.svg").read_text(encoding="utf-8")
    assert "<text" not in svg and "<dc:date>" not in svg and "http-equiv" not in svg
    width = float(re.search(r'<svg [^>]*width="([\d.]+)pt"', svg)[1])
    assert width == pytest.approx(72 * style.WIDTH, abs=1)
    assert style.WIDTH * 96 <= 736  # pixels of the book's column
    png = (figures.HERE / f"{name}.png").read_bytes()
    pixels, = struct.unpack(">I", png[16:20])
    assert pixels >= 200 * style.WIDTH


def test_no_two_pictures_share_an_id():
    ids = {}
    for name in KEPT:
        svg = (figures.HERE / f"{name}.svg").read_text(encoding="utf-8")
        # Those that other parts refer to: clips and marks. Groups are only numbered.
        for found in set(re.findall(r'(?:url\(#|xlink:href="#)([\w-]+)', svg)):
            if not found.startswith("DejaVu"):  # a letter, the same in all
                assert ids.setdefault(found, name) == name, found


@pytest.mark.parametrize("name", KEPT)
def test_letters_have_ten_points(name):
    small = {text.get_text(): text.get_fontsize() for text in drawn(name).findobj(Text)
             if text.get_text().strip() and text.get_visible()
             and text.get_fontsize() < style.POINTS}
    assert not small


@pytest.mark.parametrize("name", [n for n in KEPT if n != "step"])  # its white lines are bridges
def test_lines_can_be_seen_and_told_apart_without_colour(name):
    for axes in drawn(name).axes:
        for line in axes.lines:
            shown = line.get_linestyle() not in ("None", "none", "", " ")
            if shown and line.get_alpha() is None:
                assert style.contrast(line.get_color()) >= 3, (line.get_label(), line.get_color())
        looks = [(line.get_linestyle(), line.get_marker(), line.get_linewidth())
                 for line in axes.lines if not line.get_label().startswith("_")]
        assert len(set(looks)) == len(looks), looks


@pytest.mark.parametrize("name", KEPT)
def test_every_panel_says_what_it_shows(name):
    figure = drawn(name)
    figure.draw_without_rendering()
    words = {text.get_text().strip() for text in figure.findobj(Text) if text.get_visible()}
    assert len([w for w in words if re.search("[a-z]{3}", w)]) >= 3, words


def not_drawn(figure):
    """Return the labels of ticks beyond the ends of their axis, which are never drawn."""
    found = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        room = 1e-6 * (high - low)
        for tick in (*axis.get_major_ticks(), *axis.get_minor_ticks()):
            if not low - room <= tick.get_loc() <= high + room or not axis.axes.axison:
                found |= {tick.label1, tick.label2}
    return found


@pytest.mark.parametrize("name", KEPT)
def test_no_words_stand_on_others_or_outside(name):
    figure = drawn(name)
    figure.set_dpi(100)
    figure.draw_without_rendering()
    unseen = not_drawn(figure)
    boxes = [(text.get_text(), text.get_window_extent().padded(-1.5))
             for text in figure.findobj(Text)
             if text.get_text().strip() and text.get_visible() and text not in unseen]
    boxes = [(words, box) for words, box in boxes if box.width > 0 and box.height > 0]
    whole = figure.bbox.padded(2)
    for i, (words, box) in enumerate(boxes):
        assert whole.containsx(box.x0) and whole.containsx(box.x1), f"{words!r} is cut off"
        assert whole.containsy(box.y0) and whole.containsy(box.y1), f"{words!r} is cut off"
        for others, other in boxes[i + 1:]:
            assert not box.overlaps(other), f"{words!r} stands on {others!r}"


@pytest.mark.parametrize("name", KEPT)
def test_legends_lie_inside_and_name_one_look_each(name):
    figure = drawn(name)
    figure.set_dpi(100)
    figure.draw_without_rendering()
    whole = figure.bbox
    for legend in figure.findobj(Legend):
        for part in (*legend.get_texts(), *legend.legend_handles):
            box = part.get_window_extent()
            assert whole.x0 <= box.x0 and box.x1 <= whole.x1, f"cut off: {part}"
            assert whole.y0 <= box.y0 and box.y1 <= whole.y1, f"cut off: {part}"
        lines = [part for part in legend.legend_handles if isinstance(part, Line2D)]
        looks = [(line.get_linestyle(), line.get_marker(), line.get_markerfacecolor() == "white",
                  line.get_linewidth()) for line in lines]
        assert len(set(looks)) == len(looks), [line.get_label() for line in lines]


@pytest.mark.parametrize("name", figures.TRAINING)
def test_a_text_names_the_iterations_behind_a_mean(name):
    """A mean of the first iterations is not "the start": the line begins elsewhere."""
    alt = figures.read_json(figures.HERE / f"{name}.json")["alt"]
    assert "at the start" not in alt
    keys = "KL|entropy|loss|zero-signal|clipped|tokens"
    assert not re.search(keys, alt) or "averaged over" in alt, alt


def test_the_start_is_where_the_line_begins():
    runs = experiments.load("default")
    for key in ("acc_sampled", *curves.PANELS):
        _, axes = style.new_figure()
        style.band(axes, runs, key)
        begins = axes.lines[0].get_ydata()[0]
        assert style.mean(style.first(runs, key)) == pytest.approx(begins), key


def test_a_students_own_picture_looks_like_the_chapters():
    assert tuple(lab15_run.PANELS) == curves.PANELS
    assert lab15_run.MEAN_OVER == experiments.WINDOW
    history = experiments.load("default")[0]["history"]
    figure = lab15_run.plot_curves(history)
    assert len(figure.axes[0].lines) == 2
    for axes, key in zip(figure.axes[1:], curves.PANELS):
        raw, means = axes.lines
        assert list(raw.get_ydata()) == history[key]
        assert list(means.get_ydata()) == style.points(history, key)[1]
        own = to_rgb(style.visible(style.QUANTITIES[key][1]))
        assert to_rgb(means.get_color()) == pytest.approx(own, abs=0.01), key
    assert lab15_run.plot_curves({key: [] for key in history})  # a run that ended at once


def test_texts_and_pictures_round_a_number_once():
    s = figures.results_of("estimators")["summary"]
    data = figures.read_json(figures.HERE / "estimators.json")["data"]["real"]
    assert all(f"{s[f'{n}_mean']:.3f}" == f"{data[f'{n}_mean']:.3f}" for n in ("k1", "k2", "k3"))
    probes = [run["history"] for run in experiments.load("default")]
    circles = next(line for line in drawn("zero_signal").axes[1].lines if line.get_marker() == "o")
    assert circles.get_ydata()[-1] == pytest.approx(zero_signal.naive(probes, -1))
    assert figures.read_json(figures.HERE / "zero_signal.json")["summary"]["naive_8_end"] == (
        pytest.approx(circles.get_ydata()[-1]))


@pytest.mark.parametrize("n", [1, 2, 3, 4])
@pytest.mark.parametrize("color", [style.SAMPLED, style.KL, style.SILENT, style.CLIP])
def test_shades_of_a_colour_can_be_told_apart(color, n):
    contrasts = [style.contrast(c) for c in style.ramp(color, n)]
    assert contrasts[0] >= 3
    assert all(b / a > 1.5 for a, b in zip(contrasts, contrasts[1:])), contrasts


def test_both_kinds_of_figures_have_the_same_look():
    mine = {k: v for k, v in style.settings().items() if k != "svg.hashsalt"}
    assert mine == compare_figures.SETTINGS
    assert (style.WIDTH, style.POINTS, style.DPI) == (
        compare_figures.WIDTH, compare_figures.POINTS, compare_figures.DPI)


# ---------------------------------------------------------------- single figures


@pytest.mark.parametrize("A", [1, -1])
@pytest.mark.parametrize("eps", [0.1, 0.2, 0.37])
def test_surrogate_bends_exactly_where_the_clip_begins(A, eps):
    results = figures.read_json(figures.HERE / "surrogate.json")
    results["data"]["eps"] = eps
    figure = figures.module_of("surrogate").draw(results)
    top = figure.axes[0 if A > 0 else 1]
    smaller, plain, clipped = (list(line.get_xdata()) for line in top.lines[:3])
    kink = 1 + eps if A > 0 else 1 - eps
    assert kink in smaller and {1 - eps, 1 + eps} <= set(clipped) and len(plain) > 1
    ticks = {float(tick) for tick in figure.axes[2].get_xticks()}
    assert {1 - eps, 1 + eps} <= ticks
    heights = dict(zip(top.lines[2].get_xdata(), top.lines[2].get_ydata()))
    assert heights[1 - eps] == pytest.approx(A * (1 - eps))
    assert heights[1 + eps] == pytest.approx(A * (1 + eps))
    slopes = [line for line in figure.axes[2 if A > 0 else 3].lines
              if list(line.get_xdata()) == [kink, kink]]
    assert slopes, "the jump of the gradient is not upright"


def test_surrogate_is_that_of_the_loss():
    summary = figures.read_json(figures.HERE / "surrogate.json")["summary"]
    assert summary["largest_difference"] < 1e-5
    assert (summary["good_flat_from"], summary["bad_flat_to"]) == (1.2, 0.8)


def test_estimators_show_no_value_that_k3_cannot_have():
    real = figures.read_json(figures.HERE / "estimators.json")["data"]["real"]
    assert min(real["k3_quantiles"]) >= -1e-6 and min(real["k2_quantiles"]) >= 0
    assert min(real["k1_quantiles"]) < 0
    for name in ("k1", "k2", "k3"):
        assert sorted(real[f"{name}_quantiles"]) == real[f"{name}_quantiles"]
        assert len(real[f"{name}_quantiles"]) == len(estimators.SHARES)
    below = drawn("estimators").axes[-1]
    for bar in below.patches:
        low = bar.get_x()
        assert low >= -1e-6 or abs(bar.get_y() + bar.get_height() / 2) < 0.5  # k1's row


def test_gallery_has_the_rows_of_the_table_in_its_order():
    chapter = (TOP / "chapter.md").read_text(encoding="utf-8")
    section = chapter[chapter.index('id="section-10"'):chapter.index('id="section-11"')]
    quoted = re.findall(r'fig\("gallery", "(\w+)_acc"\)|run\("(\w+)", "acc_sampled"\)', section)
    words = [a or b for a, b in quoted]
    rows = list(figures.module_of("gallery").RUNS)
    assert [w for w in dict.fromkeys(words) if w in rows] == rows
    assert set(words) - {"base"} <= set(rows), "a row of the table is not drawn"


def test_staleness_is_a_difference_seed_by_seed():
    def run(seed, *values):
        return {"seed": seed, "updates": [0, 10], "sampled": list(values)}

    late, base = [run(0, 0.5, 0.6), run(1, 0.5, 0.9)], [run(1, 0.5, 0.95), run(0, 0.5, 0.7)]
    x, rows = staleness.difference(late, base)
    assert x == [0, 10] and rows == [[0, pytest.approx(-0.1)], [0, pytest.approx(-0.05)]]
    with pytest.raises(ValueError, match="seed 7"):
        staleness.difference([run(7, 0.5, 0.6)], base)


def test_staleness_says_what_the_runs_say(tmp_path):
    def run(sampled=(0.4, 0.8, 0.9), at=(0.0, 2.0, 4.0)):
        return {"updates": [0, 50, 100], "sampled": sampled, "at": at, "clip": [0.01, 0.03],
                "lag": [0.1, 0.3], "parts": {"train": 3.0, "wait": 1.0}}

    told = staleness.numbers([run(), run(at=(0.0, 3.0, 8.0))])
    assert told["at50"] == 0.8 and told["ms"] == pytest.approx(50)  # of 40, 40, 60, 100
    assert told["reach"] == pytest.approx((3.0 + 5.5) / 2)  # 0.85 is half-way from 0.8 to 0.9
    assert told["lag"] == pytest.approx(0.2) and told["wait_share"] == pytest.approx(3 / 16)
    assert "reach" not in staleness.numbers([run(sampled=(0.4, 0.5, 0.6))])
    keep(tmp_path / "r.jsonl", {}, [])
    with pytest.raises(FileNotFoundError, match="none_16.*python -m beyond.staleness"):
        staleness.load(tmp_path / "r.jsonl")


# ---------------------------------------------------------------- a class's own curves


def made_up_run(folder, start, iters=20):
    folder.mkdir(parents=True)
    history = {"eval_iter": [0, 10, 20], "acc_sampled": [start, 0.7, 0.9],
               "acc_greedy": [0.9, 0.9, 0.95], "entropy": [1 / (i + 1) for i in range(iters)]}
    (folder / "history.json").write_text(json.dumps(history), encoding="utf-8")


def test_curves_of_a_class(tmp_path, capsys):
    for i in range(5):
        made_up_run(tmp_path / "class" / f"student {i}" / "runs" / "seed0", 0.4 + i / 100, 20 - i)
    for name, text in (("broken", '{"entropy": [1'), ("other", "[]"), ("nan", '{"entropy": []}')):
        (tmp_path / "class" / name).mkdir()
        (tmp_path / "class" / name / "history.json").write_text(text, encoding="utf-8")
    assert class_curves.main([str(tmp_path / "class"), "--out", str(tmp_path / "all")]) == 0
    said = capsys.readouterr().out
    assert "5 runs" in said and "between 0.40 and 0.44" in said and "Left out: 3" in said
    assert all(f"{name}/history.json" in said.replace("\\", "/")
               for name in ("broken", "other", "nan"))
    assert "student" not in (tmp_path / "all.svg").read_text(encoding="utf-8")
    assert (tmp_path / "all.png").stat().st_size > 5000


def test_curves_of_no_class(tmp_path, capsys):
    assert class_curves.main([str(tmp_path)]) == 2
    assert "no run" in capsys.readouterr().out
    assert class_curves.main([str(tmp_path / "none")]) == 2
    assert "is no folder" in capsys.readouterr().out


# ---------------------------------------------------------------- texts


def test_command_line_names_what_is_unknown(capsys):
    with pytest.raises(SystemExit):
        figures.main(["no_such_figure"])
    assert "no_such_figure" in capsys.readouterr().err
    figures.main(["--alt", "surrogate"])
    assert capsys.readouterr().out.startswith("surrogate: The objective")
