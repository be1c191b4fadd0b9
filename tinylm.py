"""TinyLM: a small transformer that adds, with its data, its sampler and its SFT checkpoint.

Given, read only, from top to bottom: text to ids, data, model, sampling, log-probs, evaluation,
supervised fine-tuning (SFT). All runs where the model's parameters live, in float32.

Shapes: B rows, L prompt positions, T response positions, S any number of them, V output units.
"""

import contextlib
import copy
import hashlib
import io
import json
import os
import random
import warnings
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

# Two threads on busy cores ran 20 to 60 times slower than one on matrices this small.
if "OMP_NUM_THREADS" not in os.environ:
    torch.set_num_threads(1)

# ============================================================== text to ids

CHARS = "0123456789+="
V = len(CHARS) + 1  # output units: the characters and END
END = V - 1  # closes every response
PAD = V  # an input only: it has no output unit, so it can never be sampled


def encode(prompts, device="cpu"):
    """Return the (B, L) ids of a list of prompts, padded on the left to the longest.

    Args:
        prompts: list of B non-empty strings over the characters of CHARS.
        device: where to put the tensor.

    Raises:
        ValueError: no prompts, an empty prompt, or a character that is not in CHARS.
    """
    if isinstance(prompts, str) or not all(isinstance(p, str) for p in prompts):
        raise ValueError(f"prompts must be a list of strings such as ['37+48='], got {prompts!r}")
    if len(prompts) == 0:
        raise ValueError("prompts is an empty list; give at least one, such as ['37+48=']")
    for i, prompt in enumerate(prompts):
        unknown = [c for c in prompt if c not in CHARS]
        if unknown or not prompt:
            what = f"has the unknown character {unknown[0]!r}" if unknown else "is empty"
            raise ValueError(f"prompt {i} ({prompt!r}) {what}; prompts are made of '{CHARS}'")
    L = max(len(p) for p in prompts)
    rows = [[PAD] * (L - len(p)) + [CHARS.index(c) for c in p] for p in prompts]
    return torch.tensor(rows, device=device)


# ============================================================== data

LIMIT = 100  # every sum a + b is below this
HELD_OUT = 500  # pairs kept for evaluation


def _split_pairs():
    """Return (training pairs, held-out pairs) with a + b and b + a on the same side."""
    pairs = [(a, b) for a in range(LIMIT) for b in range(LIMIT - a)]
    shuffled = random.Random(0).sample(pairs, len(pairs))
    held_out = {}  # a dict keeps the order, a set would not
    for a, b in shuffled:
        both = {(a, b): None, (b, a): None}
        if len(held_out | both) <= HELD_OUT:
            held_out |= both
    return [p for p in pairs if p not in held_out], list(held_out)


TRAIN_PAIRS, EVAL_PAIRS = _split_pairs()
# Sums with one-digit numbers are few, and answered worst unless they are drawn more often.
TRAIN_WEIGHTS = [(1.0, 2.0, 6.0)[(a < 10) + (b < 10)] for a, b in TRAIN_PAIRS]


def _as_text(pairs):
    """Return (prompts, answers) of a list of (a, b)."""
    return [f"{a}+{b}=" for a, b in pairs], [str(a + b) for a, b in pairs]


def make_batch(n, rng):
    """Return n random training problems as (prompts, answers), two lists of strings.

    Args:
        n: number of problems.
        rng: a random.Random.
    """
    return _as_text(rng.choices(TRAIN_PAIRS, TRAIN_WEIGHTS, k=n))


def reward(response, answer):
    """Return 1.0 if the response is exactly the answer, else 0.0."""
    return 1.0 if response == answer else 0.0


# ============================================================== model


