"""Gradients: against finite differences, and where sg() forbids that, against the formulas."""

import math

import pytest
import torch

pytest.importorskip("hypothesis", reason="pip install -r instructor/requirements.txt")

from hypothesis import given, settings
from hypothesis import strategies as st

from beyond.losses import LOSSES, assembled, zoo
from beyond.losses.pieces import k1, k2, k3, k3_is, k_abs, straight_through
from beyond.tests.inputs import BOUND, Case, case, value_and_gradient
from beyond.tests.solution import SOLUTION
from tests.labfile import load_lab

many = settings(max_examples=15, deadline=None, derandomize=True, database=None)
seeds = st.integers(0, 10**6)
STOP_GRADIENT = {"cispo", "torchforge_reinforce", "gspo_token", "simple_grpo", "vespo"}
KINKS = (0.8, 1.2, 1.28, 3.0, 4.0)  # ratios where a clip starts; the gradient jumps there


def far_from_kinks(x: Case) -> Case:
    """Move ratios that lie within 1e-3 of an edge (in all of the ratio levels) to 1."""
    near = torch.zeros_like(x.mask, dtype=torch.bool)
    on, e = x.mask.bool(), x.logp - x.old_logp
    edges = [math.log(k) for k in KINKS] + [0.2, -0.2]  # gmpo clips the exponent
    total = torch.where(on, e, 0.0).sum(1, keepdim=True)
    for value in (e, x.logp - x.ref_logp, total, total / on.sum(1, keepdim=True).clamp(min=1)):
        for edge in edges:
            near |= (value - edge).abs() < 1e-3
    return x._replace(logp=torch.where(near, x.old_logp, x.logp))


def slope(loss, x: Case, direction: torch.Tensor, h: float = 1e-5) -> torch.Tensor:
    """Return the central difference of the loss along a direction of logp."""
    up, down = (loss(x.logp + s * direction, *x[1:], 0.2, 0.04)[0] for s in (h, -h))
    return (up - down) / (2 * h)


@pytest.mark.parametrize("name", sorted(set(LOSSES) - STOP_GRADIENT))
@many
@given(seed=seeds)
def test_gradient_is_the_finite_difference(name, seed):
    x = far_from_kinks(case(seed))
    direction = torch.randn(x.logp.shape, dtype=torch.float64,
                            generator=torch.Generator().manual_seed(seed))
    _, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.04)
    assert abs(float((gradient * direction).sum() - slope(BOUND[name], x, direction))) < 1e-7


def weights_of(x: Case) -> dict[str, torch.Tensor]:
    """Return d loss / d logp of the stop-gradient losses at beta = 0, from their formulas."""
    n, N, A = x.mask.sum(1, keepdim=True).clamp(min=1), x.mask.sum(), x.adv.unsqueeze(1)
    r = (x.logp - x.old_logp).exp()
    total = ((x.logp - x.old_logp) * x.mask).sum(1, keepdim=True)
    s, W = (total / n).exp(), total.exp()
    inside = torch.where(A > 0, s <= 1.2, s >= 0.8)
    k, lam = torch.where(A >= 0, 2.0, 3.0), torch.where(A >= 0, 3.0, 2.0)
    per_token = {"cispo": r.clamp(0, 5) / N, "torchforge_reinforce": r.clamp(0.1, 10) / N,
                 "gspo_token": s * inside / n / 6, "simple_grpo": 1 / n / 6,
                 "vespo": W**k * (lam * (1 - W)).exp() / N}
    return {name: -w * A * x.mask for name, w in per_token.items()}


@pytest.mark.parametrize("name", sorted(STOP_GRADIENT))
@many
@given(seed=seeds)
def test_gradient_with_stop_gradient_is_the_formula(name, seed):
    x = far_from_kinks(case(seed))
    extras = {"clip_high": 0.2} if name == "gspo_token" else {}
    _, gradient = value_and_gradient(BOUND[name], x, 0.2, 0.0, **extras)
    assert (gradient - weights_of(x)[name]).abs().max() < 1e-12


