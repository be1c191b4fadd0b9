r"""What a GRPO run needs, on paper: bytes of memory, tokens a step, seconds, generators.

    python -m beyond.launch.plan --model 1.7B --gpus 8 --gpu-gb 80 --P 64 --G 8 --length 1024 \
        --generate-tps 2500 --train-tps 9000
    python -m beyond.launch.plan --model FOLDER          a folder with a HuggingFace config.json
    python -m beyond.launch.plan --update                rewrite the tables of README.md

Nothing about a device is built in: its memory, its tokens a second and the bandwidth are numbers
that you give, from a run of your own. Everything else follows from the model's shapes by the
formulas below. GB is 1e9 bytes. Shapes of the three models: their published config.json.
"""

import argparse
import json
import math
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from lab15_run import piped

GB = 1e9
CHUNK = 1 << 24  # logits that beyond/hf/backend.py holds at a time
README = Path(__file__).resolve().parent / "README.md"
Row = list[str]

# ============================================================== shapes and parameters


@dataclass(frozen=True)
class Model:
    """The shapes of a Llama-type decoder; the comments have their names in config.json."""

    name: str
    vocab: int
    width: int  # hidden_size
    inner: int  # intermediate_size
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    tied: bool  # the head is the embedding
    qkv_bias: bool = False
    o_bias: bool = False
    mlp_bias: bool = False
    qk_norm: bool = False

    @property
    def q(self) -> int:
        """Width of all queries."""
        return self.heads * self.head_dim

    @property
    def kv(self) -> int:
        """Width of all keys, and of all values."""
        return self.kv_heads * self.head_dim


MODELS = {m.name: m for m in (
    Model("135M", 49152, 576, 1536, 30, 9, 3, 64, True),  # SmolLM2-135M
    Model("1.7B", 49152, 2048, 8192, 24, 32, 32, 64, True),  # SmolLM2-1.7B
    Model("8B", 128256, 4096, 14336, 32, 32, 8, 128, False),  # Llama-3.1-8B
)}
TYPES = ("llama", "mistral", "qwen2", "qwen3")  # model_type of config.json: same blocks


def block_parameters(m: Model) -> int:
    """Return the parameters of one decoder block."""
    attention = m.width * (m.q + 2 * m.kv) + m.q * m.width
    attention += m.qkv_bias * (m.q + 2 * m.kv) + m.o_bias * m.width + m.qk_norm * 2 * m.head_dim
    mlp = 3 * m.width * m.inner + m.mlp_bias * (2 * m.inner + m.width)
    return attention + mlp + 2 * m.width


def root_parameters(m: Model) -> int:
    """Return the parameters outside the blocks: embedding, head unless tied, last norm."""
    return m.vocab * m.width * (1 if m.tied else 2) + m.width


def parameters(m: Model) -> int:
    """Return the number of parameters."""
    return m.layers * block_parameters(m) + root_parameters(m)


def read_model(name: str) -> Model:
    """Return one of MODELS, or the shapes in a config.json (or in the folder that has one).

    Raises:
        ValueError: unknown, not readable, or not a Llama-type model; one line.
    """
    if name in MODELS:
        return MODELS[name]
    path = Path(name)
    path = path / "config.json" if path.is_dir() else path
    try:
        c = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError:
        raise ValueError(f"--model {name!r} is no model and no folder with a config.json; "
                         f"give {', '.join(MODELS)} or a folder") from None
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from None
    kind = c.get("model_type") if isinstance(c, dict) else None
    if kind not in TYPES:
        raise ValueError(f"{path}: model_type {kind!r} is counted differently; "
                         f"allowed are {', '.join(TYPES)}")
    names = ("vocab_size", "hidden_size", "intermediate_size", "num_hidden_layers",
             "num_attention_heads")
    may = [key for key in ("num_key_value_heads", "head_dim") if c.get(key) is not None]
    for key in (*names, *may):
        if type(c.get(key)) is not int or c[key] < 1:
            raise ValueError(f"{path}: {key} = {c.get(key)!r}; give a whole number, 1 or more")
    vocab, width, inner, layers, heads = (c[key] for key in names)
    bias = bool(c.get("attention_bias", False)) and kind in ("llama", "qwen3")
    return Model(str(name), vocab, width, inner, layers, heads,
                 c.get("num_key_value_heads") or heads, c.get("head_dim") or width // heads,
                 bool(c.get("tie_word_embeddings", False)), bias or kind == "qwen2", bias,
                 bool(c.get("mlp_bias", False)) and kind == "llama", kind == "qwen3")


