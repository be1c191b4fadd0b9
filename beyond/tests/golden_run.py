"""Run a golden record through our functions, and compare.

    python -m beyond.tests.golden_run       prints the table: records, passed, left out and why

`evaluate(record)` returns our numbers under the names that the record's `expected` uses; `compare`
lists what differs. LEFT_OUT and NOT_COMPARED name everything that is not compared, with the reason.
"""

import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from beyond.losses import dapo, grpo
from beyond.losses.advantages import combined, group_advantages, leave_one_out
from beyond.losses.pieces import k1, k2, k3, real_tokens, response_mean, token_mean
from beyond.losses.shaping import informative_groups, overlong_penalty
from beyond.losses.weights import entropy_bonus, entropy_of_logits, sequence_weights, token_weights
from beyond.tests.golden_map import Unsupported, loss_for, nonempty, tensor, verl_kl
from lab15_run import piped

DATA = Path(__file__).resolve().parent / "data" / "goldens"
FILES = ("derived", "trl", "verl", "torchforge", "titanrl", "openrlhf", "forge_rl")
Record = dict[str, Any]

NAN = "a group of one: the sample std of one number is NaN there; ours gives A = 0 by decision"
PHANTOM = "all rewards equal, but rounding in float32 gives A != 0 there; ours is exactly 0"
LONE = "a group of one: verl takes mean 0 and std 1, so A is the reward; ours gives 0 by decision"
LEFT_OUT = {  # the start of a record's name: why it is not compared
    "derived/adv_group_sample/singleton": NAN,
    "torchforge/adv/singleton": NAN,
    "forge_rl/adv_float64/singleton": NAN,
    "forge_rl/adv_float32/singleton": NAN,
    "verl/adv_std/singleton": LONE,
    "verl/adv_mean/singleton": LONE,
    "verl/adv_vectorized/singleton": LONE,
    "verl/rloo_adv/singleton": LONE,
}
NOT_COMPARED = {  # a name in `expected`: why this number is not compared (value and gradient are)
    "ppo_kl_k1": "verl's and OpenRLHF's monitor, the mean of old_logp - logp; we have none",
    "ratio_clipped_frac": "counts every ratio out of range, whatever the sign of A; ours does not",
    "torchforge/entropy: entropy_per_token": "float32 inside: logsumexp - sum p x loses 1.2e-6 for "
    "logits (10, 0, 0, 0), more than the file's 1e-6; its mean is compared",
    "verl/geo_mean/ragged_6x5: clip_frac": "counts, where A > 0, ratios out of range on both sides",
    "zero_std": "a monitor of TRL; ours is shaping.informative_groups",
}


def load(names: tuple[str, ...] = FILES) -> Iterator[tuple[str, dict[str, float], Record]]:
    """Yield (file, its tolerances, record) for every record of the files."""
    for name in names:
        content = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
        for record in content["records"]:
            yield name, content["meta"]["tolerance"], record


def ref_of_case(case: str) -> Any:
    """Return the ref_logp of a case: records without a KL term leave it out, but expect the kl."""
    found = (r["inputs"].get("ref_logp") for _, _, r in load(("derived",)) if r["case"] == case)
    return next((values for values in found if values is not None), None)


# ============================================================== one function per kind of record


def loss_record(project: str, record: Record) -> Record:
    """Value, gradient and statistics of a loss."""
    given = record["inputs"]
    logp = tensor(given["logp"]).requires_grad_()
    old_logp = tensor(given.get("old_logp", given["logp"]))
    ref = given.get("ref_logp")
    if ref is None and "kl" in record["expected"]:
        ref = ref_of_case(record["case"])
    f = loss_for(project, record["variant"], record["hyper"])
    loss, stats = f(logp, old_logp, None if ref is None else tensor(ref), tensor(given["adv"]),
                    tensor(given["mask"]))
    (gradient,) = torch.autograd.grad(loss, logp)
    got = {**stats, "loss": loss.detach(), "grad_logp": gradient}
    got["kl"] = stats.get("kl_term", stats["kl"])
    got["clip_frac_any"] = stats["clip_frac"]
    if "clip_frac_rows" in stats and (project == "trl" or record["variant"] == "rloo"):
        # TRL counts responses there
        for name in ("clip_frac", "clip_frac_low", "clip_frac_high"):
            got[name] = stats[name.replace("frac", "frac_rows")]
    if (project, record["variant"]) == ("trl", "cispo"):
        got["clip_frac"] = stats["clip_frac_high"]  # TRL counts A > 0 only there
    if project == "verl" and "kl_loss_type" in record["hyper"]:
        got |= verl_kl_numbers(record, logp.detach(), tensor(ref))
    return got


