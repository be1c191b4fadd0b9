"""What single changes do: each can be trained, and what is kept belongs to the table as it is."""

import math

import pytest

from notebooks import experiments, trials


@pytest.mark.parametrize("row", trials.TABLE.values(), ids=trials.TABLE)
def test_every_trial_can_be_trained(row):
    lab = experiments.edited_lab(*([trials.EDITS[row.edit]] if row.edit else []))
    lab.GRPOConfig(**row.changes)
    assert row.edit or row.changes.keys() - {"iters"}, "nothing is changed"


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


def test_values_are_means_over_the_common_seeds(monkeypatch):
    history = {"eval_iter": [0, 10], "kl": [1.0, 3.0]}
    first = {"seed": 0, "history": history | {"acc_greedy": [0.5, 0.75]}}
    second = {"seed": 1, "history": history | {"acc_greedy": [0.0, 0.0]}}
    both = {"a": {"runs": [first, second]}, "b": {"runs": [first]}}
    monkeypatch.setattr(trials, "stored", lambda: both)
    assert trials.common_seeds() == {0}
    assert trials.at("a", "acc_greedy") == 0.75 and trials.at("a", "acc_greedy", 0) == 0.5
    assert trials.at("a", "kl", 10) == 1.0 and trials.at("a", "kl") == 2.0


def test_command_line_lists_and_rejects(capsys):
    assert trials.main(["--list"]) == 0
    listed = capsys.readouterr().out
    assert all(name in listed for name in trials.TABLE)
    with pytest.raises(SystemExit):
        trials.main(["no_such_name"])
    assert "no_such_name" in capsys.readouterr().err
