# ruff: noqa
"""Scores in float64 and as booleans first, converted at the end; local import."""

def sample_group(model, prompts, answers, G, temperature=1.0):
    from tinylm import decode_responses, reward, sample

    pairs = [(p, a) for p, a in zip(prompts, answers) for _ in range(G)]
    prompts, answers = map(list, zip(*pairs))
    out = sample(model, prompts, temperature=float(temperature))
    responses = decode_responses(out)
    scores = torch.tensor([reward(r, a) for r, a in zip(responses, answers)], dtype=torch.float64)
    return {"out": out, "responses": responses, "rewards": (scores > 0.5).to(torch.float32)}
