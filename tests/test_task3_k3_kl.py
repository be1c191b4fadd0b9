"""Task 3, k3_kl: values, sign, shape and gradient."""

import functools

import pytest
import torch

from .messages import explain
from .mistakes.search import guesses, identify, outcome
from .mistakes.task3 import TABLE, run
from .spec import oracle
from .spec.nested import slope

# One hand-computed case: logp = -1, -2, -1 and ref_logp = -2, -1, -1, so d = -1, 1, 0.
#    k3:  exp(-1) + 1 - 1 = 0.3679    exp(1) - 1 - 1 = 0.7183    exp(0) - 0 - 1 = 0
# Its slope with respect to logp is 1 - exp(d):
#    1 - exp(-1) = 0.6321             1 - exp(1) = -1.7183       1 - exp(0) = 0
HAND = ([[-1.0, -2.0, -1.0]], [[-2.0, -1.0, -1.0]])
HAND_VALUE = [0.3679, 0.7183, 0.0]
HAND_SLOPE = [0.6321, -1.7183, 0.0]

PROBES = {
    "two rows": (
        [[-0.5, -1.5, -2.0, -0.3], [-1.1, -0.2, -3.0, -0.7]],
        [[-1.0, -0.4, -2.3, -2.0], [-0.6, -1.3, -0.9, -0.7]],
    ),
    "far apart": (
        [[-0.2, -3.5], [-1.0, -0.4], [-2.0, -1.0]],
        [[-3.2, -0.5], [-2.5, -1.9], [-0.1, -1.0]],
    ),
    "very far apart": ([[-13.0]], [[-1.0]]),
    "very far apart the other way": ([[-1.0]], [[-13.0]]),
}


def call_text(logp, ref_logp):
    """Return the call as the message shows it."""
    return f"k3_kl(logp={explain.show(logp, room=60)}, ref_logp={explain.show(ref_logp, room=60)})"


def tensors(probe, dtype=torch.float32):
    """Return the probe's logp (a leaf that takes gradients) and ref_logp."""
    logp, ref_logp = (torch.tensor(rows, dtype=dtype) for rows in probe)
    return logp.requires_grad_(), ref_logp


@functools.lru_cache(maxsize=2)
def found(lab):
    """Return the known mistakes that explain what the student's function returns on all probes."""

    def student(probe):
        logp, ref_logp = tensors(probe)
        result = lab.k3_kl(logp, ref_logp)
        return {"value": result, "grad": slope(result, logp)}

    yours = {name: outcome(student, probe) for name, probe in PROBES.items()}
    return identify(run, TABLE, PROBES, yours, ["value", "grad"], pairs=TABLE)


def suspects(lab, probe, key="value"):
    """Yield (id, value): what these mistakes give for one probe; searched only when needed."""
    yield from guesses(found(lab), run, probe, key)


def call(lab, probe):
    """Call the student's function; fail if it changes what it was given. Return (logp, result)."""
    logp, ref_logp = tensors(probe)
    before = logp.detach().clone(), ref_logp.clone()
    result = lab.k3_kl(logp, ref_logp)
    pairs = {"logp": (before[0], logp), "ref_logp": (before[1], ref_logp)}
    explain.unchanged(call_text(*probe), "task3.in_place", **pairs)
    return logp, result


def check_value(lab, probe, student=None, tolerance=2e-5):
    """Compare the values with the oracle."""
    result = student() if student else call(lab, probe)[1]
    ideas = suspects(lab, probe)
    explain.compare(call_text(*probe), oracle.k3(*probe), result, ideas, tolerance, tolerance)


def check_slope(lab, probe):
    """Compare the gradient with the oracle."""
    logp, result = call(lab, probe)
    if not isinstance(result, torch.Tensor):
        explain.compare(call_text(*probe), oracle.k3(*probe), result)
    text = f"{call_text(*probe)}: gradient of the sum w.r.t. logp"
    expected = oracle.k3_gradient(*probe)
    ideas = suspects(lab, probe, "grad")
    explain.compare(text, expected, slope(result, logp), ideas, 2e-5, 2e-5)


def test_task3_hand_computed_values(lab):
    assert oracle.k3(*HAND)[0] == pytest.approx(HAND_VALUE, abs=1e-4)
    check_value(lab, HAND)


def test_task3_values(lab):
    for probe in PROBES.values():
        check_value(lab, probe)


def test_task3_never_negative(lab):
    # float32 rounds: a number a little below 0 is not a mistake.
    probe = ([[-1.0, -1.0, -0.7, -2.5]], [[-1.0001, -1.01, -0.69, -2.4]])
    check_value(lab, probe, tolerance=1e-6)


def test_task3_hand_computed_gradient(lab):
    assert oracle.k3_gradient(*HAND)[0] == pytest.approx(HAND_SLOPE, abs=1e-4)
    check_slope(lab, HAND)


def test_task3_gradient(lab):
    for probe in PROBES.values():
        check_slope(lab, probe)


def test_task3_without_gradient_and_in_double_precision(lab):
    probe = PROBES["two rows"]
    double = functools.partial(lab.k3_kl, *tensors(probe, torch.float64))
    if outcome(double) is not None:  # code with float32 of its own may stop here: not asked for
        check_value(lab, probe, double)
    logp, ref_logp = (torch.tensor(rows) for rows in probe)
    check_value(lab, probe, lambda: lab.k3_kl(logp, ref_logp))
    check_value(lab, probe, lambda: lab.k3_kl(logp=logp, ref_logp=ref_logp))


def test_task3_leaves_its_arguments_alone(lab):
    probe = PROBES["two rows"]
    given = [torch.tensor(rows) for rows in probe]
    lab.k3_kl(*given)
    for name, tensor, rows in zip(("logp", "ref_logp"), given, probe):
        if not explain.same(tensor, rows):
            text = f"k3_kl(logp, ref_logp), then {name} itself"
            explain.fail(text, rows, tensor, "task3.in_place")
