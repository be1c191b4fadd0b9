"""The runner: grpo is train_grpo exactly, nothing is done twice, the tests keep their level."""

import copy
import math
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np
import pytest
import torch
from filelock import FileLock

import tinylm
from beyond import longtask
from beyond.compare import (
    __main__ as compare,
)
from beyond.compare import (
    figures,
)
from beyond.compare import (
    run as compare_run,
)
from beyond.compare import (
    stats as compare_stats,
)
from beyond.compare import (
    tables as compare_text,
)
from beyond.compare.run import Run, Spec, finished, merged, read_lines, step, train
from beyond.compare.stats import Claim, Difference, difference, holm, sign_flip
from beyond.compare.tasks import SETS, TASKS
from beyond.losses import LOSSES
from beyond.losses.advantages import ADVANTAGES
from beyond.losses.names import VARIANTS, Variant, functions, resolve
from tests.labfile import ROOT, load_lab

SOLUTION = str(ROOT / "solutions" / "lab15_grpo.py")


def spec_of(variant="grpo", task="short", **changes):
    """Return a short run of a variant."""
    base = Spec(task, VARIANTS[variant], 0, iters=4, eval_every=2, inner_steps=2, lab=SOLUTION)
    return replace(base, **changes)


@pytest.fixture(scope="module")
def half_trained():
    """Return a TinyLM that is right now and then, so that advantages are not all 0."""
    old = tinylm.RECIPE.copy()
    tinylm.RECIPE.update(steps=120, wrong=0.0)
    try:
        return tinylm.train_sft()
    finally:
        tinylm.RECIPE.update(old)


@pytest.fixture
def quick(monkeypatch, half_trained):
    """Let runs start from small models, and evaluate on few problems."""
    torch.manual_seed(0)
    long = tinylm.TinyLM(width=16, layers=1, heads=2, context=longtask.MODEL["context"])
    monkeypatch.setattr(tinylm, "load_or_train_sft", lambda path: copy.deepcopy(half_trained))
    monkeypatch.setattr(longtask, "load_or_train_sft", lambda path: copy.deepcopy(long))
    monkeypatch.setattr(compare_run, "EVAL_N", 60)


def without_seconds(path):
    """Return a run's lines without the one number that differs from run to run."""
    lines = read_lines(path)
    lines[-1].get("done", {}).pop("seconds", None)
    return lines


# ---------------------------------------------------------------- the loop


@pytest.mark.parametrize("inner_steps", [1, 3])
def test_grpo_gives_the_numbers_of_train_grpo_exactly(quick, tmp_path, inner_steps):
    run = train(spec_of(inner_steps=inner_steps), tmp_path)
    lab = load_lab(SOLUTION)
    cfg = lab.GRPOConfig(iters=4, inner_steps=inner_steps, eval_every=2, eval_n=60)
    policy, hist = lab.train_grpo(cfg, sft_path="unused", verbose=False)
    for key in ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy"):
        assert [s[key] for s in run.history] == hist[key], key
    assert max(hist["reward"]) > 0 and any(hist["loss"])  # there was something to learn from
    assert [r["iter"] for r in run.records] == hist["eval_iter"]
    assert [r["sampled"] for r in run.records] == pytest.approx(hist["acc_sampled"], abs=1e-6)
    assert [r["greedy"] for r in run.records] == pytest.approx(hist["acc_greedy"], abs=1e-6)
    for a, b in zip(run.policy.parameters(), policy.parameters()):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", list(VARIANTS))
def test_every_variant_makes_a_step_with_finite_numbers(quick, name):
    for task in ("short", "long"):
        run = Run(spec_of(name, task))
        run.cfg.prompts_per_iter = 4
        before = [p.clone() for p in run.policy.parameters()]
        stats = step(run, *run.task.backend.make_batch(4, run.rng))
        assert all(math.isfinite(value) for value in stats.values()), (task, stats)
        moved = any(not torch.equal(a, b) for a, b in zip(before, run.policy.parameters()))
        assert moved or stats["frac_zero_signal"] == 1 or task == "long"


def test_dr_grpo_divides_by_the_budget_and_dapo_group_knows_G(quick):
    lab = load_lab(SOLUTION)
    for task in TASKS.values():
        loss, advantage = functions(VARIANTS["dr_grpo"], lab, task.budget, 8)
        assert loss.keywords["L"] == task.budget and advantage.__name__ == "mean_only"
    assert functions(VARIANTS["dapo_group"], lab, 4, 8)[0].keywords["G"] == 8
    assert functions(VARIANTS["grpo"], lab, 4, 8) == (lab.grpo_loss, lab.group_advantages)


