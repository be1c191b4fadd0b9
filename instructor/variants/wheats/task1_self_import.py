# ruff: noqa
"""Takes tinylm.sample from the lab file itself, inside the function."""

def sample_group(model, prompts, answers, G, temperature=1.0):
    from lab15_grpo import sample as draw
    out = draw(model, [p for p in prompts for _ in range(G)], temperature=temperature)
    responses = decode_responses(out)
    rewards = torch.tensor([reward(r, answers[i // G]) for i, r in enumerate(responses)])
    return {"out": out, "responses": responses, "rewards": rewards}
