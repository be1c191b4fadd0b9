"""Signatures, error messages, weights, shaping, wrappers; and small cases from public tests."""

import inspect
import json
import math
from functools import partial
from pathlib import Path

import pytest
import torch

from beyond import losses
from beyond.losses import KL_ESTIMATORS, LOSSES, pieces, shaping, variants, weights
from beyond.tests.inputs import BOUND, case, value_and_gradient

DATA = Path(__file__).resolve().parents[1] / "data"
HAND = json.loads((DATA / "hand_cases.json").read_text(encoding="utf-8"))
SEVEN = ["logp", "old_logp", "ref_logp", "adv", "mask", "clip_eps", "beta"]
FUNCTIONS = [*LOSSES.values(), losses.assembled, weights.tis, weights.entropy_bonus]


def rows(values):
    """Return a float64 tensor of shape (B, T)."""
    value = torch.tensor(values, dtype=torch.float64)
    return value if value.dim() == 2 else value.unsqueeze(0)


def batch(values, mask):
    """Return a Batch with this mask; what is in it does not matter to an aggregation."""
    x = rows(values)
    return pieces.real_tokens(x, x, None, x[:, 0], rows(mask))


# ============================================================== the form of a loss


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_signature_is_that_of_grpo_loss_with_extras_by_name(f):
    parameters = inspect.signature(f).parameters.values()
    assert [p.name for p in parameters][:7] == SEVEN
    assert all(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in list(parameters)[7:])
    assert not any(isinstance(p.default, str) for p in parameters), "no switches by string"


@pytest.mark.parametrize("f", FUNCTIONS, ids=lambda f: f.__name__)
def test_docstring_explains_every_extra_and_names_a_source(f):
    words = f.__doc__ + variants.__doc__
    extras = [p.name for p in inspect.signature(f).parameters.values() if p.kind == p.KEYWORD_ONLY]
    assert not [name for name in extras if name not in words]
    lines = len(inspect.getsource(f).splitlines())
    assert lines <= 40, "a loss fits on one screen"


def test_an_extra_that_does_not_exist_is_refused():
    with pytest.raises(TypeError, match="clip_hihg"):
        losses.dapo(*case(0), clip_hihg=0.3)


@pytest.mark.parametrize("call, words", [
    (partial(losses.cispo, ratio_cap=0.2), "ratio_cap = 0.2.*give 1 or more"),
    (partial(losses.dual_clip, c=1.0), "c = 1.0.*above 1"),
    (partial(losses.two_sided, ratio_ceiling=1.1), "ratio_ceiling = 1.1.*1.2"),
    (partial(losses.dapo_group, G=4), "6 rows are not groups of G = 4"),
    (partial(weights.tis, sampler_logp=case(0).old_logp, cap=0.5), "cap = 0.5.*1 or more"),
])
def test_a_wrong_extra_is_named_with_what_is_allowed(call, words):
    with pytest.raises(ValueError, match=words) as error:
        call(*case(0))
    assert "\n" not in str(error.value)


def test_a_kl_term_without_a_reference_is_named():
    x = case(0)._replace(ref_logp=None)
    with pytest.raises(ValueError, match="beta = 0.04 needs ref_logp"):
        losses.grpo(*x)
    assert losses.dapo(*x)[1]["kl"] == 0.0
    with pytest.raises(ValueError, match="k3_is needs the ratio"):
        pieces.k3_is(x.logp, x.old_logp)


# ============================================================== options


@pytest.mark.parametrize("name", KL_ESTIMATORS)
def test_kl_is_always_plain_k3_in_the_statistics(name):
    x, kl = case(1), KL_ESTIMATORS[name]
    d = (x.ref_logp - x.logp)[x.mask.bool()]
    stats = losses.grpo(*x, kl=kl)[1]
    assert stats["kl"] == pytest.approx(float((d.exp() - d - 1).mean()), rel=1e-12)
    assert ("kl_term" in stats) == (name != "k3")
    assert losses.grpo(*x, 0.2, 0.0, kl=kl)[1] == pytest.approx(stats)


def test_log_ratio_clip_bounds_the_ratio_and_stops_its_gradient():
    x = case(2, spread=3.0, holes=False)
    free, clipped = (losses.sapo(*x, log_ratio_clip=c)[1]["ratio_max"] for c in (None, 1.0))
    assert clipped == pytest.approx(math.e) and free > math.e
    gradient = value_and_gradient(partial(losses.sapo, log_ratio_clip=1.0), x)[1]
    assert gradient[(x.logp - x.old_logp).abs() > 1].eq(0).all()


def test_advantages_may_be_per_token():
    x = case(3)
    for name, loss in BOUND.items():
        per_token = x._replace(adv=x.adv.unsqueeze(1).expand_as(x.mask))
        for a, b in zip(value_and_gradient(loss, per_token), value_and_gradient(loss, x)):
            assert (a - b).abs().max() < 1e-12, name
        wide, one_each = loss(*per_token)[1], loss(*x)[1]
        for key in ("kl", "clip_frac", "ratio_max"):
            assert wide[key] == pytest.approx(one_each[key]), name


