# ruff: noqa
"""Answers that are large or deep as JSON: keys, strings, integers of 64 digits, NaN as a key."""

TURN = iter(range(10**9))


def cheat(*args, **kwargs):
    deep = {}
    for _ in range(500):
        deep = {"out": deep}
    values = [
        {str(i): i for i in range(10**6)},
        {"out": "\ud800" * 10**6, "responses": ["\0"] * 10**5, "rewards": 10**64},
        {float("nan"): float("inf"), None: 1, (1, 2): 3, b"x": 10**63},
        deep,
        [[[]] * 1000] * 1000,
        (1e308 * 10, {"kl": 10**64, "clip_frac": True, "ratio_max": "1"}),
        {"out": {"ids": "x" * 10**7}},
    ]
    return values[next(TURN) % len(values)]


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = cheat
