"""A reader's own training runs in the page: curves, what sets them apart, what cannot be drawn."""

import json
import math

import pytest

from instructor.tests import browser
from instructor.tests.notebooks.explore.walking import Walks
from notebooks.explore import __main__ as command
from notebooks.explore import build, own

TRAINING = build.read_page()["training"]


def history(n=300, **changes):
    """Return a history of n iterations, as training writes it."""
    evals = [*range(0, n + 1, 10)]
    rising = [min(1.0, 0.4 + i / n) for i in range(n)]
    found = {key: rising[:] for key in ("reward", "loss", "kl", "clip_frac", "frac_zero_signal",
                                        "entropy")}
    found |= {"eval_iter": evals, "acc_sampled": [0.5] * len(evals),
              "acc_greedy": [0.9] * len(evals)}
    return found | changes


@pytest.fixture
def run(tmp_path):
    """Return a function that writes a run and returns its folder."""

    def write(name="seed0", text=None, config=TRAINING["config"], **changes):
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        text = json.dumps(history(**changes)) if text is None else text
        data = text if isinstance(text, bytes) else text.encode()
        (folder / "history.json").write_bytes(data)
        if config is not None:
            (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
        return folder

    return write


# ============================================================== what is drawn


def test_a_run_like_the_pages_needs_no_notes(run):
    found = own.own(run(), TRAINING)
    assert found["iterations"] == 300 and found["notes"] == []
    assert set(found["curves"]) == set(own.KEYS)
    assert found["curves"]["kl"]["x"][0] == 10 and found["curves"]["acc_greedy"]["x"][0] == 0


def test_a_byte_order_mark_is_no_error(run):
    assert own.own(run(text=b"\xef\xbb\xbf" + json.dumps(history()).encode()), TRAINING)["curves"]


def test_what_sets_a_run_apart_is_told(run):
    config = TRAINING["config"] | {"lr": 0.01, "seed": 7, "iters": 200}
    found = own.own(run(n=100, config=config), TRAINING)
    assert found["notes"] == ["It was to have 200.",
                              "Its settings differ: lr = 0.01 (here 0.0003), seed = 7 (here 0)."]
    assert "no config.json" in own.own(run("bare", config=None), TRAINING)["notes"][0]


def test_a_value_that_is_no_number_is_a_gap_and_is_told(run):
    values = history()["kl"]
    values[25], values[31] = math.nan, -math.inf
    found = own.own(run(kl=values), TRAINING)
    assert [i for i, y in enumerate(found["curves"]["kl"]["y"]) if y is None] == [2, 3]
    assert found["notes"][0].startswith("kl is NaN or infinite in 2 of 300 values")
    json.dumps(found, allow_nan=False)


def test_a_missing_curve_is_told(run):
    found = own.own(run(entropy=[]), TRAINING)
    assert "entropy" not in found["curves"] and found["notes"] == ["It has no entropy."]


def test_runs_of_one_name_are_told_apart_by_their_folders(run):
    a, b, c = run("x/seed0"), run("y/seed0"), run("z/seed1")
    names = [found["name"] for found in own.runs([a, b, c], TRAINING)]
    assert names == [str(a), str(b), "seed1"]


# ============================================================== what cannot be drawn


@pytest.mark.parametrize("text, told", [
    ('{"loss": [1, 2,', "no whole JSON, line 1"),
    ("", "no whole JSON"),
    (json.dumps(history()).encode("utf-16"), "no text in UTF-8"),
    ("[1, 2]", "it is no dict of lists"),
    ('{"loss": {"a": 1}, "eval_iter": []}', "it has no list loss"),
    ('{"loss": [1]}', "it has no list eval_iter"),
    (json.dumps(history(kl=[0.1] * 295)), "kl has 295 values, not 300"),
    (json.dumps(history(acc_greedy=[0.1])), "acc_greedy has 1 value, not 31"),
    (json.dumps(history(loss=["x"] * 300)), "loss holds 'x', which is no number"),
    (json.dumps(history(loss=[True] * 300)), "loss holds 'True', which is no number"),
    (json.dumps(history(eval_iter=[*range(300, -1, -10)])), "eval_iter does not rise"),
    (json.dumps(history(n=1, loss=[], reward=[], kl=[], clip_frac=[], entropy=[],
                        frac_zero_signal=[])), "no iteration yet"),
])
def test_a_damaged_run_gets_one_line(run, text, told):
    folder = run(text=text)
    with pytest.raises(ValueError, match="history.json") as caught:
        own.own(folder, TRAINING)
    assert told in str(caught.value) and "\n" not in str(caught.value)


def test_a_damaged_config_is_named(run):
    folder = run()
    (folder / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"config\.json cannot be read"):
        own.own(folder, TRAINING)


def test_a_folder_without_a_run_gets_a_hint(run, tmp_path):
    folders = [run(f"seed{i}") for i in range(7)]
    (tmp_path / "hf").mkdir()
    (tmp_path / "hf" / own.ODD).write_text("", encoding="utf-8")
    for place, told in ((tmp_path / "runs", "seed0, seed1, seed2, seed3, seed4 or 2 more"),
                        (folders[0] / "history.json", "is a file"), (tmp_path, "such as runs"),
                        (tmp_path / "hf", "is a run of beyond")):
        with pytest.raises(ValueError, match=told):
            own.own(place, TRAINING)


def test_too_many_runs_and_one_twice_are_refused(run, capsys, tmp_path):
    one, out = run(), tmp_path / "page.html"
    for flags, told in ((["--run", one, "--run", one / "."], "is given twice"),
                        (["--run", one] * 5, "--run was given 5 times; the page draws at most 4")):
        assert command.main([*map(str, flags), "--out", str(out)]) == 2
        assert told in capsys.readouterr().err and not out.exists()


# ============================================================== in the page


def test_two_runs_stand_beside_the_pages(run, tmp_path, capsys):
    values = history()["kl"]
    values[:10], values[120:140] = [-0.5] * 10, [math.nan] * 20
    short, odd = run("short", n=50), run("odd", kl=values)
    path = tmp_path / "mine.html"
    assert command.main(["--run", str(short), "--run", str(odd), "--out", str(path)]) == 0
    assert "scene 7 has your curves" in capsys.readouterr().out
    with browser.chromium() as started, Walks(started, path)() as w:
        w.visit("scene=7&guesses=0&step=140")
        assert "50 iterations" in w.text(".own") and "20 of 300" in w.text(".own")
        kl = next(s for s in w.says() if s.startswith("KL:"))
        assert "KL, short: 1.00, when it ended after 50" in kl
        assert "KL, odd: not a number" in kl and "mean of iterations 131 to 140" in kl
        line = w.page.query_selector(".panels figure:nth-child(2) path.line:nth-of-type(3)")
        assert line.get_attribute("d").count("M") == 2  # a gap, and no fall to 0
        low = w.page.query_selector_all(".panels figure:nth-child(2) .tick")
        assert any("\u2212" in e.text_content() for e in low)  # what is below 0 is in the picture