@many
@given(seed=seeds, kl=st.sampled_from([k1, k2, k3, k3_is, k_abs]))
def test_every_kl_term_has_the_right_gradient(seed, kl):
    x = far_from_kinks(case(seed))
    loss = lambda *five: assembled(*five[:5], 0.2, 0.3, kl=kl)  # noqa: E731
    direction = torch.ones_like(x.logp)
    _, gradient = value_and_gradient(loss, x)
    assert abs(float((gradient * direction).sum() - slope(loss, x, direction))) < 1e-7


@many
@given(seed=seeds)
def test_on_policy_k3_times_the_ratio_has_the_gradient_of_k2(seed):
    x = case(seed, spread=0.0)
    of_k2, of_k3_is, of_k3, of_plus = (
        value_and_gradient(BOUND["grpo"], x, 0.2, 0.3, kl=kl)[1]
        for kl in (k2, k3_is, k3, straight_through))
    assert (of_k3_is - of_k2).abs().max() < 1e-15 and (of_plus - of_k2).abs().max() < 1e-15
    assert (of_k3 - of_k2).abs().max() > 1e-3


@many
@given(seed=seeds)
def test_k2_and_not_k3_has_the_gradient_of_the_kl_on_average(seed):
    """Exactly, over an alphabet: sum p(y) d estimator(y) / d logits = d KL(p || q) / d logits."""
    rng = torch.Generator().manual_seed(seed)
    logits, q = (torch.randn(5, generator=rng, dtype=torch.float64) for _ in range(2))
    q = q.log_softmax(0)

    def gradient(f):
        at = logits.clone().requires_grad_()
        return torch.autograd.grad(f(at.log_softmax(0)), at)[0]

    p = logits.softmax(0)
    reverse = gradient(lambda logp: (logp.exp() * (logp - q)).sum())
    forward = gradient(lambda logp: (q.exp() * (q - logp)).sum())
    mean = {kl: gradient(lambda logp, kl=kl: (p * kl(logp, q)).sum()) for kl in (k1, k2, k3)}
    assert (mean[k2] - reverse).abs().max() < 1e-12
    assert (mean[k3] - forward).abs().max() < 1e-12
    assert mean[k1].abs().max() < 1e-12


# ============================================================== grpo is the lab's grpo_loss

LAB = load_lab(SOLUTION)


@many
@given(seed=seeds, clip_eps=st.sampled_from([0.0, 0.05, 0.2, 0.9]),
       beta=st.sampled_from([0.0, 0.04, 1.0]), spread=st.sampled_from([0.0, 0.3, 3.0]))
def test_grpo_equals_the_lab_in_value_gradient_and_statistics(seed, clip_eps, beta, spread):
    x = case(seed, spread=spread)
    ours, theirs = (value_and_gradient(f, x, clip_eps, beta) for f in (LOSSES["grpo"],
                                                                       LAB.grpo_loss))
    for a, b in zip(ours, theirs):
        assert ((a - b).abs() <= 1e-13 * (1 + b.abs())).all()
    stats, of_lab = (f(*x, clip_eps, beta)[1] for f in (LOSSES["grpo"], LAB.grpo_loss))
    assert {k: stats[k] for k in of_lab} == pytest.approx(of_lab, rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("B, T, scale", [(1, 1, 1.0), (4, 1, 1.0), (2, 2, 1.0), (6, 5, 0.0)])
def test_one_token_square_batches_and_no_advantage(B, T, scale):
    x = case(9, B, T, holes=False)
    x = x._replace(adv=scale * x.adv)
    ours, theirs = (value_and_gradient(f, x) for f in (LOSSES["grpo"], LAB.grpo_loss))
    assert all((a - b).abs().max() < 1e-14 for a, b in zip(ours, theirs))
    stats, of_lab = LOSSES["grpo"](*x)[1], LAB.grpo_loss(*x)[1]
    assert {key: stats[key] for key in of_lab} == pytest.approx(of_lab, rel=1e-12)


def test_the_zoo_has_the_lab_file_s_own_function():
    assert zoo(LAB)["grpo"] is LAB.grpo_loss
    assert zoo(LAB).keys() == LOSSES.keys()
    assert all(zoo(LAB)[name] is LOSSES[name] for name in LOSSES if name != "grpo")
