r"""What a GRPO run needs, on paper: bytes of memory, tokens a step, seconds, generators.

    python -m beyond.launch.plan --model 1.7B --gpus 8 --gpu-gb 80 --P 64 --G 8 --length 1024 \
        --generate-tps 2500 --train-tps 9000
    python -m beyond.launch.plan --model FOLDER          a folder with a HuggingFace config.json
    python -m beyond.launch.plan --update                write the tables of README.md anew

Nothing about a device is built in: its memory, its tokens a second and the bandwidth are numbers
that you give, from a run of your own. Everything else follows from the model's shapes by the
formulas below. GB is 1e9 bytes. Shapes of the three models: their published config.json.
"""

import argparse
import math
import sys
from dataclasses import dataclass, replace

from beyond.launch.plan_models import (
    MODELS,
    Model,
    block_parameters,
    parameters,
    read_model,
    root_parameters,
)

__all__ = ["MODELS", "Model", "block_parameters", "parameters", "read_model", "root_parameters"]

GB = 1e9
CHUNK = 1 << 24  # logits that beyond/hf_backend.py holds at a time


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
    under autocast the residual stream is float32 and five linear layers cast their inputs anew.
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

    chunk: numbers held at a time (the rest is computed anew in backward); None: all.
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
    """Return how many responses of tokens (prompt included) fit beside the weights; 0: none."""
    left = usable - parameters(m) * each / split
    return max(0, int(left // cache_bytes(m, tokens, each, split)))


# ============================================================== tokens, seconds, staleness


def tokens_a_step(P: int, G: int, length: float) -> float:
    """Return the response tokens of one step: P prompts, G responses each, mean length."""
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


# ============================================================== the command


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line."""

    def error(self, message: str):
        """Print the line and end with exit code 2."""
        self.exit(2, f"plan: {message}\n")


def number(low: float, high: float, whole: bool = True):
    """Return a type for argparse: a number from low to high."""
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
    p.add_argument("--update", action="store_true", help="write README.md's tables anew")
    return p.parse_args(args)


def report(f: argparse.Namespace) -> list[str]:
    """Return the table and the sentences of parsed flags."""
    from beyond.launch.plan_text import sentences, table

    m, r = read_model(f.model), RECIPES[f.recipe]
    r = replace(r, reference=0) if f.no_reference else r
    return [*table(m, r, f), "", *sentences(m, r, f)]


def main(args: list[str] | None = None) -> int:
    """Print the plan; return the exit code."""
    flags = arguments(args)
    try:
        if flags.update:
            from beyond.launch.plan_text import update

            print(update())
        else:
            print("\n".join(report(flags)))
    except (OSError, ValueError) as error:
        print(f"plan: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
