"""Task 2, group_advantages: what it returns for rewards that tell the usual mistakes apart."""

import functools

import pytest
import torch

from .messages import explain
from .mistakes.search import fits, guesses, identify, outcome
from .mistakes.task2 import TABLE, clamped_at, run
from .spec import oracle

# One hand-computed case. The four rewards 1, 0, 0, 0 have the mean 1/4. Their distances from it
# are 3/4 and three times -1/4, so the mean of the squares is (9 + 1 + 1 + 1) / 16 / 4 = 0.1875
# and the std is 0.4330127. With eps = 0.0001 the advantages are
#    0.75 / 0.4331127 =  1.7317   and   -0.25 / 0.4331127 = -0.5772 (three times).
HAND = ([1.0, 0.0, 0.0, 0.0], 4, True, 1e-4)
HAND_RESULT = [1.7317, -0.5772, -0.5772, -0.5772]

R1 = [1.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0]
GRADED = [0.3, 1.7, -0.6, 0.9, 2.0, 0.1, 1.1, 0.4, -1.2, 0.8]
THREES = [1.0, 0.0, 0.2, 0.0, 1.0, 1.0, 2.0, 0.5, 0.0]

# Name -> rewards, G, scale_std, eps. The order is from basic to subtle.
PROBES = {
    "groups of three": (THREES, 3, True, 1e-4),
    "mixed, all right, mixed": (R1, 4, True, 1e-4),
    "scale_std off": (R1, 4, False, 1e-4),
    "eps one half": (GRADED, 5, True, 0.5),
    "all wrong, mixed": ([0.0] * 4 + [0.0, 1.0, 0.0, 1.0], 4, True, 0.01),
    "pairs": (GRADED, 2, True, 0.1),
    "graded, scale_std off": (GRADED, 5, False, 0.5),
    "one of thirty": ([1.0] + [0.0] * 29 + [0.0] + [1.0] * 29, 30, True, 1e-4),
    "std near eps": ([2e-4, 0.0, 0.0, 0.0], 4, True, 1e-4),
    "tiny std": ([1e-6, 0.0, 0.0, 0.0, 2e-6, 0.0], 3, True, 0.5),
}


def call_text(rewards, G, scale_std, eps):
    """Return the call as the message shows it."""
    shown = explain.show(rewards, room=60)
    return f"group_advantages(rewards={shown}, G={G}, scale_std={scale_std}, eps={eps})"


def call(lab, rewards, G, scale_std, eps, given=None):
    """Call the student's function."""
    given = torch.tensor(rewards) if given is None else given
    return lab.group_advantages(given, G, scale_std=scale_std, eps=eps)


@functools.lru_cache(maxsize=2)
def yours(lab):
    """Return the outcomes of the student's function on all probes."""
    return {
        name: outcome(lambda probe: {"value": call(lab, *probe)}, probe)
        for name, probe in PROBES.items()
    }


@functools.lru_cache(maxsize=2)
def found(lab):
    """Return the known mistakes that explain all outcomes; searched only after a failure."""
    table = TABLE + clamped_at(yours(lab))
    return identify(run, table, PROBES, yours(lab), ["value"], pairs=TABLE)


def suspects(lab, probe, result=None, special=None):
    """Yield (id, value): what these mistakes return for one probe.

    `special` is the id of a mistake that shows on this probe alone: if all others are right, it
    explains whatever `result` is.
    """
    if special and fits(run, {}, PROBES, yours(lab), ["value"]):
        yield special, result
    yield from guesses(found(lab), run, probe, "value")


def check(lab, probe, tolerance=2e-5, special=None, text=None, student=None):
    """Compare the student's function with the oracle on one probe."""
    text = text or call_text(*probe)
    expected = oracle.advantages(*probe)
    with explain.named_crash(lab, text, expected, lambda: found(lab)):
        given = torch.tensor(probe[0])
        result = student() if student else call(lab, *probe, given)
        explain.unchanged(text, "task2.in_place", rewards=(torch.tensor(probe[0]), given))
    ideas = suspects(lab, probe, result, special)
    explain.compare(text, expected, result, ideas, tolerance, tolerance)


def test_task2_hand_computed_group(lab):
    expected = oracle.advantages(*HAND)
    assert expected == pytest.approx(HAND_RESULT, abs=1e-4)
    check(lab, HAND)


def test_task2_every_group_on_its_own(lab):
    for name in ("groups of three", "mixed, all right, mixed", "all wrong, mixed", "pairs"):
        check(lab, PROBES[name])


def test_task2_without_scaling(lab):
    for name in ("scale_std off", "graded, scale_std off"):
        check(lab, PROBES[name])


def test_task2_eps(lab):
    check(lab, PROBES["eps one half"])


def test_task2_groups_of_one(lab):
    check(lab, ([1.0, 0.0, 1.0], 1, True, 1e-4), special="task2.g1")


def test_task2_large_groups(lab):
    check(lab, PROBES["one of thirty"])  # the advantages are up to 5.4


def test_task2_rewards_near_1000(lab):
    rewards = [1000.0, 1000.1, 1000.2, 1000.3, 1001.0, 1000.0, 1000.0, 1000.0]
    check(lab, (rewards, 4, True, 1e-4), 5e-3, special="task2.cancellation")


def test_task2_leaves_the_rewards_alone(lab):
    rewards = torch.tensor(R1)
    for scale_std in (True, False):
        lab.group_advantages(rewards, 4, scale_std=scale_std)
        if rewards.tolist() != R1:
            call = f"group_advantages(rewards, G=4, scale_std={scale_std}), then rewards itself"
            explain.fail(call, R1, rewards, "task2.in_place")


def test_task2_defaults_and_positions(lab):
    probe = PROBES["std near eps"]
    text = f"group_advantages(rewards={explain.show(probe[0])}, G=4)"
    student = functools.partial(lab.group_advantages, torch.tensor(probe[0]), 4)
    check(lab, probe, 2e-4, "task2.defaults", text, student)
    probe = PROBES["graded, scale_std off"]
    student = functools.partial(lab.group_advantages, torch.tensor(probe[0]), *probe[1:])
    check(lab, probe, special="task2.positions", student=student)


def test_task2_double_precision(lab):
    probe = PROBES["pairs"]
    rewards = torch.tensor(probe[0], dtype=torch.float64)
    text = call_text(*probe).replace(", G=", " (float64), G=")
    student = functools.partial(lab.group_advantages, rewards, *probe[1:])
    # The lab is float32 throughout, so code that mixes its own float32 in may stop here.
    if outcome(student) is not None:
        check(lab, probe, text=text, student=student)


@pytest.mark.slow  # the first call on the meta device imports for a second
def test_task2_keeps_to_the_device_of_the_rewards(lab):
    # Tensors on the meta device have no values, so code that reads them one by one cannot run
    # there; it is right all the same.
    rewards = torch.zeros(8, device="meta")
    result = outcome(lab.group_advantages, rewards, 4)
    if isinstance(result, torch.Tensor) and result.device.type != "meta":
        text = "group_advantages(rewards on the device 'meta', G=4)"
        explain.fail(text, "device meta", f"device {result.device}", "task2.device")
