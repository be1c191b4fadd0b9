"""Blanks of the notebooks: the reader computes a number, and one line says whether it is right.

A blank is `...` in a cell, with a line `fill("name", value, facts)` below it. An empty one says so.
A wrong number gets a line that says what is wrong with it, from the mistakes listed here, else
whether it is too large or too small; the right number is never shown.

A prediction is not judged: guess() puts it beside what happened.
"""

from math import exp, log, sqrt

from notebooks.show import display, table

NEAR = 0.006  # of its size, or of 1 for small numbers: three digits are enough


def is_number(value):
    """Return whether a value can be compared: a number, or a tensor or array with one."""
    if isinstance(value, bool | str | bytes) or value is None or value is Ellipsis:
        return False
    try:
        return float(value) == float(value)
    except (TypeError, ValueError, RuntimeError):
        return False


def same(a, b):
    """Return whether two numbers agree to three digits."""
    return abs(a - b) <= NEAR * max(1.0, abs(b)) / (1 if abs(b) >= 0.5 else 2)


# ============================================================== right and wrong

def prompt_of_row(row, G, P):
    """Return the prompt that a row belongs to, and what wrong answers come from."""
    return row // G, {row % G: "that is the place of the row within its group",
                      row // P: "you divided by the number of prompts; a group has G rows",
                      row // G + 1: "prompts are counted from 0",
                      row: "that is the row itself"}


def mean_reward(rewards):
    """Return a group's mean reward."""
    total, n = sum(rewards), len(rewards)
    return total / n, {total: "that is the sum; divide by the number of responses",
                       total / (n - 1): "you divided by G - 1; a mean divides by G",
                       1 - total / n: "that is the share of the wrong responses"}


def std_reward(rewards):
    """Return a group's population standard deviation."""
    n = len(rewards)
    mean = sum(rewards) / n
    squares = sum((r - mean) ** 2 for r in rewards)
    std = sqrt(squares / n)
    return std, {squares / n: "that is the variance; take its square root",
                 sqrt(squares / (n - 1)): "that is the sample std (G - 1); GRPO's divides by G",
                 squares: "that is the sum of the squared distances; take the mean, then the root",
                 sqrt(squares): "divide by G before you take the root"}


def advantage(reward, rewards):
    """Return the advantage of a response with this reward in its group."""
    n = len(rewards)
    mean, std = mean_reward(rewards)[0], std_reward(rewards)[0]
    sample = std * sqrt(n / (n - 1))
    right = (reward - mean) / std
    return right, {reward - mean: "this is not divided by the std yet",
                   (reward - mean) / sample: "you divided by the sample std (G - 1)",
                   (reward - mean) / std**2: "you divided by the variance",
                   reward / std: "the mean of the group is not subtracted yet",
                   -right: "the sign is the wrong way round: a better response is above the mean"}


def log_difference(logp, ref_logp):
    """Return d of k3."""
    right = ref_logp - logp
    return right, {-right: "the sign is the wrong way round: d starts from ref",
                   exp(right): "that is exp(d); d is the difference of the logs",
                   ref_logp + logp: "you added the two; d is a difference"}


def k3(logp, ref_logp):
    """Return k3 of one token."""
    d = ref_logp - logp
    return exp(d) - d - 1, {exp(-d) + d - 1: "the sign of d is the wrong way round",
                            -d: "that is k1", d * d / 2: "that is k2",
                            exp(d) - 1: "the term with d alone is missing",
                            exp(d) - d: "the last term is missing: where the models agree, k3 is 0",
                            exp(d) + d - 1: "the middle term has the wrong sign"}


def ratio(logp, old_logp):
    """Return rho of one token."""
    rho = exp(logp - old_logp)
    return rho, {1 / rho: "that is old to new; rho is new to old",
                 logp - old_logp: "that is the log of rho; take exp of it",
                 old_logp - logp: "that is the log of old to new",
                 logp / old_logp: "you divided the logs; the ratio is of probabilities"}


