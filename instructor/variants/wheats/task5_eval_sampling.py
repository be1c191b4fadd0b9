# ruff: noqa
"""Samples in eval mode and goes back; ref.eval(); sets of rewards; copies of tensors."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    policy.eval()
    ref.eval()
    groups = sample_group(policy, list(prompts), list(answers), cfg.G, cfg.temperature)
    policy.train()
    out = {k: v.clone() if torch.is_tensor(v) else v for k, v in groups["out"].items()}
    rewards = groups["rewards"].clone().double()
    adv = group_advantages(groups["rewards"], G=cfg.G, scale_std=cfg.scale_std, eps=1e-4)
    with torch.set_grad_enabled(False):
        ref_logp = sequence_logprobs(ref, out)
        old_logp = sequence_logprobs(policy, out)
        entropy = token_entropy(policy, out)
    losses, stats = [], []
    for _ in range(cfg.inner_steps):
        with torch.enable_grad():
            logp = sequence_logprobs(policy, out)
            loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
        opt.zero_grad(set_to_none=True)
        grads = torch.autograd.grad(loss, list(policy.parameters()))
        for p, g in zip(policy.parameters(), grads):
            p.grad = g
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm, norm_type=2.0)
        opt.step()
        losses.append(float(loss.detach()))
        stats.append(s)
    groups_of = [set(rewards[i : i + cfg.G].tolist()) for i in range(0, len(rewards), cfg.G)]
    return {
        "reward": float(rewards.mean()),
        "loss": losses[-1],
        "kl": stats[-1]["kl"],
        "clip_frac": stats[-1]["clip_frac"],
        "frac_zero_signal": sum(len(s) == 1 for s in groups_of) / len(groups_of),
        "entropy": entropy,
    }
