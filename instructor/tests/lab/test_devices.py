"""Nothing in the solution is pinned to the CPU.

The `meta` device stands in for a GPU: its tensors have shapes and no numbers, and an operation
that mixes them with tensors of the CPU fails, as it would with CUDA.
"""

from pathlib import Path

import pytest
import torch

import tinylm
from tests.labfile import load_lab
from tests.spec.standin import Bigram, stand_in

SOLUTION = Path(tinylm.__file__).resolve().parent / "solutions" / "lab15_grpo.py"
P, G, T = 3, 2, 4
PROMPTS, ANSWERS = ["1+2=", "4+4=", "2+3="], ["3", "8", "5"]
RESPONSES = ["3", "4", "8", "8", "5", "6"]


@pytest.fixture(scope="module")
def solution():
    return load_lab(SOLUTION)


@pytest.fixture
def meta(monkeypatch):
    """Return torch.device("meta"), and let numbers be read from its tensors (they are all 0)."""
    monkeypatch.setattr(torch.Tensor, "item", lambda self: 0.0)
    monkeypatch.setattr(torch.Tensor, "__float__", lambda self: 0.0)
    return torch.device("meta")


def rollout(device):
    """Return a dict such as sample's, on the device."""
    ids = torch.zeros(P * G, 4 + T, dtype=torch.int64, device=device)
    return {"ids": ids, "prompt_len": 4, "mask": torch.ones(P * G, T, device=device)}


def groups(lab, device):
    """Return the dict of sample_group for that rollout, with scripted responses."""
    with stand_in(
        lab, sample=lambda *args: rollout(device), decode_responses=lambda out: RESPONSES
    ):
        return lab.sample_group(Bigram(tinylm.V, 0.0), PROMPTS, ANSWERS, G)


def test_rewards_follow_the_ids(solution, meta):
    rewards = groups(solution, meta)["rewards"]
    assert rewards.device == meta
    assert rewards.shape == (P * G,) and rewards.dtype == torch.float32


def test_the_probe_shows_rewards_that_stay_on_the_cpu(tmp_path, meta):
    text = SOLUTION.read_text(encoding="utf-8")
    pinned = text.replace(', device=out["ids"].device', "")
    assert pinned != text
    file = tmp_path / "pinned.py"
    file.write_text(pinned, encoding="utf-8")
    assert groups(load_lab(file), meta)["rewards"].device.type == "cpu"


@pytest.mark.parametrize("scale_std", [True, False])
def test_advantages_follow_the_rewards(solution, meta, scale_std):
    adv = solution.group_advantages(torch.zeros(P * G, device=meta), G, scale_std)
    assert adv.device == meta and adv.shape == (P * G,)


def test_k3_follows_the_logprobs(solution, meta):
    k3 = solution.k3_kl(torch.zeros(2, T, device=meta), torch.zeros(2, T, device=meta))
    assert k3.device == meta and k3.shape == (2, T)


def test_loss_follows_the_logprobs(solution, meta):
    logp, old, ref = (torch.zeros(P * G, T, device=meta) for _ in range(3))
    adv, mask = torch.zeros(P * G, device=meta), torch.ones(P * G, T, device=meta)
    loss, stats = solution.grpo_loss(logp, old, ref, adv, mask)
    assert loss.device == meta and loss.shape == ()
    assert set(stats) == {"kl", "clip_frac", "ratio_max"}


def test_step_runs_where_the_policy_is(solution, meta):
    policy, ref = Bigram(tinylm.V, 0.0).to(meta), Bigram(tinylm.V, 0.4).to(meta)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    cfg = solution.GRPOConfig(G=G)
    with stand_in(
        solution, sample=lambda *args: rollout(meta), decode_responses=lambda out: RESPONSES
    ):
        result = solution.grpo_step(policy, ref, opt, PROMPTS, ANSWERS, cfg)
    assert all(isinstance(value, float) for value in result.values())
    assert all(p.grad.device == meta for p in policy.parameters())
