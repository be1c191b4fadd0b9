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


def step(lab, device, scale_std=True):
    """Do a step of Task 5 with all five functions, on that rollout; return (result, policy)."""
    policy, ref = Bigram(tinylm.V, 0.0).to(device), Bigram(tinylm.V, 0.4).to(device)
    opt = torch.optim.SGD(policy.parameters(), lr=0.1)
    cfg = lab.GRPOConfig(G=G, scale_std=scale_std)
    with stand_in(
        lab, sample=lambda *args: rollout(device), decode_responses=lambda out: RESPONSES
    ):
        return lab.grpo_step(policy, ref, opt, PROMPTS, ANSWERS, cfg), policy


@pytest.mark.parametrize("scale_std", [True, False])
def test_a_step_runs_where_the_policy_is(solution, meta, scale_std):
    result, policy = step(solution, meta, scale_std)
    assert all(isinstance(value, float) for value in result.values())
    assert all(p.grad.device == meta for p in policy.parameters())


def test_the_probe_shows_rewards_that_stay_on_the_cpu(tmp_path, meta):
    text = SOLUTION.read_text(encoding="utf-8")
    pinned = text.replace(', device=out["ids"].device', "")
    assert pinned != text
    file = tmp_path / "pinned.py"
    file.write_text(pinned, encoding="utf-8")
    with pytest.raises(RuntimeError, match="device"):
        step(load_lab(file), meta)