def test_overlong_shaping_lowers_the_reward_of_long_responses_only(quick):
    run = Run(spec_of("dapo_overlong", "long"))
    run.policy.head.bias.data[tinylm.END] = -99.0  # every response fills the budget
    out, rewards, silent = compare_run.collect(run, *run.task.backend.make_batch(2, run.rng))
    assert bool(out["mask"].all()) and rewards.tolist() == [-1.0] * 16
    run.policy.head.bias.data[tinylm.END] = 99.0  # every response ends at once
    _, rewards, silent = compare_run.collect(run, *run.task.backend.make_batch(2, run.rng))
    assert rewards.tolist() == [0.0] * 16 and silent == 1.0


@pytest.mark.parametrize("right", [0.0, 1.0])
def test_groups_of_equals_are_replaced_though_their_lengths_differ(quick, right):
    """What is right and what it is worth are two things: shaping makes no signal."""
    run = Run(spec_of("dapo_full", "long"))
    G, sample = run.cfg.G, run.lab.sample_group
    shares = iter([[1, 0], [2, 0], [1, 1]])  # of each draw: how many are right, a group each

    def drawn(policy, prompts, answers, *more):
        groups = sample(policy, prompts, answers, *more)
        mask = groups["out"]["mask"]
        for i in range(len(mask)):  # all lengths, and so all penalties
            mask[i] = (torch.arange(mask.shape[1]) < mask.shape[1] - i % G).float()
        counts = next(shares)
        rows = [[1 - right] * n + [right] * (G - n) for n in counts]
        return groups | {"rewards": torch.tensor(sum(rows, []))}

    run.lab.sample_group, run.cfg.prompts_per_iter = drawn, 2
    run.policy.head.bias.data[tinylm.END] = -99.0
    _, rewards, silent = compare_run.collect(run, *run.task.backend.make_batch(2, run.rng))
    assert silent == 0.5 and list(shares) == [[1, 1]]  # two draws have filled the batch
    lengths = run.task.budget - torch.arange(2 * G) % G
    worth = compare_run.overlong_penalty(lengths, run.task.budget, run.task.cache)
    odd = ((rewards - worth).view(2, G).round() != right).sum(1)
    assert odd.tolist() == [1, 2]  # the groups of equals are gone; what is kept is shaped


def test_merged_groups_keep_their_log_probs(half_trained):
    lab, G = load_lab(SOLUTION), 3
    torch.manual_seed(0)
    drawn = [lab.sample_group(half_trained, p, ["5", "85"], G)
             for p in (["2+3=", "1+4="], ["37+48=", "50+35="])]  # fmt: skip
    parts = [(drawn[1]["out"], 1, drawn[1]["rewards"]), (drawn[0]["out"], 0, drawn[0]["rewards"])]
    out, rewards = merged(parts, G)
    assert out["prompt_len"] == 6 and out["mask"].shape[0] == len(rewards) == 6
    logp = tinylm.sequence_logprobs(half_trained, out)
    for rows, (source, p, _) in zip((slice(0, 3), slice(3, 6)), parts):
        theirs = tinylm.sequence_logprobs(half_trained, source)[p * G : p * G + G]
        assert torch.allclose(logp[rows, : theirs.shape[1]], theirs, atol=1e-5)
        assert logp[rows, theirs.shape[1] :].abs().sum() == 0


def test_measuring_draws_none_of_the_training_random_numbers(quick):
    run = Run(spec_of("dapo_full"))
    before = torch.get_rng_state(), run.rng.getstate()
    run.add_record(0)
    compare_run.pass_at(run.task, run.policy)
    assert torch.equal(before[0], torch.get_rng_state()) and before[1] == run.rng.getstate()


# ---------------------------------------------------------------- nothing is done twice


