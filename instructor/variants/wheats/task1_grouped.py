# ruff: noqa
"""Scores group by group into (P, G), then flattens; decodes by a loop of its own."""

from tinylm import CHARS, END


def sample_group(model, prompts, answers, G, temperature=1.0):
    P = len(prompts)
    idx = torch.arange(P).repeat_interleave(G).tolist()
    out = sample(model, [prompts[i] for i in idx], temperature=temperature)
    responses = []
    for row, keep in zip(out["ids"][:, out["prompt_len"]:], out["mask"]):
        ids = [int(t) for t, m in zip(row, keep) if m > 0 and t != END]
        responses.append("".join(CHARS[t] for t in ids))
    rewards = torch.empty(P, G)
    for p in range(P):
        for g in range(G):
            rewards[p, g] = reward(responses[p * G + g], answers[p])
    return {"out": out, "responses": responses, "rewards": rewards.flatten()}
