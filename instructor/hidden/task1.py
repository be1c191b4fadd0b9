"""Hidden tests of Task 1: everything is recomputed from the ids that came back."""

from collections import Counter

import torch

from ..box.standins import odd_reward
from .common import Case, Draw, Test, equal, is_tensor, ok

TESTS = {
    "form": Test("a dict with out, responses, rewards", "look at the names of its keys"),
    "calls": Test("tinylm.sample is called once, with the model", "do not copy the model"),
    "unchanged": Test("model and lists stay as they were", "do not change the arguments"),
    "rows": Test("the rows of out", "which prompt does each row belong to?"),
    "responses": Test("the responses", "they are the text of the rows of out"),
    "rewards": Test("the rewards", "compare each row with its own answer"),
    "sampling": Test("how it is sampled", "the temperature, and G different samples"),
}
ALL = tuple(TESTS)
FEW = tuple(t for t in TESTS if t != "sampling")
SIMPLE_CASES = "where there is one prompt (P = 1)"
MANY = 40  # rows that it takes to tell one temperature from another


def make(seed):
    """Return the cases."""
    draw = Draw(seed, 1)
    plan = [  # P, G, temperature (None: not given), how it is called
        (4, 6, 0.35, "plain"),
        (3, 5, None, "plain"),
        (5, 7, 3.5, "keywords"),
        (1, 4, 0.3, "keywords"),
        (6, 2, 0.4, "plain"),
        (6, 24, None, "keywords"),
        (6, 24, 0.4, "plain"),
        (6, 24, 2.5, "plain"),
        (1, 9, None, "plain"),  # a second group size, so that a fixed number of rows fails
    ]
    cases = [_case(draw, *row) for row in plan]
    again = cases[5]  # the same arguments with another seed must give other samples
    twin = Case(again.send | {"seed": draw.seed()}, again.expect, ALL)
    return [*cases, twin]


def across(cases, replies):
    """Return a verdict on all replies together: do two seeds give two samples?"""
    samples = [(r.get("out") or {}) if isinstance(r.get("out"), dict) else {} for r in replies]
    ids = [s["out"].get("ids") for s in samples if isinstance(s.get("out"), dict)]
    told = len(ids) == len(cases) and isinstance(ids[5], torch.Tensor)
    return {"sampling": ok(told and not equal(ids[-1], ids[5]))}


def _case(draw, P, G, temperature, style):
    import tinylm

    tau, prompts = 1.0 if temperature is None else temperature, ()
    while len(prompts) < P:  # some models have only one thing to say
        shape, state = draw.model(sharp=4.0)
        state["head.bias"][tinylm.END] -= 0.5
        model = tinylm.TinyLM(**shape)
        model.load_state_dict(state)
        prompts, answers = _problems(draw, model, P, min(tau, 0.6))
    if P == 5:  # two prompts may be the same
        prompts, answers = [*prompts[:4], prompts[1]], [*answers[:4], answers[1]]
    send = {"shape": shape, "state": state, "prompts": prompts, "answers": answers, "G": G}
    more = {} if temperature is None else {"temperature": temperature}
    send |= {"style": style, "more": more, "seed": draw.seed(), "note": draw.seed()}
    send["rule"] = draw.random.randrange(1, 1000) if G in (5, 4, 2) else 0
    tests = ALL if P * G >= MANY else FEW
    expect = {"model": model, "tau": tau, "P": P, "G": G}
    return Case(send, expect, tests, simple=P == 1)


def _problems(draw, model, P, tau):
    """Return P prompts and, as answers, frequent responses of the model: all different."""
    import tinylm

    found = {}
    for _ in range(40):
        digits = draw.random.choice([(1, 1), (2, 1), (2, 2), (1, 2)])
        a, b = (draw.random.randrange(10 ** (n - 1), 10**n) for n in digits)
        prompt = f"{a}+{b}="
        generator = torch.Generator().manual_seed(draw.seed())
        out = tinylm.sample(model, [prompt] * 40, tau, generator=generator)
        often = [said for said, _ in Counter(tinylm.decode_responses(out)).most_common(3)]
        new = [said for said in often if said and said not in found]
        if new and prompt not in found.values():
            found[new[0]] = prompt
        if len(found) == P:
            break
    return list(found.values()), list(found)


