"""hf_backend on tiny random models of many families: sampled, scored and trained alike."""

import re

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

import transformers

from beyond import tiny
from beyond.hf import backend as hb
from beyond.tests.hf.plain import plain_logp

LLAMA = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 256}
GPT2 = {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
EXPERTS = {"num_local_experts": 4, "num_experts_per_tok": 2}
# What is odd about each: learned positions, capped or scaled logits, windows, rates of dropout and
# noise that are no modules, experts, layers that may be dropped.
MODELS = {
    "GPT2": GPT2 | {"resid_pdrop": 0.5, "attn_pdrop": 0.5},
    "Llama": LLAMA | {"attention_dropout": 0.5},
    "GPTNeoX": LLAMA, "Qwen3": LLAMA | {"head_dim": 8}, "Phi3": LLAMA,
    "Gemma2": LLAMA | {"head_dim": 8, "sliding_window": 4, "final_logit_softcapping": 30.0},
    "Cohere": LLAMA | {"logit_scale": 0.0625}, "Granite": LLAMA | {"logits_scaling": 8.0},
    "Mistral": LLAMA | {"sliding_window": 4}, "Starcoder2": LLAMA | {"residual_dropout": 0.5},
    "Mixtral": LLAMA | EXPERTS | {"router_jitter_noise": 0.5},
    "OPT": {"hidden_size": 32, "ffn_dim": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
            "max_position_embeddings": 64, "word_embed_proj_dim": 16, "layerdrop": 0.5},
    "Falcon": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "alibi": True,
               "hidden_dropout": 0.5, "attention_dropout": 0.5},
}
PROMPTS = ["1+1=", "12+3=", "1+1=", "7+8+9+4+5=3"]


def model_of(family, **changes):
    common = {"vocab_size": 100, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
    config = getattr(transformers, f"{family}Config")(**(common | MODELS[family] | changes))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = transformers.AutoModelForCausalLM.from_config(config).float()
        for p in model.parameters():  # no row of equal logits, no weight of zero
            p.data.add_(0.1 * torch.randn(p.shape))
    return model.train()  # where dropout and noise would show


@pytest.mark.parametrize("family", MODELS)
def test_scores_and_gradients_are_those_of_a_plain_forward(family):
    p = hb.Policy(model_of(family), tiny.tokenizer(), max_new_tokens=10)
    out = hb.sample(p, PROMPTS, 0.8, generator=torch.Generator().manual_seed(0))
    ours = hb.sequence_logprobs(p, out)
    assert torch.equal(ours, hb.sequence_logprobs(p, out))  # nothing is drawn in scoring
    theirs = plain_logp(p, out, 0.8)
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    weights = list(p.parameters())
    for a, b in zip(*(torch.autograd.grad(x.sum(), weights, allow_unused=True)
                      for x in (ours, theirs))):
        if b is not None:
            torch.testing.assert_close(torch.zeros_like(b) if a is None else a, b, atol=1e-4,
                                       rtol=1e-4)
    assert hb.token_entropy(p, out) == pytest.approx(
        float((hb.token_entropies(p, out) * out["mask"]).sum() / out["mask"].sum()), abs=1e-5)


@pytest.mark.parametrize("family", ["Qwen3", "Falcon", "Gemma2"])
def test_a_model_with_checkpointing_samples_and_scores_as_without(family):
    p = hb.Policy(model_of(family), tiny.tokenizer(), max_new_tokens=10)
    out = hb.sample(p, PROMPTS, greedy=True)
    logp = hb.sequence_logprobs(p, out)
    p.model.gradient_checkpointing_enable()
    assert p.checkpointing() and p.model.training
    again = hb.sample(p, PROMPTS, greedy=True)
    assert torch.equal(again["ids"], out["ids"]) and p.model.training
    torch.testing.assert_close(hb.sequence_logprobs(p, again), logp, atol=1e-5, rtol=1e-5)


def test_a_cap_that_small_logits_do_not_show_is_found():
    model = model_of("Gemma2")
    for p in model.parameters():
        p.data.mul_(0.1)
    p = hb.Policy(model, tiny.tokenizer())
    assert not p.plain_head
    assert hb.Policy(model_of("Gemma2", final_logit_softcapping=None), tiny.tokenizer()).plain_head


@pytest.mark.parametrize("family", ["Mamba", "RecurrentGemma"])
def test_a_model_without_a_cache_of_keys_is_refused(family):
    MODELS.setdefault("Mamba", {"hidden_size": 32, "num_hidden_layers": 2, "state_size": 4})
    MODELS.setdefault("RecurrentGemma", LLAMA | {
        "num_hidden_layers": 3, "lru_width": 32, "head_dim": 8, "attention_window_size": 16})
    with pytest.raises(ValueError, match="keeps no cache of keys and values"):
        hb.Policy(model_of(family), tiny.tokenizer())


def test_what_is_no_causal_model_or_has_no_tokenizer_is_refused():
    with pytest.raises(ValueError, match="LlamaModel is no causal language model"):
        hb.Policy(tiny.model().model, tiny.tokenizer())
    with pytest.raises(ValueError, match="needs its tokenizer"):
        hb.Policy(tiny.model(), None)


def test_learned_positions_are_not_run_over(capsys):
    from beyond.tasks.data import usable

    p = hb.Policy(model_of("GPT2"), tiny.tokenizer(), max_new_tokens=14)
    assert len(hb.response_ids(hb.sample(p, ["1" * 50]))) == 1  # 50 + 14 = 64 just fit
    with pytest.raises(ValueError, match="51 tokens; allowed are 1 to 50.*64 positions"):
        hb.sample(p, ["1" * 51])
    with pytest.raises(ValueError, match="more than the model's 64 positions"):
        hb.sample(p, ["1" * 50], max_new_tokens=15)
    with pytest.raises(ValueError, match="max_new_tokens = 64: the model has 64 positions"):
        hb.Policy(model_of("GPT2"), tiny.tokenizer(), max_new_tokens=64)
    assert len(usable([{"prompt": "1" * 51}, {"prompt": "1"}], p)) == 1
    assert "1 of 2 prompts have more than 50 tokens" in (said := capsys.readouterr().out)
    assert re.search("the model has 64 positions, 14 of them", said)


def test_ended_rows_are_left_out_of_the_batch_and_change_nothing():
    p = hb.Policy(tiny.model(), tiny.tokenizer(), max_new_tokens=30)
    p.ends = set(range(2, 30))  # a response ends after four tokens or so
    rows, real = [], p.model.forward
    p.model.forward = lambda ids, **more: (rows.append(len(ids)), real(ids, **more))[1]
    prompts = [f"{i % 8}+{i % 3}=" for i in range(16)]
    out = hb.sample(p, prompts, generator=torch.Generator().manual_seed(0))
    p.model.forward = real
    assert max(rows[1:]) == 16 and min(rows[1:]) <= 4  # the prompts first, then all, then fewer
    torch.testing.assert_close(hb.sequence_logprobs(p, out), plain_logp(p, out), atol=1e-5,
                               rtol=1e-5)
    ids, draw = torch.tensor(p.tokenizer(prompts)["input_ids"]), torch.Generator().manual_seed(0)
    for _ in range(out["mask"].shape[1]):  # nobody is left out, nothing is kept
        token = torch.multinomial(p.model(ids).logits[:, -1].softmax(-1), 1, generator=draw)
        ids = torch.cat([ids, token], 1)
    for row, response in zip(ids.tolist(), hb.response_ids(out)):
        assert row[4 : 4 + len(response)] == response
