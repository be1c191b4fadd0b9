# ruff: noqa
"""Reaches everything through the lab file itself."""

def grpo_step(policy, ref, opt, prompts, answers, cfg):
    import lab15_grpo as me
    groups = me.sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, mask = groups["out"], groups["out"]["mask"]
    adv = me.group_advantages(groups["rewards"], cfg.G, cfg.scale_std)
    with torch.no_grad():
        old_logp = me.sequence_logprobs(policy, out)
        ref_logp = me.sequence_logprobs(ref, out)
    ent = me.token_entropy(policy, out)
    for _ in range(cfg.inner_steps):
        logp = me.sequence_logprobs(policy, out)
        loss, s = me.grpo_loss(logp, old_logp, ref_logp, adv, mask, cfg.clip_eps, cfg.beta)
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        opt.step()
    g = groups["rewards"].view(-1, cfg.G)
    z = (g == g[:, :1]).all(1).float().mean().item()
    return dict(reward=groups["rewards"].mean().item(), loss=loss.item(), kl=s["kl"], clip_frac=s["clip_frac"], frac_zero_signal=z, entropy=ent)
