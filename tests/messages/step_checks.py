"""Run grpo_step once with stand-ins and check what happened, for the tests of Task 5.

The policy is a bigram table, the optimizer plain SGD, the loss linear: what has to happen can be
computed by hand (oracle_step.py). What reaches the loss and the optimizer is written down, and
each check compares it with what follows from the step before, so that one mistake is not taken
for another one further down.
"""

from types import SimpleNamespace

import pytest
import torch

import tinylm

from ..labfile import is_real
from ..mistakes.task5 import wrong_gradients
from ..spec import oracle_step as oracle
from ..spec.nested import same
from ..spec.standin import Bigram, WatchedSGD, attempt, linear_loss, linear_weights, stand_in
from .explain import cause, compare, fail

G = 3
PROMPTS = ["1+2=", "4+4=", "10+2=", "3+5=", "20+9=", "7+1="]  # P = 6, P*G = 18 rows
ANSWERS = ["3", "8", "12", "8", "29", "8"]
# One group all right, three all wrong, two mixed: 4/6 carry no signal, and every miscount
# (all wrong only, all right only, the mixed ones, wrong axis) gives another fraction.
REWARDS = [1, 0, 0] + [1, 1, 1] + [0, 0, 0] + [0, 1, 0] + [0, 0, 0] + [0, 0, 0]
LENGTHS = [4, 1, 3, 2, 4, 2, 1, 3, 4, 1, 2, 3, 4, 2, 1, 3, 2, 4]
V, T, L = tinylm.V, 4, 5
LOSS_ARGS = ("logp", "old_logp", "ref_logp", "adv", "mask", "clip_eps", "beta")


def _tokens():
    """Return the response tokens, PAD or END behind a response: a mask is not `ids != PAD`."""
    rows = []
    for b, length in enumerate(LENGTHS):
        row = [(3 * b + 5 * t + b * b) % 10 for t in range(length - 1)] + [tinylm.END]
        rows.append(row + [tinylm.PAD if b % 2 else tinylm.END] * (T - length))
    return rows


TOKENS = _tokens()
MASK = [[1.0] * n + [0.0] * (T - n) for n in LENGTHS]
BEFORE = [[tinylm.CHARS.index("=")] + row[:-1] for row in TOKENS]
ROLLOUT = (BEFORE, TOKENS, MASK)


def advantages(rewards):
    """Return made-up advantages: 0 in groups without signal, else of mean 0 and of order 1."""
    adv = []
    for i in range(0, len(rewards), G):
        group = rewards[i : i + G]
        made_up = [1.5, -0.5, -1.0] if i % 2 else [-2.0, 0.75, 1.25]
        adv += made_up if min(group) < max(group) else [0.0] * G
    return adv


def _groups(rewards):
    """Return what sample_group returns, made of new tensors."""
    prompts = tinylm.encode([prompt for prompt in PROMPTS for _ in range(G)])
    ids = torch.cat([prompts, torch.tensor(TOKENS)], 1)
    out = {"ids": ids, "prompt_len": L, "mask": torch.tensor(MASK)}
    rewards = torch.tensor(rewards, dtype=torch.float32)
    return {"out": out, "responses": tinylm.decode_responses(out), "rewards": rewards}


@torch.no_grad()
def _entropy(model, out):
    """Stand in for token_entropy: the same numbers."""
    logits = model(out["ids"][:, :-1])[:, out["prompt_len"] - 1 :]
    h = torch.distributions.Categorical(logits=logits).entropy()
    return float((h * out["mask"]).sum() / out["mask"].sum())