class Block(nn.Module):
    """A transformer layer: attention, then a two-layer network, each added to its input."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.norm2 = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)
        for layer in (self.proj, self.down):  # a block starts as a small change of its input
            layer.weight.data.mul_(0.5)

    def forward(self, x, hide, past=None):
        """Return (x after this layer, (keys, values) of all positions so far)."""
        B, S, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(B, S, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).contiguous()  # each (B, heads, S, width / heads)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        # Keys before queries: a softmax over the last dimension, when short, is 4 times slower.
        scores = k @ q.transpose(2, 3) * q.shape[-1] ** -0.5 + hide  # (B, heads, keys, queries)
        y = scores.softmax(2).transpose(2, 3) @ v
        x = x + self.proj(y.transpose(1, 2).reshape(B, S, width))
        return x + self.down(F.relu(self.up(self.norm2(x)), inplace=True)), (k, v)


class TinyLM(nn.Module):
    """A decoder-only transformer over the characters of CHARS.

    Args:
        width: size of a position's vector.
        layers: number of blocks.
        heads: attention heads; must divide width.
        context: longest sequence, PAD not counted.
    """

    def __init__(self, width=64, layers=2, heads=4, context=64):
        super().__init__()
        self.context = context
        self.tokens = nn.Embedding(V + 1, width)
        self.positions = nn.Embedding(context, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, V)
        for embedding in (self.tokens, self.positions):  # torch's default of 1 learns slower
            nn.init.normal_(embedding.weight, std=0.2)

    def forward(self, ids, cache=None):
        """Return (B, S, V) logits of the token that follows every position.

        Args:
            ids: (B, S) int64; PAD may come before a prompt and after a response.
            cache: None, or a dict that starts empty; it collects the keys and values of what
                was read so far, and ids are then the positions that follow.

        Raises:
            ValueError: a row has more than `context` ids that are not PAD.
        """
        cache = {} if cache is None else cache
        real = ids != PAD
        if cache:
            real = torch.cat([cache["real"], real], 1)  # (B, all positions so far)
        S, seen = ids.shape[1], real.shape[1]
        place = real.cumsum(1)[:, -S:].sub(1).clamp(min=0)  # counted from the first real id
        if seen > self.context and int(place.max()) >= self.context:
            raise ValueError(f"a sequence is longer than the model's context of {self.context}")
        later = torch.ones(seen, S, dtype=torch.bool, device=ids.device).tril(S - seen - 1)
        hide = -1e9 * (later | ~real.unsqueeze(2)).unsqueeze(1)  # -inf everywhere would give NaN
        x = self.tokens(ids) + self.positions(place)
        kv = []
        for i, block in enumerate(self.blocks):
            x, new = block(x, hide, cache["kv"][i] if cache else None)
            kv.append(new)
        cache.update(real=real, kv=kv)
        return self.head(self.norm(x))


def device_of(model):
    """Return the device that the model's parameters live on."""
    return next(model.parameters()).device


# ============================================================== sampling

MAX_NEW_TOKENS = 4  # an answer has at most two digits; the rest shows when a model rambles


@torch.no_grad()
def sample(
    model, prompts, temperature=1.0, greedy=False, max_new_tokens=MAX_NEW_TOKENS, generator=None
):
    """Sample one response for every prompt.

    Args:
        model: a TinyLM.
        prompts: list of B strings.
        temperature: above 0; logits are divided by it.
        greedy: take the likeliest token instead of sampling.
        max_new_tokens: longest response, END included.
        generator: a torch.Generator on the model's device, or None for the global one.

    Returns a dict:
        "ids": (B, L + T) prompt and response; a row is filled with PAD after its END.
        "prompt_len": L, the same for all rows (prompts are padded on the left).
        "mask": (B, T) 1.0 up to and including the first END, else 0.0.
    T is the length of the longest response of this call, at most max_new_tokens.

    Raises:
        ValueError: temperature or max_new_tokens out of range, or prompts that encode rejects.
    """
    if not temperature > 0:
        raise ValueError(f"sample: temperature must be above 0, got {temperature}")
    if max_new_tokens < 1:
        raise ValueError(f"sample: max_new_tokens must be at least 1, got {max_new_tokens}")
    ids = encode(prompts, device_of(model))
    cache, new, columns, mask = {}, ids, [ids], []
    done = torch.zeros(len(prompts), dtype=torch.bool, device=ids.device)
    while len(mask) < max_new_tokens and not done.all():
        logits = model(new, cache)[:, -1]  # (B, V)
        if greedy:
            token = logits.argmax(-1)
        else:
            probs = F.softmax(logits / temperature, -1)
            token = torch.multinomial(probs, 1, generator=generator).squeeze(1)
        mask.append(~done)
        new = token.masked_fill(done, PAD).unsqueeze(1)  # (B, 1)
        columns.append(new)
        done = done | (token == END)
    mask = torch.stack(mask, 1).float()  # (B, T)
    return {"ids": torch.cat(columns, 1), "prompt_len": ids.shape[1], "mask": mask}


