"""Every record of data/goldens through our functions: value, gradient and statistics.

    python -m pytest -q beyond/tests/losses/test_goldens.py -k verl
    python -m beyond.tests.golden_run

The second command prints the table by file.
"""

import copy
from functools import partial

import pytest

from beyond import losses
from beyond.losses import pieces
from beyond.tests.golden_map import Unsupported, loss_for
from beyond.tests.golden_run import FILES, LEFT_OUT, NOT_COMPARED, compare, load, reason, table
from beyond.tests.inputs import case, value_and_gradient

RECORDS = [pytest.param(limits, record, id=record["name"]) for _, limits, record in load()]
TOTAL = {"derived": 84, "trl": 69, "verl": 67, "torchforge": 47, "titanrl": 20, "openrlhf": 6,
         "forge_rl": 17}


@pytest.mark.parametrize("limits, record", RECORDS)
def test_record(limits, record):
    wrong = compare(record, limits)
    if text := reason(record):
        assert wrong, f"it agrees by now: take it out of LEFT_OUT ({text})"
        pytest.skip(text)
    assert not wrong, "\n".join(wrong)


def test_no_file_lost_a_record():
    counts = dict.fromkeys(FILES, 0)
    for file, _, _ in load():
        counts[file] += 1
    assert counts == TOTAL


def test_a_record_that_is_a_little_off_is_noticed():
    """Value, gradient or statistic: a change of 1e-5 fails, so the comparison does look."""
    for _, limits, record in load(("derived", "trl", "verl")):
        if "loss" not in record["expected"] or "huge" in record["name"]:
            continue
        names = {key for key in record["expected"] if f"{record['name']}: {key}" not in
                 NOT_COMPARED}
        for key in names - set(NOT_COMPARED):
            other = copy.deepcopy(record)
            number, path = other["expected"], key
            while isinstance(number[path], list):
                number, path = number[path], 0
            number[path] = float(number[path]) + 1e-5
            assert compare(other, limits), f"{record['name']}: {key}"


def test_table_explains_every_record():
    lines, bad = table()
    assert not bad
    passed, left_out = (sum(int(line.split()[i]) for line in lines[1:8]) for i in (2, 3))
    assert passed + left_out == sum(TOTAL.values())
    assert left_out == sum(int(line.split(" x ")[0]) for line in lines[9:])
    assert left_out <= len(LEFT_OUT) + 2


# ============================================================== words that no record here uses


@pytest.mark.parametrize("project, variant, hyper, ours", [
    ("trl", "grpo", {"loss_type": "grpo", "epsilon": 0.2, "delta": 4.0, "beta": 0.0},
     partial(losses.two_sided, beta=0.0)),
    ("trl", "dapo", {"loss_type": "dapo", "epsilon": 0.2, "delta": 4.0}, partial(
        losses.dual_clip, c=4.0)),
    ("trl", "gspo", {"loss_type": "dapo", "importance_sampling_level": "sequence",
                     "epsilon": 0.1}, partial(
        losses.assembled, clip_eps=0.1, beta=0.0, ratio=pieces.sequence_ratio,
        aggregation=pieces.token_mean)),
    ("verl", "gspo", {"loss_mode": "vanilla", "loss_agg_mode": "seq-mean-token-mean",
                      "clip_ratio_c": 3.0}, partial(
        losses.assembled, beta=0.0, surrogate=partial(pieces.dual_clip, c=3.0))),
    ("derived", "two_sided", {"clip_eps": 0.2, "delta": 3.0}, partial(
        losses.two_sided, beta=0.0, ratio_ceiling=3.0)),
    ("derived", "gspo_token", {"clip_low": 0.1, "clip_high": 0.2}, partial(
        losses.gspo, clip_eps=0.1, clip_high=0.2)),
])
def test_words_that_no_record_here_uses(project, variant, hyper, ours):
    x = case(11, spread=1.5, holes=False)
    pairs = zip(value_and_gradient(loss_for(project, variant, hyper), x),
                value_and_gradient(ours, x))
    assert all((a - b).abs().max() < 1e-12 for a, b in pairs)


@pytest.mark.parametrize("project, hyper, words", [
    ("trl", {"loss_type": "cispo", "epsilon_high": 0.2}, "caps every ratio below 1"),
    ("trl", {"loss_type": "new"}, "loss_type 'new' is not built"),
    ("verl", {"loss_mode": "clip_cov"}, "loss_mode 'clip_cov' is not built"),
    ("prime_rl", {}, "prime_rl has no loss"),
])
def test_what_is_not_built_says_so(project, hyper, words):
    with pytest.raises(Unsupported, match=words):
        loss_for(project, "grpo", hyper)
