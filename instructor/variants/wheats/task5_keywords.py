# ruff: noqa
"""Keyword calls everywhere; clip_grad_norm_ under another name; loss.item()."""

from torch.nn.utils import clip_grad_norm_ as limit_norm


def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(
        model=policy, prompts=prompts, answers=answers, G=cfg.G, temperature=cfg.temperature
    )
    out = groups["out"]
    adv = group_advantages(rewards=groups["rewards"], G=cfg.G, scale_std=cfg.scale_std)
    mask = out["mask"]
    with torch.no_grad():
        old_logp = sequence_logprobs(model=policy, out=out)
        ref_logp = sequence_logprobs(model=ref, out=out)
    for step in range(cfg.inner_steps):
        logp = sequence_logprobs(model=policy, out=out)
        loss, s = grpo_loss(
            logp=logp, old_logp=old_logp, ref_logp=ref_logp, adv=adv, mask=mask,
            beta=cfg.beta, clip_eps=cfg.clip_eps,
        )
        opt.zero_grad(set_to_none=False)
        loss.backward()
        limit_norm(parameters=policy.parameters(), max_norm=cfg.max_grad_norm)
        opt.step()
    r = groups["rewards"].reshape(len(prompts), cfg.G)
    same = (r.max(dim=1).values == r.min(dim=1).values).sum().item() / len(prompts)
    return {
        "reward": groups["rewards"].mean().item(), "loss": loss.item(), "kl": s["kl"],
        "clip_frac": s["clip_frac"], "frac_zero_signal": same,
        "entropy": token_entropy(model=policy, out=out),
    }