# ============================================================== recipes


@dataclass(frozen=True)
class Recipe:
    """Bytes of one number; Adam keeps two float32 numbers for every parameter."""

    name: str
    weights: int
    copy: int  # of the weights, in the type that is computed with
    gradients: int
    reference: int
    compute: int  # activations, KV cache, what a generator gets
    wire: int  # weights on their way between training ranks
    adam: int = 8


RECIPES = {r.name: r for r in (
    Recipe("fp32", 4, 0, 4, 4, 4, 4),
    Recipe("autocast", 4, 2, 4, 4, 2, 4),  # bf16 of beyond/config.py: torch.autocast
    Recipe("mixed", 4, 2, 4, 2, 2, 2),  # FSDP casts before it sends; a bfloat16 reference
)}


# ============================================================== memory, in bytes


def state_bytes(m: Model, r: Recipe) -> dict[str, float]:
    """Return what stays between two steps, whole: weights, copy, gradients, Adam, reference."""
    n = parameters(m)
    return {"weights": n * r.weights, "bf16 copy": n * r.copy, "gradients": n * r.gradients,
            "Adam": n * r.adam, "reference": n * r.reference}


def token_activations(m: Model, r: Recipe) -> float:
    """Return the bytes that one block keeps for backward, for one token.

    Counted in transformers' Llama blocks with an attention that keeps no scores: the residual
    stream and what the two norms keep, queries, keys, values, the attention's result, and four
    rows of the MLP (gate, its SiLU, up, their product). float32, per token:

        6 width + 2 q + 2 kv + 4 inner + 2 + heads     numbers of 4 bytes

    The last three: the norms' scales, the softmax's log-sum. Norms compute in float32 always, and
    under autocast the residual stream is float32 and five linear layers cast their inputs again.
    A test counts the saved tensors of a small model. The idea of the count: arXiv 2205.05198.
    """
    rows = 2 * m.q + 2 * m.kv + 4 * m.inner
    if r.name == "fp32":
        return 4 * (6 * m.width + rows + 2 + m.heads)
    if r.name == "autocast":
        return 4 * (4 * m.width + 2 + m.heads) + 2 * (5 * m.width + rows)
    return 4 * (2 * m.width + 2 + m.heads) + 2 * (4 * m.width + rows)


def activation_bytes(m: Model, r: Recipe, tokens: int, checkpointing: bool = False) -> float:
    """Return what forward keeps for backward, for the tokens of one micro-batch, padding too.

    checkpointing: keep each block's input only, and one block's activations while it is redone.
    """
    if not checkpointing:
        return tokens * m.layers * token_activations(m, r)
    kept = m.layers * m.width * (2 if r.name == "mixed" else 4)
    return tokens * (kept + token_activations(m, r))


def logits_bytes(m: Model, r: Recipe, tokens: int, chunk: int | None = CHUNK) -> float:
    """Return what the logits take: in the compute type, as float32, and their gradient.

    chunk: numbers held at a time (the rest is recomputed in backward); None: all.
    """
    numbers = tokens * m.vocab if chunk is None else min(tokens * m.vocab, max(chunk, m.vocab))
    return numbers * (8 if r.compute == 4 else r.compute + 8)


def rank_bytes(m: Model, r: Recipe, ranks: int, tokens: int = 0, checkpointing: bool = False,
               how: str = "fsdp", sampled: int = 0) -> dict[str, float]:
    """Return what one rank holds; fullest() adds it up.

    Args:
        m: the model.
        r: the recipe.
        ranks: processes that train, one GPU each.
        tokens: of one micro-batch, prompts and padding included; 0 leaves activations out.
        checkpointing: see activation_bytes.
        how: fsdp splits weights, gradients, Adam and reference evenly, and gathers the root and
            two blocks (one in use, one on its way) with their gradients; ddp splits nothing and
            holds one set of gradients more, its buckets.
        sampled: tokens in the KV caches of all ranks, which also sample, as in beyond.train_hf;
            each then gathers all weights, and has a whole reference. 0: generators are separate.
    """
    split = ranks if how == "fsdp" else 1
    n, copy = parameters(m), parameters(m) * r.copy
    held = {name: size / split for name, size in state_bytes(m, r).items()}
    held["bf16 copy"] = copy  # backward needs autocast's copies, so they are not split
    if ranks > 1 and how == "fsdp":
        part = root_parameters(m) + min(2, m.layers) * block_parameters(m)
        held["gathered"] = part * (r.wire + r.gradients)
        if r.wire == r.compute or checkpointing:
            held["bf16 copy"] = 0.0
    elif ranks > 1:
        held["buckets"] = held["gradients"]
    if tokens:
        held["activations"] = activation_bytes(m, r, tokens, checkpointing)
        held["logits"] = logits_bytes(m, r, tokens)
    if sampled:
        mine = math.ceil(sampled / ranks)
        held["reference"] = n * r.reference
        held["to sample"] = n * r.weights * (split > 1) + cache_bytes(m, mine, r.compute)
    return held


