"""Task 4, grpo_loss: the loss, its gradient, and the three statistics.

The student's k3_kl is replaced by a right one here, so a mistake in Task 3 does not count twice.
"""

import functools
import math

import pytest
import torch

from .messages import explain
from .mistakes.search import fits, guesses, identify, outcome
from .mistakes.task4 import KEYS, LOSS_TABLE, STATS, STATS_OF, Probe, cells, run
from .spec import oracle
from .spec.nested import slope
from .spec.standin import stand_in

LOSS = ("loss", "grad")
ONES = [[1.0] * 9] * 9


def probe(rho, old, d, adv, clip_eps=0.2, beta=0.0, garbage=(50.0, 1.0), more=0):
    """Make a probe from the ratios, old_logp and d = ref_logp - logp of every row's real tokens.

    The rows of rho say how long the responses are. Padding gets `garbage` as its ratio and d;
    `more` is the number of positions that are padding in every row.
    """
    T = max(len(row) for row in rho) + more

    def pad(rows, value):  # or cut off where the row of rho is shorter
        lengths = [len(row) for row in rho]
        return [row[:n] + [value] * (T - n) for row, n in zip(rows, lengths)]

    rho, old, d, mask = pad(rho, garbage[0]), pad(old, -1.0), pad(d, garbage[1]), pad(ONES, 0.0)
    logp = cells(lambda b, r: b + math.log(r), old, rho)
    ref_logp = cells(lambda a, x: a + x, logp, d)
    return Probe(logp, old, ref_logp, adv, mask, clip_eps, beta)


# One hand-computed case, clip_eps = 0.2 and beta = 0.1. Two responses, of 2 tokens and 1 token.
#    A =  1:  rho 1.5, 1.0    min(1.5, 1.2) = 1.2    min(1, 1) = 1
#             d   1, 0        k3 = e - 2 = 0.7183    k3 = 0
#             mean of 1.2 - 0.07183 and 1 - 0:       1.06409
#    A = -1:  rho 0.5         min(-0.5, -0.8) = -0.8
#             d  -1           k3 = 1/e = 0.3679      -0.8 - 0.03679 = -0.83679
# loss = -(1.06409 - 0.83679) / 2 = -0.1136.  kl = (0.7183 + 0 + 0.3679) / 3 = 0.3621;
# the clip changed 2 of the 3 tokens, clip_frac = 0.6667;  ratio_max = 1.5.
HAND = probe(
    [[1.5, 1.0], [0.5]], [[-1.0, -0.5], [-2.0]], [[1.0, 0.0], [-1.0]], [1.0, -1.0], beta=0.1
)
HAND_RESULT = {"loss": -0.1136, "kl": 0.3621, "clip_frac": 0.6667, "ratio_max": 1.5}

RHO = [[0.5, 1.13, 1.5], [0.62, 4.0, 1.47, 0.93], [1.6]]
OLD = [[-1.0, -0.7, -2.0], [-1.5, -2.4, -0.9, -1.2], [-1.8]]
D = [[-1.0, 0.4, 1.2], [0.7, -1.4, 0.3, -0.5], [0.9]]
ADV = [1.0, -2.0, 0.5]
FLAT = [[1.0] * 3, [1.0] * 4, [1.0]]

# The order is from basic to subtle.
PROBES = {
    "no KL": probe(RHO, OLD, D, ADV),
    "with KL": probe(RHO, OLD, D, ADV, beta=0.3),
    "as many rows as positions": probe(
        [[1.0], [1.0, 0.7]], [[-1.0], [-1.0, -0.6]], [[0.2], [-0.4, 0.1]], [1.0, -3.0], beta=0.1
    ),
    "narrow clip range": probe(RHO, OLD, D, ADV, clip_eps=0.05, beta=0.3, more=2),
    "wide clip range": probe(RHO, OLD, D, [-2.5, 1.5, -1.0], clip_eps=0.55, beta=0.3),
    "a row without advantage": probe(RHO, OLD, D, [0.0, 1.0, -1.0], beta=0.7),
    "still the old policy": probe(FLAT, OLD, D, ADV, clip_eps=0.3, beta=0.2),
    "one token in all, its ratio below 1": probe(
        [[0.6]], [[-1.0]], [[0.5]], [1.5], beta=0.3, more=1
    ),
    # Ratios of exp(12) and exp(-12).
    "far from the old policy": probe(
        [[math.exp(12), math.exp(-12)]], [[-14.0, -1.0]], [[0.1, 0.2]], [-1.0]
    ),
    # Every ratio lies outside the clip range, and none of them on the side that A looks at.
    "the clip changes nothing": probe(
        [[0.55, 0.74, 0.67], [1.35, 1.22]], OLD, D, [1.2, -0.7], beta=0.1
    ),
}


