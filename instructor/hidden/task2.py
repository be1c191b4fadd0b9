"""Hidden tests of Task 2."""

import torch

from .common import Case, Draw, Test, equal, is_tensor, near, ok, reference

TESTS = {
    "form": Test("shape, type, finite numbers", "one number per response, like rewards"),
    "unchanged": Test("the rewards stay as they were", "do not change the argument"),
    "binary": Test("rewards of 0 and 1", "mean and std of the same prompt's group"),
    "real": Test("rewards of any size", "look at the std and at eps once more"),
    "no_scale": Test("scale_std=False", "what is left out when scale_std is False?"),
    "eps": Test("another eps", "where does eps stand in the formula?"),
}


def make(seed):
    """Return the cases."""
    draw = Draw(seed, 2)
    cases = []

    def add(test, rewards, G, args=(), kwargs=None, order=True):
        want = reference().group_advantages(rewards.double(), G, *args, **(kwargs or {}))
        given = {"args": [rewards, G, *args], "kwargs": dict(kwargs or {})}
        if not order:
            given = {"args": [], "kwargs": {"G": G, "rewards": rewards, **(kwargs or {})}}
        tests = ("form", "unchanged", test)
        cases.append(Case({**given, "seed": draw.seed()}, {"adv": want, "test": test}, tests))

    for P, G in ((5, 4), (3, 7), (6, 6), (1, 5), (4, 1)):
        rows = (draw.uniform(0, 1, P, G) < 0.4).float()
        rows[0, :2] = torch.tensor([0.0, 1.0])[:G]
        if P > 2:
            rows[1], rows[2] = 0.0, 1.0
        add("binary", rows.flatten(), G, order=G != 7)
    rare = torch.zeros(2, 48)  # one right answer in many: an advantage above 5
    rare[0, draw.random.randrange(48)] = rare[1, :47] = 1.0
    add("binary", rare.flatten(), 48)
    add("real", draw.normal(24, scale=3.0), 6)
    add("real", draw.normal(20, scale=2e-3) + 0.5, 5)  # eps shows
    add("real", torch.cat([draw.normal(8) * 2e-4, draw.normal(8) + 3]), 4, order=False)
    mixed = torch.cat([draw.normal(12) * 2, (draw.uniform(0, 1, 4) < 0.5).float()])
    add("no_scale", mixed, 4, (False,))
    add("no_scale", draw.normal(15, scale=40.0), 5, (False,))
    add("no_scale", draw.normal(21) + 1, 7, kwargs={"scale_std": False, "eps": 0.3})
    add("eps", draw.normal(18), 3, (True, draw.uniform(0.3, 0.9)))
    add("eps", draw.normal(16) * 0.1, 8, kwargs={"eps": draw.uniform(0.02, 0.08)}, order=False)
    add("eps", mixed, 4, (True,), {"eps": draw.uniform(1.0, 2.0)})
    return cases


def judge(case, reply):
    """Return {test id: verdict} for one reply."""
    adv, want = reply.get("out"), case.expect["adv"]
    form = is_tensor(adv) and adv.shape == want.shape and bool(adv.isfinite().all())
    sent = [*case.send["args"], *case.send["kwargs"].values()]
    same = equal(reply.get("after"), sent)
    # In a group of equal rewards, what rounding leaves is divided by eps alone.
    silent = want.abs() < 1e-9
    right = form and bool((adv[silent].abs() < 2e-3).all())
    right = right and near(torch.where(silent, want, adv.double()), want, 2e-4)
    return {"form": ok(form), "unchanged": ok(same), case.expect["test"]: ok(right)}