def run(lab, rewards=REWARDS, adv=None, ref_grad=False, **fields):
    """Call grpo_step once; return everything that was seen.

    An error in the student's code is raised only if what was seen before it explains nothing.

    Args:
        lab: the student's module.
        rewards: what sample_group's stand-in returns.
        adv: what group_advantages' stand-in returns; None: made-up ones.
        ref_grad: whether the parameters of ref require a gradient.
        fields: settings with other values.
    """
    values = {"G": G, "temperature": 0.7, "scale_std": False, "clip_eps": 0.3, "beta": 0.5}
    values |= {"inner_steps": 2, "max_grad_norm": 1e6, "lr": 0.02} | fields
    policy, ref = Bigram(V, 0.0), Bigram(V, 0.4).requires_grad_(ref_grad)
    done = SimpleNamespace(policy=policy, ref=ref, rewards=rewards, values=values)
    done.adv, done.thetas, done.losses, done.given = adv or advantages(rewards), [], [], []
    done.ids = _groups(rewards)["out"]["ids"].tolist()
    done.start, done.ref_start = policy.flat(), ref.flat()
    done.prompts, done.answers, done.cfg = list(PROMPTS), list(ANSWERS), _config(lab, values)
    shown = ", ".join(f"{k}={values[k]}" for k in {"G": 0, "inner_steps": 0} | fields)
    done.call = f"grpo_step(policy, ref, opt, prompts, answers, cfg), cfg with {shown}"

    def loss(*args):
        done.thetas.append(policy.flat())
        k = len(done.thetas)  # other numbers at every call
        stats = {"kl": 0.1 * 2**k, "clip_frac": 0.05 + 0.11 * k * k, "ratio_max": 1.0 + k}
        value = linear_loss(*args)
        done.losses.append({"loss": value.item(), **stats})
        return value, stats

    def made_up(rewards, *others):
        done.given.append(rewards.clone() if torch.is_tensor(rewards) else rewards)
        return torch.tensor(done.adv)

    done.opt = WatchedSGD(policy, 0.5, lambda: len(done.thetas))
    with stand_in(
        lab,
        sample_group=lambda *args: _groups(rewards),
        group_advantages=made_up,
        grpo_loss=loss,
        token_entropy=_entropy,
    ) as done.seen:
        args = (policy, ref, done.opt, done.prompts, done.answers, done.cfg)
        done.result, error = attempt(lab.grpo_step, *args)
    check_inputs(done)
    if error:
        _explain(done, error)
    if not done.seen.sample_group.calls:  # everything that follows would look wrong, too
        check_sampling(done)
    if not done.losses:
        check_loss_arguments(done)
    return done


def check_inputs(done):
    """Fail if the lists, the settings, or the tensors of sample are not as they were."""
    lists = {"prompts": (PROMPTS, done.prompts), "answers": (ANSWERS, done.answers)}
    for name, (right, got) in lists.items():
        if got != right:
            fail(f"{done.call}: {name} afterwards", str(right), str(got), "task5.lists_changed")
    for name, value in done.values.items():
        if (now := getattr(done.cfg, name, None)) != value:
            right, yours = f"cfg.{name} = {value}", f"cfg.{name} = {str(now)[:60]}"
            fail(f"{done.call}: afterwards", right, yours, "task5.cfg_changed")
    for call in done.seen.sample_group.calls[:1]:
        out = call.result["out"] if isinstance(call.result.get("out"), dict) else {}
        now = {"mask": out.get("mask"), "ids": out.get("ids")}
        right = {"mask": MASK, "ids": done.ids}
        for name, value in now.items():
            if not same(value, right[name], 0, 0):
                text = f"{done.call}: {name} of sample_group afterwards"
                fail(text, right[name], value, "task5.inputs_changed")


def _config(lab, values):
    """Return a config with these values, of the student's own class where that works."""
    config, error = attempt(lambda: lab.GRPOConfig(**values))
    return SimpleNamespace(**values) if error else config


def _explain(done, error):
    """Fail with a known mistake that shows in what was seen so far, else raise the error."""
    for check in (check_sampling, check_advantages, check_loss_arguments):
        try:
            check(done, error)
        except pytest.fail.Exception as failure:
            if failure.mistake:
                raise
    if "backward through the graph a second time" in str(error):
        own = len(done.losses) > len(done.opt.steps)  # does this inner step have its own loss?
        right = "one loss and one backward in every inner step"
        yours = f"in inner step {len(done.opt.steps) + 1}: losses so far {len(done.losses)}"
        yours += ", backward once more" * own
        fail(done.call, right, yours, "task5.backward_twice" if own else "task5.loss_once")
    raise error


# ---------------------------------------------------------------- what was sampled


