"""Our losses behind verl's arguments: verl's own numbers, micro-batches, ranks, refusals.

verl is not needed: what its function returned is in data/goldens/verl.json.
"""

from functools import partial
from types import SimpleNamespace

import pytest
import torch

from beyond import losses
from beyond.adapters.verl import MODES, as_verl_loss, mode_of, per_response
from beyond.losses.pieces import real_tokens, response_mean
from beyond.tests.golden_map import nonempty, tensor, verl_kl
from beyond.tests.golden_run import load
from beyond.tests.inputs import case
from lab15_run import TOP
from tests.labfile import load_lab

CLAMP = {"log_ratio_clip": 20.0}
# the part of a record's name before the slash -> our loss, with what verl sets inside
OURS = {
    "grpo_seqmean_k3": as_verl_loss(losses.grpo, **CLAMP),
    "dapo_tokenmean": as_verl_loss(losses.dapo, **CLAMP),
    "dapo_dualclip3": as_verl_loss(losses.dual_clip, **CLAMP),
    "drgrpo_norm": as_verl_loss(losses.dr_grpo, **CLAMP),
    "token_sum": as_verl_loss(losses.dapo, **CLAMP),
    "seqmean_tokensum": as_verl_loss(losses.dr_grpo, "seq-mean-token-sum", L=1.0, **CLAMP),
    "edge": as_verl_loss(losses.dapo, **CLAMP),
    "exact_edge": as_verl_loss(losses.dapo, **CLAMP),
    "gspo": as_verl_loss(losses.gspo_token),
    "sapo": as_verl_loss(losses.sapo, **CLAMP),
    "cispo_0_6": as_verl_loss(losses.cispo, ratio_floor=0.0, ratio_cap=6.0, **CLAMP),
    "gpg": as_verl_loss(losses.reinforce),
}
RECORDS = [pytest.param(limits, r, id=r["name"]) for _, limits, r in load(("verl",))
           if r["name"].split("/")[1] in OURS]


def actor_config(hyper=None, **counts):
    """Return a stand-in for verl's ActorConfig, with its defaults."""
    defaults = {"clip_ratio": 0.2, "clip_ratio_low": 0.2, "clip_ratio_high": 0.2,
                "clip_ratio_c": 3.0}
    given = {k: v for k, v in (hyper or {}).items() if k in defaults}
    counts = {"loss_scale_factor": (hyper or {}).get("loss_scale_factor"), **counts}
    return SimpleNamespace(**{**defaults, **given}, global_batch_info=counts)


def kl_term(record, logp, mask):
    """Return the KL term that verl adds beside the policy loss, aggregated as the loss is."""
    h = record["hyper"]
    if "kl_loss_type" not in h:
        return 0.0
    x = real_tokens(logp, logp, tensor(record["inputs"]["ref_logp"]), mask[:, 0], mask)
    kl = verl_kl(h["kl_loss_type"])(x.logp, x.ref_logp)
    return h["kl_loss_coef"] * response_mean(kl, x, nonempty(mask))


@pytest.mark.parametrize("limits, record", RECORDS)
def test_verl_s_own_numbers(limits, record):
    given, h = record["inputs"], record["hyper"]
    logp, old, mask, adv = (tensor(given[k]) for k in ("logp", "old_logp", "mask", "adv"))
    logp.requires_grad_()
    junk = torch.where(mask.bool(), adv.unsqueeze(1), 7.0)  # verl's advantages are (B, T)
    f = OURS[record["name"].split("/")[1]]
    loss, said = f(old_log_prob=old, log_prob=logp, advantages=junk, response_mask=mask.bool(),
                   loss_agg_mode=h["loss_agg_mode"], config=actor_config(h),
                   rollout_is_weights=None)
    loss = loss + kl_term(record, logp, mask)
    got = {"loss": loss.detach(), "grad_logp": torch.autograd.grad(loss, logp)[0],
           "clip_frac": said["actor/pg_clipfrac"], "ppo_kl_k1": said["actor/ppo_kl"],
           "dual_clip_frac": said["actor/pg_clipfrac_lower"]}
    names = set(got) & set(record["expected"])
    assert {"loss", "grad_logp"} <= names
    if "huge" in record["name"]:
        names -= {"ppo_kl_k1"}  # verl's is the mean of the clamped log-ratios
    for name in names:
        want = tensor(record["expected"][name])
        limit = limits.get("clip_frac" if "frac" in name else "loss") * (1 + want.abs())
        assert bool(((got[name] - want).abs() <= limit).all()), name


def test_enough_records_are_looked_at():
    assert len(RECORDS) >= 20
    assert {r.values[1]["name"].split("/")[1] for r in RECORDS} == set(OURS)


def lab_loss():
    """Return the solution's grpo_loss."""
    return load_lab(TOP / "solutions" / "lab15_grpo.py").grpo_loss


@pytest.mark.parametrize("name", ["lab", "grpo", "dapo", "dr_grpo", "dual_clip", "gspo_token",
                                  "sapo", "cispo", "reinforce", "rloo"])