BY_TURNS = ("bf16 copy", "gathered", "activations", "logits")  # not there while it samples


def fullest(held: dict[str, float]) -> float:
    """Return the bytes of rank_bytes at the fullest moment: while it trains, or samples."""
    turns = sum(held.get(name, 0.0) for name in BY_TURNS)
    stays = sum(size for name, size in held.items() if name not in (*BY_TURNS, "to sample"))
    return stays + max(turns, held.get("to sample", 0.0))


def ranks_needed(m: Model, r: Recipe, usable: float, most: int, **settings) -> int | None:
    """Return the smallest number of FSDP ranks, 1 to most, that fits usable bytes each, or None.

    Args:
        m: the model.
        r: the recipe.
        usable: bytes that a rank may hold.
        most: the largest number tried.
        settings: tokens, checkpointing, sampled of rank_bytes.
    """
    return next((n for n in range(1, most + 1)
                 if fullest(rank_bytes(m, r, n, **settings)) <= usable), None)


def cache_bytes(m: Model, tokens: int, each: int = 2, split: int = 1) -> int:
    """Return the KV cache of so many tokens on one of split tensor-parallel ranks.

    Keys and values of every layer; a rank holds whole heads, so at least one.
    each: bytes of a number, 4, 2 or 1.
    """
    return 2 * m.layers * math.ceil(m.kv_heads / split) * m.head_dim * each * tokens