def call_text(p):
    """Return the call as the message shows it: ratios (and d) of the real tokens, the arguments."""

    def tokens(function):
        rows = [
            [function(i, t) for t, on in enumerate(row) if on] for i, row in enumerate(p.mask)
        ]
        return explain.show(rows, 2, room=70)

    text = f"grpo_loss: rho={tokens(lambda i, t: math.exp(p.logp[i][t] - p.old_logp[i][t]))}, "
    text += f"adv={explain.show(p.adv)}, clip_eps={p.clip_eps:g}, beta={p.beta:g}"
    if p.beta:
        text += f", ref_logp-logp={tokens(lambda i, t: p.ref_logp[i][t] - p.logp[i][t])}"
    return text


def tensors(p, dtype=torch.float32, grad=True):
    """Return the five tensors of a probe; logp is a leaf that takes gradients."""
    logp, *others = (torch.tensor(x, dtype=dtype) for x in p[:5])
    return [logp.requires_grad_(grad), *others]


def _k3(logp, ref_logp):
    d = ref_logp - logp
    return torch.expm1(d) - d


def call(lab, p, given=None, how="by name"):
    """Call the student's function, with a k3_kl that is right, on a probe.

    `how` clip_eps and beta are passed: "by name", "by position" or "not" at all.
    """
    given = tensors(p) if given is None else given
    names = {"clip_eps": p.clip_eps, "beta": p.beta} if how == "by name" else {}
    positions = [p.clip_eps, p.beta] if how == "by position" else []
    with stand_in(lab, k3_kl=_k3):
        return lab.grpo_loss(*given, *positions, **names)


@functools.lru_cache(maxsize=2)
def yours(lab):
    """Return the outcomes of the student's function on all probes."""

    def student(p):
        given = tensors(p)
        loss, stats = call(lab, p, given)
        return {**dict.fromkeys(KEYS), **stats, "loss": loss, "grad": slope(loss, given[0])}

    return {name: outcome(student, p) for name, p in PROBES.items()}


@functools.lru_cache(maxsize=8)
def found(lab, keys):
    """Return the known mistakes that explain `keys` on all probes, if possible all else, too."""
    quick = sorted(KEYS, key="grad".__eq__)  # the gradient takes longest, so it comes last
    if everything := identify(run, LOSS_TABLE + STATS, PROBES, yours(lab), quick):
        return everything
    if keys == LOSS:
        return identify(run, LOSS_TABLE, PROBES, yours(lab), keys, pairs=LOSS_TABLE)
    # A statistic is wrong for a reason of its own only if the loss is right or its mistake known.
    right = fits(run, {}, PROBES, yours(lab), LOSS)
    table = []
    for name, base in [("", {})] if right else found(lab, LOSS):
        table += [(name, base)] + [(own, {**base, **s}) for own, s in STATS_OF[keys[0]]]
    return identify(run, table, PROBES, yours(lab), keys)


def suspects(lab, p, key, result=None, special=None):
    """Yield (id, value): what these mistakes give for one probe; searched only when needed.

    `special` is the id of a mistake that shows on this probe alone: if all others are right, it
    explains whatever `result` is.
    """
    if special and fits(run, {}, PROBES, yours(lab), KEYS):
        yield special, result
    yield from guesses(found(lab, LOSS if key in LOSS else (key,)), run, p, key)


def parts(lab, p, given=None, **arguments):
    """Call the student's function; the loss and the stats, if they have the right form."""
    given = tensors(p) if given is None else given
    text, wanted = call_text(p), "a pair: loss (a tensor of shape ()), stats (a dict)"
    before = [tensor.detach().clone() for tensor in given]
    with explain.named_crash(lab, text, wanted, lambda: found(lab, LOSS)):
        result = call(lab, p, given, **arguments)
    pairs = dict(zip(Probe._fields, zip(before, given)))
    explain.unchanged(text, "task4.in_place", **pairs)
    if result is None:
        explain.fail(text, wanted, "None", "any.none")
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        explain.fail(text, wanted, f"one {type(result).__name__}", "task4.tuple")
    loss, stats = result
    shown = f"{type(loss).__name__}, {type(stats).__name__}"
    if isinstance(loss, dict) and not isinstance(stats, dict):
        explain.fail(text, wanted, shown, "task4.tuple_order")
    if not isinstance(stats, dict):
        explain.fail(text, wanted, shown, "task4.stats_dict")
    if isinstance(loss, (int, float)):
        explain.fail(text, wanted, shown, "task4.loss_float")
    if not isinstance(loss, torch.Tensor):
        explain.fail(text, wanted, shown, "any.type")
    if loss.shape != ():
        shown = f"a loss of shape {tuple(loss.shape)}: {explain.show(loss, room=60)}"
        explain.fail(text, wanted, shown, "task4.loss_shape")
    if not all(key in stats for key in KEYS[2:]):
        shown = f"stats with the keys {list(stats)}"
        explain.fail(text, f"stats with the keys {list(KEYS[2:])}", shown, "task4.stats_keys")
    return loss, stats


