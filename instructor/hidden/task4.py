"""Hidden tests of Task 4.

In the sandbox k3_kl is an odd function that the grader knows, so that nothing about Task 3 is
given away; a student who writes k3 in place has the right one. Every test accepts either.
"""

import torch

from tests.labfile import is_real

from ..box.standins import odd_k3
from .common import Case, Draw, Test, equal, is_tensor, near, ok, reference

TESTS = {
    "form": Test("(loss, stats)", "a loss of one number with a gradient, and a dict"),
    "unchanged": Test("the arguments stay as they were", "do not change the arguments"),
    "loss": Test("the loss", "min, clip, beta, and the two averages"),
    "gradient": Test("the gradient of the loss", "what must carry a gradient, and what not?"),
    "kl": Test("stats: kl", "the mean over all real tokens"),
    "clip_frac": Test("stats: clip_frac", "where was the clipped term the smaller one?"),
    "ratio_max": Test("stats: ratio_max", "the largest rho over real tokens"),
}
ALL = tuple(TESTS)
SIMPLE_CASES = "where there is one response (B = 1)"
NAMES = ("logp", "old_logp", "ref_logp", "adv", "mask")


def make(seed):
    """Return the cases."""
    draw = Draw(seed, 4)
    plan = [  # B, T, clip_eps and beta (None: the default), how it is called
        (4, 6, None, None, "plain"),
        (5, 5, 0.35, 0.3, "plain"),
        (3, 4, 0.1, 0.0, "keywords"),
        (6, 3, None, 1.5, "keywords"),
        (1, 5, 0.25, None, "keywords"),
        (8, 4, 0.05, 0.5, "plain"),
        (4, 4, 0.5, 0.1, "keywords"),
    ]
    cases = [_case(draw, *row) for row in plan]
    cases += [_small_ratios(draw, 3, 4), _far_ratios(draw, 2, 3)]
    cases += [_case(draw, 1, 3, 0.15, 0.6, "plain")]  # one token in all
    return [*cases, _case(draw, 4, 3, None, None, "plain", False)]


def _small_ratios(draw, B, T):
    """Return a case in which every ratio is below 1."""
    logp, old, ref, adv, mask = _tensors(draw, B, T)
    logp = old - (logp - old).abs() - 0.01
    return _build(draw, (logp, old, ref, adv, mask), {}, "plain")


def _far_ratios(draw, B, T):
    """Return a case with a ratio of about 600 and one of about 1/600."""
    logp, old, ref, adv, mask = _tensors(draw, B, T)
    old[0, 0], logp[0, 0] = -7.5, -7.5 + draw.uniform(6.2, 6.6)
    old[1, 0], logp[1, 0] = -0.5, -0.5 - draw.uniform(6.2, 6.6)
    ref[:, 0] = logp[:, 0] + draw.normal(B, scale=0.3)
    adv = torch.tensor([-draw.uniform(0.4, 0.8), draw.uniform(0.4, 0.8)])
    return _build(draw, (logp, old, ref, adv, mask), {}, "keywords")


def _tensors(draw, B, T):
    """Return the five tensors: ragged rows, ties, both signs of A, large ratios, loud padding."""
    old = -draw.uniform(0.1, 2.5, B, T)
    logp = old + draw.normal(B, T, scale=0.5)
    ref = old + draw.normal(B, T, scale=0.6)
    lengths = [1 + (draw.random.randrange(T) + i) % T for i in range(B)]
    lengths[draw.random.randrange(B)] = max(1, T - 1) if B > 1 else T - 2
    mask = torch.tensor([[float(t < n) for t in range(T)] for n in lengths])
    adv = draw.normal(B) + 0.3
    adv[0], adv[-1] = -abs(adv[0]) - 0.5, abs(adv[-1]) + 0.5 if B > 1 else adv[-1] - 0.2
    if B > 3:
        adv[1] = 0.0
        logp[2, 0] = old[2, 0]  # rho is exactly 1
    logp[0, 0] = old[0, 0] + 1.3  # rho of 3.7
    logp[-1, 0] = old[-1, 0] + (0.9 if B > 1 else 1.3)
    logp[mask == 0] = (old + 1.9 + draw.uniform(0, 0.3, B, T))[mask == 0]
    return logp, old, ref, adv, mask


def _case(draw, B, T, clip_eps, beta, style, grad=True):
    more = {"clip_eps": clip_eps, "beta": beta}
    more = {k: v for k, v in more.items() if v is not None}
    return _build(draw, _tensors(draw, B, T), more, style, grad)


def _build(draw, tensors, more, style, grad=True):
    logp, old, ref, adv, mask = tensors
    k3 = (draw.uniform(0.2, 0.4), draw.uniform(0.05, 0.15))
    versions = {0: reference().k3_kl, 1: odd_k3(*k3)}
    expect = {v: _expect(f, (logp, old, ref, adv, mask), more) for v, f in versions.items()}
    logp.requires_grad_(grad)
    given = {"args": [logp, old, ref, adv, mask, *more.values()], "kwargs": {}}
    if style == "keywords":
        named = dict(zip(NAMES, (logp, old, ref, adv, mask))) | more
        given = {"args": [], "kwargs": dict(reversed(named.items()))}
    send = {**given, "k3": list(k3), "weights": torch.ones(()), "seed": draw.seed()}
    tests = ALL if grad else [t for t in ALL if t not in ("gradient", "form")]
    return Case(send, expect | {"grad": grad}, tuple(tests), simple=len(adv) == 1)


def _expect(k3, tensors, more):
    """Return loss, gradient and stats of the solution with this function for k3_kl."""
    lab = reference()
    logp, *others = (t.double() for t in tensors)
    logp.requires_grad_()
    own, lab.k3_kl = lab.k3_kl, k3
    try:
        loss, stats = lab.grpo_loss(logp, *others, **more)
    finally:
        lab.k3_kl = own
    (grad,) = torch.autograd.grad(loss, [logp])
    return {"loss": loss.detach(), "gradient": grad, **stats}


def judge(case, reply):
    """Return {test id: verdict} for one reply."""
    out = reply.get("out")
    loss, stats = out if isinstance(out, tuple | list) and len(out) == 2 else (None, None)
    stats = stats if isinstance(stats, dict) else {}
    sent = [*case.send["args"], *case.send["kwargs"].values()]
    form = is_tensor(loss) and loss.dim() == 0 and loss.requires_grad
    form = form and isinstance(out[1], dict)
    result = {
        "form": ok(form) if case.expect["grad"] else {0, 1},
        "unchanged": ok(equal(reply.get("after"), sent)),
    }
    numbers = {k: v for k, v in stats.items() if is_real(v)}
    got = {**numbers, "loss": loss, "gradient": reply.get("grad")}
    for test in ("loss", "gradient", "kl", "clip_frac", "ratio_max"):
        versions = {v for v in (0, 1) if near(got.get(test), case.expect[v][test])}
        result[test] = versions
    return {test: result[test] for test in case.tests}
