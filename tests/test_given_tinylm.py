"""Is my installation right? All of this passes before you write a line.

The tests look at what is given: tinylm.py, and token_entropy in the lab file. A failure here is
not your fault: it means an unsuitable installation, or a given line that was changed.
"""

import math
import random
import sys
from pathlib import Path

import pytest
import torch

import tinylm
from tinylm import CHARS, END, PAD, V

from .install import NEWEST, OLDEST

TOP = Path(__file__).resolve().parent.parent
PROMPTS = ["5+5=", "37+48=", "7+12=", "90+9=", "0+0="]  # four, five and six characters


@pytest.fixture(scope="module")
def model():
    """An untrained model; it ends about every third response early."""
    torch.manual_seed(1)
    model = tinylm.TinyLM()
    with torch.no_grad():
        model.head.bias[END] += 2.0
        model.head.weight.mul_(2.0)  # far from uniform, so that mistakes show
    return model


def responses_of(out):
    """Return the token ids of every response, the END included, by a loop over the mask."""
    rows = zip(out["ids"].tolist(), out["mask"].tolist())
    L = out["prompt_len"]
    return [[i for i, m in zip(ids[L:], mask) if m == 1.0] for ids, mask in rows]


def written(prompts, texts, filler=PAD):
    """Return the dict that sample would have returned for these responses ("" is only END)."""
    ids = tinylm.encode(prompts)
    rows = [[CHARS.index(c) for c in text] + [END] for text in texts]
    T = max(map(len, rows))
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (T - len(row)) for row in rows])
    new = torch.tensor([row + [filler] * (T - len(row)) for row in rows])
    return {"ids": torch.cat([ids, new], 1), "prompt_len": ids.shape[1], "mask": mask}


# ============================================================== the installation


def test_given_python_and_torch_fit():
    found = sys.version_info[:2]
    wanted = f"Python {OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
    assert OLDEST <= found <= NEWEST, f"the lab needs {wanted}; this is {sys.version.split()[0]}"
    version = torch.__version__
    major, minor = (int(part) for part in version.split(".")[:2])
    assert (major, minor) >= (2, 4) and major == 2, (
        f"the lab is made for the torch of requirements.txt and works with 2.4 or newer, below 3; "
        f"this is {version}: run python -m pip install -r requirements.txt"
    )


def test_given_tinylm_is_the_one_beside_the_tests():
    found = Path(tinylm.__file__).resolve()
    assert found == TOP / "tinylm.py", f"another file called tinylm is imported: {found}"


# ============================================================== text to ids, data


def test_given_encode_pads_on_the_left():
    rows = tinylm.encode(["5+5=", "37+48="]).tolist()
    five, plus, equals = CHARS.index("5"), CHARS.index("+"), CHARS.index("=")
    assert rows[0] == [PAD, PAD, five, plus, five, equals], "PAD stands left of a short prompt"
    assert len(rows[1]) == 6 and PAD not in rows[1], "the longest prompt has no PAD"


@pytest.mark.parametrize(
    "prompts, words",
    [
        (["1+1=", "2*2="], "'*'"),
        (["1+1=", "3 +4="], "' '"),
        ([], "empty list"),
        (["1+1=", ""], "prompt 1"),
        ("1+1=", "list of strings"),
        ([3], "list of strings"),
    ],
)
def test_given_encode_names_what_it_rejects(model, prompts, words):
    with pytest.raises(ValueError) as error:
        tinylm.sample(model, prompts)
    assert words in str(error.value), f"the message should name {words}: {error.value}"


def test_given_held_out_pairs():
    held_out, train = set(tinylm.EVAL_PAIRS), set(tinylm.TRAIN_PAIRS)
    assert len(tinylm.EVAL_PAIRS) == len(held_out) == 500, "500 different pairs are held out"
    every = {(a, b) for a in range(100) for b in range(100) if a + b < 100}
    assert held_out | train == every and not held_out & train, "every sum is on one side"
    assert {(b, a) for a, b in held_out} == held_out, "a + b and b + a are on the same side"


