# ruff: noqa
"""Gradients zeroed after the step; entropy measured after the update."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    g = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, rewards = g["out"], g["rewards"]
    adv = group_advantages(rewards, cfg.G, cfg.scale_std)
    with torch.no_grad():
        old_logp, ref_logp = [sequence_logprobs(m, out) for m in (policy, ref)]
    for _ in range(cfg.inner_steps):
        logp = sequence_logprobs(policy, out)
        loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        opt.step()
        opt.zero_grad()
    std = rewards.view(-1, cfg.G).std(dim=1, unbiased=False)
    return {
        "reward": float(rewards.mean()),
        "loss": loss.item(),
        "kl": s["kl"],
        "clip_frac": s["clip_frac"],
        "frac_zero_signal": float((std == 0).float().mean()),
        "entropy": token_entropy(policy, out),
    }
