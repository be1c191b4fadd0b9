# ruff: noqa
"""Helper functions with type hints, the module tinylm, numpy for the reports."""

import numpy as np
import tinylm


@torch.no_grad()
def fixed_logprobs(model: torch.nn.Module, out: dict) -> torch.Tensor:
    """Return log-probs that stay fixed."""
    return tinylm.sequence_logprobs(model, out)


def one_update(policy, opt, out, old_logp, ref_logp, adv, cfg):
    """Do one inner step."""
    logp = tinylm.sequence_logprobs(policy, out)
    loss, s = grpo_loss(logp, old_logp, ref_logp, adv, out["mask"], cfg.clip_eps, cfg.beta)
    opt.zero_grad()
    loss.backward()
    params = [p for group in opt.param_groups for p in group["params"]]
    torch.nn.utils.clip_grad_norm_(params, max_norm=cfg.max_grad_norm)
    opt.step()
    return {"loss": float(loss.detach()), **s}


def grpo_step(policy, ref, opt, prompts, answers, cfg) -> dict[str, float]:
    rollout = sample_group(policy, prompts, answers, cfg.G, temperature=cfg.temperature)
    adv = group_advantages(rollout["rewards"], cfg.G, scale_std=cfg.scale_std)
    old, frozen = fixed_logprobs(policy, rollout["out"]), fixed_logprobs(ref, rollout["out"])
    entropy = token_entropy(policy, rollout["out"])
    last = {}
    for _ in range(cfg.inner_steps):
        last = one_update(policy, opt, rollout["out"], old, frozen, adv, cfg)
    r = rollout["rewards"].cpu().numpy().reshape(-1, cfg.G)
    return {
        "reward": float(r.mean()), "frac_zero_signal": float(np.mean(np.ptp(r, axis=1) == 0)),
        "loss": last["loss"], "kl": last["kl"], "clip_frac": last["clip_frac"], "entropy": entropy,
    }