def surrogate(logp, old_logp, adv, eps=0.2):
    """Return the smaller of the two terms of one token's objective."""
    rho = exp(logp - old_logp)
    plain, clipped = rho * adv, min(max(rho, 1 - eps), 1 + eps) * adv
    wrong = {clipped if clipped > plain else plain: "that is the larger of the two terms",
             rho: "that is rho; it is not multiplied by A yet",
             min(max(rho, 1 - eps), 1 + eps): "that is the clipped ratio; multiply by A",
             min(max(plain, 1 - eps), 1 + eps): "clip the ratio, not the product with A",
             -min(plain, clipped): "the minus of the loss comes last, after the means"}
    return min(plain, clipped), wrong


BLANKS = {"prompt of a row": prompt_of_row, "mean": mean_reward, "std": std_reward,
          "advantage": advantage, "d": log_difference, "k3": k3, "rho": ratio,
          "objective": surrogate}


# ============================================================== what the cells call

def verdict(name, value, *facts):
    """Return one line about a blank: empty, no number, right, or what is wrong with it.

    Args:
        name: one of BLANKS.
        value: what the reader has put there.
        facts: the arguments of that blank's function.
    """
    if value is Ellipsis:
        return f"{name}: not filled in yet. Put a number in the place of the dots."
    if not is_number(value):
        return f"{name}: a number is needed, not {type(value).__name__}."
    number = float(value)
    right, wrong = BLANKS[name](*facts)
    if same(number, right):
        return f"{name}: right."
    known = [words for other, words in wrong.items()
             if same(number, other) and not same(other, right)]
    if known:
        return f"{name}: not yet; {known[0]}."
    if right and same(number, -right):
        return f"{name}: not yet; the sign is the wrong way round."
    return f"{name}: not yet; your number is too {'large' if number > right else 'small'}."


def fill(name, value, *facts):
    """Print one line about a blank; see verdict."""
    print(verdict(name, value, *facts))


def guess(title, guesses, happened):
    """Show predictions beside what happened; say what has not been predicted.

    Args:
        title: of the table.
        guesses: dict name -> number, or ... for none.
        happened: dict with the same names -> number.
    """
    open_ones = [name for name in happened if not is_number(guesses.get(name, ...))]
    rows = []
    for name, value in happened.items():
        known = name not in open_ones
        off = float(guesses[name]) - float(value) if known else None
        rows.append([name, f"{float(guesses[name]):g}" if known else "no prediction",
                     f"{float(value):.4g}", "" if off is None else f"{off:+.4g}"])
    display(table(title, ["", "you said", "it was", "difference"], rows))
    if open_ones:
        print("Without a prediction: " + ", ".join(open_ones) + ". Type a number in the cell that "
              "asks for it, run it, then this one again.")


def clipped_token(out, logp, old_logp, adv, eps=0.2):
    """Return (row, place, dict of numbers) of a token whose objective the clip changes.

    The one that has moved most; if none is clipped, the one that has moved most of all.

    Args:
        out: what sample returned.
        logp: (B, T) log-probabilities now.
        old_logp: (B, T) when they were sampled.
        adv: (B,) advantages.
        eps: of the clip.
    """
    best, chosen = (-1, -1.0), (0, 0)
    for row, length in enumerate(out["mask"].sum(1).int().tolist()):
        for t in range(length):
            rho, A = exp(float(logp[row, t]) - float(old_logp[row, t])), float(adv[row])
            moved = abs(log(rho))
            is_clipped = min(max(rho, 1 - eps), 1 + eps) * A < rho * A
            if A and (is_clipped, moved) > best:
                best, chosen = (is_clipped, moved), (row, t)
    row, t = chosen
    return row, t, {"logp": round(float(logp[row, t]), 4),
                    "old_logp": round(float(old_logp[row, t]), 4), "A": round(float(adv[row]), 4)}