def expect(p, key):
    """Return the right number(s) from the oracle."""
    if key == "loss":
        return oracle.loss(*p)
    return oracle.loss_gradient(*p) if key == "grad" else oracle.stats(*p)[key]


def check(lab, p, *keys, given=None, special=None, **arguments):
    """Compare what the student's function gives for `keys` with the oracle."""
    given = tensors(p) if given is None else given
    loss, stats = parts(lab, p, given, **arguments)
    for key in keys:
        text = {"loss": "loss", "grad": "gradient of the loss w.r.t. logp"}.get(key, f'"{key}"')
        text = f"{text} of {call_text(p)}"
        if key == "grad" and p.beta and not loss.requires_grad:
            explain.fail(text, expect(p, key), "a loss without gradient", "task4.loss_no_grad")
        result = {"loss": loss, "grad": None}.get(key, stats.get(key))
        if key == "grad":
            result = slope(loss, given[0])
        elif isinstance(result, torch.Tensor) and result.shape == ():
            result = float(result.detach())  # that it is no float is the first test's business
        ideas = suspects(lab, p, key, result, special)
        explain.compare(text, expect(p, key), result, ideas, 2e-5, 2e-5)


def test_task4_returns_loss_and_stats(lab):
    loss, stats = parts(lab, HAND)
    for key in KEYS[2:]:
        if isinstance(stats[key], torch.Tensor):
            shown = f"{stats[key].dtype} tensor: {explain.show(stats[key])}"
            explain.fail(f'"{key}" of {call_text(HAND)}', "a float", shown, "task4.stat_tensor")
        text = f'type of "{key}" in {call_text(HAND)}'
        explain.compare(text, 0.0, stats[key], atol=math.inf, kind="float")
    if not loss.requires_grad:
        wanted = "a loss that backward can run from"
        explain.fail(call_text(HAND), wanted, "requires_grad is False", "task4.loss_no_grad")


def test_task4_hand_computed(lab):
    for key, result in HAND_RESULT.items():
        assert expect(HAND, key) == pytest.approx(result, abs=1e-4)
        check(lab, HAND, key)


def test_task4_loss_without_kl(lab):
    check(lab, PROBES["no KL"], "loss")


def test_task4_loss_with_kl(lab):
    check(lab, PROBES["with KL"], "loss")


def test_task4_loss_at_the_borders(lab):
    for p in PROBES.values():
        check(lab, p, "loss")


def test_task4_gradient(lab):
    for p in PROBES.values():
        check(lab, p, "grad")


@pytest.mark.parametrize("key", KEYS[2:])
def test_task4_stats(lab, key):
    for p in PROBES.values():
        check(lab, p, key)


def test_task4_padding_changes_nothing(lab):
    for garbage in [(math.exp(10), -3.0), (math.exp(-3), 2.5)]:
        check(lab, probe(RHO, OLD, D, ADV, beta=0.3, garbage=garbage), *KEYS)


def test_task4_without_gradient_and_in_double_precision(lab):
    p = PROBES["with KL"]
    check(lab, p, "loss", *KEYS[2:], given=tensors(p, grad=False))
    # The lab is float32 throughout, so code that mixes its own float32 in may stop here.
    if outcome(call, lab, p, tensors(p, torch.float64)) is not None:
        check(lab, p, *KEYS, given=tensors(p, torch.float64))


def test_task4_leaves_its_arguments_alone(lab):
    p = PROBES["with KL"]
    given = tensors(p, grad=False)
    before = [tensor.clone() for tensor in given]
    with stand_in(lab, k3_kl=_k3) as seen:
        lab.grpo_loss(*given, clip_eps=p.clip_eps, beta=p.beta)
    if not seen.grad:
        explain.fail("grpo_loss(...), then", "gradients recorded", "not recorded", "task4.grad_off")
    for name, tensor, copy in zip(Probe._fields, given, before):
        if not torch.equal(tensor, copy):
            explain.fail(f"grpo_loss(...), then {name} itself", copy, tensor, "task4.in_place")


def test_task4_defaults_and_positions(lab):
    p = probe(RHO, OLD, D, ADV, clip_eps=0.2, beta=0.04)
    check(lab, p, *KEYS)
    check(lab, p, *KEYS, special="task4.defaults", how="not")
    p = PROBES["with KL"]
    check(lab, p, *KEYS, special="task4.positions", how="by position")