def decode_responses(out):
    """Return the B responses of sample's dict as strings, END left out."""
    ids = out["ids"][:, out["prompt_len"] :].tolist()
    lengths = out["mask"].sum(1).int().tolist()
    return ["".join(CHARS[i] for i in row[:n] if i < END) for row, n in zip(ids, lengths)]


# ============================================================== log-probs


def sequence_logprobs(model, out):
    """Return the log-probability of every sampled token, at temperature 1.

    Args:
        model: a TinyLM; not necessarily the one that sampled.
        out: the dict that sample returns.

    Returns: (B, T) tensor, 0 where the mask is 0.

    Gradients: flow to the model's parameters.
    """
    ids, L = out["ids"], out["prompt_len"]
    logits = model(ids[:, :-1])[:, L - 1 :]  # (B, T, V)
    targets = ids[:, L:].clamp(max=V - 1)  # PAD has no output unit; the mask takes it out
    logp = F.log_softmax(logits, -1).gather(-1, targets.unsqueeze(-1)).squeeze(-1)  # (B, T)
    return logp * out["mask"]


# ============================================================== evaluation


def accuracy(model, n=HELD_OUT, greedy=False, seed=0):
    """Return the share of held-out problems that the model answers exactly right.

    Args:
        model: a TinyLM.
        n: number of problems; above 500 the held-out pairs repeat.
        greedy: likeliest tokens instead of samples.
        seed: of the evaluation's own generator, so that evaluating never changes training.

    Raises:
        ValueError: n is below 1.
    """
    if n < 1:
        raise ValueError(f"accuracy: n must be at least 1, got {n}")
    prompts, answers = _as_text([EVAL_PAIRS[i % HELD_OUT] for i in range(n)])
    generator = torch.Generator(device_of(model)).manual_seed(seed)
    responses = decode_responses(sample(model, prompts, greedy=greedy, generator=generator))
    return sum(reward(r, a) for r, a in zip(responses, answers)) / n


# ============================================================== supervised fine-tuning (SFT)

# The teacher is right for 55% of the lessons, then grows careless: 32% of the later answers are
# random numbers. By that time the model nearly knows the sums, and its likeliest answer stays
# right; sampled, it learns to err as its teacher does. solutions/notes.md has more.
MODEL = {"width": 64, "layers": 2, "heads": 4, "context": 64}
RECIPE = {"right": 0.55, "wrong": 0.32, "seed": 2, "steps": 640, "batch": 96}
RECIPE |= {"lr": 4.2e-3, "warmup": 100, "hold": 0.3}  # then the learning rate falls to 0


def _demonstrations():
    """Return the ids of all training prompts, and ids and mask of every number as a response."""
    prompts, _ = _as_text(TRAIN_PAIRS)
    numbers = [[CHARS.index(c) for c in str(n)] + [END] for n in range(LIMIT)]
    T = max(len(row) for row in numbers)
    ids = torch.tensor([row + [PAD] * (T - len(row)) for row in numbers])
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (T - len(row)) for row in numbers])
    return encode(prompts), ids, mask