def verl_kl_numbers(record: Record, logp: Tensor, ref_logp: Tensor) -> Record:
    """The KL by itself, aggregated as the loss is, and averaged over tokens."""
    mask = tensor(record["inputs"]["mask"])
    x = real_tokens(logp, logp, ref_logp, tensor(record["inputs"]["adv"]), mask)
    value = verl_kl(record["hyper"]["kl_loss_type"])(x.logp, x.ref_logp)
    return {"kl_agg": response_mean(value, x, nonempty(mask)), "kl": token_mean(value, x)}


def kl_record(project: str, record: Record) -> Record:
    """A KL estimator: per token, its mean, and the gradient of the mean."""
    given, name = record["inputs"], record["variant"].removeprefix("kl_")
    kl = torchforge_kl(name) if project == "torchforge" else verl_kl(name)
    logp, ref_logp = tensor(given["logp"]).requires_grad_(), tensor(given["ref_logp"])
    mask = tensor(given["mask"])
    x = real_tokens(logp, logp.detach(), ref_logp, mask[:, 0], mask)
    mean = token_mean(kl(x.logp, x.ref_logp), x)
    (gradient,) = torch.autograd.grad(mean, logp)
    per_token = kl(logp.detach(), ref_logp)  # padding as well
    return {"kl_per_token": per_token, "kl_mean": mean.detach(), "grad_logp_of_mean": gradient}


def torchforge_kl(name: str, d_clip: float | None = 10.0) -> Callable[..., Tensor]:
    """Return one of torchforge's three estimators."""
    table: dict[str, Callable[..., Tensor]] = {"k1": k1, "k2": k2,
                                               "k3": partial(k3, d_clip=d_clip)}
    return table[name]


def kl_bias(project: str, record: Record) -> Record:
    """Expectations over a three-letter alphabet; what is logged for p is weighted with p."""
    p, q = (tensor(record["inputs"][name]) for name in "pq")
    logp, ref = p.log(), q.log()
    reverse, forward = (p * (logp - ref)).sum(), (q * (ref - logp)).sum()
    got = {"kl_p_q": reverse, "kl_q_p": forward}
    got |= {f"E_{name}": (p * torchforge_kl(name, None)(logp, ref)).sum()
            for name in ("k1", "k2", "k3")}
    return {**got, "E_reversed_k3_forge_rl": (p * k3(ref, logp)).sum()}


def advantage_record(project: str, record: Record) -> Record:
    """Advantages; float32 records are computed in float64 and compared at the float32 tolerance."""
    h, given = record["hyper"], record["inputs"]
    if "rewards_per_func" in given:
        rewards = combined(tensor(given["rewards_per_func"]), h["weights"])
    else:
        rewards = tensor(given["rewards"])
    if record["variant"] == "rloo_advantages":
        return {"advantages": leave_one_out(rewards, h["G"], eps=h.get("eps", 1e-4),
                                            normalize=h.get("normalize_advantages", False))}
    return {"advantages": group_advantages(
        rewards, h["G"], scale_std=h["scale"] != "none", eps=h["eps"],
        sample_std=h["std"] == "sample", batch_std=h["scale"] == "batch")}


def dynamic_sampling(project: str, record: Record) -> Record:
    """Which groups DAPO keeps."""
    return {"keep": informative_groups(tensor(record["inputs"]["rewards"]), record["hyper"]["G"])}


def overlong(project: str, record: Record) -> Record:
    """DAPO's overlong penalty."""
    h, lengths = record["hyper"], tensor(record["inputs"]["lengths"])
    return {"reward": overlong_penalty(lengths, h["L_max"], h["L_cache"])}


def tis_weights(project: str, record: Record) -> Record:
    """Weights of truncated importance sampling."""
    logp, old_logp, mask = (tensor(record["inputs"][k]) for k in ("logp", "old_logp", "mask"))
    levels = {"token": token_weights, "sequence": sequence_weights}
    cap = record["hyper"]["C"]
    return {name: f(logp, old_logp, mask, cap) for name, f in levels.items()}


def reinforce_tis(project: str, record: Record) -> Record:
    """REINFORCE with verl's importance weights; the weights are looked at as well."""
    got, given = loss_record(project, record), record["inputs"]
    logp, old_logp, mask = (tensor(given[k]) for k in ("logp", "old_logp", "mask"))
    level = {"token": token_weights, "sequence": sequence_weights}[record["hyper"]["rollout_is"]]
    *low, cap = (float(part) for part in str(record["hyper"]["threshold"]).split("_"))
    return {**got, "is_weights": level(logp, old_logp, mask, cap, low[0] if low else None)}


