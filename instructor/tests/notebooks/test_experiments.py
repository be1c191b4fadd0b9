"""The chapter's experiments: measured, stopped, resumed, and their tables."""

import json
import math

import pytest

from notebooks import detective, experiments, trials
from notebooks.experiments import RUNS, SEEDS, TABLE, load
from notebooks.figures.style import first, last, mean, read_json

SHORT = {"iters": 3, "eval_n": 20, "eval_every": 2, "prompts_per_iter": 2, "G": 2}
FILES = {name: RUNS / f"{name}.json" for name in TABLE}
FILES |= {name: RUNS / f"{name}.json" for name in map(detective.name_of, detective.NUMBERS)}


# ---------------------------------------------------------------- the table


ROWS = [(module, row) for module in (experiments, trials) for row in module.TABLE.values()]


@pytest.mark.parametrize("module, row", ROWS, ids=[row.name for _, row in ROWS])
def test_every_row_can_be_trained(module, row):
    lab = experiments.edited_lab(*([module.EDITS[row.edit]] if row.edit else []))
    lab.GRPOConfig(**row.changes)
    assert row.seeds == module.SEEDS and row.label.isascii()
    assert row.edit or row.name == "default" or row.changes.keys() - {"iters"}, "nothing is changed"


@pytest.mark.parametrize("letter", detective.BUGS)
def test_every_bug_is_one_line_of_the_solution(letter):
    old, new = detective.BUGS[letter]
    assert "\n" not in old + new
    experiments.edited_lab((old, new))
    with pytest.raises(RuntimeError, match="SyntaxError"):
        experiments.edited_lab((old, new + " ="))


def test_text_to_replace_must_stand_once():
    with pytest.raises(ValueError, match="0 times, not once"):
        experiments.edited_lab(("no such text", ""))


@pytest.mark.parametrize("module", [experiments, trials])
def test_command_line_lists_and_rejects(capsys, module):
    assert module.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in module.TABLE)
    with pytest.raises(SystemExit):
        module.main(["no_such_name"])
    assert "no_such_name" in capsys.readouterr().err


# ---------------------------------------------------------------- measuring


def test_measuring_goes_on_where_it_stopped(tmp_path, monkeypatch):
    train, seen = experiments.train, []

    def stops_at_one(seed, *rest):
        seen.append(seed)
        return train(seed, *rest) if seed != 1 else None  # None: Ctrl-C

    monkeypatch.setattr(experiments, "train", stops_at_one)
    assert not experiments.measure(["hacked"], (0, 1), folder=tmp_path, **SHORT)
    [run] = load("hacked", tmp_path)
    assert (run["seed"], run["name"], run["config"]["iters"]) == (0, "hacked", 3)
    monkeypatch.setattr(experiments, "train", lambda *rest: seen.append(rest[0]) or train(*rest))
    assert experiments.measure(["hacked"], (0, 1), folder=tmp_path, **SHORT)
    assert seen == [0, 1, 1] and len(load("hacked", tmp_path)) == 2
    assert experiments.measure(["hacked"], (0, 1), folder=tmp_path, **SHORT)
    assert seen == [0, 1, 1]
    assert experiments.measure(["hacked"], (0,), folder=tmp_path, **SHORT | {"iters": 2})
    assert len(load("hacked", tmp_path)) == 1  # other settings: nothing of the old file is kept


def test_watched_run_is_the_run_itself():
    import random

    import torch

    import tinylm

    lab = experiments.edited_lab()
    cfg = lab.GRPOConfig(**SHORT)
    sft = experiments.TOP / "tinylm_sft.pt"
    _, plain = lab.train_grpo(cfg, sft, verbose=False)
    state = torch.random.get_rng_state(), random.getstate()
    watched = experiments.train(0, SHORT)["history"]
    for key, values in plain.items():
        assert watched[key] == pytest.approx(values, rel=1e-3, abs=1e-8), key
    assert torch.equal(state[0], torch.random.get_rng_state()) and state[1] == random.getstate()
    assert len(watched["length"]) == 3 and watched["ratio_max"][0] >= 1
    assert watched["true_reward"] == watched["reward"]
    assert len(watched["p_right"]) == tinylm.HELD_OUT


def test_run_that_ends_in_nan_is_a_result(monkeypatch):
    run = experiments.train(0, SHORT | {"lr": 1e30})
    assert "iteration 1" in run["stopped"] and len(run["history"]["loss"]) == 1
    nan = ("loss = -per_response.mean()", "loss = per_response.mean() * float('nan')")
    run = experiments.train(0, SHORT, [nan])
    assert "iteration 1" in run["stopped"] and len(run["history"]["loss"]) == 1


