"""What must hold for every loss of the zoo, on random inputs (hypothesis draws the seeds)."""

import pytest
import torch

pytest.importorskip("hypothesis", reason="pip install -r instructor/requirements.txt")

from hypothesis import given, settings
from hypothesis import strategies as st

from beyond.losses import ADVANTAGES, LOSSES
from beyond.tests.inputs import (
    BOUND,
    BY_GROUP,
    BY_ROW,
    BY_TOKEN,
    Case,
    G,
    case,
    value_and_gradient,
)

many = settings(max_examples=8, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 10**6)
every_loss = pytest.mark.parametrize("name", LOSSES)


def close(a, b, tolerance=1e-12):
    """Return whether two tensors agree, relative to their size."""
    return bool(((a - b).abs() <= tolerance * (1 + b.abs())).all())


@every_loss
@many
@given(seed=seeds)
def test_order_of_the_rows_does_not_matter(name, seed):
    x = case(seed)
    order = torch.randperm(3, generator=torch.Generator().manual_seed(seed))
    order = (order.unsqueeze(1) * G + torch.arange(G)).flatten()  # whole groups
    value, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    mixed, of_mixed = value_and_gradient(BOUND[name], Case(*(v[order] for v in x)), 0.2, 0.04)
    assert close(mixed, value) and close(of_mixed, gradient[order])


@every_loss
@many
@given(seed=seeds, junk=st.sampled_from([800.0, -800.0, float("inf"), float("-inf"), float("nan")]))
def test_padding_changes_nothing(name, seed, junk):
    x = case(seed)
    off = x.mask == 0
    dirty = x._replace(**{k: getattr(x, k).masked_fill(off, v) for k, v in
                          (("logp", junk), ("old_logp", -junk), ("ref_logp", 0.5 * junk))})
    if name != "rloo":  # there an empty response adds -A, without a gradient
        dirty = dirty._replace(adv=x.adv.masked_fill(off.all(1), junk))
    value, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    of_dirty = value_and_gradient(BOUND[name], dirty, 0.2, 0.04)
    assert close(of_dirty[0], value) and close(of_dirty[1], gradient)
    assert bool((gradient[off] == 0).all())


@every_loss
@many
@given(seed=seeds)
def test_what_a_fully_masked_row_does(name, seed):
    x = case(seed)
    nothing = case(seed + 1, B=G)
    nothing = nothing._replace(mask=torch.zeros_like(nothing.mask), adv=torch.zeros(G))
    more = Case(*(torch.cat([a, b.to(a)]) for a, b in zip(x, nothing)))
    share = 1.0 if name in BY_TOKEN else len(x.adv) / (len(x.adv) + G)  # it counts, and adds 0
    value, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    wider, of_wider = value_and_gradient(BOUND[name], more, 0.2, 0.04)
    assert close(wider, share * value) and close(of_wider[: len(x.adv)], share * gradient)
    assert bool((of_wider[len(x.adv) :] == 0).all())


@every_loss
def test_nothing_to_train_on_gives_zero(name):
    x = case(0)
    x = x._replace(mask=torch.zeros_like(x.mask), adv=torch.zeros_like(x.adv))
    value, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    assert value == 0 and bool((gradient == 0).all())
    stats = BOUND[name](*x)[1]
    assert (stats["kl"], stats["clip_frac"], stats["ratio_max"]) == (0, 0, 0)


@every_loss
@many
@given(seed=seeds, scale=st.floats(0.1, 10))
def test_scaled_advantages_scale_the_policy_term(name, seed, scale):
    x = case(seed)
    value, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.0)
    scaled = value_and_gradient(BOUND[name], x._replace(adv=scale * x.adv), 0.2, 0.0)
    assert close(scaled[0], scale * value) and close(scaled[1], scale * gradient)


@every_loss
@many
@given(seed=seeds)
def test_beta_scales_the_kl_term_alone(name, seed):
    x = case(seed)
    (a, da), (b, db), (c, dc) = (value_and_gradient(BOUND[name], x, 0.2, beta)
                                 for beta in (0.0, 0.5, 1.0))
    assert close(b - a, c - b) and close(db - da, dc - db)
    assert not close(a, c, 1e-6)


@every_loss
@many
@given(seed=seeds)
def test_micro_batches_with_the_global_denominator_add_up(name, seed):
    if name == "bnpo":
        pytest.skip("bnpo is the one that takes the local count: see the next test")
    x = case(seed)
    count = {"rows": 6} if name in BY_ROW else {"groups": 3} if name in BY_GROUP else {
        "tokens": x.mask.sum()}
    whole = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    parts = [value_and_gradient(BOUND[name], Case(*(v[i : i + 2] for v in x)), 0.2, 0.04, **count)
             for i in (0, 2, 4)]
    assert close(sum(value for value, _ in parts), whole[0])
    assert close(torch.cat([gradient for _, gradient in parts]), whole[1])