def check_sampling(done, error=None):
    """Fail unless sample_group was called once, with the policy and the settings of cfg."""
    calls, call = done.seen.sample_group.calls, f"{done.call}: calls of sample_group"
    if error and not calls:
        return
    if len(calls) != 1:
        fail(call, "1", str(len(calls)), "task5.resampled" if calls else "task5.not_sampled")
    args, call = calls[0].args, f"{done.call}: arguments of sample_group"
    if args["model"] is not done.policy:
        mistake = "task5.samples_ref" if args["model"] is done.ref else None
        fail(call, "model is policy", "model is another object", mistake)
    given = [list(args["prompts"]), list(args["answers"])]
    known = {
        "task5.prompts_answers_swapped": [ANSWERS, PROMPTS],
        "task5.prompts_repeated": [[x for x in xs for _ in range(G)] for xs in (PROMPTS, ANSWERS)],
    }
    both = ([PROMPTS, ANSWERS], given)
    if given != [PROMPTS, ANSWERS]:
        right, yours = (f"{len(p)} prompts {p}, {len(a)} answers {a}" for p, a in both)
        fail(call, right, yours, *(name for name, value in known.items() if value == given))
    _check_setting(call, "G", G, args["G"], "task5.group_size")
    temperature = done.values["temperature"]
    _check_setting(call, "temperature", temperature, args["temperature"], "task5.temperature")
    if calls[0].inference:
        fail(call, "an ordinary call", "a call under inference_mode", "task5.inference_mode")


def _check_setting(call, name, right, got, mistake):
    """Fail unless the argument `name` is the setting `right`."""
    if not isinstance(got, (bool, int, float)) or abs(got - right) > 1e-9:
        fail(call, f"{name}={right}", f"{name}={str(got)[:60]}", mistake)


def check_advantages(done, error=None):
    """Fail unless group_advantages was called with the rewards and the settings of cfg."""
    calls, call = done.seen.group_advantages.calls, f"{done.call}: arguments of group_advantages"
    if error and not calls:
        return
    if not calls:
        fail(call, "one call", "no call", "task5.no_advantages")
    for rewards, args in zip(done.given, (c.args for c in calls), strict=True):
        guesses = [("task5.other_rewards", rewards)]
        compare(f"{call}: rewards", done.rewards, rewards, guesses)
        _check_setting(call, "G", G, args["G"], "task5.group_size")
        _check_setting(call, "eps", 1e-4, args["eps"], "task5.adv_eps")
        scale_std = done.values["scale_std"]
        _check_setting(call, "scale_std", scale_std, args["scale_std"], "task5.scale_std")


# ---------------------------------------------------------------- what reached the loss


def check_loss_arguments(done, error=None):
    """Fail unless every call of grpo_loss got the right seven arguments."""
    calls = done.seen.grpo_loss.calls
    if not calls and not error:
        mistake = "task5.no_loss" if any(done.adv) else "task5.skips_no_signal"
        fail(f"{done.call}: calls of grpo_loss", "at least one", "none", mistake)
    if not error and len(calls) > done.values["inner_steps"]:
        check_steps(done)  # it is unclear which call belongs to which inner step
    for k, args in enumerate(c.args for c in calls):
        call = f"{done.call}: grpo_loss in inner step {k + 1}"
        _check_shapes(call, args)
        _check_modes(call, done, args)
        _check_logprobs(call, done, k, args)
        compare(f"{call}: adv", done.adv, args["adv"], _wrong_advantages(done, args["adv"]))
        compare(f"{call}: mask", MASK, args["mask"].float(), _wrong_masks())
        settings = {name: done.values[name] for name in ("clip_eps", "beta")}
        for name, right in settings.items():
            swapped = [args["beta"], args["clip_eps"]] == list(settings.values())
            mistake = "task5.eps_beta_swapped" if swapped else f"task5.{name}"
            _check_setting(call, name, right, args[name], mistake)


def _wrong_advantages(done, got):
    """Return the advantages of known mistakes; `got` itself where it is none of them."""
    if not done.given:
        return [("task5.no_advantages", got)]
    negated = [-a for a in done.adv]
    known = [("task5.adv_negated", negated), ("task5.adv_is_rewards", done.rewards)]
    return [("task5.adv_changed", got)] if cause(done.adv, got, known) is None else known


