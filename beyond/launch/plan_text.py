"""What plan.py says: the command's table and sentences, and the tables of README.md.

    python -m beyond.launch.plan --update        writes README.md's tables anew

A table stands in README.md between <!-- plan:start NAME --> and <!-- plan:end -->.
"""

import argparse
import re
from pathlib import Path

from beyond.launch import plan
from beyond.launch.plan import GB, MODELS, RECIPES, Model, Recipe

README = Path(__file__).resolve().parent / "README.md"
Row = list[str]


def gb(size: float) -> str:
    """Return bytes as GB: 0.27, 3.4, 137."""
    value = size / GB
    digits = 0 if value >= 100 else 1 if value >= 3 else 2
    return f"{value:,.{digits}f}"


def duration(seconds: float) -> str:
    """Return seconds, 0.012 s, 6.1 s, 1,720 s."""
    digits = 0 if seconds >= 20 else 1 if seconds >= 2 else 2 if seconds >= 0.1 else 3
    return f"{seconds:,.{digits}f} s"


# ============================================================== the command


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
    """Return the memory table: one GPU, DDP on all, FSDP on half and on all."""
    n = f.gpus
    kinds = [("1 GPU", 1, "fsdp")]
    kinds += [(f"ddp {n}", n, "ddp")] if n > 1 else []
    kinds += [(f"fsdp {k}", k, "fsdp") for k in sorted({n // 2, n}) if k > 1]
    held = [plan.rank_bytes(m, r, k, how=how, **settings(f)) for _, k, how in kinds]
    names = list(dict.fromkeys(name for parts in held for name in parts))
    rows = [["GB a rank", *(kind[0] for kind in kinds)]]
    for name in names:
        if any(parts.get(name) for parts in held):
            rows.append([name, *(gb(p[name]) if p.get(name) else "-" for p in held)])
    rows.append(["at its fullest", *(gb(plan.fullest(p)) for p in held)])
    return columns(rows)


def sentences(m: Model, r: Recipe, f: argparse.Namespace) -> list[str]:
    """Return what the numbers mean."""
    usable = f.gpu_gb * GB * (1 - f.reserve)
    lines = [f"{m.name}: {plan.parameters(m):,} parameters; a rank may hold {gb(usable)} GB of "
             f"{f.gpu_gb:g}."]
    most = min(f.gpus, f.P)
    ranks = plan.ranks_needed(m, r, usable, most, **settings(f))
    if ranks == 1:
        lines.append("Training fits on one GPU.")
    elif ranks:
        lines.append(f"The policy needs {ranks} ranks of FSDP.")
    else:
        least = plan.fullest(plan.rank_bytes(m, r, most, **settings(f)))
        lines.append(f"Training does not fit on {most}: {gb(least)} GB a rank. Try --checkpointing,"
                     " a smaller --micro-batch, more GPUs.")
    if f.gpus > f.P:
        lines.append(f"At most {f.P} ranks can train: a rank takes whole groups, and there are "
                     f"{f.P} prompts.")
    return lines + generator_lines(m, r, f, usable) + time_lines(m, r, f, ranks)


def generator_lines(m: Model, r: Recipe, f: argparse.Namespace, usable: float) -> list[str]:
    """Return what a generator of its own can hold."""
    tokens, B = f.prompt + f.length, f.P * f.G
    whole = plan.cache_bytes(m, B * tokens, r.compute)
    fit = plan.responses_at_a_time(m, usable, tokens, r.compute)
    where = (f"a generator on one GPU holds {min(fit, B)} of them at a time" if fit else
             "beside the weights none fits on one GPU: split the generator (tensor parallel)")
    return [f"{B} responses of {tokens:,} tokens take {gb(whole)} GB of KV cache; {where}."]


def time_lines(m: Model, r: Recipe, f: argparse.Namespace, ranks: int | None) -> list[str]:
    """Return what the given speeds mean for a step."""
    tokens = plan.tokens_a_step(f.P, f.G, f.length)
    lines = [f"A step needs {tokens:,.0f} response tokens; a step a minute means "
             f"{tokens / 60:,.0f} tokens a second."]
    sync = 0.0
    if f.bandwidth:
        sync = plan.sync_seconds(m, r.compute, f.bandwidth * GB)
        lines.append(f"A weight sync sends {gb(plan.parameters(m) * r.compute)} GB to a generator: "
                     f"{duration(sync)} at {f.bandwidth:g} GB/s.")
    if not (f.generate_tps and f.train_tps):
        return [*lines, "For times, measure --generate-tps and --train-tps and give both."]
    now = plan.step_seconds(tokens, f.generate_tps, f.train_tps, sync=sync)
    lines.append(f"One generator takes {duration(now['generate'])}, training "
                 f"{duration(now['train'])}.")
    need = plan.generators_to_balance(f.generate_tps, f.train_tps)
    more = (f"; {need - 1} more generator{'s' * (need > 2)} balance{'s' * (need == 2)} it"
            if need > 1 else "; training is the longer half, one generator keeps up")
    lines.append(f"Generation takes {100 * now['share']:.0f} % of a step{more}.")
    then = plan.step_seconds(tokens, f.generate_tps, f.train_tps, need, sync)
    old = plan.staleness(f.ahead, f.sync_interval)
    begun = "in turn" if f.ahead == 0 else f"overlapped ({f.ahead} ahead)"
    seconds = then["in_turn"] if f.ahead == 0 else then["overlapped"]
    lines.append(f"With {need} generator{'s' * (need > 1)}, {begun}: {duration(seconds)} a step "
                 f"instead of {duration(now['in_turn'])}; rollouts are up to {old} "
                 f"update{'s' * (old != 1)} old.")
    if ranks and ranks + need > f.gpus:
        lines.append(f"That takes {ranks + need} GPUs, one a generator, and there are {f.gpus}.")
    return lines


# ============================================================== the tables of README.md


def markdown(rows: list[Row]) -> list[str]:
    """Return rows as a Markdown table, numbers to the right."""
    line = ["| " + " | ".join(row) + " |" for row in rows]
    return [line[0], "|---|" + "---:|" * (len(rows[0]) - 1), *line[1:]]


def states() -> list[Row]:
    """Weights, gradients, Adam and reference, whole."""
    rows = [["model, recipe", "weights", "bf16 copy", "gradients", "Adam", "policy", "reference",
             "GB in all"]]
    for m in MODELS.values():
        for r in RECIPES.values():
            held = plan.state_bytes(m, r)
            policy = sum(held.values()) - held["reference"]
            cells = [held["weights"], held["bf16 copy"], held["gradients"], held["Adam"], policy,
                     held["reference"], policy + held["reference"]]
            rows.append([f"{m.name} {r.name}", *("-" if c == 0 else gb(c) for c in cells)])
    return rows


RANKS = (1, 8, 64, 1000)


def ranks() -> list[Row]:
    """GB a rank, without activations."""
    rows = [["model, recipe", "DDP, any number", *(f"FSDP {n:,}" for n in RANKS[1:])]]
    for m in MODELS.values():
        for r in RECIPES.values():
            each = [plan.rank_bytes(m, r, 2, how="ddp")]
            each += [plan.rank_bytes(m, r, n) for n in RANKS[1:]]
            rows.append([f"{m.name} {r.name}", *(gb(plan.fullest(h)) for h in each)])
    return rows


def activations() -> list[Row]:
    """One micro-batch of 8 rows of 1,152 tokens."""
    tokens, rows = 8 * 1152, [["model, recipe", "activations", "with checkpointing",
                               "all logits", "logits in chunks"]]
    for m in MODELS.values():
        for r in RECIPES.values():
            each = (plan.activation_bytes(m, r, tokens), plan.activation_bytes(m, r, tokens, True),
                    plan.logits_bytes(m, r, tokens, None), plan.logits_bytes(m, r, tokens))
            rows.append([f"{m.name} {r.name}", *map(gb, each)])
    return rows


def cache() -> list[Row]:
    """KV cache in bfloat16."""
    rows = [["model", "KiB a token", "512 responses of 1,152 tokens",
             "a rank of 2", "a rank of 8"]]
    for m in MODELS.values():
        each = [plan.cache_bytes(m, 512 * 1152, 2, split) for split in (1, 2, 8)]
        rows.append([m.name, f"{plan.cache_bytes(m, 1) / 1024:g}", *map(gb, each)])
    return rows


JOBS = (  # what, P, G, mean response length
    ("this lab, TinyLM", 16, 8, 4), ("SmolLM2 here", 4, 8, 6), ("one GPU", 16, 8, 256),
    ("8 GPUs", 64, 8, 1024), ("1,000 GPUs", 1024, 16, 8192),
)


def tokens() -> list[Row]:
    """Response tokens of a step, and a second."""
    rows = [["job", "P", "G", "length", "tokens a step", "tokens a second, one step a minute",
             "most training ranks"]]
    for name, P, G, length in JOBS:
        n = plan.tokens_a_step(P, G, length)
        rows.append([name, f"{P:,}", f"{G}", f"{length:,}", f"{n:,.0f}", f"{n / 60:,.0f}",
                     f"{P:,}"])
    return rows


def balance() -> list[Row]:
    """Shares of a step for ratios of the two speeds."""
    rows = [["train tokens/s : generate tokens/s", "generation's share", "generators that balance",
             "step, in turn", "step, overlapped"]]
    for ratio in (0.5, 1, 2, 4, 10, 20):
        one = plan.step_seconds(1, 1, ratio)
        need = plan.generators_to_balance(1, ratio)
        then = plan.step_seconds(1, 1, ratio, need)
        rows.append([f"{ratio:g} : 1", f"{100 * one['share']:.0f} %", f"{need}",
                     f"{then['in_turn'] / one['in_turn']:.2f}",
                     f"{then['overlapped'] / one['in_turn']:.2f}"])
    return rows


def sync() -> list[Row]:
    """Bytes of a weight sync, and its time."""
    rows = [["model", "GB, bfloat16", "at 0.1 GB/s", "at 1 GB/s", "at 10 GB/s", "at 100 GB/s"]]
    for m in MODELS.values():
        times = [duration(plan.sync_seconds(m, 2, b * GB)) for b in (0.1, 1, 10, 100)]
        rows.append([m.name, gb(plan.parameters(m) * 2), *times])
    return rows


def traffic() -> list[Row]:
    """GB that a rank sends for an update of one micro-batch."""
    rows = [["model", "DDP, 8 ranks", "FSDP mixed, 8 ranks", "FSDP mixed, 1,000 ranks",
             "FSDP mixed, 8 ranks, 8 micro-batches"]]
    r = RECIPES["mixed"]
    for m in MODELS.values():
        each = (plan.traffic(m, r, 8, "ddp"), plan.traffic(m, r, 8), plan.traffic(m, r, 1000),
                plan.traffic(m, r, 8, micro_batches=8))
        rows.append([m.name, *map(gb, each)])
    return rows


def stale() -> list[Row]:
    """How many updates old a rollout can be."""
    rows = [["batches ahead", *(f"sync every {k}" for k in (1, 2, 4))]]
    rows += [[f"{a}", *(f"{plan.staleness(a, k)}" for k in (1, 2, 4))] for a in (0, 1, 4, 16)]
    return rows


TABLES = {"states": states, "ranks": ranks, "activations": activations, "cache": cache,
          "tokens": tokens, "balance": balance, "sync": sync, "traffic": traffic, "stale": stale}
MARKED = re.compile(r"(<!-- plan:start (\w+) -->\n).*?(<!-- plan:end -->)", re.S)


def filled(text: str) -> str:
    """Return a text with every marked table made anew.

    Raises:
        ValueError: a name that is no table.
    """
    def one(found: re.Match) -> str:
        if found[2] not in TABLES:
            raise ValueError(f"plan:start {found[2]} is no table; known are {', '.join(TABLES)}")
        return found[1] + "\n".join(markdown(TABLES[found[2]]())) + "\n" + found[3]

    return MARKED.sub(one, text)


def update(path: Path = README) -> str:
    """Write the tables of a file anew; return what was done."""
    from tinylm import write_file

    old = path.read_text(encoding="utf-8")
    new = filled(old)
    if new == old:
        return f"{path.name}: nothing to change"
    write_file(path, lambda file: file.write(new.encode("utf-8")))
    return f"{path.name}: tables written"