def train_sft():
    """Return a TinyLM trained on the teacher's demonstrations, on the CPU, always the same way."""
    from tqdm import tqdm

    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.manual_seed(RECIPE["seed"])
        model = TinyLM(**MODEL)
        prompts, responses, masks = _demonstrations()
        sums = torch.tensor([a + b for a, b in TRAIN_PAIRS])
        weights = torch.tensor(TRAIN_WEIGHTS)
        opt = torch.optim.Adam(model.parameters(), lr=RECIPE["lr"], betas=(0.9, 0.98), fused=True)
        for step in tqdm(range(RECIPE["steps"]), "SFT", leave=False, mininterval=1):
            left = (1 - step / RECIPE["steps"]) / (1 - RECIPE["hold"])  # below 1 at the end
            opt.param_groups[0]["lr"] = RECIPE["lr"] * min(1, (step + 1) / RECIPE["warmup"], left)
            rows = torch.multinomial(weights, RECIPE["batch"], replacement=True)
            careless = step >= RECIPE["right"] * RECIPE["steps"]
            wrong = torch.rand(len(rows)) < RECIPE["wrong"] * careless
            said = torch.where(wrong, torch.randint(LIMIT, (len(rows),)), sums[rows])
            ids = torch.cat([prompts[rows], responses[said]], 1)
            out = {"ids": ids, "prompt_len": prompts.shape[1], "mask": masks[said]}
            loss = -sequence_logprobs(model, out).sum() / out["mask"].sum()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
    return model


def _fingerprint():
    """Return a hash of everything that determines the SFT model."""
    recipe = [MODEL, RECIPE, CHARS, LIMIT, EVAL_PAIRS, TRAIN_WEIGHTS]
    return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def _load(path):
    """Return the model saved at path, or None; warn about a file that is not ours."""
    if not os.path.exists(path):  # False, where Path.exists would raise
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if saved["fingerprint"] != _fingerprint():
            raise ValueError("made by another version of tinylm.py")
        with torch.random.fork_rng(devices=[]):
            model = TinyLM(**MODEL)
        model.load_state_dict(saved["model"])
        return model
    except Exception as error:  # whatever is wrong with a cache, training again mends it
        why = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        warnings.warn(f"{path} cannot be used ({why}); training the SFT model anew", stacklevel=3)
        return None


def write_file(path, write):
    """Save what write(file) writes atomically: a temporary file is renamed at the end."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    data = io.BytesIO()  # torch.save, given a full disk, may raise what is not an OSError
    write(data)
    try:
        temporary.write_bytes(data.getbuffer())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)


_unwritten = {}  # (path, fingerprint) -> SFT model that could not be saved there


def load_or_train_sft(path):
    """Return the SFT model, on the CPU: from the file at path, else trained and saved there.

    A file that is truncated, foreign or outdated is named in a warning and replaced. Two
    processes that ask at once train once. Where nothing can be written (a read-only folder, a
    full disk) a warning says so, and the trained model is returned all the same; this process
    remembers it.
    """
    from filelock import FileLock

    path = Path(path)
    known = _unwritten and _unwritten.get((str(path), _fingerprint()))
    model = copy.deepcopy(known) if known else _load(path)
    if model is not None:
        return model
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(FileLock(f"{path}.lock", timeout=120))
            model = _load(path)  # another process may have trained it meanwhile
        except (OSError, NotImplementedError):
            pass  # no lock where nothing can be written; the warning below will say so
        if model is None:
            model = train_sft()
            saved = {"fingerprint": _fingerprint(), "model": model.state_dict()}
            try:
                write_file(path, lambda file: torch.save(saved, file))
            except OSError as error:
                _unwritten[str(path), _fingerprint()] = copy.deepcopy(model)
                warnings.warn(f"the SFT model is not kept: {error}", stacklevel=2)
    return model
