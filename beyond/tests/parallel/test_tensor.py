"""Two processes that have the layers in parts do what one does, samples included.

The processes run parallel/tensor_cases.py once for the whole file; the tests read what they found.
"""

import json
import os
import sys

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
if not hasattr(os, "fork"):
    pytest.skip("torch has no gloo processes to fork here", allow_module_level=True)

from beyond import GRPOConfig, tiny
from beyond.hf.batches import check_parts
from beyond.parallel import ranks
from beyond.parallel.ranks import World
from beyond.parallel.tensor import one_of, plan_of, split
from beyond.tests.parallel import tensor_cases
from beyond.tests.processes import ended
from beyond.tests.short_runs import lines


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return a folder in which two processes have left what they found."""
    made = tmp_path_factory.mktemp("tensor parallel")
    command = [sys.executable, "-m", "beyond.tests.parallel.tensor_cases", str(made)]
    code, said = ended(command, 300)
    assert code == 0, said[-3000:]
    return made


@pytest.fixture(params=[0, 1])
def found(folder, request):
    """Return what one of the ranks has found."""
    return json.loads((folder / "found-tp.json").read_text(encoding="utf-8"))[request.param]


def loaded(folder):
    from transformers import AutoModelForCausalLM

    return list(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64).parameters())


def test_scores_gradients_and_weights_are_those_of_one_process(found):
    got = found["gradients"]
    assert got["largest"] > 0.01 and got["logp"] < 1e-12 and got["gradient"] < 1e-12
    assert got["metrics"] < 1e-10 and got["weights"] < 1e-9


@pytest.mark.parametrize("name", tensor_cases.RUNS)
def test_a_run_is_that_of_one_process(found, name):
    got = found[name]
    assert got["steps"] == (4 if name == "ours" else 2) and got["moved"] > 0.02
    # Log-probs are kept in float32; the last bit of one may differ.
    assert got["metrics"] < 1e-6 and got["weights"] < 1e-6


def test_each_process_has_half_of_the_projections(found):
    whole = tensor_cases.model()
    cut = sum(p.numel() for n, p in whole.named_parameters() if "proj" in n)
    every = sum(p.numel() for p in whole.parameters())
    assert cut > every / 2 and found["ours"]["local"] == 2 * [every - cut // 2]  # and reference


@pytest.mark.parametrize("name", tensor_cases.RUNS)
def test_one_process_writes_and_the_model_loads_anywhere(folder, name):
    one, two = folder / f"{name} alone0", folder / f"{name} tp"
    for a, b in zip(loaded(one / "final"), loaded(two / "final"), strict=True):
        assert a.dtype == torch.float64 and torch.allclose(a, b, rtol=0, atol=1e-6)
    some, others = (lines(x, "completions") for x in (one, two))
    assert some and len(some) == len(others)
    assert all(a[k] == b[k] for a, b in zip(some, others) for k in ("ids", "reward"))
    assert not list(two.glob(".*"))


def test_a_resumed_run_equals_an_uninterrupted_one_to_the_bit(folder, found):
    got = found["resume"]
    assert (got["from"], got["to"], got["weights"]) == (4, 4, 0.0)
    assert lines(folder / "whole", "completions") == lines(folder / "stopped", "completions")


@pytest.mark.parametrize("other", ["fsdp 2", "ddp 1"])
def test_checkpoints_go_to_others_and_come_from_them(found, other):
    got = found["resume"]
    assert got[f"{other} reads"] < 1e-6 and got[f"reads {other}"] < 1e-6


@pytest.mark.parametrize(("name", "words"), [
    ("gpt2", "GPT2LMHeadModel has not once each of down_proj, gate_proj, k_proj,"),
    ("qwen3", "Qwen3ForCausalLM has model.layers.0.self_attn.q_norm.weight among the projections"),
    ("kv", "num_key_value_heads = 1 cannot be cut into 2 parts"),
    ("odd", "intermediate_size = 63 cannot be cut into 2 parts"),
    ("other", "LlamaForCausalLM gives other logits in parts"),
    ("tokens", "no longer read the same tokens"),
    ("shape", "no longer read the same tokens"),
])
def test_what_does_not_go_is_said_on_all_ranks_in_one_line(found, name, words):
    said = found["refused"][name]
    assert len(said) == 2 and said[0] == said[1]
    assert words in said[0] and "\n" not in said[0]


def test_for_the_data_there_is_one_process():
    world, cfg = World(1, 2), GRPOConfig(parallel="tp", prompts_per_step=1)
    assert ranks.settings(cfg, world) is cfg
    data = one_of(world, "tp")
    assert (data.rank, data.size, world.rank) == (0, 1, 1) and one_of(world, "ddp") is world
    check_parts(9, cfg, data)
    with pytest.raises(ValueError, match="fewer than the 2 processes"):
        check_parts(9, cfg, world)


def test_alone_nothing_is_cut():
    model = tiny.model()
    assert len(plan_of(model, 2)) == 14
    split(model, World())
    assert not any(hasattr(p, "full_tensor") for p in model.parameters())
