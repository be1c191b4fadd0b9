"""The experiment on stale samples: what it measures is right, resumes, and agrees with itself."""

import copy
import json
from importlib.util import find_spec

import pytest

import tinylm
from beyond import staleness
from beyond.services import staleness_run
from beyond.staleness import RESULTS, SETS, STALENESS, Setting, by_setting, missing, read
from tests.labfile import ROOT, load_lab

SETTINGS = [s for settings in SETS.values() for s in settings]


def made(setting, seed=0, **changes):
    """Return a run as staleness_run would have measured it."""
    run = {"updates": [0, 50, 100], "sampled": [0.4, 0.8, 0.9], "at": [0.0, 2.0, 4.0],
           "clip": [0.01, 0.03], "lag": [0.1, 0.3], "parts": {"train": 3.0, "wait": 1.0},
           "seconds": 5.0, "torch": "2"}
    about = {"setting": setting.name, "seed": seed, "quiet": True, "set": "main"}
    return json.loads(json.dumps(run | about | setting._asdict() | changes))


@pytest.fixture
def quick(monkeypatch):
    """Let runs be made up at once; return the list of what was asked for."""
    asked = []

    def one(setting, seed, tell, extra):
        asked.append((setting.name, seed))
        run = made(setting, seed)
        return {k: run[k] for k in ("updates", "sampled", "at", "clip", "seconds", "torch")}

    monkeypatch.setattr(staleness, "one", one)
    monkeypatch.setattr(staleness, "cores_in_use", lambda: 0.1)
    monkeypatch.setattr(staleness, "MISSING", "no Monarch, but the runs are made up")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: True)
    return asked


# ---------------------------------------------------------------- the command


def test_the_settings_are_those_of_the_issue_and_have_names_of_their_own():
    assert len({s.name for s in SETTINGS}) == len(SETTINGS)
    timed = {(s.staleness, s.correction) for s in SETS["main"]}
    assert timed == {(0, "plain"), *((k, c) for k in (0, 1, 4, 16) for c in ("none", "tis"))}
    assert Setting(16, "tis", staleness.FAST).name == "tis_16_fast"


def test_settings_alternate_and_the_timed_ones_come_first():
    order = list(missing(["main", "fast"], 2, []))
    assert [name for name, _, _ in order] == ["main"] * 18 + ["fast"] * 6
    assert [seed for _, _, seed in order[:18]] == [0] * 9 + [1] * 9
    assert len({s.name for _, s, _ in order[:9]}) == 9


def test_what_is_done_is_not_done_again(quick, tmp_path, capsys):
    out = tmp_path / "r.jsonl"
    flags = ["--out", str(out), "--sets", "ratio", "--seeds"]
    assert staleness.main([*flags, "1"]) == 0 and len(quick) == 3
    assert staleness.main([*flags, "2"]) == 0
    assert quick[3:] == [("ratio_1", 1), ("ratio_4", 1), ("ratio_16", 1)]
    head, runs = read(out)
    assert head["seeds"] == [0, 1] and head["torch"] == "2" and head["seconds"] == 30
    assert len(runs) == 6 and all(run["commit"] for run in runs)
    assert "ratio_16            2                0.900" in capsys.readouterr().out


def test_a_killed_command_keeps_what_was_done(quick, tmp_path, monkeypatch, capsys):
    out, one = tmp_path / "r.jsonl", staleness.one

    def dies(setting, *rest):
        if setting.staleness == 16:
            raise KeyboardInterrupt
        return "ratio_4: broken" if setting.staleness == 4 else one(setting, *rest)

    monkeypatch.setattr(staleness, "one", dies)
    assert staleness.main(["--out", str(out), "--sets", "ratio", "--seeds", "1"]) == 1
    assert [run["setting"] for run in read(out)[1]] == ["ratio_1"]
    assert "ratio_4: broken\nStopped by Ctrl-C" in capsys.readouterr().out
    monkeypatch.setattr(staleness, "one", one)
    assert staleness.main(["--out", str(out), "--sets", "ratio", "--seeds", "1"]) == 0
    assert quick == [("ratio_1", 0), ("ratio_4", 0), ("ratio_16", 0)]


def test_another_machine_and_a_damaged_file_are_refused(quick, tmp_path, capsys):
    out = tmp_path / "r.jsonl"
    staleness.keep(out, {"machine": "another", "threads": 1}, [made(Setting(1, "ratio"))])
    assert staleness.main(["--out", str(out)]) == 1 and not quick
    assert "measured on another" in capsys.readouterr().out
    out.write_text("{", encoding="utf-8")
    assert staleness.main(["--out", str(out)]) == 2
    assert "is damaged" in capsys.readouterr().out