def _wrong_masks():
    """Return the masks of known mistakes."""
    last = [[float(t < n - 1) for t in range(T)] for n in LENGTHS]
    from_ids = [[float(i != tinylm.PAD) for i in row] for row in TOKENS]
    ones = [[1.0] * T for _ in LENGTHS]
    return [
        ("task5.mask_ones", ones),
        ("task5.mask_from_ids", from_ids),
        ("task5.mask_no_end", last),
    ]


def _check_shapes(call, args):
    """Fail unless the five tensors are tensors of the right shapes."""
    B = len(LENGTHS)
    right = dict.fromkeys(LOSS_ARGS[:5], (B, T)) | {"adv": (B,)}
    got = {n: tuple(args[n].shape) if torch.is_tensor(args[n]) else type(args[n]) for n in right}
    if got != right:
        names = [n for n in right if got[n] != right[n]]
        tensors = all(isinstance(got[n], tuple) for n in names)
        yours = ", ".join(f"{n} {str(got[n])[:40]}" for n in names)
        mistake = "any.shape" if tensors else "any.type"
        mistake = "task5.some_responses" if "logp" in names and tensors else mistake
        fail(call, ", ".join(f"{n} {right[n]}" for n in names), yours, mistake)


def _check_modes(call, done, args):
    """Fail if a tensor carries a graph that it should not have, or lacks one that it needs."""
    has = {name: bool(getattr(args[name], "requires_grad", False)) for name in LOSS_ARGS}
    mistake = None
    if has["old_logp"] or has["ref_logp"]:
        name = "old" if has["old_logp"] else "ref"
        mistake = f"task5.{name}_graph" if has["logp"] else f"task5.logp_{name}_swapped"
    elif not has["logp"]:
        mistake = "task5.logp_no_grad"
        if same(args["logp"], oracle.logprobs(done.ref_start, V, ROLLOUT)):
            mistake = "task5.logp_of_ref"
        elif not any(p.requires_grad for p in done.policy.parameters()):
            mistake = "task5.policy_frozen"
    elif any(torch.is_tensor(args[n]) and args[n].is_inference() for n in ("adv", "mask")):
        mistake = "task5.inference_mode"
    if mistake:
        yours = "gradient through " + (", ".join(n for n in has if has[n]) or "none of them")
        if mistake == "task5.inference_mode":
            yours += "; adv or mask is a tensor of inference_mode"
        fail(call, "gradient through logp", yours, mistake)


def _check_logprobs(call, done, k, args):
    """Fail unless logp, old_logp and ref_logp are the numbers of the right policies."""
    now = oracle.logprobs(done.thetas[k], V, ROLLOUT)
    start = oracle.logprobs(done.start, V, ROLLOUT)
    ref = oracle.logprobs(done.ref_start, V, ROLLOUT)
    if same(args["old_logp"], ref) and same(args["ref_logp"], start):
        fail(call, "old_logp, then ref_logp", "ref_logp, then old_logp", "task5.old_ref_swapped")
    changed = done.ref.flat() != done.ref_start
    from_policy = "task5.ref_changed" if changed else "task5.ref_from_policy"
    later = [oracle.logprobs(theta, V, ROLLOUT) for theta in done.thetas[1:k]]
    lagging = [("task5.old_moves_on", logp) for logp in later]
    guesses = {
        "logp": [("task5.logp_once", start), ("task5.logp_of_ref", ref)],
        "old_logp": [("task5.old_recomputed", now), ("task5.old_from_ref", ref), *lagging],
        "ref_logp": [(from_policy, start), (from_policy, now)],
    }
    for name, value in {"logp": now, "old_logp": start, "ref_logp": ref}.items():
        compare(f"{call}: {name}", value, args[name], guesses[name])


# ---------------------------------------------------------------- what reached the optimizer


