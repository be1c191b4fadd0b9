"""Bonus 2, gspo_loss: the loss, its gradient, and the three statistics."""

import math

import pytest
import torch

from tests.messages import explain

from . import probes
from .exercises import KEYS, LOSS, call, call_text, probe, tensors

# One hand-computed case, clip_eps = 0.2, clip_high = 0.3. Three responses.
#    A =  1, rho 2.0, 0.98    s = sqrt(1.96) = 1.4       min(1.4, 1.3) = 1.3
#    A = -1, rho 0.9, 0.4     s = sqrt(0.36) = 0.6       min(-0.6, -0.8) = -0.8
#    A =  2, rho 1.1          s = 1.1                    2.2
# loss = -(1.3 - 0.8 + 2.2) / 3 = -0.9.  The clip changed 2 of the 3 responses; max s = 1.4.
HAND = probe([[2.0, 0.98], [0.9, 0.4], [1.1]], [1.0, -1.0, 2.0], (0.2, 0.3))
HAND_RESULT = {"loss": -0.9, "clip_frac": 0.6667, "ratio_max": 1.4}

CHECKS = probes.CHECKS[2]
PROBES = CHECKS.probes
RHO, ADV = probes.GSPO_RHO, probes.ADV


def test_bonus2_hand_computed(lab):
    for key, result in HAND_RESULT.items():
        assert CHECKS.run({}, HAND, key) == pytest.approx(result, abs=1e-4)
        CHECKS.check(lab, HAND, key)


def test_bonus2_loss(lab):
    for p in PROBES.values():
        CHECKS.check(lab, p, "loss")


def test_bonus2_gradient(lab):
    for p in PROBES.values():
        CHECKS.check(lab, p, "grad")


@pytest.mark.parametrize("key", KEYS[2:])
def test_bonus2_stats(lab, key):
    for p in PROBES.values():
        CHECKS.check(lab, p, key)


def test_bonus2_padding_changes_nothing(lab):
    for garbage in [(math.exp(9), -3.0), (math.exp(-3), 2.5)]:
        CHECKS.check(lab, probe(RHO, ADV, garbage=garbage), *KEYS)


def test_bonus2_defaults(lab):
    CHECKS.check(lab, probe(RHO, ADV, (3e-4, 4e-4)), *LOSS, named=False)


def test_bonus2_a_response_without_a_token_counts_and_adds_nothing(lab):
    p = PROBES["wide"]
    given = tensors(p)
    given[4][-1] = 0.0
    first = p._replace(**{k: getattr(p, k)[:-1] for k in p._fields[:5]})
    want = CHECKS.run({}, first, "loss") * 5 / 6
    loss, _ = call(lab, CHECKS.exercise, p, given)
    text = f"{call_text(CHECKS.exercise, p)}, with the last of the 6 rows empty"
    explain.compare(text, want, loss, atol=2e-5, rtol=2e-5)


def test_bonus2_leaves_its_arguments_alone(lab):
    given = tensors(PROBES["with beta"], grad=False)
    before = [tensor.clone() for tensor in given]
    call(lab, CHECKS.exercise, PROBES["with beta"], given)
    for name, tensor, copy in zip(("logp", "old_logp", "ref_logp", "adv", "mask"), given, before):
        if not torch.equal(tensor, copy):
            explain.fail(f"gspo_loss(...), then {name} itself", copy, tensor, "task4.in_place")
