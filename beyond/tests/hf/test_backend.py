"""hf_backend against plain forward passes, against tinylm, and with awkward tokenizers."""

import copy
import random

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

import tinylm
from beyond import tiny
from beyond.hf import backend as hb
from beyond.student.plugins import load_student
from beyond.tests.tinylm_hf import TinyLMForCausalLM, tokenizer_of_tinylm
from lab15_run import TOP

PROMPTS = ["1+1=", "12+3=", "1+1=", "7+8+9="]


def policy(**settings):
    pad = settings.pop("pad", None)
    seed = settings.pop("seed", 0)
    return hb.Policy(tiny.model(seed), tiny.tokenizer(pad), **({"max_new_tokens": 5} | settings))


def sampled(p, prompts=PROMPTS, seed=0, **more):
    return hb.sample(p, prompts, generator=torch.Generator().manual_seed(seed), **more)


@pytest.mark.parametrize("how", ["chunks", "checkpointing", "odd head"])
def test_memory_savers_change_nothing(how, monkeypatch):
    p = policy()
    out = sampled(p)
    expected = hb.sequence_logprobs(p, out).detach()
    if how == "chunks":
        monkeypatch.setattr(hb, "CHUNK", 300)
    elif how == "checkpointing":
        p.model.gradient_checkpointing_enable()
        p.train()
        assert p.checkpointing()
    else:
        p.plain_head = False
    found = hb.sequence_logprobs(p, out)
    torch.testing.assert_close(found.detach(), expected, atol=1e-5, rtol=1e-5)
    found.sum().backward()
    assert all(torch.isfinite(q.grad).all() for q in p.parameters() if q.grad is not None)


def test_entropy_is_that_of_the_full_softmax():
    p = policy()
    out = sampled(p)
    logp = p(out["ids"][:, :-1])[:, out["prompt_len"] - 1 :].log_softmax(-1)
    entropy = -(logp.exp() * logp).sum(-1)
    mask = out["mask"]
    assert hb.token_entropy(p, out) == pytest.approx(float((entropy * mask).sum() / mask.sum()),
                                                     abs=1e-5)


@pytest.mark.parametrize("pad", [None, "eos", "<pad>"])
def test_eos_is_trained_and_padding_is_neither_eos_nor_bos(pad):
    p = policy(pad=pad, max_new_tokens=40)
    assert p.pad_id not in (p.tokenizer.eos_token_id, p.tokenizer.bos_token_id)
    p.model.get_output_embeddings().weight.data[2] *= 3  # ends come often
    out = sampled(p, ["1+1="] * 16)
    for row, response in zip(out["ids"], hb.response_ids(out)):
        assert response[-1] == 2 or len(response) == out["mask"].shape[1]
        rest = row[out["prompt_len"] + len(response) :]
        assert (rest == p.pad_id).all()
    assert any(2 in response for response in hb.response_ids(out))
    logp = hb.sequence_logprobs(p, out)
    assert (logp[out["mask"] == 1] < 0).all() and (logp[out["mask"] == 0] == 0).all()


def test_a_stop_text_ends_a_response_and_is_trained():
    p = policy(stop="+", max_new_tokens=60)
    out = sampled(p, ["1="] * 8)
    plus = p.tokenizer.convert_tokens_to_ids("+")
    ended = [r for r in hb.response_ids(out) if plus in r]
    assert ended and all(r.index(plus) == len(r) - 1 for r in ended)
    assert not any("+" in text for text in hb.decode_responses(out))


def test_sampling_draws_from_the_whole_softmax_at_the_temperature():
    p = policy(max_new_tokens=1)
    out = sampled(p, ["1+1="] * 4000, temperature=0.5)
    counts = torch.bincount(out["ids"][:, -1], minlength=p.vocabulary) / 4000
    ids = p.tokenizer("1+1=", return_tensors="pt")["input_ids"]
    expected = (p.model(ids).logits[0, -1] / 0.5).softmax(-1)
    assert (counts - expected).abs().sum() < 0.2
    assert (counts > 0).sum() > 60  # a top-k of 50, generate's default, would stop at 50


def test_rows_of_keeps_what_scoring_needs():
    p = policy(max_new_tokens=12)
    out = sampled(p, PROMPTS * 2)
    at = torch.tensor([5, 0, 3])
    part = hb.rows_of(out, at)
    whole = hb.sequence_logprobs(p, out)[at, : part["mask"].shape[1]]
    torch.testing.assert_close(hb.sequence_logprobs(p, part), whole, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    "prompts, said",
    [([], "at least one"), ("1+1=", "list"), (["1" * 600], "600 tokens"), ([""], "0 tokens")],
)
def test_bad_prompts_are_named(prompts, said):
    with pytest.raises(ValueError, match=said):
        sampled(policy(), prompts)


def test_unicode_newlines_and_an_empty_response_go_through():
    p = policy()
    out = sampled(p, ["na\u00efve \u4f60\u597d\n\n1+1=", "a\tb="])
    assert len(hb.decode_responses(out)) == 2
    p.model.get_output_embeddings().weight.data[2] *= 50
    out = sampled(p, ["1+1="], greedy=True)
    if hb.response_ids(out) == [[2]]:
        assert hb.decode_responses(out) == [""]
    assert hb.sequence_logprobs(p, out).shape == out["mask"].shape


# ---------------------------------------------------------------- the same as tinylm


@pytest.fixture(scope="module")
def pair():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(3)
        ours = tinylm.TinyLM()
    wrapped = hb.Policy(TinyLMForCausalLM.around(copy.deepcopy(ours)), tokenizer_of_tinylm(),
                        max_new_tokens=tinylm.MAX_NEW_TOKENS)
    return ours, wrapped


def test_tinylm_through_hf_backend_has_tinylms_numbers(pair):
    ours, wrapped = pair
    prompts, _ = tinylm.make_batch(6, random.Random(0))
    prompts = [x for x in prompts for _ in range(4)]
    a = tinylm.sample(ours, prompts, generator=torch.Generator().manual_seed(1))
    b = hb.sample(wrapped, prompts, generator=torch.Generator().manual_seed(1))
    assert tinylm.decode_responses(a) == hb.decode_responses(b)
    torch.testing.assert_close(tinylm.sequence_logprobs(ours, a),
                               hb.sequence_logprobs(wrapped, b), atol=1e-5, rtol=1e-5)


def test_one_grpo_step_on_tinylm_is_the_same_through_both(pair):
    moved = []
    for backend, model in ((tinylm, pair[0]), (hb, pair[1])):
        model = copy.deepcopy(model)
        lab = load_student(TOP / "solutions" / "lab15_grpo.py", backend)
        lab.reward = lambda response, answer: float(response > answer)
        torch.manual_seed(0)
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        prompts, answers = tinylm.make_batch(4, random.Random(1))
        cfg = lab.GRPOConfig(G=8, beta=0.1, inner_steps=2)
        stats = lab.grpo_step(model, copy.deepcopy(model), opt, prompts, answers, cfg)
        weights = torch.cat([p.detach().flatten() for p in model.parameters()])
        moved.append((stats, weights))
    (a, x), (b, y) = moved
    assert a == pytest.approx(b, abs=1e-5)
    torch.testing.assert_close(x, y, atol=1e-5, rtol=1e-5)