def judge(case, reply):
    """Return {test id: verdict} for one reply."""
    import tinylm

    out = reply.get("out")
    sent, want = case.send, case.expect
    same = all(equal(reply.get(k), sent[k]) for k in ("state", "prompts", "answers"))
    same = same and reply.get("train") is True
    result = dict.fromkeys(case.tests, set()) | {"unchanged": ok(same)}
    if not isinstance(out, dict):
        return result
    sample, many = out.get("out"), reply.get("samples")
    whole = isinstance(sample, dict) and _is_sample(sample, want["P"] * want["G"])
    if not whole:  # then what matters is what the calls of tinylm.sample returned
        sample = _glued(many, want["P"] * want["G"])
        if sample is None:
            return result
    responses, rewards = out.get("responses"), out.get("rewards")
    said = _text(sample)
    answers = [a for a in sent["answers"] for _ in range(want["G"])]
    rule = odd_reward(sent["rule"]) if sent["rule"] else tinylm.reward
    earned = torch.tensor([rule(r, a) for r, a in zip(said, answers)])
    called = reply.get("who") == [True] and whole and sample.get("note") == sent["note"]
    keys = {"out", "responses", "rewards"} <= out.keys()
    result["calls"] = ok(called)
    result["form"] = ok(keys and whole and reply.get("frozen") is False)
    result["rows"] = ok(whole and _rows(sample, sent["prompts"], want["G"]))
    result["responses"] = ok(isinstance(responses, list) and responses == said)
    typed = is_tensor(rewards) and rewards.dtype == torch.float32
    result["rewards"] = ok(typed and equal(rewards, earned))
    if "sampling" in case.tests:
        result["sampling"] = ok(_sampled(sample, want))
    return result


def _is_sample(out, rows):
    """Return whether this has the form of what tinylm.sample returns, with so many rows."""
    import tinylm

    ids, L, mask = out.get("ids"), out.get("prompt_len"), out.get("mask")
    if not isinstance(ids, torch.Tensor) or ids.dtype != torch.int64 or ids.dim() != 2:
        return False
    if type(L) is not int or not isinstance(mask, torch.Tensor) or mask.dtype != torch.float32:
        return False
    T = ids.shape[1] - L
    # The model runs on these ids, in the grader: no more columns than a prompt can have.
    if not (0 < L <= 8 and 0 < T <= tinylm.MAX_NEW_TOKENS and len(ids) == rows):
        return False
    if mask.shape != (rows, T) or int(ids.min()) < 0 or int(ids.max()) > tinylm.PAD:
        return False
    ended = (ids[:, L:] == tinylm.END).int().cumsum(1)
    if T < tinylm.MAX_NEW_TOKENS and not bool((ended > 0).any(1).all()):
        return False  # cut short
    before = ended - (ids[:, L:] == tinylm.END).int()  # 0 up to and including the first END
    real = before == 0
    new = ids[:, L:]
    return bool(
        torch.equal(mask, real.float())
        and (new[real] < tinylm.PAD).all()
        and (new[~real] == tinylm.PAD).all()
    )


def _glued(samples, rows):
    """Return what several calls of tinylm.sample returned as one, or None.

    Args:
        samples: what they returned, in their order.
        rows: how many there should be in all.
    """
    import tinylm

    if not isinstance(samples, list) or not 1 < len(samples) <= rows:
        return None
    for out in samples:
        if not isinstance(out, dict) or not isinstance(out.get("ids"), torch.Tensor):
            return None
        if out["ids"].dim() != 2 or not _is_sample(out, len(out["ids"])):
            return None
    if sum(len(out["ids"]) for out in samples) != rows:
        return None
    L = max(out["prompt_len"] for out in samples)
    T = max(out["mask"].shape[1] for out in samples)
    pad = torch.nn.functional.pad

    def wide(out):
        left, right = L - out["prompt_len"], T - out["mask"].shape[1]
        return pad(out["ids"], (left, right), value=tinylm.PAD), pad(out["mask"], (0, right))

    ids, masks = zip(*map(wide, samples))
    return {"ids": torch.cat(ids), "prompt_len": L, "mask": torch.cat(masks)}


def _text(out):
    import tinylm

    new = out["ids"][:, out["prompt_len"] :].tolist()
    return ["".join(tinylm.CHARS[i] for i in row if i < tinylm.END) for row in new]


def _rows(out, prompts, G):
    import tinylm

    wanted = tinylm.encode(prompts).repeat_interleave(G, 0)
    return torch.equal(out["ids"][:, : out["prompt_len"]], wanted)


@torch.no_grad()
def _sampled(out, want):
    """Return whether the right temperature explains the tokens best, and the rows differ."""
    import tinylm

    ids, L, mask = out["ids"], out["prompt_len"], out["mask"].double()
    logits = want["model"](ids[:, :-1])[:, L - 1 :].double()
    targets = ids[:, L:].clamp(max=tinylm.V - 1).unsqueeze(-1)

    def score(tau):
        logp = torch.log_softmax(logits / tau, -1).gather(-1, targets).squeeze(-1)
        return float((logp * mask).sum())

    tau, G = want["tau"], want["G"]
    best = score(tau)
    others = [t for t in (0.1, 1.0, 10.0, 1 / tau) if not 0.67 < t / tau < 1.5]
    if any(score(t) > best + 1.0 for t in others):
        return False
    rows = ids[:, L:].tolist()
    apart = [len({tuple(r) for r in rows[i : i + G]}) for i in range(0, len(rows), G)]
    return tau < 0.9 or (max(apart) > 1 and sum(apart) > len(apart) * min(G, 4) / 2)
