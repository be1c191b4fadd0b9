"""Task 5: grpo_step. The functions of Tasks 1, 2 and 4 are replaced by stand-ins."""

import math

import pytest
import torch

from .messages.explain import compare, fail
from .messages.step_checks import (
    LENGTHS,
    REWARDS,
    ROLLOUT,
    G,
    V,
    check_advantages,
    check_gradients,
    check_inputs,
    check_loss_arguments,
    check_nothing_else_moved,
    check_result,
    check_sampling,
    check_steps,
    run,
)
from .spec import oracle_step as oracle


def test_task5_returns_six_floats(lab):
    """The keys of the docstring, and Python floats: no tensors."""
    check_result(run(lab))


def test_task5_samples_once_from_the_policy(lab):
    """One rollout a call, with G and temperature of cfg."""
    check_sampling(run(lab))


@pytest.mark.parametrize("scale_std", [False, True])
def test_task5_advantages_come_from_the_rewards(lab, scale_std):
    """group_advantages gets the rewards, G and scale_std of cfg."""
    check_advantages(run(lab, scale_std=scale_std))


def test_task5_first_call_of_grpo_loss(lab):
    """One inner step: the seven arguments of grpo_loss."""
    done = run(lab, inner_steps=1)
    check_loss_arguments(done)


@pytest.mark.parametrize("inner_steps", [1, 3])
def test_task5_does_the_inner_steps(lab, inner_steps):
    """Each inner step has a loss, a backward pass and a step of the optimizer."""
    done = run(lab, inner_steps=inner_steps)
    check_steps(done)
    check_nothing_else_moved(done)


def test_task5_gradient_of_one_step(lab):
    """The gradient is that of the loss; nothing is clipped where it is short."""
    done = run(lab, inner_steps=1)
    check_steps(done)
    check_gradients(done)


@pytest.mark.parametrize("limit", [0.4, 0.05])
def test_task5_clips_the_norm_of_the_gradient(lab, limit):
    """A gradient longer than cfg.max_grad_norm is scaled down to it."""
    done = run(lab, inner_steps=1, max_grad_norm=limit)
    check_steps(done)
    check_gradients(done)


def test_task5_each_step_has_its_own_gradient(lab):
    """Three inner steps from clean gradients, without and with clipping."""
    for limit in (1e6, 0.3):
        done = run(lab, inner_steps=3, max_grad_norm=limit)
        check_steps(done)
        check_gradients(done)


def test_task5_steps_without_a_signal_too(lab):
    """Where all rewards of every group are equal, the KL term alone is left to be minimized."""
    check_steps(run(lab, inner_steps=3))
    done = run(lab, ALL_EQUAL, inner_steps=3)
    n, steps = done.values["inner_steps"], len(done.opt.steps)
    if steps < n:
        call = f"{done.call}, no group with a signal: steps of opt"
        fail(call, str(n), str(steps), "task5.skips_no_signal")
    check_gradients(done)


def test_task5_old_and_ref_stay_fixed(lab):
    """Three inner steps: logp follows the policy, old_logp and ref_logp stay as they were."""
    check_loss_arguments(run(lab, inner_steps=3, temperature=1.3, clip_eps=0.1, beta=0.7))


def test_task5_reports_the_last_inner_step(lab):
    """The loss, kl and clip_frac are those of the last inner step."""
    done = run(lab, inner_steps=3)
    check_result(done)
    check_steps(done)
    for key in ("loss", "kl", "clip_frac"):
        values = [numbers[key] for numbers in done.losses]
        others = [value for name, value in done.losses[-1].items() if name != key]
        guesses = [
            ("task5.first_stats", values[0]),
            ("task5.mean_stats", sum(values) / len(values)),
            ("task5.sum_stats", sum(values)),
            ("task5.loss_negated", -values[-1]),
            *(("task5.stats_mixed_up", other) for other in others),
        ]
        compare(f"{done.call}: result[{key!r}]", values[-1], done.result[key], guesses)


def test_task5_reports_the_mean_reward(lab):
    """The reward is the mean over the responses."""
    done = run(lab, adv=[0.1 * i for i in range(len(REWARDS))])
    check_result(done)
    rewards = done.seen.sample_group.calls[0].result["rewards"]
    guesses = [("task5.rewards_changed", rewards)]
    compare(f"{done.call}: rewards of sample_group afterwards", REWARDS, rewards, guesses)
    groups = [REWARDS[i : i + G] for i in range(0, len(REWARDS), G)]
    guesses = [
        ("task5.reward_sum", sum(REWARDS)),
        ("task5.reward_is_adv", sum(done.adv) / len(done.adv)),
        ("task5.reward_any", sum(any(group) for group in groups) / len(groups)),
    ]
    right = sum(REWARDS) / len(REWARDS)
    compare(f"{done.call}: result['reward']", right, done.result["reward"], guesses)


# Every group all right or all wrong; none of them so, with the same number in each first place.
ALL_EQUAL = [1, 1, 1] + [0, 0, 0] * 4 + [1, 1, 1]
ALL_MIXED = [1, 0, 0] + [1, 1, 0] * 2 + [1, 0, 1] + [1, 0, 0] * 2
# One group of equals; in the five others one response has just the mean reward of its group.
IN_BETWEEN = [0, 0.5, 1] * 2 + [1, 1, 1] + [1, 0, 0.5] + [0.5, 1, 0] * 2


