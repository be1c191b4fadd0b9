"""The metrics of a step, with TRL's names and meanings; kl is plain k3, ratio_max our own."""

from typing import Any

import torch

from beyond.rewards import name_of

MIN, MAX = ("_min", "min_length"), ("_max", "max_length", "num_tokens", "epoch")
FLAT_STEPS, FLAT_ENTROPY = 5, 0.02


def seq_share(hit: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    """Return (B,) the share of each response's tokens that were hit."""
    return (hit * mask).sum(1) / mask.sum(1).clamp(min=1)


@torch.no_grad()
def loss_metrics(loss, stats, logp, old, adv, mask, cfg) -> dict[str, Any]:
    """Return the numbers of one micro-batch, to be joined by joined().

    Args:
        loss: scalar tensor, this micro-batch's part of the batch's loss.
        stats: the dict of floats that the loss function returned.
        logp: (B, T) under the current policy.
        old: (B, T) under the policy that sampled.
        adv: (B,) advantages, or (B, T).
        mask: (B, T).
        cfg: a GRPOConfig.
    """
    rho = torch.where(mask.bool(), logp - old, 0.0).exp()
    up = cfg.clip_epsilon if cfg.clip_high is None else cfg.clip_high
    down = cfg.clip_epsilon if cfg.clip_low is None else cfg.clip_low
    A = adv if adv.dim() == 2 else adv.unsqueeze(1)
    low, high = (rho < 1 - down) & (A < 0), (rho > 1 + up) & (A > 0)
    return {
        "loss": float(loss), "kl": stats.get("kl"), "ratio_max": float(rho.max()),
        "low": seq_share(low, mask), "high": seq_share(high, mask), "tokens": float(mask.sum()),
    }


def joined(parts: list[dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of a batch from those of its micro-batches."""
    low, high = torch.cat([p["low"] for p in parts]), torch.cat([p["high"] for p in parts])
    tokens = max(1.0, sum(p["tokens"] for p in parts))
    found = {
        "loss": sum(p["loss"] for p in parts), "ratio_max": max(p["ratio_max"] for p in parts),
        "clip_ratio/low_mean": float(low.mean()), "clip_ratio/low_min": float(low.min()),
        "clip_ratio/high_mean": float(high.mean()), "clip_ratio/high_max": float(high.max()),
        "clip_ratio/region_mean": float((low + high).mean()),
    }
    if all(p["kl"] is not None for p in parts):
        found["kl"] = sum(float(p["kl"]) * p["tokens"] for p in parts) / tokens
    return found


def lengths_metrics(rollouts, policy) -> dict[str, float]:
    """Return what can be said of the lengths; clipped: without an end token."""
    lengths = torch.cat([r["out"]["mask"].sum(1) for r in rollouts])
    ended = []
    for r in rollouts:
        ends = torch.tensor(sorted(policy.ends), device=r["out"]["ids"].device)
        response = r["out"]["ids"][:, r["out"]["prompt_len"] :]
        ended.append((torch.isin(response, ends) & r["out"]["mask"].bool()).any(1))
    whole = torch.cat(ended)
    found = {"completions/clipped_ratio": 1 - float(whole.float().mean())}
    whole_lengths = lengths[whole] if whole.any() else lengths.new_zeros(1)
    for kind, some in (("", lengths), ("terminated_", whole_lengths)):
        found[f"completions/mean_{kind}length"] = float(some.mean())
        found[f"completions/min_{kind}length"] = float(some.min())
        found[f"completions/max_{kind}length"] = float(some.max())
    return found


def std(values: torch.Tensor) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return float(values.std()) if len(values) > 1 else 0.0


def rollout_metrics(rollouts, cfg, policy, reward_fn) -> dict[str, float]:
    """Return what can be said of the samples of a batch."""
    rewards = torch.cat([r["rewards"] for r in rollouts])
    groups = rewards.view(-1, cfg.group_size)
    unknown = groups.isnan()
    high = groups.masked_fill(unknown, -torch.inf).amax(1)
    low = groups.masked_fill(unknown, torch.inf).amin(1)
    tokens = [float(r["out"]["mask"].sum()) for r in rollouts]
    known = rewards[~rewards.isnan()]
    found = {
        "reward": float(known.mean()) if len(known) else 0.0,
        "reward_std": std(known),
        "frac_reward_zero_std": float((high <= low).float().mean()),
        f"pass@{cfg.group_size}": float((high > 0).float().mean()),
        "entropy": sum(r["entropy"] * n for r, n in zip(rollouts, tokens)) / max(1, sum(tokens)),
    } | lengths_metrics(rollouts, policy)
    parts = {name_of(reward_fn): rewards.tolist()}
    if rollouts[0]["parts"]:
        parts = {n: sum((r["parts"].get(n, []) for r in rollouts), [])
                 for n in rollouts[0]["parts"]}
    for name, scores in parts.items():
        values = torch.tensor([s for s in scores if s is not None and s == s])
        if len(values):
            found[f"rewards/{name}/mean"] = float(values.mean())
            found[f"rewards/{name}/std"] = std(values)
    return found


class CollapseWatch:
    """Says once when there is nothing left to learn from: no entropy, and equal rewards."""

    def __init__(self):
        self.flat, self.said = 0, False

    def __call__(self, metrics: dict[str, float], cfg) -> str | None:
        """Return a warning after FLAT_STEPS such steps in a row, else None."""
        flat = metrics["entropy"] < FLAT_ENTROPY and metrics["frac_reward_zero_std"] == 1
        self.flat = self.flat + 1 if flat else 0
        if self.flat < FLAT_STEPS or self.said:
            return None
        self.said = True
        return (
            f"nothing is learned any more: in {FLAT_STEPS} steps the entropy was below "
            f"{FLAT_ENTROPY} and every group had equal rewards (mean {metrics['reward']:.2f}). If "
            "that reward is the best there is, the task is learned. If not, the policy has "
            "collapsed: go back to an earlier checkpoint and lower learning_rate (now "
            f"{cfg.learning_rate:g}), or raise kl_beta (now {cfg.kl_beta:g}) or entropy_coef (now "
            f"{cfg.entropy_coef:g})"
        )