def test_given_make_batch():
    prompts, answers = tinylm.make_batch(3000, random.Random(7))
    assert len(prompts) == len(answers) == 3000
    assert tinylm.make_batch(3000, random.Random(7)) == (prompts, answers), "the rng decides"
    assert tinylm.make_batch(3000, random.Random(8)) != (prompts, answers), "the rng decides"
    held_out = set(tinylm.EVAL_PAIRS)
    for prompt, answer in zip(prompts, answers):
        a, b = map(int, prompt.removesuffix("=").split("+"))
        assert prompt == f"{a}+{b}=" and answer == str(a + b), "answer is the sum, as text"
        assert a + b < 100 and (a, b) not in held_out, f"{prompt} must not be trained on"
    assert {len(p) for p in prompts} == {4, 5, 6}, "one-digit and two-digit numbers occur"


def test_given_reward_is_exact_match():
    assert tinylm.reward("85", "85") == 1.0
    for response in ("", "8", "851", "085", "58", " 85", "85="):
        assert tinylm.reward(response, "85") == 0.0, f"{response!r} is not exactly 85"


# ============================================================== model


def test_given_shapes(model):
    ids = tinylm.encode(PROMPTS)
    logits = model(ids)
    assert logits.shape == (5, 6, V), "logits are (B, S, V)"
    assert logits.dtype == torch.float32 and logits.isfinite().all(), "finite, also at PAD"
    assert PAD >= V and END < V, "END can be sampled; PAD has no output unit, so it never is"


def test_given_model_does_not_look_ahead(model):
    ids = tinylm.encode(["37+48=", "37+12="])
    logits = model(ids)
    assert (logits[0, :3] - logits[1, :3]).abs().max() < 1e-5, "equal beginnings, equal logits"
    assert (logits[0, 3:] - logits[1, 3:]).abs().max() > 1e-3, "then they differ"


def test_given_a_prompt_scores_the_same_alone_and_in_a_batch(model):
    texts = ["10", "85", "", "9999", "1"]
    out = written(PROMPTS, texts)
    together = tinylm.sequence_logprobs(model, out)
    last = model(tinylm.encode(PROMPTS))[:, -1]
    for i, (prompt, text) in enumerate(zip(PROMPTS, texts)):
        alone = tinylm.sequence_logprobs(model, written([prompt], [text]))[0]
        gap = (together[i, : len(alone)] - alone).abs().max()
        assert gap < 1e-5, f"{prompt}{text} scores differently beside longer prompts: {gap:.1e}"
        assert (last[i] - model(tinylm.encode([prompt]))[0, -1]).abs().max() < 1e-5


def test_given_cache_gives_the_same_logits(model):
    ids = written(PROMPTS, ["10", "85", "", "999", "1"])["ids"]  # PAD left and right
    cache, parts = {}, []
    for columns in (ids[:, :6], ids[:, 6:7], ids[:, 7:9], ids[:, 9:]):
        parts.append(model(columns, cache))
    gap = (torch.cat(parts, 1) - model(ids))[ids != PAD].abs().max()
    assert gap < 1e-5, f"reading in parts with a cache differs from reading at once: {gap:.1e}"


def test_given_too_long_a_sequence_is_refused():
    model = tinylm.TinyLM(width=8, layers=1, heads=1, context=6)
    assert model(tinylm.encode(["37+48=", "1+1="])).shape[1] == 6
    with pytest.raises(ValueError, match="context of 6"):
        model(tinylm.encode(["137+48="]))


# ============================================================== sampling


def test_given_cached_sampling_equals_uncached(model):
    prompts = PROMPTS * 8
    out = tinylm.sample(model, prompts, generator=torch.Generator().manual_seed(5))
    generator, ids, L = torch.Generator().manual_seed(5), out["ids"], out["prompt_len"]
    for t in range(ids.shape[1] - L):
        probs = model(ids[:, : L + t])[:, -1].softmax(-1)  # all read again, no cache
        token = torch.multinomial(probs, 1, generator=generator).squeeze(1)
        alive = out["mask"][:, t] == 1
        same = (token == ids[:, L + t])[alive]
        assert same.all(), f"position {t}: sampling drew from other probabilities than the model's"


