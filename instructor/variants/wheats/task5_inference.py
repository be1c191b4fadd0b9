# ruff: noqa
"""Step 3 under inference_mode, entropy inline after the update, np.float64 values."""

import numpy as np


def grpo_step(policy, ref, opt, prompts, answers, cfg):
    groups = sample_group(policy, prompts, answers, cfg.G, cfg.temperature)
    out, rewards = groups["out"], groups["rewards"]
    adv = group_advantages(rewards, cfg.G, cfg.scale_std)
    with torch.inference_mode():
        old_logp = sequence_logprobs(policy, out)
        ref_logp = sequence_logprobs(ref, out)
    for _ in range(cfg.inner_steps):
        opt.zero_grad()
        logp = sequence_logprobs(policy, out)
        loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(policy.parameters(), cfg.max_grad_norm)
        opt.step()
    with torch.no_grad():
        logits = policy(out["ids"][:, :-1])[:, out["prompt_len"] - 1 :]
        logp = torch.log_softmax(logits, -1)
        h = -(logp.exp() * logp).sum(-1) * out["mask"]
        entropy = float(h.sum() / out["mask"].sum())
    stats = {"reward": np.mean(rewards.tolist()), "loss": loss.item(), "entropy": entropy}
    counts = rewards.view(-1, cfg.G).sum(1)
    stats["frac_zero_signal"] = ((counts == 0) | (counts == cfg.G)).float().mean().item()
    return stats | {k: s[k] for k in ("kl", "clip_frac")}
