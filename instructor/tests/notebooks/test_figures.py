"""The figures of README and chapter are what the kept results say."""

import json
import math
from pathlib import Path

import pytest

from beyond.bench import sft
from notebooks.figures import __main__ as figures
from notebooks.figures import accuracy
from tests import labfile

TOP = Path(__file__).resolve().parents[3]


def test_readme_quotes_the_measured_numbers():
    results = json.loads(accuracy.RESULTS.read_text(encoding="utf-8"))
    readme = " ".join((TOP / "README.md").read_text(encoding="utf-8").split())
    assert accuracy.caption(results) in readme, (
        f"the caption of README.md should read: {accuracy.caption(results)}"
    )


def test_results_are_five_complete_runs():
    results = json.loads(accuracy.RESULTS.read_text(encoding="utf-8"))
    assert [run["seed"] for run in results["runs"]] == [0, 1, 2, 3, 4]
    for run in results["runs"]:
        assert len(run["history"]["loss"]) == results["config"]["iters"] == 300
        assert len(run["history"]["acc_sampled"]) == 31
    assert results["commit"] and results["machine"] and results["sft_seconds"] > 0


def test_figure_draws_without_a_screen():
    figure = accuracy.draw(json.loads(accuracy.RESULTS.read_text(encoding="utf-8")))
    assert len(figure.axes[0].lines) == 2


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
    assert figures.picture_of(name).stat().st_size > 5000
    assert all(math.isfinite(v) for v in results["summary"].values())
    assert results["alt"].isascii() and 60 < len(results["alt"]) and "]" not in results["alt"]
    origins = results["sources"].values() if "sources" in results else [results]
    assert all(o["commit"] and o["machine"] and o["torch"] for o in origins)


def test_same_results_give_the_same_bytes():
    for name in ("surrogate", "step"):
        results = figures.read_json(figures.HERE / f"{name}.json")
        assert figures.bytes_of(name, results) == figures.bytes_of(name, results)


def test_other_results_give_another_picture():
    results = figures.read_json(figures.HERE / "surrogate.json")
    before = figures.bytes_of("surrogate", results)
    results["data"]["good"]["obj"][-1] += 0.1
    assert figures.bytes_of("surrogate", results) != before


def test_chapter_shows_the_alternative_texts():
    chapter = (TOP / "chapter.md").read_text(encoding="utf-8")
    for text, name in figures.IMAGE.findall(chapter):
        if name.startswith("compare_"):  # drawn by beyond.compare, from its own results
            continue
        expected = figures.read_json(figures.HERE / f"{name}.json")["alt"]
        assert " ".join(text.split()) == expected, f"python -m notebooks.figures --alt {name}"


def test_command_line_names_what_is_unknown(capsys):
    with pytest.raises(SystemExit):
        figures.main(["no_such_figure"])
    assert "no_such_figure" in capsys.readouterr().err
    figures.main(["--alt", "surrogate"])
    assert capsys.readouterr().out.startswith("surrogate: The objective")