def test_bnpo_depends_on_how_the_batch_is_cut():
    x = case(4)
    whole, _ = value_and_gradient(BOUND["bnpo"], x)
    parts = [value_and_gradient(BOUND["bnpo"], Case(*(v[i : i + 2] for v in x)))[0]
             for i in (0, 2, 4)]
    assert not close(sum(parts) / 3, whole, 1e-3)


@every_loss
def test_float32_in_float32_out(name):
    x = Case(*(v.float() for v in case(0)))
    loss, stats = BOUND[name](*x)
    assert loss.dtype == torch.float32 and loss.shape == ()
    assert all(type(value) is float for value in stats.values())
    assert {"kl", "clip_frac", "ratio_max"} <= set(stats)
    exact, _ = value_and_gradient(BOUND[name], case(0))
    assert close(loss.detach().double(), exact, 1e-5)


@every_loss
def test_inputs_are_left_alone(name):
    x, copies = case(1), [v.clone() for v in case(1)]
    BOUND[name](*x, 0.2, 0.04)
    assert all(torch.equal(a, b) for a, b in zip(x, copies))


# ============================================================== on policy, families agree

BY_RESPONSE = ["grpo", "two_sided", "simple_grpo", "gspo", "gspo_token", "sapo", "gmpo"]
OVER_TOKENS = ["dapo", "bnpo", "dual_clip", "cispo", "reinforce", "reinforce_pp", "vespo",
               "torchforge_reinforce"]
SUMS = ["rloo", "luspo"]


@pytest.mark.parametrize("family", [BY_RESPONSE, OVER_TOKENS, SUMS], ids=lambda f: f[0])
@many
@given(seed=seeds)
def test_on_policy_the_gradients_of_a_family_agree(family, seed):
    x = case(seed, spread=0.0)
    first = value_and_gradient(BOUND[family[0]], x, 0.2, 0.04)[1]
    for name in family[1:]:
        if name == "luspo":  # its KL is a sum over tokens, rloo's a mean
            first = value_and_gradient(BOUND["rloo"], x, 0.2, 0.0)[1]
            assert close(value_and_gradient(BOUND[name], x, 0.2, 0.0)[1], first)
        else:
            assert close(value_and_gradient(BOUND[name], x, 0.2, 0.04)[1], first), name


@many
@given(seed=seeds)
def test_families_that_agree_everywhere(seed):
    x = case(seed)
    same = lambda a, b, **k: close(  # noqa: E731
        *(value_and_gradient(f, x, 0.2, 0.04, **k)[1] for f in (a, b)))
    assert same(BOUND["gspo"], BOUND["gspo_token"], clip_high=0.3)
    assert same(BOUND["bnpo"], BOUND["reinforce_pp"])
    full = x._replace(mask=torch.ones_like(x.mask))  # all responses equally long
    ours = [value_and_gradient(BOUND[n], full, 0.2, 0.04)[1] for n in ("grpo", "bnpo")]
    assert close(*ours)


@many
@given(seed=seeds)
def test_simple_grpo_is_wrong_off_policy(seed):
    x = case(seed, spread=0.4, holes=False)
    ours = [value_and_gradient(BOUND[n], x, 0.2, 0.04)[1] for n in ("grpo", "simple_grpo")]
    assert not close(*ours, 1e-3)


@every_loss
@many
@given(seed=seeds, per_token=st.sampled_from([-1e3, -20.0, -0.18, 0.18, 20.0, 1e3]),
       advantage=st.sampled_from([-1.0, 0.0, 1.0]))
def test_a_finite_loss_has_a_finite_gradient(name, seed, per_token, advantage):
    """With 512 tokens and ratios far beyond any float; an infinite loss is one and shows it."""
    rng = torch.Generator().manual_seed(seed)
    old = -torch.rand(2 * G, 512, generator=rng)
    logp = (old + per_token).requires_grad_()
    adv = torch.full((2 * G,), advantage)
    loss, _ = BOUND[name](logp, old, old, adv, torch.ones_like(old), 0.2, 0.0)
    loss.backward()
    assert not loss.isnan()
    if loss.isfinite():
        assert logp.grad.isfinite().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.int64, torch.bool])
@pytest.mark.parametrize("name", ADVANTAGES)
def test_advantages_are_computed_in_float32_or_better(name, dtype):
    rewards = torch.tensor([0, 1, 1, 0, 1, 1, 1, 0]).to(dtype)
    found = ADVANTAGES[name](rewards, 4)
    assert found.dtype == torch.float32
    assert (found - ADVANTAGES[name](rewards.to(torch.float64), 4)).abs().max() < 1e-6
    assert ADVANTAGES[name]([1000, 1001, None, 1000.5], 4).dtype == torch.float32
