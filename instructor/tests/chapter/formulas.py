"""The words that the check comments of chapter.md may use, as plain Python without torch.

`<!-- check: 1.7317 = adv([1, 0, 0, 0])[0] -->` in the chapter says that the number 1.7317 stands
in the text above it and equals this expression. NAMES is all that such an expression sees.
"""

import itertools
import math
import statistics

from tests.spec import oracle

# ---------------------------------------------------------------- groups of rewards

mean = statistics.fmean
std = statistics.pstdev  # of the population: divides by the number of values
sstd = statistics.stdev  # of a sample: divides by one less


def adv(rewards, eps=1e-4, scale_std=True):
    """The lab's advantages of one group."""
    return oracle.advantages(rewards, len(rewards), scale_std, eps)


def adv_by(spread, rewards, eps=1e-4):
    """Advantages with another measure of spread than the population std."""
    return [(r - mean(rewards)) / (spread(rewards) + eps) for r in rewards]


def rloo(rewards):
    """Leave-one-out advantages: a reward minus the mean of the others."""
    return [r - (sum(rewards) - r) / (len(rewards) - 1) for r in rewards]


def right(k, G):
    """The rewards of a group with k right responses out of G."""
    return [1.0] * k + [0.0] * (G - k)


def estimate(p, G, rule):
    """(mean, variance) of the gradient estimate of one group, by going through all outcomes.

    The policy answers right with probability p = sigmoid(z); the gradient is that of z, so the
    score of a right response is 1 - p and that of a wrong one -p.
    """
    first = second = 0.0
    for rewards in itertools.product([1.0, 0.0], repeat=G):
        chance = math.prod(p if r else 1 - p for r in rewards)
        scores = [1 - p if r else -p for r in rewards]
        g = mean([a * s for a, s in zip(rule(list(rewards)), scores)])
        first, second = first + chance * g, second + chance * g * g
    return first, second - first**2


def noise(p, G, rule):
    """Variance over squared mean of that estimate: small is good, scale plays no part."""
    m, v = estimate(p, G, rule)
    return v / m**2


def centred(rewards):
    """Rewards minus the group mean."""
    return adv(rewards, scale_std=False)


def shifted(rewards):
    """Rewards plus 1, no baseline."""
    return [r + 1 for r in rewards]


def raw(rewards):
    """Rewards as they are, no baseline."""
    return rewards


def gain(p, G):
    """By how much dividing by the std multiplies the gradient of a prompt, for groups of G."""
    return estimate(p, G, adv)[0] / (p * (1 - p))


def whitened_by_tokens(groups, lengths):
    """The advantages of some groups, normalized once more with mean and std over all tokens.

    Args:
        groups: lists of rewards.
        lengths: the tokens of each response, in the same shape.
    """
    rows = [(a, n) for rs, ns in zip(groups, lengths) for a, n in zip(adv(rs), ns)]
    tokens = [a for a, n in rows for _ in range(n)]
    return [[(a - mean(tokens)) / std(tokens) for a in adv(rs)] for rs in groups]


def zero_signal(p, G):
    """Chance that all G responses get the same reward."""
    return p**G + (1 - p) ** G


# ---------------------------------------------------------------- one token


def k1(p, q):
    """The estimator k1 at a symbol with probability p (policy) and q (reference)."""
    return math.log(p / q)


def k2(p, q):
    """The estimator k2."""
    return math.log(p / q) ** 2 / 2


def k3(p, q):
    """The estimator k3."""
    return q / p - math.log(q / p) - 1


def k3_wrong(p, q):
    """k3 with d the wrong way round."""
    return p / q - math.log(p / q) - 1


def k3_of(d):
    """k3 of d = ref_logp - logp."""
    return math.exp(d) - d - 1


def clip(rho, low, high):
    """Rho held between low and high."""
    return min(max(rho, low), high)


def obj(rho, A, eps=0.2):
    """The clipped objective of one token, without the KL term."""
    return min(rho * A, clip(rho, 1 - eps, 1 + eps) * A)


def slope(rho, A, eps=0.2):
    """The derivative of obj with respect to logp."""
    return rho * A if rho * A <= clip(rho, 1 - eps, 1 + eps) * A else 0.0


# ---------------------------------------------------------------- the three symbols of section 8

PI, REF = (1 / 2, 1 / 3, 1 / 6), (1 / 4, 1 / 4, 1 / 2)


def expect(f, pi=PI, ref=REF):
    """The mean of f(p, q) over samples of the policy."""
    return sum(p * f(p, q) for p, q in zip(pi, ref))


def spread(f, pi=PI, ref=REF):
    """The standard deviation of f(p, q) over samples of the policy."""
    return math.sqrt(expect(lambda p, q: f(p, q) ** 2, pi, ref) - expect(f, pi, ref) ** 2)


def kl(pi=PI, ref=REF):
    """KL(pi, ref)."""
    return sum(p * math.log(p / q) for p, q in zip(pi, ref))


def kl_gradient(pi=PI, ref=REF, h=1e-6):
    """The gradient of KL(pi, ref) with respect to the policy's logits, by differences."""
    def at(j, step):
        z = [math.log(p) + (step if i == j else 0) for i, p in enumerate(pi)]
        total = sum(map(math.exp, z))
        return kl([math.exp(x) / total for x in z], ref)

    return [(at(j, h) - at(j, -h)) / (2 * h) for j in range(len(pi))]


def expected_gradient(derivative, pi=PI, ref=REF):
    """The mean over samples of the gradient of an estimator with respect to the logits.

    Args:
        derivative: function of (p, q), the estimator's derivative with respect to logp.
        pi: the policy.
        ref: the reference.
    """
    pairs = list(zip(pi, ref))
    rows = [[p * derivative(p, q) * ((i == j) - pi[j]) for i, (p, q) in enumerate(pairs)]
            for j in range(len(pi))]
    return [sum(row) for row in rows]


# Two tokens: after a, the policy says one of three symbols like this, the reference like that;
# after b and c the two agree.
PI_AFTER_A, REF_AFTER_A = (2 / 3, 1 / 6, 1 / 6), (1 / 6, 1 / 6, 2 / 3)


def two_token_gradient(h=1e-6):
    """The gradient of the KL of responses of two tokens by the first token's logits."""
    def at(j, step):
        z = [math.log(p) + (step if i == j else 0) for i, p in enumerate(PI)]
        total = sum(map(math.exp, z))
        first = [math.exp(x) / total for x in z]
        return kl(first, REF) + first[0] * kl(PI_AFTER_A, REF_AFTER_A)

    return [(at(j, h) - at(j, -h)) / (2 * h) for j in range(len(PI))]


def d_k1(p, q):
    """The derivative of k1 with respect to logp."""
    return 1.0


def d_k2(p, q):
    """The derivative of k2 with respect to logp."""
    return math.log(p / q)


def d_k3(p, q):
    """The derivative of k3 with respect to logp."""
    return 1 - q / p


def pass_at(n, c, k):
    """The unbiased estimate of pass@k from c right ones among n samples."""
    return 1 - math.comb(n - c, k) / math.comb(n, k)
