"""Advantages: what a response's reward is compared with, and what the difference is divided by.

All of them take group_advantages' arguments and return a (P*G,) tensor. What none of the libraries
does throughout holds for all of them here:
- A is EXACTLY 0 where all rewards that the response is compared with are equal (max == min).
  Rounding leaves a std of about 1e-8, and 1e-8 / (1e-8 + eps) is a phantom advantage.
- A reward of NaN, or None in a list, means "could not be scored": the row is left out of every mean
  and std and gets A = 0.
- A group of one, or with one scored row, has nothing to be compared with: A = 0. (torchforge and
  forge-rl return NaN there; verl returns the reward itself.)
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

Rewards = Tensor | Sequence[float | None]


def scored(rewards: Rewards) -> Tensor:
    """Return rewards in float32 or better, with NaN for None.

    In bfloat16 1000 and 1001 are the same number: the difference to the group's mean would be lost.
    """
    least = torch.promote_types(torch.get_default_dtype(), torch.float32)
    if not isinstance(rewards, Tensor):
        values = [float("nan") if r is None else float(r) for r in rewards]
        return torch.tensor(values, dtype=least)
    if rewards.is_floating_point():
        return rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    return rewards.to(least)


def combined(rewards_per_function: Tensor, weights: Sequence[float] | None = None) -> Tensor:
    """Return (B,) the weighted sum of several rewards, leaving out NaN.

    Args:
        rewards_per_function: (B, F), NaN where a reward function could not score the row.
        weights: F numbers; None: all 1.

    A row that no function could score is NaN. Source: as TRL does it.
    """
    values = rewards_per_function.to(
        torch.promote_types(rewards_per_function.dtype, torch.float32))
    scale = torch.ones(values.shape[1]) if weights is None else torch.as_tensor(weights)
    total = (values * scale.to(values)).nansum(1)
    return torch.where(values.isnan().all(1), torch.nan, total)


def rows_of(rewards: Rewards, G: int) -> tuple[Tensor, Tensor]:
    """Return rewards as (P, G) with 0 for what was not scored, and (P, G) True where scored."""
    r = scored(rewards)
    if r.dim() != 1 or G < 1 or len(r) % G:
        raise ValueError(f"rewards of shape {tuple(r.shape)} are not groups of G = {G}: give "
                         "(P*G,) numbers, the G responses to a prompt next to each other")
    r = r.view(-1, G)  # (P, G)
    return r.nan_to_num(0.0), ~r.isnan()


def mean_std(r: Tensor, on: Tensor, over: int | tuple[int, ...], sample: bool) -> tuple:
    """Return mean, std and "all equal" of the scored entries over the given axes, axes kept.

    Args:
        r: (P, G) rewards, 0 where not scored.
        on: (P, G) bool, True where scored.
        over: the axis or axes, as of torch.sum.
        sample: divide by n - 1, else by n, the number of scored entries.
    """
    n = on.sum(over, keepdim=True)
    mean = (r * on).sum(over, keepdim=True) / n.clamp(min=1)
    square = ((r - mean).square() * on).sum(over, keepdim=True)
    std = (square / (n - int(sample)).clamp(min=1)).sqrt()
    high = torch.where(on, r, -torch.inf).amax(over, keepdim=True)
    return mean, std, high <= torch.where(on, r, torch.inf).amin(over, keepdim=True)


def group_advantages(rewards: Rewards, G: int, scale_std: bool = True, eps: float = 1e-4, *,
                     sample_std: bool = False, batch_std: bool = False) -> Tensor:
    """GRPO's advantages: (r - mean of the group) / (std + eps).

    Args:
        rewards: (P*G,) the G responses of a prompt next to each other; NaN or None: not scored.
        G: group size.
        scale_std: False: no division (Dr. GRPO).
        eps: added to the std.
        sample_std: divide the squares by n - 1 instead of n. At G = 2 that is sqrt(2), at G = 8 7%.
        batch_std: divide by the std of all rewards of the batch instead of the group's.

    Source: DeepSeekMath, arXiv 2402.03300, section 4.1.2.
    Differs: this lab and TitanRL (eps 1e-6, scaling off by default): population std. TRL,
        torchforge (1e-4), verl (1e-6), OpenRLHF (1e-9), forge-rl (1e-8): sample std.
    """
    r, on = rows_of(rewards, G)
    mean, std, equal = mean_std(r, on, 1, sample_std)
    A = r - mean
    if scale_std:
        A = A / ((mean_std(r, on, (0, 1), sample_std)[1] if batch_std else std) + eps)
    return torch.where(on & ~equal, A, 0.0).flatten()


def mean_only(rewards: Rewards, G: int, scale_std: bool = True, eps: float = 1e-4) -> Tensor:
    """Dr. GRPO's advantages: r - mean of the group. scale_std and eps are not used.

    Args:
        rewards: (P*G,) as in group_advantages.
        G: group size, 1 or more.
        scale_std: not used.
        eps: not used.

    Source: arXiv 2503.20783, section 3.2.
    """
    return group_advantages(rewards, G, scale_std=False)


def sample_scaled(rewards: Rewards, G: int, scale_std: bool = True, eps: float = 1e-4) -> Tensor:
    """GRPO's advantages with the sample std (n - 1), as in TRL, torchforge, verl and OpenRLHF.

    Args:
        rewards: (P*G,) as in group_advantages.
        G: group size, 1 or more.
        scale_std: False: no division.
        eps: added to the std.
    """
    return group_advantages(rewards, G, scale_std, eps, sample_std=True)


def batch_scaled(rewards: Rewards, G: int, scale_std: bool = True, eps: float = 1e-4, *,
                 sample_std: bool = False) -> Tensor:
    """Return (r - mean of the group) / (std of the batch + eps), TRL's scale_rewards="batch".

    Args: as in group_advantages.
    """
    return group_advantages(rewards, G, scale_std, eps, sample_std=sample_std, batch_std=True)


def leave_one_out(rewards: Rewards, G: int, scale_std: bool = True, eps: float = 1e-4, *,
                  normalize: bool = False) -> Tensor:
    """RLOO's advantages: r - mean of the OTHER responses of the group = n/(n-1) (r - mean).

    Args:
        rewards: (P*G,) as in group_advantages.
        G: group size.
        scale_std: not used; there is no std in it.
        eps: added to the batch's std if normalize.
        normalize: also subtract the batch's mean and divide by its sample std (TRL's option).

    Source: arXiv 2402.14740, eq. 8.
    """
    r, on = rows_of(rewards, G)
    n = on.sum(1, keepdim=True)
    mean, _, equal = mean_std(r, on, 1, False)
    A = torch.where(on & ~equal, (r - mean) * n / (n - 1).clamp(min=1), 0.0)
    if normalize:
        mean, std, equal = mean_std(A, on, (0, 1), True)
        A = torch.where(on & ~equal, (A - mean) / (std + eps), 0.0)
    return A.flatten()


def whitened(rewards: Rewards, G: int = 1, scale_std: bool = True, eps: float = 1e-4, *,
             sample_std: bool = False, baseline: bool = False) -> Tensor:
    """REINFORCE++'s advantages: (r - mean) / (std + eps), both over the whole BATCH.

    Args:
        rewards: (P*G,) as in group_advantages.
        G: group size; used only by baseline.
        scale_std: False: only subtract the mean.
        eps: added to the std.
        sample_std: divide the squares by n - 1 instead of n.
        baseline: subtract the group's mean first (REINFORCE++-baseline).

    Source: arXiv 2501.03262, eq. 8 and 9.
    Differs: OpenRLHF and verl whiten over tokens, so that longer responses count more.
    """
    r, on = rows_of(rewards, G)
    if baseline:
        r = group_advantages(rewards, G, scale_std=False).view(-1, G)
    mean, std, equal = mean_std(r, on, (0, 1), sample_std)
    A = (r - mean) / (std + eps) if scale_std else r - mean
    return torch.where(on & ~equal, A, 0.0).flatten()


ADVANTAGES: dict[str, Callable[..., Tensor]] = {
    "group": group_advantages,
    "mean_only": mean_only,
    "sample_std": sample_scaled,
    "batch_std": batch_scaled,
    "leave_one_out": leave_one_out,
    "whitened": whitened,
}