def test_missing_results_say_what_to_do(tmp_path):
    with pytest.raises(FileNotFoundError, match="python -m notebooks.experiments beta0"):
        load("beta0", tmp_path)


def test_expected_shares_are_the_formulas():
    passed, silent = experiments.expected([0.5, 1.0])
    assert passed[0] == 0.75 and passed[1] == 0.875  # (0.5 + 1) / 2, (0.75 + 1) / 2
    assert silent[0] == 1 and silent[1] == 0.75  # (0.5 + 1) / 2 for G = 2


def test_probability_of_right_answers_agrees_with_samples():
    import torch

    import tinylm

    sft = tinylm.load_or_train_sft(experiments.TOP / "tinylm_sft.pt")
    p = torch.tensor(experiments.p_right(sft))
    share = tinylm.accuracy(sft, n=5000)
    error = ((p * (1 - p)).mean() / 5000).sqrt()
    assert abs(p.mean() - share) < 4 * error


# ---------------------------------------------------------------- what is stored


@pytest.mark.parametrize("name", FILES)
def test_stored_runs_are_complete(name):
    stored = read_json(FILES[name])
    assert stored["seeds"] == [run["seed"] for run in stored["runs"]] == list(SEEDS)
    assert stored["commit"] and stored["machine"] and stored["torch"] and stored["threads"] == 1
    if name in TABLE:
        assert (stored["changes"], stored["edit"]) == (TABLE[name].changes, TABLE[name].edit)
    else:
        assert not {"edit", "bug", "letter"} & set(stored), "the file names the bug"
    for run in stored["runs"]:
        h = run["history"]
        assert len(h["loss"]) == len(h["length"]) == 300 or "stopped" in run
        assert all(map(math.isfinite, h["loss"] + h["kl"])) or "stopped" in run


def test_default_runs_are_those_of_the_readme():
    readme = read_json(experiments.TOP / "notebooks" / "figures" / "accuracy.json")
    for kept, run in zip(readme["runs"], load("default"), strict=True):
        for key, values in kept["history"].items():
            assert run["history"][key] == pytest.approx(values, rel=1e-3, abs=1e-9), key


def test_kept_trials_are_those_of_the_table():
    found = trials.stored()
    assert set(found) == set(trials.TABLE)
    assert trials.common_seeds() == {0, 1, 2}  # the chapter says "means of three seeds"
    for name, record in found.items():
        row = trials.TABLE[name]
        assert (record["changes"], record["edit"]) == (row.changes, row.edit), name
        assert record["commit"] and record["machine"] and record["command"].endswith(name)
        for run in record["runs"]:
            iters, history = row.changes.get("iters", 300), run["history"]
            assert history["eval_iter"][-1] == iters and run["seconds"] > 0
            assert len(history["kl"]) == iters // trials.WINDOW or "stopped" in run
            assert all(map(math.isfinite, history["kl"] + history["acc_sampled"]))


def test_trials_are_means_over_the_common_seeds(monkeypatch):
    history = {"eval_iter": [0, 10], "kl": [1.0, 3.0]}
    first = {"seed": 0, "history": history | {"acc_greedy": [0.5, 0.75]}}
    second = {"seed": 1, "history": history | {"acc_greedy": [0.0, 0.0]}}
    both = {"a": {"runs": [first, second]}, "b": {"runs": [first]}}
    monkeypatch.setattr(trials, "stored", lambda: both)
    assert trials.common_seeds() == {0}
    assert trials.at("a", "acc_greedy") == 0.75 and trials.at("a", "acc_greedy", 0) == 0.5
    assert trials.at("a", "kl", 10) == 1.0 and trials.at("a", "kl") == 2.0


def test_results_are_small():
    total = sum(path.stat().st_size for path in RUNS.glob("*.json"))
    assert total < 3e6, f"{total / 1e6:.1f} MB"


# ---------------------------------------------------------------- the gallery's symptoms


def gap(runs):
    """Return by how much the reward at the end exceeds sampled accuracy, per seed."""
    accuracy = [mean(run["history"]["acc_sampled"][-5:]) for run in runs]
    return [r - a for r, a in zip(last(runs, "reward"), accuracy)]


def test_learning_rate_too_high_destroys_the_model():
    runs = load("lr_high")
    assert max(last(runs, "acc_sampled")) < 0.1 and max(last(runs, "acc_greedy")) < 0.1


def test_no_clip_lets_the_policy_run_away():
    runs, base = load("no_clip_8"), load("default")
    assert mean(last(runs, "acc_sampled")) < mean(last(base, "acc_sampled"))
    assert min(last(runs, "kl")) > max(last(base, "kl"))
    assert min(last(runs, "ratio_max", 300)) > 2 * max(last(base, "ratio_max", 300))


