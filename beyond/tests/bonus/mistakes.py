"""The known mistakes of the bonus exercises: their texts, and what they compute.

A mistake replaces one stage of the specification, as in tests/mistakes/task4.py; what can go wrong
in the same way as in Task 4 is taken from there, with its text. Here e, the clip range of a probe,
is the pair (clip_eps, clip_high), and p.G is the group size.
"""

from math import exp, log

from tests.mistakes.arithmetic import div, mean
from tests.mistakes.task4 import (
    MEANS,
    STATS,
    SURROGATE,
    lengths,
    over_T,
    per_response,
    real,
    sums,
    token_mean,
)

Stages = dict
Table = list


def clip(rho, low, high):
    """Return rho, but no less than low and no more than high."""
    return min(max(rho, low), high)


def _groups(p, together):
    """Return the row numbers of each group; together: True if its rows are adjacent."""
    P = len(p.mask) // p.G
    if together:
        return [range(j * p.G, (j + 1) * p.G) for j in range(P)]
    return [range(j, len(p.mask), P) for j in range(P)]


def _of_groups(obj, p, together=True):
    total, count = sums(obj, p), lengths(p)
    return [div(sum(total[i] for i in rows), sum(count[i] for i in rows))
            for rows in _groups(p, together)]


def group_token_mean(obj, p):
    """Return the mean over all real tokens of a group, then over the groups."""
    return mean(_of_groups(obj, p))


def _sequence(reduce):
    """One ratio per response: reduce gets its real tokens' log-ratios, its row, and the mask."""
    def ratio(p, x, i, t):
        row = [a - b for a, b in zip(x[i], p.old_logp[i])]
        return reduce([c for c, on in zip(row, p.mask[i]) if on], row)

    return {"ratio": ratio}


def _sequence_of(seen):
    """GSPO's ratio of another matrix than the logp that the gradient flows through."""
    right = _sequence(lambda tokens, row: exp(mean(tokens)))["ratio"]
    return {"ratio": lambda p, x, i, t: right(p, seen(p, x), i, t)}


def _rows_clipped(m, p):
    return mean([max(c < u for u, c, on in zip(*rows) if on)
                 for rows in zip(m["un"], m["cl"], p.mask)])


NO_KL = {"combine": lambda surrogate, k, beta, A: surrogate}
PAIR = {"clip": lambda rho, e: clip(rho, 1 - e[0], 1 + e[1])}
DAPO: Stages = {**NO_KL, **PAIR, "aggregate": group_token_mean}
GSPO: Stages = {**NO_KL, **PAIR, **_sequence(lambda real_ones, row: exp(mean(real_ones))),
                "aggregate": per_response, "clip_frac": _rows_clipped}


def _clip(function):
    return {"clip": function}


def _kl_in(sign):
    return {"combine": lambda surrogate, k, beta, A: surrogate - sign * beta * k}


def _mean(function):
    return {"aggregate": function}


CLIP: Table = [
    ("clip_symmetric", _clip(lambda rho, e: clip(rho, 1 - e[0], 1 + e[0]))),
    ("clip_both_high", _clip(lambda rho, e: clip(rho, 1 - e[1], 1 + e[1]))),
    ("clip_swapped", _clip(lambda rho, e: clip(rho, 1 - e[1], 1 + e[0]))),
    ("clip_absolute", _clip(lambda rho, e: clip(rho, 1 - e[0], max(e[1], 1 - e[0])))),
    ("clip_absolute", _clip(lambda rho, e: clip(rho, e[0], e[1]))),
    ("clip_absolute", _clip(lambda rho, e: clip(rho, e[0], 1 + e[1]))),
    ("clip_upper_only", _clip(lambda rho, e: min(rho, 1 + e[1]))),
    ("clip_lower_only", _clip(lambda rho, e: max(rho, 1 - e[0]))),
    ("clip_log", _clip(lambda rho, e: exp(clip(log(rho), -e[0], e[1])))),
    ("clip_log", _clip(lambda rho, e: exp(clip(log(rho), log(1 - e[0]), e[1])))),
    ("no_clip", _clip(lambda rho, e: rho)),
    ("kl_in", _kl_in(1)),
    ("kl_in", _kl_in(-1)),
    ("dual_clip", {"pick": lambda un, cl, A, pen: max(min(un, cl), 3 * A) if A < 0
                   else min(un, cl)}),
]
TEXTS = {
    "clip_symmetric": "the upper bound uses clip_eps as well; its own range is clip_high.",
    "clip_both_high": "the lower bound uses clip_high; its own range is clip_eps.",
    "clip_swapped": "the two ranges are swapped: clip_eps is for below 1, clip_high for above.",
    "clip_absolute": "the ranges are distances from 1: the bounds are 1 - clip_eps and 1 + "
                     "clip_high.",
    "clip_upper_only": "only the upper bound is there; the lower one is 1 - clip_eps.",
    "clip_lower_only": "only the lower bound is there; the upper one is 1 + clip_high.",
    "clip_log": "the ratio is clipped, not its logarithm.",
    "clip_fixed": "the clip range of the call is not used; these are the defaults' numbers.",
    "no_clip": "nothing is clipped: the min needs a second term with the clipped ratio.",
    "kl_in": "there is a KL term in it; the paper has none, and beta is not used.",
    "dual_clip": "this is dual clip (c = 3), which some libraries add; the paper does not.",
}
DAPO_TEXTS = {
    "response_mean": "these are the numbers of GRPO's mean, each response by itself first; here "
                     "all tokens of a group count alike.",
    "batch_mean": "this is the token mean over the whole batch, as the libraries have it; the "
                  "paper's is over each group first, then over the prompts.",
    "group_axis": "the groups are cut the wrong way: rows 0..G-1 belong together. Is it a "
                  "view(G, -1) or a transpose?",
    "group_sum": "the prompts are summed; average over them.",
    "by_G": "the sum over prompts is divided by G; there are B / G of them.",
    "constant": "the divisor counts padding as well: it is the number of real tokens.",
}
GSPO_TEXTS = {
    "detached": "s has no gradient: no detach() or no_grad() around it.",
    "token_ratio": "this is GRPO's ratio, one per token; GSPO has one per response.",
    "product": "the log-ratios are summed and not averaged: divide by |y| before exp.",
    "mean_of_ratios": "this is the mean of the tokens' ratios; s is exp of the mean of their "
                      "logarithms.",
    "padding": "s takes in padding: mask logp - old_logp before the sum.",
    "over_T": "the sum of the log-ratios is divided by T; |y| is the number of real tokens.",
    "whole_batch": "this is one ratio for the whole batch; s belongs to one response.",
    "ref": "s compares with ref_logp; old_logp is the policy that sampled.",
    "inverted": "s is upside down: old_logp - logp instead of logp - old_logp.",
    "token_mean": "longer responses count more here (verl's default in one version); average over "
                  "the responses.",
    "length_again": "the objective is divided by |y| once more; s has that already.",
    "length_lost": "every response counts |y| times (that loss is called LUSPO); average over the "
                   "responses.",
    "row_sum": "the responses are summed; average over the B of them.",
    "clip_tokens": "clip_frac is the fraction of responses here, not of tokens.",
}
KEPT = {"task4.ratio_ref", "task4.ratio_no_exp", "task4.ratio_inverted", "task4.ratio_detached",
        "task4.old_ignored", "task4.broadcast", "task4.adv_sign", "task4.adv_abs",
        "task4.adv_missing", "task4.max", "task4.max_negative", "task4.max_positive",
        "task4.no_min", "task4.clip_product", "task4.clipped_without_adv", "task4.not_negated",
        "task4.zeros", "task4.factor", "task4.mask_ignored", "task4.term_detached"}