def test_what_was_timed_beside_other_work_can_be_measured_again(quick, tmp_path, monkeypatch):
    out = tmp_path / "r.jsonl"
    flags = ["--out", str(out), "--seeds", "1", "--sets"]
    monkeypatch.setattr(staleness, "cores_in_use", lambda: 1.0)
    assert staleness.main([*flags, "main", "ratio"]) == 0 and len(quick) == 12
    monkeypatch.setattr(staleness, "cores_in_use", lambda: 0.1)
    assert not read(out)[0]["quiet"]
    assert staleness.main([*flags, "main", "ratio", "--busy"]) == 0 and len(quick) == 12 + 9
    assert read(out)[0]["quiet"] and len(read(out)[1]) == 12


def test_a_failing_run_is_named_with_its_last_line():
    told = staleness.one(Setting(0, "plain"), 0, lambda: None, ["--lab", "no_such_file.py"])
    assert told.startswith("plain seed 0: ended with code 1: ") and "no_such_file.py" in told


# ---------------------------------------------------------------- one run


def test_the_plain_loop_is_train_grpo(monkeypatch, tmp_path):
    lab = load_lab(ROOT / "solutions" / "lab15_grpo.py")
    monkeypatch.setitem(tinylm.RECIPE, "steps", 120)
    monkeypatch.setitem(tinylm.RECIPE, "wrong", 0.0)
    start = tinylm.train_sft()
    monkeypatch.setattr(tinylm, "load_or_train_sft", lambda path: copy.deepcopy(start))
    monkeypatch.setattr(lab, "load_or_train_sft", lambda path: copy.deepcopy(start))
    monkeypatch.setattr(staleness_run, "EVERY", 2)
    out = tmp_path / "run.json"
    staleness_run.main(["--plain", "--iters", "5", "--eval-n", "60", "--seed", "3",
                        "--out", str(out)])
    run = json.loads(out.read_text(encoding="utf-8"))
    _, hist = lab.train_grpo(lab.GRPOConfig(iters=5, seed=3, eval_every=2, eval_n=60), "unused",
                             verbose=False)
    assert run["updates"] == hist["eval_iter"] == [0, 2, 4, 5]
    assert run["sampled"] == hist["acc_sampled"] and any(hist["loss"])
    assert run["clip"] == pytest.approx(
        [sum(c) / len(c) for c in (hist["clip_frac"][i : i + 2] for i in (0, 2, 4))], abs=1e-6)
    assert 0 == run["at"][0] < run["at"][1] < run["at"][2] < run["at"][3]
    assert run["at"][3] < run["seconds"] + 0.05  # rounded to a tenth


@pytest.mark.skipif(find_spec("monarch") is None,
                    reason="pip install -r beyond/requirements-monarch.txt")
def test_a_run_with_services_gives_a_curve():
    updates = []
    run = staleness.one(Setting(2, "tis"), 0, lambda: updates.append(1),
                        ["--iters", "12", "--eval-n", "50"])
    assert not isinstance(run, str), run
    assert run["updates"] == [0, 10, 12] and len(updates) == 12
    assert run["behind"] == pytest.approx((0 + 1 + 2 * 10) / 12)
    assert 0 < run["at"][1] < run["at"][2] and all(0 <= x <= 1 for x in run["sampled"])


# ---------------------------------------------------------------- kept results


def test_kept_runs_are_complete():
    head, runs = read(RESULTS)
    found = by_setting(runs)
    assert set(found) == {s.name for s in SETTINGS}
    for name, some in found.items():
        assert [run["seed"] for run in some] == head["seeds"] == list(range(len(some))), name
        for run in some:
            assert run["updates"] == list(range(0, staleness.ITERS + 1, staleness_run.EVERY))
            assert run["at"] == sorted(run["at"]) and len(run["sampled"]) == len(run["at"])
    assert head["commit"] and head["machine"] and head["torch"] and "quiet" in head


def test_kept_runs_without_delay_are_all_the_same_run():
    found = by_setting(read(RESULTS)[1])
    for plain, none, tis in zip(found["plain"], found["none_0"], found["tis_0"]):
        assert plain["sampled"] == none["sampled"]
        # The weights are 1, but the loss that takes them rounds in another order: later the last
        # bit may tell (seed 4, from update 40 on).
        assert not any(tis["lag"]) and tis["sampled"][:4] == none["sampled"][:4]
    for k in STALENESS:
        late = sum(min(k, update) for update in range(staleness.ITERS)) / staleness.ITERS
        for correction in ("none", "tis"):
            assert all(run["behind"] == pytest.approx(late) for run in found[f"{correction}_{k}"])
    assert any(a["sampled"] != b["sampled"] for a, b in zip(found["none_16"], found["tis_16"]))
