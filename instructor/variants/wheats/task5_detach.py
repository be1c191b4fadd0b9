# ruff: noqa
"""old_logp and ref_logp by detach instead of no_grad; policy.zero_grad; Python loops."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out = groups["out"]
    rewards = groups["rewards"]
    adv = group_advantages(rewards, cfg.G, cfg.scale_std)
    old_logp = sequence_logprobs(policy, out).detach()
    ref_logp = sequence_logprobs(ref, out).detach()
    entropy = token_entropy(policy, out)
    k = 0
    while k < cfg.inner_steps:
        policy.zero_grad()
        loss, s = grpo_loss(
            sequence_logprobs(policy, out), old_logp, ref_logp, adv, out["mask"],
            cfg.clip_eps, cfg.beta,
        )
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(policy.parameters()), cfg.max_grad_norm)
        opt.step()
        k += 1
    values = rewards.tolist()
    P = len(values) // cfg.G
    dead = 0
    for p in range(P):
        group = values[p * cfg.G : (p + 1) * cfg.G]
        if max(group) == min(group):
            dead += 1
    stats = dict(reward=sum(values) / len(values), loss=float(loss.detach()), entropy=entropy)
    stats.update(kl=float(s["kl"]), clip_frac=float(s["clip_frac"]), frac_zero_signal=dead / P)
    return stats