def check_steps(done):
    """Fail unless there were cfg.inner_steps losses, each followed by one step of opt."""
    n, losses, steps = done.values["inner_steps"], len(done.thetas), done.opt.steps
    if losses != n:
        mistake = "task5.one_inner_step" if losses == 1 else "task5.inner_steps"
        mistake = "task5.loss_once" if losses == 1 < len(steps) else mistake
        if len(steps) == n < losses:
            mistake = "task5.extra_loss"
        fail(f"{done.call}: calls of grpo_loss", str(n), str(losses), mistake)
    call = f"{done.call}: steps of opt"
    if not steps:
        moved = done.policy.flat() != done.start
        yours = "0, and the policy changed" if moved else "0, and the policy did not change"
        fail(call, str(n), yours, "task5.other_optimizer" if moved else "task5.no_step")
    if len(steps) != n:
        mistake = "task5.one_step" if len(steps) == 1 else "task5.step_count"
        fail(call, str(n), str(len(steps)), mistake)
    for k, step in enumerate(steps):
        if step.backwards < k + 1 and done.opt.backwards:
            yours = f"{step.backwards} before step {k + 1}"
            right = f"{k + 1} before step {k + 1}"
            fail(f"{done.call}: passes of backward", right, yours, "task5.step_before_backward")


def check_gradients(done):
    """Fail unless opt got the clipped gradient of each inner step's own loss."""
    limit, before = done.values["max_grad_norm"], None
    for k, step in enumerate(done.opt.steps):
        args = done.seen.grpo_loss.calls[k].args
        _check_shapes(f"{done.call}: grpo_loss in inner step {k + 1}", args)
        weights = linear_weights(*(args[name] for name in LOSS_ARGS[3:]))
        raw = oracle.gradient(done.thetas[k], V, ROLLOUT, weights)
        right = oracle.clip_norm(raw, limit)
        guesses = wrong_gradients(raw, V, before, limit, done.values["inner_steps"])
        if not any(step.grad):
            mistake = "task5.zeroed_before_step" if done.opt.backwards else "task5.no_gradient"
            lost = step.arrived or not done.opt.backwards
            guesses = [(mistake, step.grad)] if lost else []
        if not same(step.grad, right, atol=1e-4 * oracle.norm(right), rtol=1e-3):
            _fail_gradient(done, k, right, step.grad, guesses)
        before = step.grad


def _fail_gradient(done, k, right, got, guesses):
    """Fail with the norms of the two gradients, or with their numbers where the norms agree."""
    check_loss_arguments(done)  # wrong ones are the cause, not what follows from them
    size = oracle.norm(right)
    mistake = cause(right, got, guesses, atol=1e-4 * size, rtol=1e-3)
    if not any(same(got, guess, 1e-4 * size, 1e-3) for _, guess in guesses):
        scale = oracle.norm(got) / size
        parallel = scale and same(got, [x * scale for x in right], 1e-4 * size, 1e-3)
        mistake = "task5.gradient_scale" if parallel else None
    call = f"{done.call}: gradient that opt got in inner step {k + 1}"
    if abs(oracle.norm(got) - size) > 1e-3 * size:
        fail(f"{call}: its norm", size, oracle.norm(got), mistake)
    fail(f"{call}: row of theta", right[:V], got[:V], mistake)


def check_nothing_else_moved(done):
    """Fail if the policy changed otherwise than by a step of opt."""
    right = [done.start] + [step.after for step in done.opt.steps]
    seen = [*done.thetas, done.policy.flat()]
    for k, (expected, got) in enumerate(zip(right, seen, strict=True)):
        if expected != got:
            where = f"{done.call}: policy after {k} inner steps, first row"
            fail(where, expected[:V], got[:V], "task5.changed_outside")


# ---------------------------------------------------------------- what was returned

KEYS = ("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy")


def check_result(done):
    """Fail unless the result is a dict of floats with the six keys; see labfile.is_real."""
    result, call = done.result, f"{done.call}: result"
    expected = f"a dict with the keys {', '.join(KEYS)}"
    if not isinstance(result, dict):
        mistake = "any.none" if result is None else "any.type"
        fail(call, expected, f"{type(result).__name__}: {str(result)[:60]!a}", mistake)
    missing = [key for key in KEYS if key not in result]
    if missing:
        fail(call, expected, f"no {', '.join(missing)}", "task5.keys")
    for key in KEYS:
        if not is_real(result[key]):
            yours = f"{type(result[key]).__name__}: {str(result[key])[:60]!a}"
            fail(f"{call}[{key!r}]", "a float", yours, "task5.not_float")
