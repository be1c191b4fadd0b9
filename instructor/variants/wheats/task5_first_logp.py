# ruff: noqa
"""old_logp is the detached logp of the first inner step; p.grad = None by hand."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, mask = groups["out"], groups["out"]["mask"]
    adv = group_advantages(groups["rewards"], cfg.G, cfg.scale_std).detach()
    with torch.no_grad():
        ref_logp = sequence_logprobs(ref, out)
    old_logp = None
    entropies = []
    for _ in range(cfg.inner_steps):
        for p in policy.parameters():
            p.grad = None
        logp = sequence_logprobs(policy, out)
        if old_logp is None:
            old_logp = logp.detach().clone()
        entropies.append(token_entropy(policy, out))
        loss, s = grpo_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=cfg.clip_eps, beta=cfg.beta)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        opt.step()
    r = groups["rewards"].view(-1, cfg.G)
    mean = r.mean(1)
    zero = ((mean == 0) | (mean == 1)).double().mean()
    return {
        "reward": mean.mean().item(), "loss": loss.item(), "kl": s["kl"], "clip_frac": s["clip_frac"],
        "frac_zero_signal": zero.item(), "entropy": sum(entropies) / len(entropies),
        "grad_norm": float(norm), "ratio_max": s["ratio_max"],
    }