def test_rows_that_are_not_empty_as_the_denominator():
    x = case(5)
    x.mask[1] = 0
    loss, _ = losses.grpo(*x, rows=pieces.nonempty_rows(x.mask))
    assert loss == pytest.approx(float(losses.grpo(*x)[0]) * 6 / 5)
    assert pieces.nonempty_rows(torch.zeros(2, 3)) == 1


def test_dual_clip_and_two_sided_bound_the_same_loss():
    x = case(6, spread=3.0, holes=False)
    dual = value_and_gradient(partial(losses.assembled, surrogate=partial(pieces.dual_clip, c=4.0)),
                              x, 0.2, 0.0)
    two = value_and_gradient(losses.two_sided, x, 0.2, 0.0)
    assert all((a - b).abs().max() < 1e-12 for a, b in zip(dual, two))
    plain = value_and_gradient(losses.grpo, x, 0.2, 0.0)
    assert plain[0] > two[0] + 0.1
    assert losses.dual_clip(*x)[1]["dual_clip_frac"] > 0


def test_gmpo_clips_the_exponent_on_the_side_that_the_advantage_looks_at():
    e = rows([[0.6, -0.2], [-0.6, 0.2], [0.6, -0.6]])
    given = e, torch.zeros_like(e), None, torch.tensor([1.0, -1.0, 0.0]), torch.ones(3, 2)
    loss, stats = losses.gmpo(*given)  # exponents 0.4 -0.2, then -0.4 0.2, and A = 0
    assert loss.item() == pytest.approx(-(math.exp(0.1) - math.exp(-0.1)) / 3)
    assert (stats["clip_frac_low"], stats["clip_frac_high"]) == pytest.approx((1 / 6, 1 / 6))
    assert losses.gmpo(*given, clip_high=0.5)[0] < loss


# ============================================================== weights, entropy, shaping


def test_truncated_importance_sampling_does_nothing_when_the_sampler_is_the_old_policy():
    x = case(7)
    plain = value_and_gradient(losses.dapo, x, 0.2, 0.04)
    for level in (weights.token_weights, weights.sequence_weights):
        weighted = partial(weights.tis, sampler_logp=x.old_logp, level=level, loss=losses.dapo)
        for a, b in zip(value_and_gradient(weighted, x, 0.2, 0.04), plain):
            assert (a - b).abs().max() < 1e-15


def test_truncated_weights_multiply_the_policy_term_alone():
    x = case(8, holes=False)
    sampler = x.old_logp - math.log(1.5)  # w = 1.5 everywhere
    (free, _), (kl, _) = (value_and_gradient(losses.grpo, x, 0.2, b) for b in (0.0, 0.3))
    weighted, stats = weights.tis(*x, 0.2, 0.3, sampler_logp=sampler)
    assert weighted == pytest.approx(float(1.5 * free + (kl - free)))
    assert stats["weight_mean"] == pytest.approx(1.5)
    capped, stats = weights.tis(*x, 0.2, 0.0, sampler_logp=sampler, cap=1.2)
    assert capped == pytest.approx(float(1.2 * free))
    dropped, stats = weights.tis(*x, 0.2, 0.0, sampler_logp=sampler, cap=1.2, low=0.8)
    assert (dropped, stats["weight_mean"]) == (0, 0)  # IcePop


def test_off_policy_responses_with_a_negative_advantage_are_masked():
    logp, sampler = rows([[-3.0, -3.0]] * 3), rows([[-1.0, -1.0], [-1.0, -1.0], [-3.0, -2.9]])
    keep = weights.near_sampler(logp, sampler, torch.ones(3, 2), torch.tensor([1.0, -1, -1]), 0.5)
    assert keep.tolist() == [[1, 1], [0, 0], [1, 1]]


def test_entropy_bonus_rewards_a_flat_policy():
    logits = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    entropy = weights.entropy_of_logits(logits)
    logp = logits.log_softmax(-1)[..., 0]
    given = logp, logp.detach(), logp.detach(), torch.zeros(2), torch.ones(2, 3)
    loss, stats = weights.entropy_bonus(*given, entropy=entropy, coef=0.5, loss=losses.dapo)
    assert loss.item() == pytest.approx(-0.5 * stats["entropy"])
    assert weights.entropy_of_logits(torch.zeros(1, 1, 8)).item() == pytest.approx(math.log(8))


def test_overlong_penalty_and_its_bounds():
    got = shaping.overlong_penalty(torch.tensor([4, 5, 7, 10, 99]), L_max=10, L_cache=5)
    assert got.tolist() == pytest.approx([0, 0, -0.4, -1, -1])
    with pytest.raises(ValueError, match="L_cache = 11: give 1 to L_max = 10"):
        shaping.overlong_penalty(torch.tensor([1]), 10, 11)