@pytest.mark.parametrize("variant", ["grpo", "dapo_full"])
@pytest.mark.parametrize("how", ["asked to stop", "killed"])
def test_a_run_that_was_cut_short_goes_on_with_the_same_numbers(quick, tmp_path, variant, how):
    spec = spec_of(variant)
    whole, cut = tmp_path / "whole", tmp_path / "cut with space"
    train(spec, whole)
    seen = []

    def kill(it):
        seen.append(it)
        if it == 3 and how == "killed":
            raise SystemError  # nothing is saved after the evaluation at 2
        return it < 3

    try:
        train(spec, cut, kill)
    except SystemError:
        pass
    assert not finished(spec, cut)
    train(spec, cut, lambda it: seen.append(it) or True)
    assert seen == ([1, 2, 3, 4] if how == "asked to stop" else [1, 2, 3, 3, 4])
    paths = [spec.folder(out) / "seed0.jsonl" for out in (whole, cut)]
    assert without_seconds(paths[0]) == without_seconds(paths[1])
    assert finished(spec, cut) and not list(cut.rglob("*.pt"))


def test_a_run_with_other_settings_or_a_damaged_state_is_done_from_its_start(quick, tmp_path):
    spec = spec_of()
    train(spec, tmp_path, lambda it: it < 2)
    state = spec.folder(tmp_path) / "seed0.pt"
    seen = []
    for change in ("settings", "damage"):
        if change == "damage":
            state.write_bytes(b"no state")
        other = replace(spec, inner_steps=1) if change == "settings" else spec
        train(other, tmp_path, lambda it: seen.append(it) or it < 2)
    assert seen == [1, 2, 1, 2] and not finished(replace(spec, inner_steps=5), tmp_path)


def test_a_lab_file_that_was_changed_is_another_run(tmp_path):
    lab = tmp_path / "lab.py"
    lab.write_text("x = 1\n", encoding="utf-8")
    about = spec_of(lab=str(lab)).about()
    lab.write_bytes(b"x = 1\r\n")  # another system's line ends are no change
    assert spec_of(lab=str(lab)).about() == about
    lab.write_text("x = 2\n", encoding="utf-8")
    assert spec_of(lab=str(lab)).about() != about


def test_a_run_that_ends_in_nan_is_kept_as_failed(quick, tmp_path, monkeypatch):
    def broken(logp, *rest, **extras):
        return (logp * math.nan).sum(), {"kl": 0.0, "clip_frac": 0.0, "ratio_max": 1.0}

    monkeypatch.setattr(compare_run, "functions", lambda *a: (broken, a[1].group_advantages))
    spec = spec_of()
    train(spec, tmp_path)
    run = compare.read_run(spec.folder(tmp_path) / "seed0.jsonl")
    assert "iteration 1" in run["done"]["failed"] and finished(spec, tmp_path)
    assert compare_stats.summaries([run]) == {"grpo": {}}
    assert figures.by_variant([run]) == {}


# ---------------------------------------------------------------- names


def test_an_unknown_name_is_answered_with_the_nearest():
    for wrong, near in ((["dappo"], "dapo"), (["dr-grpo"], "dr_grpo")):
        with pytest.raises(SystemExit, match=f"did you mean {near}"):
            resolve(wrong, [], [])
    with pytest.raises(SystemExit, match="did you mean leave_one_out"):
        resolve(["grpo"], ["leave_1_out"], [])
    with pytest.raises(SystemExit, match="known are k1, k2"):
        resolve(["grpo"], [], ["zzz"])


def test_options_are_crossed_and_duplicates_made_once():
    names = [v.name for v in resolve(["grpo", "dapo", "grpo"], ["group", "whitened"], ["k2", "k3"])]
    assert names == ["grpo+k2", "grpo", "grpo+whitened+k2", "grpo+whitened",
                     "dapo+k2", "dapo+k3", "dapo+whitened+k2", "dapo+whitened+k3"]  # fmt: skip
    assert resolve(["dapo"], [], ["k3"])[0].beta == 0.04  # an estimator without weight is none
    assert resolve(["vespo"], [], [])[0] == Variant(
        "vespo", "vespo", note="the function's own defaults")


def test_the_sets_are_variants_and_have_ten_comparisons():
    for task, names in SETS.items():
        assert set(names) <= VARIANTS.keys() and names[0] == "grpo"
        assert task == "hack" or len(names) > 10
    for claim in compare_stats.CLAIMS:
        base, _, task = claim.base.partition("@")
        assert claim.variant in SETS[claim.task] and base in SETS[task or claim.task]


# ---------------------------------------------------------------- statistics