@pytest.mark.parametrize("ranks", [1, 2])
def test_micro_batches_and_ranks_add_up_to_the_whole(name, ranks):
    loss = lab_loss() if name == "lab" else losses.LOSSES[name]
    x, f = case(3, B=8, T=5), as_verl_loss(loss, **({"L": 5.0} if name == "dr_grpo" else {}))
    logp, mode = x.logp.clone().requires_grad_(), mode_of(loss)

    def part(rows, **counts):
        adv = x.adv[rows].unsqueeze(1).expand(-1, 5)
        return f(x.old_logp[rows], logp[rows], adv, x.mask[rows], mode,
                 actor_config(**counts))[0]

    counts = {"batch_num_tokens": x.mask.sum(), "global_batch_size": 8}
    whole = part(slice(None), **counts)
    pieces = [part(slice(a, b), dp_size=ranks, **counts) for a, b in ((0, 1), (1, 5), (5, 8))]
    summed = sum(pieces) / ranks  # DDP and FSDP take the mean over ranks
    same = torch.autograd.grad(whole, logp, retain_graph=True)[0]
    assert abs(float(whole - summed)) < 1e-12
    assert (torch.autograd.grad(summed, logp)[0] - same).abs().max() < 1e-12
    direct = loss(logp, x.old_logp, x.old_logp, x.adv, x.mask, clip_eps=0.2, beta=0.0, **(
        {"L": 5.0} if name == "dr_grpo" else {}), **(
        {} if name in ("lab", "cispo", "sapo", "reinforce") else {"clip_high": 0.2}))[0]
    assert abs(float(direct - whole)) < 1e-12


def test_without_counts_empty_rows_are_left_out_as_verl_does():
    x = case(1, B=4, holes=False)
    mask = x.mask.clone()
    mask[1] = 0
    f, adv = as_verl_loss(lab_loss()), x.adv.unsqueeze(1).expand(-1, 5)
    some = f(x.old_logp, x.logp, adv, mask, MODES[1], actor_config())[0]
    keep = [0, 2, 3]
    less = f(x.old_logp[keep], x.logp[keep], adv[keep], mask[keep], MODES[1], actor_config())[0]
    assert abs(float(some - less)) < 1e-12
    nothing = f(x.old_logp, x.logp, adv, 0 * mask, MODES[1], actor_config())[0]
    assert float(nothing) == 0.0


def test_weights_of_rollout_correction_reach_the_policy_term():
    x = case(2, holes=False)
    adv, weights = x.adv.unsqueeze(1).expand(-1, 5), torch.full_like(x.logp, 0.5)
    f = as_verl_loss(losses.dapo)
    one = f(x.old_logp, x.logp, adv, x.mask, "token-mean", actor_config())[0]
    half = f(x.old_logp, x.logp, adv, x.mask, "token-mean", actor_config(), weights)[0]
    assert abs(float(one / 2 - half)) < 1e-12


def test_advantages_per_token_stay_per_token():
    x = case(4, holes=False)
    adv = x.adv.unsqueeze(1).expand(-1, 5).clone()
    assert per_response(adv, x.mask.bool()).dim() == 1
    adv[0, 0] += 1
    assert per_response(adv, x.mask.bool()).dim() == 2
    want = losses.dapo(x.logp, x.old_logp, None, adv, x.mask, clip_high=0.2)[0]
    got = as_verl_loss(losses.dapo)(x.old_logp, x.logp, adv, x.mask, "token-mean",
                                    actor_config())[0]
    assert abs(float(want - got)) < 1e-12


@pytest.mark.parametrize("loss, mode", [
    (losses.dapo, MODES[0]), (losses.bnpo, MODES[0]), (losses.grpo, MODES[1]),
    (losses.rloo, MODES[2]), (losses.luspo, MODES[2]), (losses.dr_grpo, MODES[3]),
    (partial(losses.dapo, clip_high=0.4), MODES[0]),
])
def test_modes(loss, mode):
    assert mode_of(loss) == mode


def call(f, agg="token-mean", adv=None, weights=None, **config):
    """Call a loss as verl does, with ready inputs."""
    x = case(5, holes=False)
    adv = x.adv.unsqueeze(1).expand(-1, 5) if adv is None else adv
    counts = {"dp_size": config.pop("dp_size", 1)}
    return f(x.old_logp, x.logp, adv, x.mask, agg, actor_config(config, **counts), weights)


@pytest.mark.parametrize("make, words", [
    (lambda: as_verl_loss(losses.dapo_group), "mean within groups"),
    (lambda: as_verl_loss(losses.dapo, "mean"), "mode = 'mean' is not allowed; give one of"),
    (lambda: call(as_verl_loss(losses.grpo)), "actor.loss_agg_mode=seq-mean-token-mean"),
    (lambda: call(as_verl_loss(lab_loss()), MODES[1], clip_ratio_high=0.28), "set both to it"),
    (lambda: call(as_verl_loss(lab_loss()), MODES[1], weights=torch.ones(6, 5)), "no weights"),
    (lambda: call(as_verl_loss(lab_loss()), MODES[1], adv=torch.rand(6, 5)), "one advantage"),
    (lambda: call(as_verl_loss(losses.dapo), dp_size=2), "batch_num_tokens is needed"),
])
def test_refusals_are_one_line(make, words):
    with pytest.raises(ValueError, match=words) as error:
        make()
    assert "\n" not in str(error.value)
