# ruff: noqa
"""Reassigned names, one no_grad loop, the report built key by key, entropy half way."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    report = {}
    data = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    rewards = data["rewards"].float()
    P = rewards.numel() // cfg.G
    advantages = group_advantages(rewards, cfg.G, bool(cfg.scale_std))
    with torch.no_grad():
        fixed = {name: sequence_logprobs(m, data["out"]) for name, m in dict(old=policy, ref=ref).items()}
    for mu in range(cfg.inner_steps):
        if mu == cfg.inner_steps // 2:
            report["entropy"] = token_entropy(policy, data["out"])
        objective, stats = grpo_loss(
            sequence_logprobs(policy, data["out"]), fixed["old"], fixed["ref"],
            advantages, data["out"]["mask"], cfg.clip_eps, cfg.beta,
        )
        opt.zero_grad(); objective.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm); opt.step()
        report.update(stats)
        report["loss"] = objective.detach().item()
    report["reward"] = rewards.sum().item() / (P * cfg.G)
    first = rewards.view(P, cfg.G)[:, :1]
    report["frac_zero_signal"] = (rewards.view(P, cfg.G) == first).all(1).float().mean().item()
    return report