FROM_TASK_4: Table = [(name, s) for name, s in SURROGATE + MEANS if name in KEPT]


def _named(number, table):
    return [(f"bonus{number}.{name}", stages) for name, stages in table]


def _fixed(low, high):
    return [("clip_fixed", _clip(lambda rho, e: clip(rho, 1 - low, 1 + high)))]


DAPO_TABLE: Table = FROM_TASK_4 + _named(1, [
    *CLIP, *_fixed(0.2, 0.28),
    ("response_mean", _mean(per_response)),
    ("batch_mean", _mean(token_mean)),
    ("group_axis", _mean(lambda obj, p: mean(_of_groups(obj, p, together=False)))),
    ("group_sum", _mean(lambda obj, p: sum(_of_groups(obj, p)))),
    ("by_G", _mean(lambda obj, p: sum(_of_groups(obj, p)) / p.G)),
    ("constant", _mean(over_T)),
])
SAME_HERE = {"task4.mask_ignored"}  # one term for all positions of a row, padding included
GSPO_TABLE: Table = [
    (n, s) for n, s in FROM_TASK_4 if "ratio" not in s and n not in SAME_HERE] + _named(2, [
    *CLIP, *_fixed(3e-4, 4e-4), *_fixed(0.2, 0.2), *_fixed(0.2, 0.28),
    ("detached", _sequence_of(lambda p, x: p.logp)),
    ("token_ratio", {"ratio": lambda p, x, i, t: exp(x[i][t] - p.old_logp[i][t])}),
    ("product", _sequence(lambda tokens, row: exp(sum(tokens)))),
    ("mean_of_ratios", _sequence(lambda tokens, row: mean([exp(c) for c in tokens]))),
    ("padding", _sequence(lambda tokens, row: exp(mean(row)))),
    ("padding", _sequence(lambda tokens, row: exp(div(sum(row), len(tokens))))),
    ("over_T", _sequence(lambda tokens, row: exp(sum(tokens) / len(row)))),
    ("inverted", _sequence(lambda tokens, row: exp(-mean(tokens)))),
    ("ref", {"ratio": lambda p, x, i, t: exp(mean(
        [a - b for a, b, on in zip(x[i], p.ref_logp[i], p.mask[i]) if on]))}),
    ("whole_batch", {"ratio": lambda p, x, i, t: exp(mean(
        real([[a - b for a, b in zip(*rows)] for rows in zip(x, p.old_logp)], p.mask)))}),
    ("token_mean", _mean(token_mean)),
    ("length_again", _mean(lambda obj, p: mean(
        [div(total, n * n) for total, n in zip(sums(obj, p), lengths(p))]))),
    ("length_lost", _mean(lambda obj, p: mean(sums(obj, p)))),
    ("row_sum", _mean(lambda obj, p: per_response(obj, p) * len(p.mask))),
])


def _tokens_clipped(m, p):
    return mean([c < u for u, c in zip(real(m["un"], p.mask), real(m["cl"], p.mask))])


DAPO_STATS: Table = STATS
GSPO_STATS: Table = [("bonus2.clip_tokens", {"clip_frac": _tokens_clipped})] + [
    (name, s) for name, s in STATS if "clip_" not in name and "top_padding" not in name]

MISTAKES = {f"bonus{n}.{name}": (text, None)
            for n, texts in ((1, TEXTS | DAPO_TEXTS), (2, TEXTS | GSPO_TEXTS))
            for name, text in texts.items()}
