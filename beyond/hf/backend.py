"""The seven names of tinylm for a HuggingFace causal LM: your five functions, a real model.

    from beyond.hf import backend as hf_backend
    lab = load_lab("lab15_grpo.py", backend=hf_backend)      # the file itself stays as it is
    policy = hf_backend.load_or_train_sft("path/of/a/model")
    lab.grpo_step(policy, ref, opt, prompts, answers, cfg)

What differs from TinyLM, and is easy to get wrong:

- Prompts are padded on the left. Padding is recognized by position, never by looking
  for a token: many tokenizers have no PAD, or use EOS for it, and EOS must be trained.
- Token ids are kept. Decoding text and encoding it again can give other ids.
- Sampling and scoring use the same distribution, the softmax of logits / temperature: no top-k, no
  top-p, no repetition penalty, no dropout.
- The rows of a group share their prompt: it is read once, in sampling and in scoring.
- A vocabulary of 50,000 makes the logits larger than the model: they are computed only for response
  tokens, and a few rows at a time.

Shapes: B rows, U different prompts, L prompt positions, T response positions, V vocabulary.
"""

import random
from typing import Any

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

from beyond.hf.policy import Policy, only_last, positions

__all__ = [
    "Policy", "accuracy", "decode_responses", "encode", "load_or_train_sft", "make_batch",
    "response_ids", "reward", "rows_of", "sample", "sequence_logprobs", "token_entropies",
    "token_entropy",
]

CHUNK = 1 << 24  # logits (rows x V) that may exist at one time: 64 MiB in float32


# ============================================================== sampling


def encode(policy: Policy, prompts: list[str]) -> dict[str, torch.Tensor]:
    """Return the distinct prompts, padded on the left, and the index of each row's prompt.

    Returns a dict: "ids" and "real" (U, L), "row" (B,).

    Raises:
        ValueError: no prompt, an empty one, or one longer than max_prompt_tokens.
    """
    if isinstance(prompts, str) or not len(prompts):  # perhaps an array
        raise ValueError(f"prompts must be a list of at least one string, got {prompts!r:.80}")
    different = list(dict.fromkeys(prompts))
    rows = [policy.token_ids(p) for p in different]
    for text, row in zip(different, rows):
        if not row or len(row) > policy.longest_prompt:
            raise ValueError(
                f"prompt {text!r:.60} has {len(row)} tokens; allowed are 1 to "
                f"{policy.longest_prompt}: shorten it, or raise max_prompt_tokens (now "
                f"{policy.max_prompt_tokens}; the model has {policy.positions} positions)"
            )
        if max(row) >= policy.vocabulary:
            raise ValueError(f"prompt {text!r:.60} has the token id {max(row)}, and the model "
                             f"knows ids below {policy.vocabulary}: "
                             "model.resize_token_embeddings(len(tokenizer))")
    L = max(len(row) for row in rows)
    ids = [[policy.pad_id] * (L - len(row)) + row for row in rows]
    real = [[0] * (L - len(row)) + [1] * len(row) for row in rows]
    at = {text: i for i, text in enumerate(different)}
    put: dict[str, Any] = {"device": policy.device}
    return {
        "ids": torch.tensor(ids, **put),
        "real": torch.tensor(real, **put),
        "row": torch.tensor([at[p] for p in prompts], **put),
    }


def _read_prompts(policy: Policy, prompts: dict, hidden: bool = False):
    """Read each prompt once; return (its last state or logits (U, ...), cache of all B rows)."""
    ids, real = prompts["ids"], prompts["real"]
    more = {"attention_mask": real, "position_ids": positions(real), "use_cache": True}
    if hidden:
        out = policy.model.get_decoder()(ids, **more)
        last = out.last_hidden_state[:, -1]
    else:
        out = policy.model(ids, **more, **only_last(policy.model))
        last = out.logits[:, -1]
    out.cache.batch_select_indices(prompts["row"])
    return last, out.cache


