"""Three hints a task, from a question to nearly code: python -m pytest -q -k task2 --hints.

The texts of this file are the only ones; the fold-outs in chapter.md are made from them
(`fold_outs`), and a test compares.
"""

import re
import textwrap

from tests.labfile import TASKS
from tests.messages import screen

HINTS = {
    1: (
        "Which rows does `sample` need, and in which order, so that rows 0 to G-1 belong to "
        "prompt 0? Which answer does row i need? Write both lists down for two prompts and `G = "
        "3` before you write code.",
        "A list comprehension with two loops, one over the prompts and one over `range(G)`, "
        "gives a list in which each prompt appears G times, one after the other; which of the "
        "loops comes first matters. Do the same with the answers. Call `sample` once, for all "
        "rows, and pass the temperature on.",
        "Nearly code: rows = every prompt G times; out = `sample` of the model, the rows, the "
        "temperature; responses = `decode_responses` of out. Then one `reward` for each "
        "response and its own answer, and from that list a float32 tensor on the device of "
        "`out[\"ids\"]`. Return a dict with the three keys of the docstring.",
    ),
    2: (
        "The rewards of a group are next to each other. Which shape gives every group a row of "
        "its own? Along which dim do you then take the mean, so that there is one for every "
        "row?",
        "What is the shape of that mean, and what does `keepdim` change? PyTorch's `std` "
        "divides by G-1 unless you tell it otherwise: with which argument? Does `eps` belong "
        "inside the root, or is it added to the finished std?",
        "Nearly code: view the rewards as `(-1, G)`; subtract the mean over dim 1. Only if "
        "`scale_std`, divide by: population std over the same dim, plus `eps`. Flatten the "
        "result. A group of equal rewards is not a special case: 0 divided by `eps` is 0.",
    ),
    3: (
        "Where the two models agree, k3 must be 0: what is `d` there? And which of the two "
        "log-probs gets the minus sign, so that exp(d) is pi_ref / pi_theta?",
        "Everything works on whole tensors: no loop, no mean, no sum, the shape stays `(B, T)`. "
        "The gradient has to flow through `logp`: no `detach`, no `no_grad`, no `item`.",
        "Nearly code: the first line subtracts the policy's log-prob from the reference's and "
        "calls the difference `d`. The second line returns three terms: the exponential of `d`, "
        "minus `d` itself, minus one.",
    ),
    4: (
        "What shape does `adv` have, and what shape `rho`? How does one number per response "
        "reach all tokens of its row? And by hand, with `eps = 0.2`: what does min give for A = "
        "1 and A = -1, at rho = 0.5 and rho = 1.5, and where is a gradient left?",
        "Go step by step: rho; rho times A; the clamped rho times A; the smaller of the two, "
        "minus the KL term. Then the mean: multiply by the mask, sum over the tokens of a row, "
        "divide by that row's number of real tokens, and only then average over the rows.",
        "Nearly code: `A` is adv with a new last dim, so it fits `(B, T)`. `torch.min` of two "
        "tensors works element by element. Stats, under `no_grad` and as floats: kl is one mean "
        "over all real tokens; clip_frac the share of real tokens whose clipped term is "
        "strictly smaller; ratio_max looks at real tokens only.",
    ),
    5: (
        "What stays fixed while the inner steps run, and what changes with every step of the "
        "optimizer? Which of the steps in the docstring belong before the loop, and which "
        "inside it?",
        "`old_logp` and `ref_logp` are constants: compute both before the loop, under one "
        "`no_grad`, on the same `out`. Inside the loop the order matters: gradients are cleared "
        "before `backward`, and clipped after it but before the optimizer's step.",
        "Nearly code: groups, adv, old and ref, entropy; then, `cfg.inner_steps` times: logp, "
        "loss, clear, backward, `clip_grad_norm_` of the policy's parameters, step. A group is "
        "without signal if its largest reward equals its smallest: view the rewards by `cfg.G`, "
        "compare row by row, average. Return floats, not tensors.",
    ),
}
KEY = "lab15/failures"  # in pytest's cache: file -> task -> failing runs in a row


def hint_lines(n, level, option="--hints="):
    """Return the first `level` hints of a task as lines; `option` is how to ask for one more.

    Args:
        n: number of the task.
        level: how many hints.
        option: how to request one more.
    """
    lines = []
    for i, text in enumerate(HINTS[n][:level], 1):
        lines += [f"task{n}, hint {i} of {len(HINTS[n])}"]
        lines += _wrapped(text, "    ")
    if level < len(HINTS[n]):
        lines.append(f"One more:  {option}{level + 1}")
    return lines


def _wrapped(text, indent):
    """Return the text as lines of at most 88 characters; text in backticks stays whole."""
    whole = re.sub("`[^`]+`", lambda match: match[0].replace(" ", "\0"), text)
    lines = textwrap.wrap(whole, 88, initial_indent=indent, subsequent_indent=indent,
                          break_on_hyphens=False)
    return [line.replace("\0", " ") for line in lines]


def fold_outs(n):
    """Return the hints of a task as fold-outs, for chapter.md."""
    parts = []
    for i, text in enumerate(HINTS[n], 1):
        body = "\n".join(_wrapped(text, ""))
        parts.append(f"<details><summary>Hint {i}</summary>\n\n{body}\n\n</details>\n")
    return "\n".join(parts)


def count(counts, n, failed):
    """Note how a run of task n ended; return whether it failed twice or more in a row.

    Args:
        counts: {task: failed runs in a row}, updated.
        n: number of the task.
        failed: whether this run failed.
    """
    counts[str(n)] = counts.get(str(n), 0) + 1 if failed else 0
    return counts[str(n)] >= 2


def offer(n, options=""):
    """Return the line that offers hints."""
    return f"Stuck? There are hints:  python -m pytest -q -k task{n} --hints{options}"


def lines_for(config, runs):
    """Return the lines about hints that close a run of pytest.

    Args:
        config: pytest's.
        runs: task -> [kind of its state, outcome of every test that ran]; tasks that ran.
    """
    level = config.getoption("--hints")
    failing = [n for n, (kind, *ran) in runs.items() if kind != "written" or "failed" in ran]
    again = _failed_before(config, runs, failing)
    if level:
        wanted = list(runs) if len(runs) == 1 else failing[:1]
        return [line for n in wanted for line in hint_lines(n, level)]
    options = screen.lab_option(config.getoption("--lab"))
    return [offer(n, options) for n in failing if n in again][:1]


def _failed_before(config, runs, failing):
    """Return the tasks that failed twice or more in a row; remembered in pytest's cache."""
    cache = getattr(config, "cache", None)  # None with -p no:cacheprovider
    if cache is None:
        return []
    known = cache.get(KEY, {})
    known = known if isinstance(known, dict) else {}
    key = str(config.getoption("--lab"))
    counts = known.get(key)
    if not isinstance(counts, dict) or not all(type(v) is int for v in counts.values()):
        counts = {}
    again = [n for n in runs if count(counts, n, n in failing)]
    cache.set(KEY, {**known, key: counts})  # where it cannot write, pytest continues
    return again


if __name__ == "__main__":
    from lab15_run import piped  # here alone: a test run does without it

    sections = [f"Section {TASKS[n].section}\n\n{fold_outs(n)}" for n in HINTS]
    piped(lambda: print("\n".join(sections)))
