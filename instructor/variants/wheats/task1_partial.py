# ruff: noqa
"""tinylm.sample in a functools.partial of the module."""

from functools import partial

draw = partial(sample, greedy=False)


def sample_group(model, prompts, answers, G, temperature=1.0):
    ps = [p for p in prompts for _ in range(G)]
    out = draw(model, ps, temperature=temperature)
    responses = decode_responses(out)
    rewards = torch.tensor([reward(r, a) for r, a in zip(responses, [a for a in answers for _ in range(G)])])
    return {"out": out, "responses": responses, "rewards": rewards}