def _draw(logits: torch.Tensor, generator) -> torch.Tensor:
    """Draw one token for each row from the softmax."""
    try:
        return torch.multinomial(logits.softmax(-1), 1, generator=generator).squeeze(1)
    except RuntimeError:
        if logits.isfinite().all():
            raise
        raise FloatingPointError("the model's logits are NaN or infinite: its weights are broken. "
                                 "Go back to an earlier checkpoint and lower learning_rate"
                                 ) from None


@torch.no_grad()
def sample(model, prompts, temperature=1.0, greedy=False, max_new_tokens=None, generator=None):
    """Sample one response for every prompt; equal prompts are read once.

    Args:
        model: a Policy; called as in tinylm, for files that give it by keyword.
        prompts: list of B strings.
        temperature: above 0; logits are divided by it, here and in scoring.
        greedy: take the likeliest token instead.
        max_new_tokens: longest response; None takes the policy's.
        generator: a torch.Generator on the policy's device, or None for the global one.

    Returns tinylm's dict ("ids" (B, L + T), "prompt_len" L, "mask" (B, T) 1.0 up to and including
    the end token), and what scoring needs: "prompts", "temperature", "tokenizer", "ends", "stop";
    also "entropy" (B, T) and "state", which says from which policy and weights it was sampled.

    Raises:
        ValueError: temperature or max_new_tokens out of range, or prompts that encode rejects.
        FloatingPointError: the model's logits are NaN.
    """
    policy: Policy = model
    limit = policy.max_new_tokens if max_new_tokens is None else max_new_tokens
    if not temperature > 0 or limit < 1:
        raise ValueError(
            "sample: temperature must be above 0 and max_new_tokens at least 1, got "
            f"{temperature} and {limit}"
        )
    known = encode(policy, prompts)
    L = known["ids"].shape[1]
    if policy.positions is not None and L + limit > policy.positions:
        raise ValueError(f"a prompt of {L} tokens and max_new_tokens = {limit} are more than the "
                         f"model's {policy.positions} positions")
    checkpointing = policy.checkpointing()
    if checkpointing:  # models that do keep no cache in training mode
        policy.model.eval()
    try:
        with policy.casting():
            tokens, mask, entropy = _responses(policy, known, temperature, greedy, limit, generator)
    finally:
        if checkpointing:
            policy.model.train()
    return {
        "ids": torch.cat([known["ids"][known["row"]], tokens], 1),
        "prompt_len": L,
        "mask": mask.float(),
        "prompts": known,
        "temperature": float(temperature),
        "tokenizer": policy.tokenizer,
        "ends": policy.ends,
        "stop": policy.stop,
        "entropy": entropy,
        "state": policy.state(),
    }


def _responses(policy, known, temperature, greedy, limit, generator):
    """Return the sampled ids, whether each is real, and the entropy where it was drawn, (B, T).

    Rows that have ended are taken out of the batch when they are half of it or more. Random
    numbers are still drawn for all rows, so that those of a row do not depend on the others.
    """
    row, ends = known["row"], torch.tensor(sorted(policy.ends), device=policy.device)
    real, tokens, mask, entropy = known["real"][row], [], [], []
    done = torch.zeros(len(row), dtype=torch.bool, device=policy.device)
    at = torch.arange(len(row), device=policy.device)  # the rows that the cache still has
    last, cache = _read_prompts(policy, known)
    last = last[row].float()  # (B, V)
    while True:
        scaled = last / temperature
        entropy.append(_entropy(scaled, None))
        token = scaled.argmax(-1) if greedy else _draw(scaled, generator)
        mask.append(~done)
        tokens.append(token.masked_fill(done, policy.pad_id))
        done = done | torch.isin(token, ends)
        left = len(row) - int(done.sum())
        if len(tokens) == limit or not left:
            return (torch.stack(x, 1) for x in (tokens, mask, entropy))
        real = torch.cat([real, mask[-1].long().unsqueeze(1)], 1)
        if 2 * left <= len(at):
            keep = (~done[at]).nonzero().squeeze(1)
            cache.batch_select_indices(keep)
            at = at[keep]
        seen = real[at]
        out = policy.model(tokens[-1][at].unsqueeze(1), attention_mask=seen, cache=cache,
                           position_ids=positions(seen)[:, -1:])
        last = last.index_copy(0, at, out.logits[:, -1].float())