def responses_at_a_time(m: Model, usable: float, tokens: int, each: int = 2,
                        split: int = 1) -> int:
    """Return how many responses of tokens (prompt included) fit beside the weights; 0: none.

    Args:
        m: the model.
        usable: bytes that a GPU may hold.
        tokens: of a response, prompt included.
        each: bytes of a number.
        split: tensor-parallel ranks of a generator.
    """
    left = usable - parameters(m) * each / split
    return max(0, int(left // cache_bytes(m, tokens, each, split)))


# ============================================================== tokens, seconds, staleness


def tokens_a_step(P: int, G: int, length: float) -> float:
    """Return the response tokens of one step: P prompts, G responses each, mean length.

    Args:
        P: prompts.
        G: responses a prompt.
        length: mean tokens of a response.
    """
    return P * G * length


def step_seconds(tokens: float, generate_tps: float, train_tps: float, generators: int = 1,
                 sync: float = 0.0) -> dict[str, float]:
    """Return the seconds of a step and of its halves.

    Args:
        tokens: response tokens of a step.
        generate_tps: response tokens a second of ONE generator, all its sequences together.
        train_tps: response tokens a second of the whole trainer, for everything that it does with
            them: scoring, the reference, all inner steps.
        generators: how many.
        sync: seconds of a weight sync, in which both wait.

    Keys: generate, train, share (of generation, without sync), in_turn, overlapped.
    """
    generate, train = tokens / (generate_tps * generators), tokens / train_tps
    return {"generate": generate, "train": train, "share": generate / (generate + train),
            "in_turn": generate + train + sync, "overlapped": max(generate, train) + sync}


def generators_to_balance(generate_tps: float, train_tps: float) -> int:
    """Return how many generators make tokens at least as fast as the trainer uses them."""
    return max(1, math.ceil(train_tps / generate_tps))


def sync_seconds(m: Model, each: int, bandwidth: float, copies: int = 1) -> float:
    """Return the seconds in which the weights reach a generator.

    each: bytes of a number. bandwidth: bytes a second of one sender. copies: how many times the
    sender sends them all; 1 for a broadcast, else the number of generators.
    """
    return parameters(m) * each * copies / bandwidth


def staleness(ahead: int, sync_interval: int = 1) -> int:
    """Return how many updates old a rollout's weights can be in training; first in, first out.

    ahead: batches begun or done that wait behind the one in training; 0: in turn. In
        beyond.services with one generator: buffer_size. Several may finish out of order.
    sync_interval: updates between two weight syncs.
    """
    return ahead + sync_interval - 1


def traffic(m: Model, r: Recipe, ranks: int, how: str = "fsdp", micro_batches: int = 1) -> float:
    """Return the bytes that one rank sends for one update.

    ddp: a ring all-reduce of the gradients, once. fsdp: for every micro-batch two gathers of the
    weights (forward, backward) and one reduce-scatter of the gradients. As in arXiv 1910.02054,
    section 7: 2 and 3 times the parameters.
    """
    share = parameters(m) * (ranks - 1) / ranks
    if how == "ddp":
        return 2 * share * r.gradients
    return share * (2 * r.wire + r.gradients) * micro_batches


# ============================================================== the command's text


def gb(size: float) -> str:
    """Return bytes as GB: 0.27, 3.4, 137."""
    value = size / GB
    digits = 0 if value >= 100 else 1 if value >= 3 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """Return seconds, 0.012 s, 6.1 s, 1,720 s."""
    digits = 0 if seconds >= 20 else 1 if seconds >= 2 else 2 if seconds >= 0.1 else 3
    return f"{seconds:,.{digits}f} s"


def settings(f: argparse.Namespace) -> dict:
    """Return the keyword arguments of rank_bytes from flags."""
    rows, tokens = f.P * f.G, f.prompt + f.length
    return {"tokens": min(f.micro_batch, rows) * tokens, "checkpointing": f.checkpointing,
            "sampled": rows * tokens if f.sample_here else 0}


def columns(rows: list[Row]) -> list[str]:
    """Return rows as lines: the first column to the left, the others to the right."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [row[0].ljust(widths[0]) + "".join("  " + cell.rjust(w) for cell, w in
                                              zip(row[1:], widths[1:])) for row in rows]


def table(m: Model, r: Recipe, f: argparse.Namespace) -> list[str]:
    """Return the memory table: one GPU, DDP on all, FSDP on half and on all.

    Args:
        m: the model.
        r: the recipe.
        f: parsed flags.
    """
    n = f.gpus
    kinds = [("1 GPU", 1, "fsdp")]
    kinds += [(f"ddp {n}", n, "ddp")] if n > 1 else []
    kinds += [(f"fsdp {k}", k, "fsdp") for k in sorted({n // 2, n}) if k > 1]
    held = [rank_bytes(m, r, k, how=how, **settings(f)) for _, k, how in kinds]
    names = list(dict.fromkeys(name for parts in held for name in parts))
    rows = [["GB a rank", *(kind[0] for kind in kinds)]]
    for name in names:
        if any(parts.get(name) for parts in held):
            rows.append([name, *(gb(p[name]) if p.get(name) else "-" for p in held)])
    rows.append(["at its fullest", *(gb(fullest(p)) for p in held)])
    return columns(rows)


def sentences(m: Model, r: Recipe, f: argparse.Namespace) -> list[str]:
    """Return what the numbers mean.

    Args:
        m: the model.
        r: the recipe.
        f: parsed flags.
    """
    usable = f.gpu_gb * GB * (1 - f.reserve)
    lines = [f"{m.name}: {parameters(m):,} parameters; a rank may hold {gb(usable)} GB of "
             f"{f.gpu_gb:g}."]
    most = min(f.gpus, f.P)
    ranks = ranks_needed(m, r, usable, most, **settings(f))
    if ranks == 1:
        lines.append("Training fits on one GPU.")
    elif ranks:
        lines.append(f"The policy needs {ranks} ranks of FSDP.")
    else:
        least = fullest(rank_bytes(m, r, most, **settings(f)))
        lines.append(f"Training does not fit on {most}: {gb(least)} GB a rank. Try --checkpointing,"
                     " a smaller --micro-batch, more GPUs.")
    if f.gpus > f.P:
        lines.append(f"At most {f.P} ranks can train: a rank takes whole groups, and there are "
                     f"{f.P} prompts.")
    return lines + generator_lines(m, r, f, usable) + time_lines(m, r, f, ranks)


def generator_lines(m: Model, r: Recipe, f: argparse.Namespace, usable: float) -> list[str]:
    """Return what a generator of its own can hold.

    Args:
        m: the model.
        r: the recipe.
        f: parsed flags.
        usable: bytes that a GPU may hold.
    """
    tokens, B = f.prompt + f.length, f.P * f.G
    whole = cache_bytes(m, B * tokens, r.compute)
    fit = responses_at_a_time(m, usable, tokens, r.compute)
    where = (f"a generator on one GPU holds {min(fit, B)} of them at a time" if fit else
             "beside the weights none fits on one GPU: split the generator (tensor parallel)")
    return [f"{B} responses of {tokens:,} tokens take {gb(whole)} GB of KV cache; {where}."]


def time_lines(m: Model, r: Recipe, f: argparse.Namespace, ranks: int | None) -> list[str]:
    """Return what the given speeds mean for a step.

    Args:
        m: the model.
        r: the recipe.
        f: parsed flags.
        ranks: that the policy needs; None: it does not fit.
    """
    tokens = tokens_a_step(f.P, f.G, f.length)
    lines = [f"A step needs {tokens:,.0f} response tokens; a step a minute means "
             f"{tokens / 60:,.0f} tokens a second."]
    sync = 0.0
    if f.bandwidth:
        sync = sync_seconds(m, r.compute, f.bandwidth * GB)
        lines.append(f"A weight sync sends {gb(parameters(m) * r.compute)} GB to a generator: "
                     f"{duration(sync)} at {f.bandwidth:g} GB/s.")
    if not (f.generate_tps and f.train_tps):
        return [*lines, "For times, measure --generate-tps and --train-tps and give both."]
    now = step_seconds(tokens, f.generate_tps, f.train_tps, sync=sync)
    lines.append(f"One generator takes {duration(now['generate'])}, training "
                 f"{duration(now['train'])}.")
    need = generators_to_balance(f.generate_tps, f.train_tps)
    more = (f"; {need - 1} more generator{'s' * (need > 2)} balance{'s' * (need == 2)} it"
            if need > 1 else "; training is the longer half, one generator keeps up")
    lines.append(f"Generation takes {100 * now['share']:.0f} % of a step{more}.")
    then = step_seconds(tokens, f.generate_tps, f.train_tps, need, sync)
    old = staleness(f.ahead, f.sync_interval)
    begun = "in turn" if f.ahead == 0 else f"overlapped ({f.ahead} ahead)"
    seconds = then["in_turn"] if f.ahead == 0 else then["overlapped"]
    lines.append(f"With {need} generator{'s' * (need > 1)}, {begun}: {duration(seconds)} a step "
                 f"instead of {duration(now['in_turn'])}; rollouts are up to {old} "
                 f"update{'s' * (old != 1)} old.")
    if ranks and ranks + need > f.gpus:
        lines.append(f"That takes {ranks + need} GPUs, one a generator, and there are {f.gpus}.")
    return lines


# ============================================================== the tables of README.md
# A table there is enclosed by <!-- plan:start NAME --> and <!-- plan:end -->.


def markdown(rows: list[Row]) -> list[str]:
    """Return rows as a Markdown table, numbers to the right."""
    line = ["| " + " | ".join(row) + " |" for row in rows]
    return [line[0], "|---|" + "---:|" * (len(rows[0]) - 1), *line[1:]]


def by_model(heading: Row, cells: Callable[[Model], Row]) -> list[Row]:
    """Return a table with a row for every model.

    Args:
        heading: of all columns.
        cells: of all columns but the first, for a model.
    """
    return [heading, *([m.name, *cells(m)] for m in MODELS.values())]


def by_recipe(heading: Row, cells: Callable[[Model, Recipe], Row]) -> list[Row]:
    """Return a table with a row for every model and recipe.

    Args:
        heading: of all columns.
        cells: of all columns but the first, for a model and a recipe.
    """
    return [heading, *([f"{m.name} {r.name}", *cells(m, r)]
                       for m in MODELS.values() for r in RECIPES.values())]


def states() -> list[Row]:
    """Weights, gradients, Adam and reference, whole."""
    def cells(m: Model, r: Recipe) -> Row:
        *parts, reference = state_bytes(m, r).values()
        each = [*parts, sum(parts), reference, sum(parts) + reference]
        return ["-" if c == 0 else gb(c) for c in each]

    return by_recipe(["model, recipe", "weights", "bf16 copy", "gradients", "Adam", "policy",
                      "reference", "GB in all"], cells)


RANKS = (8, 64, 1000)


def ranks() -> list[Row]:
    """GB a rank, without activations."""
    return by_recipe(
        ["model, recipe", "DDP, any number", *(f"FSDP {n:,}" for n in RANKS)],
        lambda m, r: [gb(fullest(held)) for held in (
            rank_bytes(m, r, 2, how="ddp"), *(rank_bytes(m, r, n) for n in RANKS))])


def activations() -> list[Row]:
    """One micro-batch of 8 rows of 1,152 tokens."""
    tokens = 8 * 1152
    return by_recipe(
        ["model, recipe", "activations", "with checkpointing", "all logits", "logits in chunks"],
        lambda m, r: list(map(gb, (
            activation_bytes(m, r, tokens), activation_bytes(m, r, tokens, True),
            logits_bytes(m, r, tokens, None), logits_bytes(m, r, tokens)))))


def cache() -> list[Row]:
    """KV cache in bfloat16."""
    return by_model(
        ["model", "KiB a token", "512 responses of 1,152 tokens", "a rank of 2", "a rank of 8"],
        lambda m: [f"{cache_bytes(m, 1) / 1024:g}",
                   *(gb(cache_bytes(m, 512 * 1152, 2, split)) for split in (1, 2, 8))])


JOBS = (  # what, P, G, mean response length
    ("this lab, TinyLM", 16, 8, 4), ("SmolLM2 here", 4, 8, 6), ("one GPU", 16, 8, 256),
    ("8 GPUs", 64, 8, 1024), ("1,000 GPUs", 1024, 16, 8192),
)


def tokens() -> list[Row]:
    """Response tokens of a step, and a second."""
    rows = [["job", "P", "G", "length", "tokens a step", "tokens a second, one step a minute",
             "most training ranks"]]
    for name, P, G, length in JOBS:
        n = tokens_a_step(P, G, length)
        rows.append([name, f"{P:,}", f"{G}", f"{length:,}", f"{n:,.0f}", f"{n / 60:,.0f}",
                     f"{P:,}"])
    return rows


def balance() -> list[Row]:
    """Shares of a step for ratios of the two speeds."""
    rows = [["train tokens/s : generate tokens/s", "generation's share", "generators that balance",
             "step, in turn", "step, overlapped"]]
    for ratio in (0.5, 1, 2, 4, 10, 20):
        one = step_seconds(1, 1, ratio)
        need = generators_to_balance(1, ratio)
        then = step_seconds(1, 1, ratio, need)
        rows.append([f"{ratio:g} : 1", f"{100 * one['share']:.0f} %", f"{need}",
                     f"{then['in_turn'] / one['in_turn']:.2f}",
                     f"{then['overlapped'] / one['in_turn']:.2f}"])
    return rows


def sync() -> list[Row]:
    """Bytes of a weight sync, and its time."""
    speeds = (0.1, 1, 10, 100)
    return by_model(
        ["model", "GB, bfloat16", *(f"at {speed:g} GB/s" for speed in speeds)],
        lambda m: [gb(parameters(m) * 2),
                   *(duration(sync_seconds(m, 2, speed * GB)) for speed in speeds)])


def sent() -> list[Row]:
    """GB that a rank sends for an update of one micro-batch."""
    r = RECIPES["mixed"]
    return by_model(
        ["model", "DDP, 8 ranks", "FSDP mixed, 8 ranks", "FSDP mixed, 1,000 ranks",
         "FSDP mixed, 8 ranks, 8 micro-batches"],
        lambda m: list(map(gb, (traffic(m, r, 8, "ddp"), traffic(m, r, 8), traffic(m, r, 1000),
                                traffic(m, r, 8, micro_batches=8)))))


def stale() -> list[Row]:
    """How many updates old a rollout can be."""
    rows = [["batches ahead", *(f"sync every {k}" for k in (1, 2, 4))]]
    rows += [[f"{a}", *(f"{staleness(a, k)}" for k in (1, 2, 4))] for a in (0, 1, 4, 16)]
    return rows


TABLES = {"states": states, "ranks": ranks, "activations": activations, "cache": cache,
          "tokens": tokens, "balance": balance, "sync": sync, "traffic": sent, "stale": stale}
MARKED = re.compile(r"(<!-- plan:start (\w+) -->\n).*?(<!-- plan:end -->)", re.S)


def filled(text: str) -> str:
    """Return a text with every marked table rewritten.

    Raises:
        ValueError: a name that is no table.
    """
    def one(found: re.Match) -> str:
        if found[2] not in TABLES:
            raise ValueError(f"plan:start {found[2]} is no table; known are {', '.join(TABLES)}")
        return found[1] + "\n".join(markdown(TABLES[found[2]]())) + "\n" + found[3]

    return MARKED.sub(one, text)


def update(path: Path = README) -> str:
    """Rewrite the tables of a file; return what was done."""
    from tinylm import write_file

    old = path.read_text(encoding="utf-8")
    new = filled(old)
    if new == old:
        return f"{path.name}: nothing to change"
    write_file(path, lambda file: file.write(new.encode("utf-8")))
    return f"{path.name}: tables written"


# ============================================================== the command


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str):
        """Print the line and end with exit code 2."""
        self.exit(2, f"plan: {message}\n")


def number(low: float, high: float, whole: bool = True):
    """Return a type for argparse: a number from low to high.

    Args:
        low: the smallest.
        high: the largest.
        whole: only whole numbers.
    """
    def read(text: str) -> float:
        try:
            value: float = int(text) if whole else float(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            kind = "a whole number" if whole else "a number"
            raise argparse.ArgumentTypeError(f"{text} is not allowed; give {kind} from {low:g} "
                                             f"to {high:g}")
        return value

    return read


def arguments(args: list[str] | None) -> argparse.Namespace:
    """Return the parsed flags."""
    p = Parser(prog="python -m beyond.launch.plan", description=__doc__, allow_abbrev=False,
               formatter_class=argparse.RawDescriptionHelpFormatter)
    speed = number(1e-3, 1e12, False)
    p.add_argument("--model", default="135M", help="135M, 1.7B, 8B, or a folder (135M)")
    p.add_argument("--recipe", choices=RECIPES, default="mixed", help="types of numbers (mixed)")
    p.add_argument("--gpus", type=number(1, 1e5), default=1, help="all you have (1)")
    p.add_argument("--gpu-gb", type=number(0.1, 1e5, False), default=80.0, help="of one (80)")
    p.add_argument("--reserve", type=number(0, 0.9, False), default=0.1,
                   help="share of it kept free: context, fragments (0.1, a habit, not a fact)")
    p.add_argument("--P", type=number(1, 1e7), default=64, help="prompts a step (64)")
    p.add_argument("--G", type=number(2, 1e6), default=8, help="responses a prompt (8)")
    p.add_argument("--length", type=number(1, 1e7), default=1024, help="mean response (1024)")
    p.add_argument("--prompt", type=number(0, 1e7), default=128, help="prompt tokens (128)")
    p.add_argument("--micro-batch", type=number(1, 1e7), default=8, help="rows at a time (8)")
    p.add_argument("--sample-here", action="store_true",
                   help="the ranks that train also sample, as beyond.train_hf does")
    p.add_argument("--no-reference", action="store_true", help="kl_beta is 0")
    p.add_argument("--checkpointing", action="store_true", help="gradient_checkpointing is on")
    p.add_argument("--generate-tps", type=speed, help="response tokens/s of ONE generator")
    p.add_argument("--train-tps", type=speed, help="response tokens/s of the whole trainer")
    p.add_argument("--bandwidth", type=speed, help="GB/s from the trainer to a generator")
    p.add_argument("--ahead", type=number(0, 1e4), default=1, help="batches ahead (1)")
    p.add_argument("--sync-interval", type=number(1, 1e4), default=1, help="updates (1)")
    p.add_argument("--update", action="store_true", help="rewrite the tables of README.md")
    return p.parse_args(args)


def report(f: argparse.Namespace) -> list[str]:
    """Return the table and the sentences of parsed flags."""
    m, r = read_model(f.model), RECIPES[f.recipe]
    r = replace(r, reference=0) if f.no_reference else r
    return [*table(m, r, f), "", *sentences(m, r, f)]


def main(args: list[str] | None = None) -> int:
    """Print the plan; return the exit code."""
    flags = arguments(args)
    try:
        if flags.update:
            print(update())
        else:
            print("\n".join(report(flags)))
    except (OSError, ValueError) as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(piped(main))