def dp_normalisation(project: str, record: Record) -> Record:
    """Two ranks: each divides by (global tokens / world), and the average is the whole batch's."""
    h, given = record["hyper"], record["inputs"]
    got = loss_record(project, record)
    logp = tensor(given["logp"]).requires_grad_()
    old, mask, adv = (tensor(given[k]) for k in ("old_logp", "mask", "adv"))
    world, clip = len(h["shards"]), {"clip_high": h["clip_high"]}

    def rank(rows: list[int], tokens: Any) -> Tensor:
        return dapo(logp[rows], old[rows], None, adv[rows], mask[rows], h["clip_low"], 0.0,
                    tokens=tokens, **clip)[0]

    parts = [rank(rows, mask.sum() / world) for rows in h["shards"]]
    total = torch.stack(parts).sum() / world
    (gradient,) = torch.autograd.grad(total, logp)
    assert torch.allclose(gradient, got["grad_logp"], rtol=0, atol=1e-12)
    assert abs(float(total.detach() - got["loss"])) < 1e-12
    local = [mask[rows].sum() for rows in h["shards"]]
    means = torch.stack([rank(rows, None).detach() for rows in h["shards"]])
    sums = torch.stack([rank(rows, 1.0).detach() for rows in h["shards"]])
    return {**got, "local_tokens": torch.stack(local), "local_sums": sums,
            "wrong_mean_of_local_means": means.mean()}


def entropy_record(project: str, record: Record) -> Record:
    """Entropy of logits: per token, and aggregated."""
    given = record["inputs"]
    logits, mask = tensor(given["logits"]).requires_grad_(), tensor(given["mask"])
    entropy = entropy_of_logits(logits)
    x = real_tokens(entropy, entropy, None, mask[:, 0], mask)
    by_row = record["hyper"].get("loss_agg_mode") == "seq-mean-token-mean"
    mean = response_mean(x.logp, x, nonempty(mask)) if by_row else token_mean(x.logp, x)
    (gradient,) = torch.autograd.grad(mean, logits, retain_graph=True)
    return {"entropy": mean.detach(), "entropy_per_token": entropy.detach(),
            "grad_logits": gradient}


def entropy_bonus_record(project: str, record: Record) -> Record:
    """A loss with an entropy bonus, down to the logits; on policy."""
    h, given = record["hyper"], record["inputs"]
    logits, mask, adv = (tensor(given[k]) for k in ("logits", "mask", "adv"))
    logits.requires_grad_()
    ids = torch.tensor(given["token_ids"]).unsqueeze(-1)
    logp, entropy = logits.log_softmax(-1).gather(-1, ids).squeeze(-1), entropy_of_logits(logits)
    inner = loss_for(project, "dapo", h)
    loss, stats = entropy_bonus(logp, logp.detach(), None, adv, mask, entropy=entropy,
                                coef=h["entropy_coef"], loss=lambda *seven: inner(*seven[:5]))
    (gradient,) = torch.autograd.grad(loss, logits)
    return {"loss": loss.detach(), "grad_logits": gradient, "entropy_mean": stats["entropy"],
            "entropy_per_token": entropy.detach()}


def forge_rl_loss(project: str, record: Record) -> Record:
    """Our grpo with forge-rl's two mistakes put in: ratio to the reference, k3 the wrong way round.

    It works on the mean log-prob of a response, so a response is one token here.
    """
    h, given = record["hyper"], record["inputs"]
    logp = tensor(given["policy_log_probs"]).unsqueeze(1).requires_grad_()
    ref, adv = tensor(given["ref_log_probs"]).unsqueeze(1), tensor(given["adv"])

    def reversed_k3(logp: Tensor, ref_logp: Tensor, rho: Any = None) -> Tensor:
        return k3(ref_logp, logp)

    def call(old_logp: Tensor, beta: float, kl: Any) -> Tensor:
        mask = torch.ones_like(ref)
        return grpo(logp, old_logp, ref, adv, mask, h["clip_epsilon"], beta, kl=kl)[0]

    loss, policy_loss = (call(ref, beta, reversed_k3) for beta in (h["kl_beta"], 0.0))
    (gradient,) = torch.autograd.grad(loss, logp)
    kl = reversed_k3(logp.detach(), ref).mean()
    assert abs(float((call(ref, h["kl_beta"], k3) - loss).detach())) > 1e-9, "k3 should differ"
    return {"loss": loss.detach(), "policy_loss": policy_loss.detach(), "kl": kl,
            "grad_policy_log_probs": gradient[:, 0], "mean_ratio": (logp - ref).exp().mean()}