def test_given_greedy_is_the_argmax_of_a_full_pass(model):
    out = tinylm.sample(model, PROMPTS, greedy=True)
    ids, L = out["ids"], out["prompt_len"]
    likeliest = model(ids)[:, L - 1 : -1].argmax(-1)
    same = (likeliest == ids[:, L:]) | (out["mask"] == 0)
    assert same.all(), "a greedy token is not the likeliest one of an uncached pass"
    again = tinylm.sample(model, PROMPTS, greedy=True)["ids"]
    assert torch.equal(again, ids), "greedy has no chance in it"


def test_given_mask_goes_to_the_first_end_and_pad_is_never_sampled(model):
    out = tinylm.sample(model, PROMPTS * 100)
    ids, L = out["ids"], out["prompt_len"]
    assert out["mask"].dtype == torch.float32 and ids.shape[1] == L + out["mask"].shape[1]
    assert torch.equal(ids[:, :L], tinylm.encode(PROMPTS * 100)), "the prompts stand in front"
    lengths = set()
    for row, mask in zip(ids[:, L:].tolist(), out["mask"].tolist()):
        n = row.index(END) + 1 if END in row else len(row)
        assert mask == [1.0] * n + [0.0] * (len(row) - n), f"mask {mask} for the tokens {row}"
        assert PAD not in row[:n], "PAD was sampled"
        assert set(row[n:]) <= {PAD}, "behind END there is only PAD"
        lengths.add(n)
    assert lengths == {1, 2, 3, 4}, "responses of every length occur"


