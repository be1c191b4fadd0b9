"""The metrics of a step, with TRL's names and meanings; kl is plain k3, ratio_max our own."""

import math
from collections.abc import Iterable
from typing import Any

import torch

from beyond.tasks.rewards import name_of

MIN, MAX = ("_min", "min_length"), ("_max", "max_length", "num_tokens", "epoch")
FLAT_STEPS, FLAT_ENTROPY = 5, 0.02
ONE_RATIO = ("gspo", "gspo_paper", "gspo_token")  # losses with one ratio for a whole response


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
    log_rho = torch.where(mask.bool(), logp - old, 0.0)
    rho = log_rho.exp()
    up = cfg.clip_epsilon if cfg.clip_high is None else cfg.clip_high
    down = cfg.clip_epsilon if cfg.clip_low is None else cfg.clip_low
    A = adv if adv.dim() == 2 else adv.unsqueeze(1)
    compared = rho
    if cfg.loss in ONE_RATIO:  # their one ratio of a response, at all its tokens
        mean = log_rho.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        compared = mean.exp().expand_as(rho)
    low, high = (compared < 1 - down) & (A < 0), (compared > 1 + up) & (A > 0)
    return {
        "loss": float(loss), "kl": stats.get("kl"), "ratio_max": float(rho.max()),
        "low": seq_share(low, mask).cpu(), "high": seq_share(high, mask).cpu(),
        "low_tokens": float((low * mask).sum()), "high_tokens": float((high * mask).sum()),
        "tokens": float(mask.sum()),
    }


def joined(parts: list[dict[str, Any]]) -> dict[str, float]:
    """Return the metrics of a batch from those of its micro-batches.

    As in TRL, clip_ratio/..._mean are over all tokens, low_min and high_max over responses.
    """
    low, high = torch.cat([p["low"] for p in parts]), torch.cat([p["high"] for p in parts])
    tokens = max(1.0, sum(p["tokens"] for p in parts))
    n_low, n_high = (sum(p[name] for p in parts) for name in ("low_tokens", "high_tokens"))
    found = {
        "loss": sum(p["loss"] for p in parts), "ratio_max": max(p["ratio_max"] for p in parts),
        "clip_ratio/low_mean": n_low / tokens, "clip_ratio/low_min": float(low.min()),
        "clip_ratio/high_mean": n_high / tokens, "clip_ratio/high_max": float(high.max()),
        "clip_ratio/region_mean": (n_low + n_high) / tokens,
    }
    if all(p["kl"] is not None for p in parts):
        found["kl"] = sum(float(p["kl"]) * p["tokens"] for p in parts) / tokens
    return found


def facts_of(rollout: dict[str, Any], ends: set[int]) -> dict[str, Any]:
    """Return what the metrics need from a rollout, row by row and on the CPU.

    Ranks exchange these: a mean is then taken over all rows, as a single process does.
    """
    out = rollout["out"]
    mask, response = out["mask"], out["ids"][:, out["prompt_len"] :]
    ended = torch.isin(response, torch.tensor(sorted(ends), device=mask.device)) & mask.bool()
    read = out["prompts"]["real"].sum(1)[out["prompts"]["row"]].sum()
    return {
        "rewards": rollout["rewards"].cpu(), "lengths": mask.sum(1).cpu(),
        "ended": ended.any(1).cpu(), "read": int(read), "entropy": rollout["entropy"],
        "parts": rollout["parts"],
    }


def tokens_of(facts: list[dict[str, Any]]) -> int:
    """Return the tokens of prompts and responses."""
    return sum(int(f["lengths"].sum()) + f["read"] for f in facts)


def lengths_metrics(facts: list[dict[str, Any]]) -> dict[str, float]:
    """Return metrics of the lengths; "clipped" responses have no end token."""
    lengths = torch.cat([f["lengths"] for f in facts])
    ended = torch.cat([f["ended"] for f in facts])
    found = {"completions/clipped_ratio": 1 - float(ended.float().mean())}
    whole_lengths = lengths[ended] if ended.any() else lengths.new_zeros(1)
    for kind, some in (("", lengths), ("terminated_", whole_lengths)):
        found[f"completions/mean_{kind}length"] = float(some.mean())
        found[f"completions/min_{kind}length"] = float(some.min())
        found[f"completions/max_{kind}length"] = float(some.max())
    return found


