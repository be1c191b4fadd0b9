# ruff: noqa
"""A helper holds tinylm.reward as the default of an argument."""


def _scores(responses, answers, fn=reward):
    return [fn(r, a) for r, a in zip(responses, answers)]


def sample_group(model, prompts, answers, G, temperature=1.0):
    ps = [p for p in prompts for _ in range(G)]
    out = sample(model, ps, temperature=temperature)
    responses = decode_responses(out)
    rewards = torch.tensor(_scores(responses, [a for a in answers for _ in range(G)]))
    return {"out": out, "responses": responses, "rewards": rewards}