def test_given_sampling_stops_when_every_row_has_ended(model):
    talker, quiet, calls = tinylm.TinyLM(), tinylm.TinyLM(), []
    with torch.no_grad():
        talker.head.bias[END] -= 100.0
        quiet.head.bias[END] += 100.0
    quiet.register_forward_hook(lambda *_: calls.append(1))
    out = tinylm.sample(quiet, PROMPTS)
    assert out["mask"].tolist() == [[1.0]] * 5 and len(calls) == 1, "one step is enough"
    assert tinylm.decode_responses(out) == [""] * 5, "END is not part of the text"
    out = tinylm.sample(talker, PROMPTS, max_new_tokens=9)
    assert out["mask"].tolist() == [[1.0] * 9] * 5, "max_new_tokens ends what never ends"
    for wrong in ({"temperature": 0}, {"temperature": math.nan}, {"max_new_tokens": 0}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            tinylm.sample(quiet, PROMPTS, **wrong)


def test_given_decode_responses_reads_the_mask_not_the_ids():
    texts = ["10", "", "123", "+=", "7"]
    for filler in (PAD, END, CHARS.index("3")):  # other samplers fill with something else
        got = tinylm.decode_responses(written(PROMPTS, texts, filler))
        assert got == texts, f"decoded {got} instead of {texts}"


def test_given_rows_of_one_prompt_differ(model):
    texts = tinylm.decode_responses(tinylm.sample(model, ["5+5="] * 64))
    assert len(set(texts)) > 16, "64 rows of one prompt are 64 draws, not one draw copied"
    assert len({text[:1] for text in texts}) > 4, "also in their first token"


def test_given_temperature_sharpens(model):
    scores = []
    for temperature in (0.05, 1.0, 20.0):
        out = tinylm.sample(model, ["5+5="] * 200, temperature, max_new_tokens=1)
        scores.append(tinylm.sequence_logprobs(model, out).mean().item())
    best = model(tinylm.encode(["5+5="]))[0, -1].log_softmax(-1).max().item()
    assert scores[0] > scores[1] > scores[2], "low temperature draws the likely tokens"
    assert scores[0] > best - 0.05, "temperature 0.05 is nearly greedy"


# ============================================================== log-probs, entropy


def loop_logprobs(model, out, entropy=False):
    """Return what sequence_logprobs (or the entropy at each token) should be, row by row."""
    L, rows = out["prompt_len"], []
    for ids, mask in zip(out["ids"], out["mask"].tolist()):
        row = []
        for t, m in enumerate(mask):
            logits = model(ids[None, : L + t])[0, -1].tolist()
            total = math.log(sum(math.exp(x) for x in logits))
            if entropy:
                row.append(m * sum(-math.exp(x - total) * (x - total) for x in logits))
            else:
                row.append(logits[ids[L + t]] - total if m else 0.0)
        rows.append(row)
    return rows


@pytest.mark.parametrize("filler", [PAD, CHARS.index("3")])
def test_given_sequence_logprobs_equals_a_plain_loop(model, filler):
    out = written(PROMPTS, ["10", "85", "", "999", "1"], filler)
    logp = tinylm.sequence_logprobs(model, out)
    assert logp.shape == out["mask"].shape, "log-probs are (B, T), as the mask"
    with torch.no_grad():
        expected = torch.tensor(loop_logprobs(model, out))
    assert (logp - expected).abs().max() < 1e-4, "a log-prob differs from a plain loop's"
    assert (logp[out["mask"] == 0] == 0).all(), "0 at padding, whatever stands there"


def test_given_sequence_logprobs_has_a_gradient(model):
    out = written(PROMPTS, ["10", "85", "", "999", "1"])
    model.zero_grad()
    tinylm.sequence_logprobs(model, out).sum().backward()
    grads = [p.grad for p in model.parameters()]
    assert all(g is not None and g.isfinite().all() for g in grads), "finite, for all parameters"
    # d logp(token) / d bias(v) = 1[v = token] - p(v), so one token's entries sum to 0.
    tokens = [i for row in responses_of(out) for i in row]
    L = out["prompt_len"]
    probs = model(out["ids"][:, :-1])[:, L - 1 :].softmax(-1)
    expected = -(probs * out["mask"].unsqueeze(-1)).sum((0, 1)).detach()
    expected += torch.bincount(torch.tensor(tokens), minlength=V)
    gap = (model.head.bias.grad - expected).abs().max()
    model.zero_grad()
    assert gap < 1e-4, f"the gradient counts a padding or misses a token: {gap:.1e}"


def test_given_token_entropy_equals_a_plain_loop(lab, model):
    assert hasattr(lab, "token_entropy"), "token_entropy (given) is missing from the lab file"
    out = written(PROMPTS, ["10", "85", "", "999", "1"])
    with torch.no_grad():
        total = sum(map(sum, loop_logprobs(model, out, entropy=True)))
    expected = total / float(out["mask"].sum())
    got = lab.token_entropy(model, out)
    assert isinstance(got, float) and abs(got - expected) < 1e-4, f"{got}, not {expected}"


def test_given_token_entropy_of_a_sure_model_is_zero(lab):
    model = tinylm.TinyLM()
    with torch.no_grad():
        model.head.bias[END] += 1000.0  # all other probabilities are 0 in float32
    got = lab.token_entropy(model, tinylm.sample(model, PROMPTS))
    assert got == 0.0, f"0 * log(0) must count as 0, got {got}"


# ============================================================== evaluation


def test_given_accuracy_asks_the_held_out_pairs(model, monkeypatch):
    asked = []
    real = tinylm.sample
    monkeypatch.setattr(tinylm, "sample", lambda m, p, **k: asked.append(p) or real(m, p, **k))
    right = [str(a + b) for a, b in tinylm.EVAL_PAIRS[:20]]
    monkeypatch.setattr(tinylm, "decode_responses", lambda out: right[:15] + ["no"] * 5)
    assert tinylm.accuracy(model, 20) == 0.75, "15 right answers of 20"
    assert asked == [[f"{a}+{b}=" for a, b in tinylm.EVAL_PAIRS[:20]]]
    with pytest.raises(ValueError, match="n must be at least 1"):
        tinylm.accuracy(model, 0)


def test_given_accuracy_has_random_numbers_of_its_own(model, monkeypatch):
    drawn = []
    real = tinylm.decode_responses
    monkeypatch.setattr(tinylm, "decode_responses", lambda o: drawn.append(o["ids"]) or real(o))
    before = torch.random.get_rng_state(), random.getstate()
    first = tinylm.accuracy(model, 50)
    assert torch.equal(torch.random.get_rng_state(), before[0]), "measuring must not change"
    assert random.getstate() == before[1], "the random numbers that training gets next"
    torch.rand(3)
    assert tinylm.accuracy(model, 50) == first and torch.equal(*drawn), "same model, same number"
    tinylm.accuracy(model, 50, seed=1)
    assert not torch.equal(drawn[0], drawn[2]), "another seed draws other responses"