def test_the_sign_flip_test_by_hand():
    # [1, 2]: the sums +-3, +-1; 2 of 4 reach 3. [1, -1]: sum 0, which all reach.
    assert sign_flip([1.0, 2.0]) == 0.5 and sign_flip([1.0, -1.0]) == 1.0
    assert sign_flip([0.1] * 10) == 2 / 2**10
    assert sign_flip([0.0] * 4) == 1.0
    assert sign_flip([1.0] * 20) == 1 / 10_001  # drawn at random: none of them reached it


def test_holm_by_hand():
    # sorted .01 .02 .04: times 3, 2, 1 = .03 .04 .04, never falling
    assert holm([0.04, 0.01, 0.02]) == pytest.approx([0.04, 0.03, 0.04])
    assert holm([0.5, 0.9]) == [1.0, 1.0]


def test_the_level_is_kept_where_there_is_no_difference(monkeypatch):
    monkeypatch.setattr(compare_stats, "RESAMPLES", 500)
    rng = np.random.default_rng(0)
    trials = [rng.normal(size=10) for _ in range(400)]
    flips = sum(sign_flip(d) < 0.05 for d in trials) / 400
    intervals = [compare_stats.bootstrap(d) for d in trials]
    outside = sum(not low <= 0 <= high for low, high in intervals) / 400
    assert flips < 0.05 + 3 * (0.05 * 0.95 / 400) ** 0.5
    assert outside > 0.07  # why the p-value is not taken from the bootstrap


def test_pairs_are_made_by_seed():
    d = difference({0: 1.0, 1: 3.0, 7: 9.0}, {1: 1.0, 0: 0.0, 2: 5.0})
    assert d.mean == 1.5 and d.n == 2 and 1.0 <= d.low <= d.high <= 2.0
    assert difference({0: 1.0}, {0: 2.0}) is None
    assert difference({0: 1.0, 1: math.nan}, {0: 1.0, 1: 2.0}) is None


def made_up(variant, seed, gain, task="short"):
    """Return a finished run whose accuracy rises by gain."""
    rows = [{"iter": i, "sampled": 0.4 + gain * i / 10, "greedy": 0.9, "entropy": 1.0, "kl": 0.1,
             "length": 3.0, "length_wrong": None, "cut": 0.0, "train_clip_frac": None}
            for i in (0, 5, 10)]  # fmt: skip
    done = {"pass@1": 0.5, "pass@4": 0.8, "pass@8": 0.9, "seconds": 1.5}
    return {"task": task, "variant": variant, "seed": seed, "evaluations": rows, "done": done}


def test_summary_and_comparison_of_made_up_runs():
    runs = [made_up("grpo", s, 0.1 + 0.001 * s) for s in range(8)]
    runs += [made_up("dapo", s, 0.3 + 0.001 * s) for s in range(8)]
    found = compare_stats.summaries(runs)
    told = found["grpo"][0]
    assert told["sampled"] == pytest.approx((0.4 + 0.45 + 0.5) / 3)
    assert told["area"] == pytest.approx(0.45) and math.isnan(told["wrong_all"])
    d = compare_stats.compared(found, "sampled")["dapo"]
    assert d.mean == pytest.approx(0.1) and d.significant and d.adjusted == 2 / 2**8
    text = compare_text.table(found, "short")
    assert "  dapo           +0.100 [+0.100, +0.100] p 0.008 *" in text and text.isascii()
    assert "too few seeds" not in text
    rows = compare_text.markdown(found, "short").splitlines()
    assert rows[3].startswith("| `dapo` | 0.552 (+) | 0.900 |") and len(rows) == 4
    few = compare_stats.summaries([r for r in runs if r["seed"] < 5])
    text = compare_text.table(few, "short")
    assert "with 5 seeds and 1 comparison no p can come below 0.062" in text


def test_the_verdict_on_a_claim_looks_at_its_direction():
    claim = Claim("long", "dr_grpo", "grpo_beta0", "length", -1, "shorter")
    down = Difference(-1.0, -2.0, -0.5, 0.01, 10, adjusted=0.01)
    assert compare_stats.verdict(claim, down) == "shows"
    assert compare_stats.verdict(claim, replace(down, mean=1.0)) == "the opposite shows"
    assert compare_stats.verdict(claim, replace(down, adjusted=0.2)) == "does not show"