def std(values: torch.Tensor) -> float:
    """Return the sample standard deviation; 0 for a single value."""
    return float(values.std()) if len(values) > 1 else 0.0


def rollout_metrics(facts: list[dict[str, Any]], cfg, reward_fn) -> dict[str, float]:
    """Return the metrics of a batch's samples.

    Args:
        facts: facts_of each rollout, of all ranks.
        cfg: a GRPOConfig.
        reward_fn: it gives the reward its name.
    """
    rewards = torch.cat([f["rewards"] for f in facts])
    groups = rewards.view(-1, cfg.group_size)
    unknown = groups.isnan()
    high = groups.masked_fill(unknown, -torch.inf).amax(1)
    low = groups.masked_fill(unknown, torch.inf).amin(1)
    tokens = [float(f["lengths"].sum()) for f in facts]
    known = rewards[~rewards.isnan()]
    found = {
        "reward": float(known.mean()) if len(known) else 0.0,
        "reward_std": std(known),
        "frac_unscored": 1 - len(known) / max(1, len(rewards)),
        "frac_reward_zero_std": float((high <= low).float().mean()),
        f"pass@{cfg.group_size}": float((high > 0).float().mean()),
        "entropy": sum(f["entropy"] * n for f, n in zip(facts, tokens)) / max(1, sum(tokens)),
    } | lengths_metrics(facts)
    parts = {name_of(reward_fn): rewards.tolist()}
    if facts[0]["parts"]:
        parts = {n: sum((f["parts"].get(n, []) for f in facts), []) for n in facts[0]["parts"]}
    for name, scores in parts.items():
        values = torch.tensor([s for s in scores if s is not None and s == s])
        if len(values):
            found[f"rewards/{name}/mean"] = float(values.mean())
            found[f"rewards/{name}/std"] = std(values)
    return found


def mean_of(metrics: Iterable[dict[str, float]]) -> dict[str, float]:
    """Return the mean of each metric over the steps that have it; max and min by their names."""
    columns: dict[str, list[float]] = {}
    for one in metrics:
        for name, value in one.items():
            columns.setdefault(name, []).append(value)
    picked = {n: max if n.endswith(MAX) else min if n.endswith(MIN) else None for n in columns}
    result = {}
    for name, values in columns.items():
        choose = picked[name]
        result[name] = choose(values) if choose else math.fsum(values) / len(values)
    return result


class CollapseWatch:
    """Warn once when nothing can be learned: no score, or no entropy and equal rewards."""

    def __init__(self):
        self.flat, self.said, self.said_unscored = 0, False, False

    def __call__(self, metrics: dict[str, float], cfg) -> str | None:
        """Return a warning after a step without a score, or FLAT_STEPS flat ones, else None."""
        if metrics["frac_unscored"] == 1 and not self.said_unscored:
            self.said_unscored = True
            return ("no response of this step has a score: the reward returned None or NaN for "
                    "all. Nothing is learned; see completions.jsonl for what it was given")
        flat = metrics["entropy"] < FLAT_ENTROPY and metrics["frac_reward_zero_std"] == 1
        self.flat = self.flat + 1 if flat else 0
        if self.flat < FLAT_STEPS or self.said:
            return None
        self.said = True
        return (
            f"nothing more is learned: in {FLAT_STEPS} steps the entropy was below "
            f"{FLAT_ENTROPY} and every group had equal rewards (mean {metrics['reward']:.2f}). If "
            "that reward is the best there is, the task is learned. If not, the policy has "
            "collapsed: go back to an earlier checkpoint and lower learning_rate (now "
            f"{cfg.learning_rate:g}), or raise kl_beta (now {cfg.kl_beta:g}) or entropy_coef (now "
            f"{cfg.entropy_coef:g})"
        )
