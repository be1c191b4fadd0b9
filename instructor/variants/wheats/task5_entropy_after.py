# ruff: noqa
"""Entropy after the inner steps; sets in the place of max and min."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, rewards = groups["out"], groups["rewards"]
    adv = group_advantages(rewards, cfg.G, cfg.scale_std)
    with torch.no_grad():
        old, refl = sequence_logprobs(policy, out), sequence_logprobs(ref, out)
    for step in range(cfg.inner_steps):
        opt.zero_grad(set_to_none=False)
        loss, s = grpo_loss(sequence_logprobs(policy, out), old, refl, adv, out["mask"], clip_eps=cfg.clip_eps, beta=cfg.beta)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(list(policy.parameters()), max_norm=cfg.max_grad_norm)
        opt.step()
    same = [len(set(g.tolist())) == 1 for g in rewards.split(cfg.G)]
    return {"reward": sum(rewards.tolist()) / len(rewards), "loss": float(loss.detach()), "kl": s["kl"], "clip_frac": s["clip_frac"],
            "frac_zero_signal": sum(same) / len(same), "entropy": token_entropy(policy, out)}