def test_hacked_reward_rises_while_greedy_accuracy_falls():
    runs = load("hacked")
    assert min(last(runs, "reward")) > 0.9
    assert max(last(runs, "acc_greedy")) < min(run["history"]["acc_greedy"][0] for run in runs)
    assert min(gap(runs)) > max(gap(load("default")))


def test_reward_at_low_temperature_overstates():
    assert min(gap(load("t07"))) > max(gap(load("default")))
    assert max(last(load("t07"), "kl")) < min(last(load("default"), "kl"))


def test_small_groups_are_silent_more_often():
    for name in ("g2", "g2_few"):
        assert min(first(load(name), "frac_zero_signal")) > 0.4
    assert max(first(load("default"), "frac_zero_signal")) < 0.2


@pytest.mark.parametrize("name", ["beta0", "sample_std"])
def test_what_does_not_show_is_said_not_to_show(name):
    """The chapter says of these two that 300 iterations hardly tell them from the default."""
    ends, base = (last(load(n), "acc_sampled") for n in (name, "default"))
    assert abs(mean(ends) - mean(base)) < 0.03


def test_one_inner_step_never_clips():
    for run in load("inner1"):
        assert max(run["history"]["clip_frac"]) == 0
        assert run["history"]["ratio_max"] == pytest.approx([1.0] * 300, abs=1e-4)


# ---------------------------------------------------------------- the detective's runs


def facts(run):
    """Return what a run's curves show."""
    runs = [run]
    values = {key: last(runs, key)[0] for key in (
        "acc_sampled", "reward", "loss", "kl", "entropy", "frac_zero_signal")}
    return values | {"clipped": sum(run["history"]["clip_frac"])}


# Letter -> what must hold of a run's facts with this bug, and of no other's.
SIGNS = {
    "A": lambda f: f["entropy"] > 0.5 and f["acc_sampled"] > 0.85,
    "B": lambda f: f["reward"] < 0.2 and f["acc_sampled"] > 0.55,
    "C": lambda f: f["kl"] < 0.02 and f["acc_sampled"] > 0.85,
    "D": lambda f: f["loss"] < -100,
    "E": lambda f: f["frac_zero_signal"] == 1,
    "F": lambda f: f["clipped"] == 0 and f["kl"] > 0.1,
}


def solved():
    """Return the right answer as dict number -> letter."""
    return {n: c for n in detective.NUMBERS for c in detective.BUGS
            if detective.digest(n, c) in detective.PAIRS}


def test_every_bug_shows_in_every_seed_and_nowhere_else():
    right = solved()
    for number, letter in right.items():
        for run in load(f"detective_{number}"):
            found = [c for c, sign in SIGNS.items() if sign(facts(run))]
            assert found == [letter], (number, run["seed"], facts(run))


def test_right_answer_is_called_right_and_a_swap_is_not():
    right = solved()
    assert len(right) == len(detective.PAIRS) == len(set(right.values())) == 6
    assert detective.verdicts(right)[-1] == "all six are right"
    swapped = right | {1: right[2], 2: right[1]}
    lines = detective.verdicts(swapped)
    assert [" wrong. " in line for line in lines] == [True, True, *[False] * 5]
    assert "4 of 6 are right" in lines[-1]
    told = json.dumps(lines)
    assert not any(f"{n}={right[n]}" in told for n in (1, 2)), "the answer is given away"


@pytest.mark.parametrize(
    "words, said",
    [
        ("1=A 2=B 3=C 4=D 5=E", "run 6 missing"),
        ("1=A 1=B 3=C 4=D 5=E 6=F", "run 1 is there twice"),
        ("1=A 2=A 3=C 4=D 5=E 6=F", "bug A is there twice"),
        ("1=G 2=A 3=C 4=D 5=E 6=F", "no bug G"),
        ("7=A", "no run 7"),
        ("A", "no run A"),
        ("1", "no bug without a letter"),
        ("", "run 1, 2, 3, 4, 5, 6 missing"),
    ],
)
def test_bad_answers_get_one_line(words, said):
    with pytest.raises(SystemExit) as stop:
        detective.main(words.split())
    assert said in str(stop.value) and "\n" not in str(stop.value)
    assert "give all six, such as 1=A" in str(stop.value)


def test_detective_lists_the_bugs_and_accepts_small_letters(capsys):
    assert detective.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(old in listed and new in listed for old, new in detective.BUGS.values())
    assert detective.main([f"{n}={c.lower()}" for n, c in solved().items()]) == 0