def logprob_shift(project: str, record: Record) -> Record:
    """The lab's own sequence_logprobs on given logits: those at t-1 score token t."""
    import tinylm

    given = record["inputs"]
    logits = tensor(given["logits"]).requires_grad_()
    ids, mask = torch.tensor(given["token_ids"]), tensor(given["response_mask"])
    L = int(mask[0].tolist().index(1.0))
    out: dict[str, Any] = {"ids": ids, "prompt_len": L, "mask": mask[:, L:].to(torch.float64)}
    logp = tinylm.sequence_logprobs(lambda tokens: logits[:, : tokens.shape[1]], out)
    mean = (logp * out["mask"]).sum(1) / out["mask"].sum(1)
    (gradient,) = torch.autograd.grad(mean.sum(), logits)
    return {"mean_logp": mean.detach(), "grad_logits": gradient}


KINDS: dict[str, Callable[[str, Record], Record]] = {
    "group_advantages": advantage_record, "rloo_advantages": advantage_record,
    "dapo_dynamic_sampling": dynamic_sampling, "dapo_overlong": overlong,
    "tis_weights": tis_weights, "reinforce_tis": reinforce_tis, "entropy": entropy_record,
    "entropy_bonus": entropy_bonus_record, "dp_normalisation": dp_normalisation,
    "kl_bias": kl_bias, "forge_rl_sequence_mean": forge_rl_loss, "logprob_shift": logprob_shift,
}


def evaluate(record: Record) -> Record:
    """Return our numbers for a record, under the names of its `expected`, and perhaps more."""
    project, variant = record["name"].split("/")[0], record["variant"]
    kind = kl_record if variant.startswith("kl_k") or variant == "kl_abs" else loss_record
    return KINDS.get(variant, kind)(project, record)


# ============================================================== comparing


def reason(record: Record) -> str | None:
    """Return why a record is left out, or None."""
    for start, text in LEFT_OUT.items():
        if record["name"].startswith(start):
            return text
    if record["variant"] == "group_advantages" and "float32" in str(record["hyper"].get("dtype")):
        r = tensor(record["inputs"]["rewards"]).view(-1, record["hyper"]["G"])
        equal = (r.amax(1) == r.amin(1)).repeat_interleave(record["hyper"]["G"])
        if (tensor(record["expected"]["advantages"])[equal].abs() > 1e-4).any():
            return PHANTOM
    return None


def tolerance(record: Record, key: str, of_file: dict[str, float]) -> float:
    """Return the tolerance for one number of a record, as the file states it."""
    name, tightest = record["name"], of_file["loss"]
    if "float32" in name or name.startswith("verl/adv_vectorized"):
        return 1e-5
    if name == "torchforge/entropy":
        return 1e-6
    return max(of_file.get("clip_frac", tightest), tightest) if "clip_frac" in key else tightest


def compare(record: Record, of_file: dict[str, float]) -> list[str]:
    """Return one line for every number of a record that differs, or that we do not have."""
    got, wrong = evaluate(record), []
    for key, values in record["expected"].items():
        if key in NOT_COMPARED or f"{record['name']}: {key}" in NOT_COMPARED:
            continue
        if key not in got:
            wrong.append(f"{key}: we have no such number")
            continue
        want, have = tensor(values), torch.as_tensor(got[key], dtype=torch.float64)
        limit = tolerance(record, key, of_file) * (1 + want.abs())
        same = have.shape == want.shape and bool(((have - want).abs() <= limit).all())
        if not same:
            wrong.append(f"{key}: {have.tolist()} instead of {want.tolist()}")
    return wrong


def table() -> tuple[list[str], list[str]]:
    """Return the lines of the coverage table, and what differs."""
    lines, bad = [f"{'file':12s}{'records':>8s}{'passed':>8s}{'left out':>10s}{'differ':>8s}"], []
    why: dict[str, int] = {}
    for file in FILES:
        counts = {"records": 0, "passed": 0, "left out": 0, "differ": 0}
        for _, limits, record in load((file,)):
            counts["records"] += 1
            try:
                text, wrong = reason(record), None
                wrong = [] if text else compare(record, limits)
            except Unsupported as error:
                text = str(error)
            if text:
                why[f"{file}: {text}"] = why.get(f"{file}: {text}", 0) + 1
            bad += [f"{record['name']}: {line}" for line in wrong or []]
            counts["left out" if text else "differ" if wrong else "passed"] += 1
        lines.append(f"{file:12s}" + "".join(f"{n:{w}d}" for n, w in zip(counts.values(),
                                                                      (8, 8, 10, 8))))
    return lines + [""] + [f"{n:3d} x {text}" for text, n in why.items()], bad


def main() -> int:
    """Print the table; the exit code is 1 if a record differs."""
    lines, bad = table()
    print("\n".join([*lines, *bad]))
    return bool(bad)


if __name__ == "__main__":
    raise SystemExit(piped(main))