def test_kept_results_come_back_and_can_be_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(compare, "KEPT", tmp_path)
    about = {"iters": 10, "eval_every": 5, "inner_steps": 4, "lab": "x", "sft": "y", "variant": {}}
    runs = [made_up(v, s, 0.1 + s) | {"run": about} for v in ("grpo", "dapo") for s in (0, 1)]
    compare.keep("short", runs, "command")
    back = compare.kept_runs()
    assert list(back) == ["short"] and len(back["short"]) == 4
    told = [compare_stats.summary(run) for run in (runs[3], back["short"][3])]
    assert told[0] == pytest.approx(told[1], nan_ok=True)
    head = read_lines(tmp_path / "compare_short.jsonl")[0]
    assert head["seeds"] == [0, 1] and {"command", "commit", "machine", "torch"} <= head.keys()
    drawn = figures.save_all(back, tmp_path, ("short_accuracy", "short_differences"))
    assert [p.stem for p in drawn] == ["compare_short_accuracy", "compare_short_differences"]
    assert all(p.stat().st_size > 5000 for p in drawn)


# ---------------------------------------------------------------- the command


def command(*words, **options):
    """Start the command in a process of its own."""
    line = [sys.executable, "-m", "beyond.compare", *words]
    env = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0"}
    return subprocess.Popen(line, cwd=ROOT, env=env, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, **options)  # fmt: skip


@pytest.mark.parametrize(
    "words, text",
    [
        (["--losses", "dappo"], "did you mean dapo?"),
        (["--seeds", "0"], "--seeds 0: give 1 or more"),
        (["--jobs", "-1"], "--jobs -1: give 1 or more"),
        (["--lab=nowhere.py"], "--lab nowhere.py: there is no such file"),
        (["--lab=empty.py"], "tasks 1 to 4 are needed. missing: Task 1"),
    ],
)
def test_wrong_flags_end_in_one_line(monkeypatch, tmp_path, words, text):
    (tmp_path / "empty.py").write_text("x = 1\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["compare", *words])
    with pytest.raises(SystemExit) as ended:
        compare.main()
    assert text in ended.value.code and "\n" not in ended.value.code


def test_the_list_names_every_loss(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["compare", "--list"])
    assert compare.main() == 0
    text = capsys.readouterr().out
    assert all(name in text for name in [*LOSSES, *VARIANTS, *ADVANTAGES]) and text.isascii()


def test_two_commands_do_not_work_in_one_folder(quick, monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "argv", ["compare", "--out", str(tmp_path), "--losses", "grpo"])
    (tmp_path / "short").mkdir()
    with FileLock(tmp_path / "short" / "compare.lock"):
        with pytest.raises(SystemExit, match="another compare is at work"):
            compare.main()


@pytest.mark.skipif(
    "LAB15_SLOW" not in os.environ or sys.platform == "win32", reason="slow: LAB15_SLOW=1 runs it"
)
def test_ctrl_c_ends_well_and_the_same_command_goes_on(tmp_path):
    words = ["--losses", "grpo,dapo", "--seeds", "1", "--iters", "40", "--eval-every", "20",
             "--jobs", "2", "--out", str(tmp_path)]  # fmt: skip
    process = command(*words, start_new_session=True)
    while len(list(tmp_path.rglob("seed0.jsonl"))) < 2:
        time.sleep(0.2)
    time.sleep(2)
    os.killpg(process.pid, signal.SIGINT)
    out = process.communicate(timeout=60)[0].decode()
    assert "The same command continues" in out and process.returncode == 0, out
    assert len(list(tmp_path.rglob("seed0.pt"))) == 2
    out = command(*words).communicate(timeout=300)[0].decode()
    assert "no differences to grpo" in out and not list(tmp_path.rglob("seed0.pt")), out
    assert "2 runs, 2 of them done" in command(*words).communicate(timeout=100)[0].decode()
    lines = read_lines(tmp_path / "short" / "dapo" / "seed0.jsonl")
    assert [line.get("iter") for line in lines] == [None, 0, 20, 40, None]
    assert lines[-1]["done"].keys() == {"pass@1", "pass@4", "pass@8", "seconds"}


def test_the_tables_of_the_page_are_those_of_the_kept_results(capsys, monkeypatch):
    monkeypatch.setattr("sys.argv", ["compare", "--kept", "--markdown"])
    page = (compare.TOP / "beyond" / "comparison.md").read_text(encoding="utf-8")
    assert compare.main() == 0
    tables = capsys.readouterr().out.strip().split("\n\n")
    assert len(tables) == 4
    for table in tables:
        assert table in page, "comparison.md: paste the output of --kept --markdown again"
