"""Hidden tests of Task 3."""

import torch

from .common import Case, Draw, Test, equal, is_tensor, near, ok, reference

TESTS = {
    "form": Test("shape, type, finite numbers", "one number per token"),
    "unchanged": Test("the arguments stay as they were", "do not change the arguments"),
    "values": Test("the values", "which way round is d, and what is taken off?"),
    "gradient": Test("the gradient to logp", "compute with tensors to the end"),
}
ALL = tuple(TESTS)


def make(seed):
    """Return the cases."""
    draw = Draw(seed, 3)
    cases = []
    for i, (B, T) in enumerate(((3, 5), (4, 4), (1, 7), (6, 2), (2, 1), (3, 3))):
        logp = -draw.uniform(0.05, 3.5, B, T)
        ref = -draw.uniform(0.05, 3.5, B, T)
        if i == 1:
            ref = logp + draw.normal(B, T, scale=0.05)  # close together
            ref[0] = logp[0]
        if i == 3:  # far apart, both ways
            logp[0, 0], ref[0, 0] = -draw.uniform(11.0, 12.0), -0.25
            logp[1, 0], ref[1, 0] = -0.25, -draw.uniform(11.0, 12.0)
        weights = draw.uniform(0.5, 1.5, B, T) * (1 - 2 * (draw.uniform(0, 1, B, T) < 0.5).float())
        x = logp.double().requires_grad_()
        k3 = reference().k3_kl(x, ref.double())
        (grad,) = torch.autograd.grad(k3, [x], weights.double())
        logp.requires_grad_(i < 5)  # the last one is called as under no_grad
        given = {"args": [logp, ref], "kwargs": {}}
        if i % 2:
            given = {"args": [], "kwargs": {"ref_logp": ref, "logp": logp}}
        send = {**given, "weights": weights, "seed": draw.seed()}
        tests = ALL if i < 5 else ALL[:3]
        cases.append(Case(send, {"k3": k3.detach(), "grad": grad}, tests))
    return cases


def judge(case, reply):
    """Return {test id: verdict} for one reply."""
    k3, grad, want = reply.get("out"), reply.get("grad"), case.expect
    form = is_tensor(k3) and k3.shape == want["k3"].shape and bool(k3.isfinite().all())
    sent = [*case.send["args"], *case.send["kwargs"].values()]
    values = form and near(k3, want["k3"], 2e-5)
    result = {
        "form": ok(form),
        "unchanged": ok(equal(reply.get("after"), sent)),
        "values": ok(values),
        "gradient": ok(is_tensor(grad) and near(grad, want["grad"], 1e-4)),
    }
    return {test: result[test] for test in case.tests}