def response_ids(out) -> list[list[int]]:
    """Return the sampled ids of every row, its end token included."""
    ids, lengths = out["ids"][:, out["prompt_len"] :].tolist(), out["mask"].sum(1).int().tolist()
    return [row[:n] for row, n in zip(ids, lengths)]


def rows_of(out, at: torch.Tensor) -> dict:
    """Return sample's dict for some of its rows, with no more positions than they need.

    Args:
        out: what sample returned.
        at: (rows,) indices.
    """
    at = at.to(out["ids"].device)
    mask, L = out["mask"][at], out["prompt_len"]
    T = max(1, int(mask.sum(1).max()))
    different, row = out["prompts"]["row"][at].unique(return_inverse=True)
    known = {k: out["prompts"][k][different] for k in ("ids", "real")} | {"row": row}
    parts = {"ids": out["ids"][at, : L + T], "mask": mask[:, :T], "prompts": known}
    return out | parts | {"entropy": out["entropy"][at, :T]}


def decode_responses(out):
    """Return the B responses as strings, without the end token and other special tokens.

    Of an end token that has more text than the policy's stop, what is before the stop is kept.
    """
    whole, stop = response_ids(out), out.get("stop")
    rows = [r[:-1] if r and r[-1] in out["ends"] else r for r in whole]
    texts = out["tokenizer"].batch_decode(rows, skip_special_tokens=True)
    if not stop:
        return texts
    longer = out["tokenizer"].batch_decode(whole, skip_special_tokens=True)
    cuts = [b.find(stop, len(a)) for a, b in zip(texts, longer)]
    return [a if cut < 0 else b[:cut] for a, b, cut in zip(texts, longer, cuts)]


# ============================================================== scoring


def _states(policy: Policy, out: dict) -> torch.Tensor:
    """Return the hidden states or logits before every real response token, (tokens, width or V)."""
    known, L, mask = out["prompts"], out["prompt_len"], out["mask"].bool()
    ids, row = out["ids"], known["row"]
    real = torch.cat([known["real"][row], mask.long()], 1)
    inner = policy.model.get_decoder() if policy.plain_head else policy.model
    what = "last_hidden_state" if policy.plain_head else "logits"
    if policy.checkpointing():  # no cache: prompts are read in every row
        keep = {"attention_mask": real[:, :-1], "position_ids": positions(real)[:, :-1]}
        states = getattr(inner(ids[:, :-1], use_cache=False, **keep), what)
        return states[:, L - 1 :][mask]
    last, cache = _read_prompts(policy, known, hidden=policy.plain_head)
    states = last[row].unsqueeze(1)  # before the first response token
    if mask.shape[1] > 1:
        place = positions(real)[:, L:-1]
        more = inner(ids[:, L:-1], attention_mask=real[:, :-1], position_ids=place, cache=cache)
        states = torch.cat([states, getattr(more, what)], 1)  # (B, T, ...)
    return states[mask]


