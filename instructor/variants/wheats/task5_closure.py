# ruff: noqa
"""Everything in a closure that opt.step calls."""


def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, rewards = groups["out"], groups["rewards"]
    adv = group_advantages(rewards, cfg.G, cfg.scale_std)
    with torch.no_grad():
        old_logp = sequence_logprobs(policy, out)
        ref_logp = sequence_logprobs(ref, out)
    keep = {}

    def closure():
        opt.zero_grad()
        loss, keep["s"] = grpo_loss(sequence_logprobs(policy, out), old_logp, ref_logp, adv, out["mask"],
                                    cfg.clip_eps, cfg.beta)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        return loss

    for _ in range(cfg.inner_steps):
        loss = opt.step(closure)
    r = rewards.view(-1, cfg.G)
    frac = (r.amax(1) == r.amin(1)).float().mean().item()
    return {"reward": r.mean().item(), "loss": loss.item(), "kl": keep["s"]["kl"],
            "clip_frac": keep["s"]["clip_frac"], "frac_zero_signal": frac, "entropy": token_entropy(policy, out)}
