# ruff: noqa
"""Switches to eval and no_grad while sampling and back again; copies the dict."""

def sample_group(model, prompts, answers, G, temperature=1.0):
    was_training = model.training
    model.eval()
    with torch.no_grad():
        out = sample(model, [p for p in prompts for _ in range(G)], temperature, False)
    model.train(was_training)
    responses = [str(r) for r in decode_responses(out)]
    rewards = [1.0 if reward(r, answers[k // G]) else 0.0 for k, r in enumerate(responses)]
    rewards = torch.as_tensor(rewards, device=out["mask"].device).float()
    return {"out": dict(out), "responses": responses, "rewards": rewards}