def _in_chunks(policy: Policy, states: torch.Tensor, targets, temperature: float, measure):
    """Return measure(logits / temperature, targets) of all tokens, a chunk at a time."""
    head = policy.model.get_output_embeddings() if policy.plain_head else nn.Identity()

    def one(states, targets):
        return measure(head(states).float() / temperature, targets)

    size = max(1, CHUNK // policy.vocabulary)
    pieces = list(zip(states.split(size), targets.split(size)))
    # With several chunks, backward recomputes the logits of each instead of keeping them all.
    if len(pieces) > 1 and torch.is_grad_enabled():
        return torch.cat([checkpoint(one, *piece, use_reentrant=False) for piece in pieces])
    return torch.cat([one(*piece) for piece in pieces])


def _logp(logits: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Return log softmax at the targets, without the (tokens, V) result of log_softmax."""
    return logits.gather(-1, targets.unsqueeze(-1)).squeeze(-1) - logits.logsumexp(-1)


def _entropy(logits: torch.Tensor, _) -> torch.Tensor:
    return logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)


def _per_token(policy: Policy, out: dict, measure) -> torch.Tensor:
    """Return a measure of the distribution at every real response token, (B, T), else 0."""
    mask = out["mask"].bool()
    targets = out["ids"][:, out["prompt_len"] :][mask]
    with policy.casting():
        values = _in_chunks(policy, _states(policy, out), targets, out["temperature"], measure)
    return torch.zeros_like(out["mask"]).masked_scatter(mask, values.to(out["mask"].dtype))


def sequence_logprobs(model, out):
    """Return the log-probability of every sampled token at the temperature it was sampled at.

    Args:
        model: a Policy; not necessarily the one that sampled, but with the same tokenizer.
        out: the dict that sample returns.

    Returns: (B, T) tensor, 0 where the mask is 0.

    Gradients: flow to the model's parameters.
    """
    return _per_token(model, out, _logp)


def token_entropies(policy, out):
    """Return the entropy (nats) of the distribution at every response token, (B, T), else 0.

    Gradients: flow to the model's parameters, as an entropy bonus needs.
    """
    return _per_token(policy, out, _entropy)


@torch.no_grad()
def token_entropy(model, out):
    """Return the mean entropy (nats) at the response tokens.

    The policy that has just sampled them knows it from sampling; any other is read again, with a
    few rows of logits at a time.
    """
    fresh = out.get("state") == model.state()
    values = out["entropy"] if fresh else token_entropies(model, out)
    return float((values * out["mask"]).sum() / out["mask"].sum().clamp(min=1.0))


# ============================================================== data, reward, evaluation

EXAMPLES = "5+3=8\n2+7=9\n"  # shown before every question: what an answer looks like
STOP = "\n"  # ends an answer to such a prompt
PAIRS = [(a, b) for a in range(10) for b in range(10)]


def make_batch(n, rng):
    """Return n one-digit sums as (prompts, answers); each prompt starts with two examples.

    Args:
        n: number of problems.
        rng: a random.Random.
    """
    pairs = rng.choices(PAIRS, k=n)
    return [f"{EXAMPLES}{a}+{b}=" for a, b in pairs], [str(a + b) for a, b in pairs]


def reward(response, answer):
    """Return 1.0 if the response, stripped of blanks, is the answer, else 0.0."""
    return 1.0 if response.strip() == str(answer) else 0.0


def accuracy(model, n=200, greedy=False, seed=0):
    """Return the share of n sums that the policy answers correctly; uses its own generator.

    Args:
        model: a Policy.
        n: number of sums, 1 or more.
        greedy: take the likeliest tokens.
        seed: of the sums and of the sampling.

    Raises:
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"accuracy: n must be at least 1, got {n}")
    prompts, answers = make_batch(n, random.Random(seed + 1))
    generator = torch.Generator(model.device).manual_seed(seed)
    right = 0.0
    for i in range(0, n, 64):
        out = sample(model, prompts[i : i + 64], greedy=greedy, generator=generator)
        right += sum(map(reward, decode_responses(out), answers[i : i + 64]))
    return right / n


def load_or_train_sft(path, **settings):
    """Load a Policy from a model folder or hub name; `settings` go to Policy.

    Raises:
        OSError: there is no such model.
    """
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)
    return Policy(model, AutoTokenizer.from_pretrained(path), **({"stop": STOP} | settings))
