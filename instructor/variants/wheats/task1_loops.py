# ruff: noqa
"""Plain nested loops and append, rewards filled in one by one."""

def sample_group(model, prompts, answers, G, temperature=1.0):
    all_prompts = []
    all_answers = []
    for i in range(len(prompts)):
        for _ in range(G):
            all_prompts.append(prompts[i])
            all_answers.append(answers[i])
    out = sample(model, all_prompts, temperature)
    responses = decode_responses(out)
    rewards = torch.zeros(len(responses))
    for i in range(len(responses)):
        rewards[i] = reward(responses[i], all_answers[i])
    return {"out": out, "responses": responses, "rewards": rewards}
