"""Advantages: against plain loops, and what must hold for all of them."""

import json
import math
import random
import statistics
from pathlib import Path

import pytest
import torch

pytest.importorskip("hypothesis", reason="pip install -r instructor/requirements.txt")

from hypothesis import given, settings
from hypothesis import strategies as st

from beyond.losses.advantages import (
    ADVANTAGES,
    batch_scaled,
    combined,
    group_advantages,
    leave_one_out,
    whitened,
)

many = settings(max_examples=25, deadline=None, derandomize=True, database=None)
DATA = Path(__file__).resolve().parents[1] / "data"
NAN = float("nan")
rewards_of = st.lists(st.sampled_from([0.0, 0.1, 0.5, 0.7, 1.0, -2.0]), min_size=12, max_size=12)
sizes = st.sampled_from([1, 2, 3, 4, 6, 12])
every_one = pytest.mark.parametrize("name", ADVANTAGES)


def groups(rewards, G):
    """Return the rewards as lists of G."""
    return [rewards[i : i + G] for i in range(0, len(rewards), G)]


def by_hand(rewards, G, sample=False, batch=False, eps=1e-4):
    """Return group_advantages as plain loops; None is not scored."""
    out, every = [], [r for r in rewards if r is not None]
    for group in groups(rewards, G):
        known = [r for r in group if r is not None]
        spread_over = every if batch else known
        for r in group:
            if r is None or len(set(known)) < 2:
                out.append(0.0)
                continue
            spread = (statistics.stdev if sample else statistics.pstdev)(spread_over)
            out.append((r - statistics.fmean(known)) / (spread + eps))
    return out


@many
@given(rewards=st.lists(st.sampled_from([0.0, 0.1, 0.7, 1.0, None]), min_size=12, max_size=12),
       G=sizes, sample=st.booleans(), batch=st.booleans())
def test_group_advantages_equal_plain_loops(rewards, G, sample, batch):
    values = torch.tensor([NAN if r is None else r for r in rewards], dtype=torch.float64)
    got = group_advantages(values, G, sample_std=sample, batch_std=batch)
    assert got.tolist() == pytest.approx(by_hand(rewards, G, sample, batch), abs=1e-12)
    assert group_advantages(rewards, G, sample_std=sample).tolist() == pytest.approx(
        by_hand(rewards, G, sample), abs=2e-5)


@many
@given(rewards=rewards_of, G=st.sampled_from([2, 3, 4]))
def test_leave_one_out_equals_plain_loops(rewards, G):
    got = leave_one_out(torch.tensor(rewards, dtype=torch.float64), G).tolist()
    want = [g[i] - statistics.fmean(g[:i] + g[i + 1 :]) for g in groups(rewards, G)
            for i in range(G)]
    assert got == pytest.approx(want, abs=1e-12)


@every_one
@many
@given(value=st.floats(-3, 3, width=32), G=st.sampled_from([2, 3, 5, 7, 8, 32]))
def test_equal_rewards_give_exactly_zero_in_float32(name, value, G):
    assert ADVANTAGES[name](torch.full((3 * G,), value), G).eq(0).all()


@every_one
@many
@given(rewards=rewards_of, G=sizes, shift=st.floats(-5, 5))
def test_a_constant_added_to_all_rewards_changes_nothing(name, rewards, G, shift):
    r = torch.tensor(rewards, dtype=torch.float64)
    if len(set(rewards)) * G > 12 or any(abs(a - b) < 1e-9 for a in rewards for b in rewards
                                         if a != b):
        return
    moved = ADVANTAGES[name](r + round(shift), G)
    assert torch.allclose(moved, ADVANTAGES[name](r, G), rtol=0, atol=1e-9)


@every_one
@many
@given(rewards=rewards_of, G=sizes, seed=st.integers(0, 99))
def test_order_within_a_group_and_of_groups_does_not_matter(name, rewards, G, seed):
    rng = random.Random(seed)
    order = groups(list(range(12)), G)
    rng.shuffle(order)
    order = [i for group in order for i in rng.sample(group, G)]
    r = torch.tensor(rewards, dtype=torch.float64)
    got = ADVANTAGES[name](r[order], G)
    assert torch.allclose(got, ADVANTAGES[name](r, G)[order], rtol=0, atol=1e-12)


@every_one
@many
@given(rewards=rewards_of, at=st.integers(0, 3), missing=st.sampled_from([NAN, None]))
def test_a_row_without_a_score_is_as_if_it_were_not_there(name, rewards, at, missing):
    four, others = rewards[:4], rewards[:at] + rewards[at + 1 : 4]
    with_hole = four[:at] + [missing] + four[at + 1 :]
    got = ADVANTAGES[name](with_hole, 4).tolist()
    assert got.pop(at) == 0
    assert got == pytest.approx(ADVANTAGES[name](others, 3).tolist(), abs=1e-4)


@every_one
def test_nothing_scored_and_a_group_of_one_give_zero(name):
    assert ADVANTAGES[name]([None, None, NAN, None], 2).eq(0).all()
    if name != "whitened":  # it compares with the batch, not with the group
        assert ADVANTAGES[name](torch.tensor([1.0, 0.0, 0.5]), 1).eq(0).all()


def test_whitened_and_batch_scaled():
    r = torch.tensor([1.0, 0.0, 0.0, 0.0, 1.0, 1.0], dtype=torch.float64)
    A = whitened(r, eps=0.0)
    assert A.mean().abs() < 1e-15 and A.std(unbiased=False) == pytest.approx(1.0)
    with_baseline = whitened(r, 3, eps=0.0, baseline=True)
    assert with_baseline.std(unbiased=False) == pytest.approx(1.0)
    assert batch_scaled(r, 3, eps=0.0)[0] == pytest.approx((1 - 1 / 3) / 0.5)
    assert whitened(r, scale_std=False)[0] == 0.5


def test_several_rewards_are_added_and_missing_ones_left_out():
    each = torch.tensor([[1.0, 2.0], [NAN, 2.0], [NAN, NAN]], dtype=torch.float64)
    got = combined(each, [1.0, 0.5]).tolist()
    assert got[:2] == [2.0, 1.0] and math.isnan(got[2])
    assert combined(each)[0] == 3.0


def test_rewards_that_are_not_groups_are_named():
    with pytest.raises(ValueError, match=r"\(5,\) are not groups of G = 2"):
        group_advantages(torch.zeros(5), 2)
    with pytest.raises(ValueError, match=r"\(2, 2\)"):
        group_advantages(torch.zeros(2, 2), 2)


def test_published_numbers_of_a_course():
    numbers = json.loads((DATA / "hand_cases.json").read_text(encoding="utf-8"))["hf_course_12_3b"]
    r = torch.tensor(numbers["rewards"], dtype=torch.float64)
    sample = group_advantages(r, 4, eps=1e-8, sample_std=True).tolist()
    assert sample == pytest.approx(numbers["adv_sample_std_eps1e-8"], abs=1e-4)
    ours = group_advantages(r, 4).tolist()
    assert ours == pytest.approx(numbers["adv_population_std_eps1e-4"], abs=1e-5)


def test_no_residue_of_rounding_where_all_others_are_equal():
    """Mean of squares minus square of the mean would leave a std of 4.6e-4 here in float32."""
    r = torch.tensor([0.0] + [0.95] * 7)
    assert leave_one_out(r, 8)[0] == pytest.approx(-0.95, abs=1e-6)
    assert group_advantages(r[1:], 7).eq(0).all()