def _centred(rewards):
    """Return the rewards minus the mean of their group."""
    means = [sum(rewards[i // G * G :][:G]) / G for i in range(len(rewards))]
    return [r - mean for r, mean in zip(rewards, means)]


def _wrong_fractions(rewards):
    """Return mistake id -> fraction for the known miscounts of groups without signal."""
    groups = [rewards[i : i + G] for i in range(0, len(rewards), G)]
    P, right = len(groups), oracle.zero_signal(groups)
    return {
        "task5.zero_all_wrong": sum(not any(group) for group in groups) / P,
        "task5.zero_all_right": sum(all(group) for group in groups) / P,
        "task5.zero_inverted": 1 - right,
        "task5.zero_count": right * P,
        "task5.zero_responses": right * G,
        "task5.zero_divided": right / G,
        "task5.zero_adv": _centred(rewards).count(0) / len(rewards),
        "task5.zero_rewards": rewards.count(0) / len(rewards),
        "task5.zero_interleaved": oracle.zero_signal([rewards[i::P] for i in range(P)]),
        "task5.zero_wrong_rows": oracle.zero_signal([rewards[i * P :][:P] for i in range(G)]),
        "task5.zero_wrong_axis": oracle.zero_signal([rewards[i::G] for i in range(G)]),
        "task5.zero_none": 0.0,
        "task5.zero_every": 1.0,
    }


def test_task5_counts_groups_without_signal(lab):
    """The fraction of groups whose rewards are all equal, for four sets of rewards."""
    sets, got = (REWARDS, ALL_EQUAL, ALL_MIXED, IN_BETWEEN), []
    for rewards in sets:
        done = run(lab, rewards, adv=_centred(rewards))
        check_result(done)
        got.append(float(done.result["frac_zero_signal"]))
    wrong = [_wrong_fractions(rewards) for rewards in sets]
    guesses = [(name, [numbers[name] for numbers in wrong]) for name in wrong[0]]
    right = [4 / 6, 1.0, 0.0, 1 / 6]
    call = f"{done.call}: result['frac_zero_signal'] where 4, all, none, 1 of 6 groups are equal"
    compare(call, right, torch.tensor(got), guesses)


def _sampled_term(theta):
    """Return the mean of -p * log(p) of the sampled tokens only."""
    logp = [x for row in oracle.logprobs(theta, V, ROLLOUT) for x in row]
    return -sum(math.exp(x) * x for x in logp) / sum(LENGTHS)


def test_task5_reports_the_entropy_of_the_policy(lab):
    """Measured before, between or after the inner steps; not of ref, not of the samples."""
    done = run(lab, max_grad_norm=0.05)
    check_result(done)
    versions = [*done.thetas, done.policy.flat()]
    right = [oracle.entropy(theta, V, ROLLOUT)[0] for theta in versions]
    got = done.result["entropy"]
    if min(right) - 1e-4 <= got <= max(right) + 1e-4:
        return
    guesses = [("task5.entropy_of_ref", oracle.entropy(done.ref_start, V, ROLLOUT)[0])]
    for theta in versions:
        mean, everywhere = oracle.entropy(theta, V, ROLLOUT)
        total = sum(x for row in oracle.logprobs(theta, V, ROLLOUT) for x in row)
        guesses += [
            ("task5.entropy_negated", -mean),
            ("task5.entropy_padding", everywhere),
            ("task5.entropy_sampled_term", _sampled_term(theta)),
            ("task5.entropy_sum", mean * sum(LENGTHS)),
            ("task5.entropy_of_samples", -total / sum(LENGTHS)),
            ("task5.entropy_of_samples", -total / sum(map(len, ROLLOUT[0]))),
            ("task5.entropy_of_samples", -total / len(LENGTHS)),
            ("task5.entropy_per_response", mean * sum(LENGTHS) / len(LENGTHS)),
        ]
    compare(f"{done.call}: result['entropy']", right[0], got, guesses)


def test_task5_leaves_ref_alone(lab):
    """The reference model gets no gradient and no change."""
    done = run(lab, ref_grad=True, inner_steps=1)
    check_loss_arguments(done)
    if any(p.grad is not None for p in done.ref.parameters()):
        fail(f"{done.call}: afterwards", "no gradient in ref", "a gradient", "task5.ref_graph")
    if done.ref.flat() != done.ref_start:
        yours, right = done.ref.flat(), done.ref_start
        fail(f"{done.call}: ref afterwards, first row", right[:V], yours[:V], "task5.ref_changed")
    done = run(lab, inner_steps=1)
    if any(p.requires_grad for p in done.ref.parameters()):
        call = f"{done.call}, with ref frozen: requires_grad of ref afterwards"
        fail(call, "False", "True", "task5.ref_unfrozen")


def test_task5_leaves_the_callers_things_alone(lab):
    """Lists, settings and the policy's training mode are as before."""
    done = run(lab)
    check_inputs(done)
    if done.opt.param_groups[0]["lr"] != 0.5:
        yours = str(done.opt.param_groups[0]["lr"])
        fail(f"{done.call}: learning rate of opt afterwards", "0.5", yours, "task5.lr_changed")
    if not done.policy.training:
        fail(f"{done.call}: afterwards", "policy.training True", "False", "task5.eval_mode")
    if not done.seen.grad:
        fail(f"{done.call}: afterwards", "gradients recorded", "not recorded", "task5.grad_off")
