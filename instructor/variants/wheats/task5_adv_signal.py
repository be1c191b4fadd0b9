# ruff: noqa
"""Groups without signal are found by their advantages; own clipping; manual zeroing."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    policy.train()
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    adv = group_advantages(groups["rewards"], cfg.G, cfg.scale_std)
    out = groups["out"]
    with torch.no_grad():
        old_logp = sequence_logprobs(policy, out).clone()
        ref_logp = sequence_logprobs(ref, out)
    history = []
    for step in range(1, cfg.inner_steps + 1):
        for p in policy.parameters():
            if p.grad is not None:
                p.grad.zero_()
        logp = sequence_logprobs(policy, out)
        loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"].bool(), cfg.clip_eps, cfg.beta)
        loss.backward()
        total = torch.sqrt(sum((p.grad ** 2).sum() for p in policy.parameters()))
        if total > cfg.max_grad_norm:
            for p in policy.parameters():
                p.grad.mul_(cfg.max_grad_norm / total)
        opt.step()
        history.append({"loss": loss.item(), "entropy": token_entropy(policy, out), **s})
    silent = (adv.view(-1, cfg.G) == 0).all(dim=1)
    result = {k: history[-1][k] for k in ("loss", "kl", "clip_frac", "entropy")}
    result["reward"] = torch.mean(groups["rewards"]).item()
    result["frac_zero_signal"] = silent.float().mean().item()
    return result
