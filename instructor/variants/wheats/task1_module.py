# ruff: noqa
"""Calls through the module `tinylm`, with keywords; rewards stay on the CPU."""

import tinylm


def sample_group(model, prompts, answers, G, temperature=1.0):
    repeated = sum(([p] * G for p in prompts), [])
    out = tinylm.sample(model=model, prompts=repeated, temperature=temperature)
    responses = tinylm.decode_responses(out=out)
    rewards = torch.tensor(
        [tinylm.reward(response=r, answer=answers[i // G]) for i, r in enumerate(responses)]
    )
    return dict(out=out, responses=responses, rewards=rewards)
