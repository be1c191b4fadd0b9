"""The texts of beyond.compare: tables, claims, the chapter's form of both, CSV."""

import csv
import io
from pathlib import Path

import tinylm
from beyond.compare import stats
from beyond.compare.run import SAMPLES
from beyond.compare.stats import (
    BASE,
    COLUMNS,
    LAST,
    LEVEL,
    Difference,
    Summaries,
    compared,
    mean_of,
    values,
)
from lab15_run import counted


def table(found: Summaries, task: str) -> str:
    """Return the table of means and the differences to grpo, as text."""
    seeds = max(map(len, found.values()), default=0)
    lines = [f"task {task}, mean over the seeds; accuracy, entropy, KL, length, clipped: mean of",
             f"the last {LAST} evaluations; pass@k of {SAMPLES} samples; area: under the curve of",
             "sampled accuracy; clipped: share of tokens; seconds: of the processor"]
    keys = [(k, h, d) for k, h, d, _ in COLUMNS]
    lines.append(f"{'variant':14} seeds " + " ".join(f"{h:>8}" for _, h, _ in keys))
    for name, runs in found.items():
        cells = [mean_of(list(values(found, name, k).values())) for k, _, _ in keys]
        lines.append(f"{name:14} {len(runs):5} " + " ".join(
            f"{x:8.{d}f}" for x, (_, _, d) in zip(cells, keys)))
    some = compared(found, "sampled").values() if BASE in found else ()
    n = sum(d is not None for d in some)
    if n == 0:
        few = f"no differences to {BASE}: they need two seeds that both have"
        return "\n".join([*lines, *["", few] * (BASE in found and len(found) > 1)])
    lines += ["", f"difference to {BASE}, seed by seed: mean [95% paired bootstrap] p (sign-flip "
              f"test, Holm for {counted(n, 'comparison')} a column) * below {LEVEL}"]
    if 2.0 ** (1 - seeds) * n >= LEVEL:
        lines.append(f"with {counted(seeds, 'seed')} and {counted(n, 'comparison')} no p can "
                     f"come below {min(1, 2.0 ** (1 - seeds) * n):.2g}: too few seeds to call "
                     "anything significant")
    for key, heading, digits, wanted in COLUMNS:
        if wanted:
            lines.append(heading)
            for name, d in compared(found, key).items():
                lines.append(f"  {name:14} {d.text(digits) if d else 'no two seeds in common'}")
    return "\n".join(lines)


def claims_text(by_task: dict[str, Summaries]) -> str:
    """Return what became of the papers' claims, as text."""
    found = stats.claims(by_task)
    if not found:
        return ""
    lines = [f"claims, each a paired comparison; Holm for {counted(len(found), 'claim')}"]
    for claim, d in found:
        lines.append(f"- {claim.text}\n    {claim.variant} against {claim.base}, {claim.key}: "
                     f"{d.text()}, {counted(d.n, 'seed')}: {stats.verdict(claim, d)}")
    return "\n".join(lines)


def write_csv(found: Summaries, path: Path) -> None:
    """Write every run's summary as a CSV file."""
    keys = list(dict.fromkeys(k for runs in found.values() for told in runs.values() for k in told))
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["variant", "seed", *keys])
    for name, runs in found.items():
        rows.writerows([name, s, *(told.get(k, "") for k in keys)] for s, told in runs.items())
    data = text.getvalue().encode()
    tinylm.write_file(path, lambda file: file.write(data))


# ============================================================== for the chapter

CHAPTER = ("sampled", "greedy", "pass@8", "area", "entropy", "length")


def _cell(mean: float, digits: int, d: Difference | None) -> str:
    """Return a mean, with + or - behind it where it differs significantly from grpo's."""
    sign = "" if d is None or not d.significant else " (+)" if d.mean > 0 else " (-)"
    return f"{mean:.{digits}f}{sign}"


def markdown(found: Summaries, task: str) -> str:
    """Return the chapter's table of a task."""
    chosen = [column for column in COLUMNS if column[0] in CHAPTER]
    lines = [f"| {task} task | " + " | ".join(h for _, h, _, _ in chosen) + " |",
             "|---" * (len(chosen) + 1) + "|"]
    by_key = {key: compared(found, key) for key in CHAPTER} if BASE in found else {}
    for name in found:
        cells = [_cell(mean_of(list(values(found, name, key).values())), digits,
                       by_key.get(key, {}).get(name)) for key, _, digits, _ in chosen]
        lines.append(f"| `{name}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def markdown_claims(by_task: dict[str, Summaries]) -> str:
    """Return the chapter's table of the papers' claims."""
    lines = ["| claim | compared | difference | here |", "|---|---|---|---|"]
    for claim, d in stats.claims(by_task):
        lines.append(f"| {claim.text} | `{claim.variant}` - `{claim.base}`, {claim.key} | "
                     f"{d.mean:+.3f} [{d.low:+.3f}, {d.high:+.3f}], p {d.adjusted:.3f} | "
                     f"{stats.verdict(claim, d)} |")
    return "\n".join(lines)