def test_dynamic_sampling_keeps_drawing_until_the_batch_is_full():
    draws = iter([([0, 1], [1, 1, 0, 1]), ([2, 3], [0, 0, 0, 0]), ([4, 5], [1, 0, 0, 1])])
    fill = partial(shaping.fill_with_informative, lambda: next(draws), G=2)
    assert fill(P=2) == [1, 4]
    equal = ([9], [1.0, 1.0])
    assert shaping.fill_with_informative(lambda: equal, 2, 2, max_draws=3) == []


# ============================================================== cases from public tests


@pytest.mark.parametrize("name", ["verl_593_aggregation", "openrlhf_seq_mean"])
def test_aggregations_give_the_published_numbers(name):
    numbers = HAND[name]
    values, x = rows(numbers["values"]), batch(numbers["values"], numbers["mask"])
    assert pieces.token_mean(values, x).item() == pytest.approx(numbers["token_mean"])
    assert pieces.response_mean(values, x).item() == pytest.approx(numbers["sequence_mean"])


def test_micro_batches_give_the_published_global_mean():
    numbers = HAND["openrlhf_grad_accum"]
    parts = [(rows(m["v"]), batch(m["v"], m["m"])) for m in numbers["microbatches"]]
    local = [pieces.token_mean(v, x).item() for v, x in parts]
    tokens = sum(x.n.sum() for _, x in parts)
    together = sum(pieces.token_mean(v, x, tokens).item() for v, x in parts)
    assert together == pytest.approx(numbers["global_token_mean"])
    assert sum(local) / 2 == pytest.approx(numbers["mean_of_microbatch_means"])


def test_clip_and_kl_give_the_published_numbers():
    ppo, kl = HAND["nemo_ppo_clip"], HAND["nemo_kl_penalty"]
    logp, old, A = (rows(ppo[k]) for k in ("logp", "old", "adv_per_token"))
    mask = torch.ones_like(logp)
    assert losses.dapo(logp, old, None, A, mask, clip_high=0.2)[0].item() == pytest.approx(
        ppo["mean"], abs=1e-4)
    logp, ref = rows(kl["logp"]), rows(kl["ref"])
    loss, _ = losses.dapo(logp, logp, ref, torch.zeros(1), mask, 0.2, kl["beta"])
    assert loss.item() == pytest.approx(kl["loss"], abs=1e-4)
    three = HAND["nemo_k3"]
    for name in ("k1", "k2", "k3"):
        got = KL_ESTIMATORS[name](rows(three["logp"]), rows(three["ref"]))[0].tolist()
        assert got == pytest.approx(three[name], abs=1e-4)


NEMO = json.loads((DATA / "nemo_rl" / "clipped_pg_loss_goldens.abridged.json")
                  .read_text(encoding="utf-8"))
NEMO_LOSSES = {
    "ppo_token": partial(losses.dapo, clip_high=0.2),
    "force_on_policy": partial(losses.assembled, beta=0.0, aggregation=pieces.token_mean,
                               ratio=lambda x: (x.logp - x.logp.detach()).exp()),
    "reinforce": losses.reinforce,
    "dual_clip": losses.dual_clip,
    "cispo_with_token_is": partial(weights.tis, loss=losses.cispo, cap=1e9, beta=0.0,
                                   ratio_floor=0.8, ratio_cap=1.2),
    "tis_token": partial(weights.tis, loss=losses.dapo, cap=1.3, beta=0.0, clip_high=0.2),
    "icepop_token": partial(weights.tis, loss=losses.dapo, low=0.75, cap=1.25, beta=0.0,
                            clip_high=0.2),
    "gspo_sequence_is": partial(weights.tis, loss=losses.gspo, cap=1e9, beta=0.0,
                                clip_eps=0.2, clip_high=0.2, level=weights.sequence_weights),
}


@pytest.mark.parametrize("record", NEMO["cases"], ids=lambda r: r["name"])
def test_nemo_rl_numbers(record):
    """NeMo-RL's own goldens: per-token advantages, an importance weight against the generator."""
    base = NEMO["base_inputs"] | record.get("overrides", {})
    cut = lambda key: rows(base[key])[:, 1:]  # noqa: E731  (column 0 is BOS)
    logp = rows(base["next_token_logprobs"]).requires_grad_()
    loss_function = NEMO_LOSSES[record["name"]]
    if getattr(loss_function, "func", None) is weights.tis:
        loss_function = partial(loss_function, sampler_logp=cut("generation_logprobs"))
    loss, _ = loss_function(logp, cut("prev_logprobs"), None, cut("advantages"),
                            cut("token_mask"))
    (gradient,) = torch.autograd.grad(loss, logp)
    assert loss.item() == pytest.approx(record["loss"], rel=1e-6)
    assert gradient.flatten().tolist() == pytest.approx(
        [g for row in record["grad"] for g in row], rel=1e-6, abs=1e-9)
