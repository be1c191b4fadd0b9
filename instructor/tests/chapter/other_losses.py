"""The losses of other libraries on the small batch of section 9, in plain Python.

Written from the formulas in the chapter's table, one function each, and independent of the code
in beyond/: a number in the chapter is recomputed here, and
beyond/losses/variants.py has tests of its own.
"""

import math

from instructor.tests.chapter.formulas import adv, adv_by, clip, k3_of, mean, sstd

# One group, G = 2: a right response of three tokens, a wrong one of a single token.
REWARDS = [1.0, 0.0]
RHO = [[1.5, 1.0, 0.9], [4.0]]
D = [[0.5, 0.0, -0.5], [1.0]]  # ref_logp - logp
ROWS = range(len(RHO))


def seq_mean(tokens):
    """Mean over each response's tokens, then over the responses."""
    return mean([mean(row) for row in tokens])


def token_mean(tokens):
    """Mean over all tokens at once."""
    return mean([x for row in tokens for x in row])


def constant(length):
    """Sum over tokens divided by a fixed length, then the mean over the responses."""
    return lambda tokens: mean([sum(row) / length for row in tokens])


def clipped(A, low=0.8, high=1.2, dual=math.inf):
    """The clipped loss of every token; `dual` bounds it for A < 0."""
    def token(rho, a):
        loss = -min(rho * a, clip(rho, low, high) * a)
        return min(loss, -dual * a) if a < 0 else loss

    return [[token(rho, A[i]) for rho in RHO[i]] for i in ROWS]


def plus_kl(tokens, beta=0.04, weight=lambda rho: 1.0):
    """The same with beta * k3, weighted by a function of rho, added to every token."""
    return [[x + beta * weight(rho) * k3_of(d) for x, rho, d in zip(tokens[i], RHO[i], D[i])]
            for i in ROWS]


def population():
    """The lab's advantages."""
    return adv(REWARDS)


def sample(eps=1e-4):
    """Advantages with the sample std."""
    return adv_by(sstd, REWARDS, eps)


def lab():
    """This lab, and DeepSeekMath's objective."""
    return seq_mean(plus_kl(clipped(population())))


def trl():
    """TRL 1.16 as it comes: token mean, no KL, sample std."""
    return token_mean(clipped(sample()))


def trl_grpo():
    """TRL 1.16 with loss_type="grpo" and beta = 0.04; its KL term is multiplied with rho."""
    return seq_mean(plus_kl(clipped(sample()), weight=lambda rho: rho))


def verl():
    """Verl 0.9 as it comes: token mean, no KL, dual clip at 3."""
    return token_mean(clipped(sample(1e-6), dual=3.0))


def torchforge():
    """DAPOLoss of torchforge, January 2026, which its GRPO app uses: dual clip at 3, no KL."""
    return token_mean(clipped(sample(), high=1.28, dual=3.0))


def torchforge_grpo(width=8):
    """Its class GRPOLoss: a constant divisor, the padded width with the prompt; beta 0.1."""
    return constant(width)(plus_kl(clipped(sample(), high=1.28), beta=0.1))


def dr_grpo(length=4):
    """Dr. GRPO: no std, no KL, a constant divisor (the longest response allowed)."""
    return constant(length)(clipped(adv(REWARDS, scale_std=False)))


def dapo():
    """DAPO: clip 0.8 to 1.28, token mean of the prompt group, no KL."""
    return token_mean(clipped(population(), high=1.28))


def gspo(low=0.8, high=1.2):
    """GSPO: one ratio a response, the geometric mean of its token ratios."""
    A = population()
    s = [math.prod(row) ** (1 / len(row)) for row in RHO]
    return mean([-min(s[i] * A[i], clip(s[i], low, high) * A[i]) for i in ROWS])


def forge_rl():
    """Forge-rl 0.1.2: mean log-probs, ratio against ref, k3 the wrong way round; beta 0.01."""
    A, total = adv_by(sstd, REWARDS, 1e-8), []
    for i in ROWS:
        x = -mean(D[i])  # mean logp minus mean ref_logp
        ratio = math.exp(x)
        kl = math.exp(x) - x - 1
        total.append(-min(ratio * A[i], clip(ratio, 0.8, 1.2) * A[i]) + 0.01 * kl)
    return mean(total)


def guide():
    """CustomLoss of a third-party torchforge guide: ratio against ref, KL sign reversed; 0.1."""
    A = sample()
    tokens = [[-min(math.exp(-d) * A[i], clip(math.exp(-d), 0.8, 1.2) * A[i]) + 0.1 * d
               for d in D[i]] for i in ROWS]
    return token_mean(tokens)
