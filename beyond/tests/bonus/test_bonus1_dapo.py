"""Bonus 1, dapo_loss: the loss, its gradient, and the three statistics."""

import math

import pytest
import torch

from tests.messages import explain

from . import probes
from .exercises import KEYS, LOSS, call, call_text, probe, tensors

# One hand-computed case, clip_eps = 0.2, clip_high = 0.28. Two prompts, G = 2 responses each.
#    prompt 0, 3 tokens:  A =  1, rho 1.5, 1.0     min(1.5, 1.28) = 1.28,  1
#                         A = -1, rho 0.5          min(-0.5, -0.8) = -0.8
#                         sum 1.48 / 3 = 0.49333
#    prompt 1, 3 tokens:  A =  0.5, rho 1.2        0.6
#                         A = -2, rho 1.4, 0.9     -2.8, -1.8
#                         sum -4 / 3 = -1.33333
# loss = -(0.49333 - 1.33333) / 2 = 0.42.  The clip changed 2 of the 6 tokens: 0.3333.
HAND = probe([[1.5, 1.0], [0.5], [1.2], [1.4, 0.9]], [1.0, -1.0, 0.5, -2.0])
HAND_RESULT = {"loss": 0.42, "clip_frac": 0.3333, "ratio_max": 1.5}

CHECKS = probes.CHECKS[1]
PROBES = CHECKS.probes
RHO, ADV = probes.DAPO_RHO, probes.ADV


def test_bonus1_hand_computed(lab):
    for key, result in HAND_RESULT.items():
        assert CHECKS.run({}, HAND, key) == pytest.approx(result, abs=1e-4)
        CHECKS.check(lab, HAND, key)


def test_bonus1_loss(lab):
    for p in PROBES.values():
        CHECKS.check(lab, p, "loss")


def test_bonus1_gradient(lab):
    for p in PROBES.values():
        CHECKS.check(lab, p, "grad")


@pytest.mark.parametrize("key", KEYS[2:])
def test_bonus1_stats(lab, key):
    for p in PROBES.values():
        CHECKS.check(lab, p, key)


def test_bonus1_padding_changes_nothing(lab):
    for garbage in [(math.exp(9), -3.0), (math.exp(-3), 2.5)]:
        CHECKS.check(lab, probe(RHO, ADV, G=3, garbage=garbage), *KEYS)


def test_bonus1_defaults(lab):
    CHECKS.check(lab, probe(RHO + RHO[:2], ADV + ADV[:2], G=8), *LOSS, named=False)


def test_bonus1_a_response_or_a_group_without_a_token(lab):
    """An empty response adds no token to its group; an empty group counts, and adds 0."""
    p = PROBES["two groups of three"]
    for rows, share in ((1, 1.0), (3, 0.5)):
        given = tensors(p)
        given[4][-rows:] = 0.0
        if rows == 1:  # what is left of group 1
            cut = p._replace(mask=[*p.mask[:-1], [0.0] * len(p.mask[0])])
            want = CHECKS.run({}, cut, "loss")
        else:
            first = p._replace(**{k: getattr(p, k)[:3] for k in p._fields[:5]})
            want = share * CHECKS.run({}, first, "loss")
        result = call(lab, CHECKS.exercise, p, given)[0]
        text = f"{call_text(CHECKS.exercise, p)}, with the last {rows} of the 6 rows empty"
        explain.compare(text, want, result, atol=2e-5, rtol=2e-5)


def test_bonus1_leaves_its_arguments_alone(lab):
    given = tensors(PROBES["with beta"], grad=False)
    before = [tensor.clone() for tensor in given]
    call(lab, CHECKS.exercise, PROBES["with beta"], given)
    for name, tensor, copy in zip(("logp", "old_logp", "ref_logp", "adv", "mask"), given, before):
        if not torch.equal(tensor, copy):
            explain.fail(f"dapo_loss(...), then {name} itself", copy, tensor, "task4.in_place")
