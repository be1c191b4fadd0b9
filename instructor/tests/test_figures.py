"""The figure on the README's first screen is what the kept results say."""

import json
from pathlib import Path

from beyond.bench import sft
from notebooks.figures import accuracy
from tests import labfile

TOP = Path(__file__).resolve().parents[2]


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
