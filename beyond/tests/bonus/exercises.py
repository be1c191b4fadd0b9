"""The two exercises, and the checks that both share: value, gradient, statistics, named causes."""

import functools
import math
from collections import namedtuple
from typing import NamedTuple

import torch

from tests.messages import explain
from tests.mistakes import task4
from tests.mistakes.search import fits, guesses, identify, outcome

from . import mistakes

# clip_eps is the pair (clip_eps, clip_high); G is the group size.
Probe = namedtuple("Probe", "logp old_logp ref_logp adv mask clip_eps beta G")
KEYS = task4.KEYS
LOSS = ("loss", "grad")


class Exercise(NamedTuple):
    """One exercise: its number, its function, and the specification in stages."""

    number: int
    name: str
    stages: dict
    table: list
    stats: list
    grouped: bool  # is G an argument?


EXERCISES = {
    1: Exercise(1, "dapo_loss", mistakes.DAPO, mistakes.DAPO_TABLE, mistakes.DAPO_STATS, True),
    2: Exercise(2, "gspo_loss", mistakes.GSPO, mistakes.GSPO_TABLE, mistakes.GSPO_STATS, False),
}


def probe(rho, adv, clip_eps=(0.2, 0.28), beta=0.0, G=2, garbage=(50.0, 1.0), more=0):
    """Return a Probe from the ratios of every row's real tokens; padding gets `garbage`."""
    T = max(len(row) for row in rho) + more
    old = [[-1.0 - 0.3 * ((3 * i + 2 * t) % 5) for t in range(T)] for i in range(len(rho))]
    d = [[0.2 * ((2 * i + 3 * t) % 7) - 0.6 for t in range(T)] for i in range(len(rho))]
    mask = [[float(t < len(row)) for t in range(T)] for row in rho]
    full = [row + [garbage[0]] * (T - len(row)) for row in rho]
    d = [[x if on else garbage[1] for x, on in zip(*rows)] for rows in zip(d, mask)]
    logp = [[b + math.log(r) for b, r in zip(*rows)] for rows in zip(old, full)]
    ref = [[a + x for a, x in zip(*rows)] for rows in zip(logp, d)]
    return Probe(logp, old, ref, adv, mask, clip_eps, beta, G)


def spec(exercise, stages, p, key):
    """Return the loss, its gradient or a statistic, with some stages of the exercise replaced."""
    return task4.run({**exercise.stages, **stages}, p, key)


def tensors(p, dtype=torch.float32, grad=True):
    """Return the five tensors of a probe; logp is a leaf that takes gradients."""
    logp, *others = (torch.tensor(x, dtype=dtype) for x in p[:5])
    return [logp.requires_grad_(grad), *others]


def call(lab, exercise, p, given=None, named=True):
    """Call the function under test; named False: with its defaults."""
    names = {"clip_eps": p.clip_eps[0], "beta": p.beta, "clip_high": p.clip_eps[1]}
    names = (names if named else {}) | ({"G": p.G} if exercise.grouped else {})
    return getattr(lab, exercise.name)(*(tensors(p) if given is None else given), **names)


def call_text(exercise, p):
    """Return the call as the message shows it: the ratios of the real tokens, and the numbers."""
    rows = [[math.exp(a - b) for a, b, on in zip(*rows) if on]
            for rows in zip(p.logp, p.old_logp, p.mask)]
    text = f"{exercise.name}: rho={explain.show(rows, 2, room=70)}, adv={explain.show(p.adv)}, "
    text += f"clip_eps={p.clip_eps[0]:g}, clip_high={p.clip_eps[1]:g}"
    text += f", G={p.G}" * exercise.grouped + f", beta={p.beta:g}" * bool(p.beta)
    return text


def slope(loss, logp):
    """Return the gradient of the loss with respect to logp, zeros where there is none."""
    if not loss.requires_grad:
        return torch.zeros_like(logp)
    (grad,) = torch.autograd.grad(loss, logp, allow_unused=True)
    return torch.zeros_like(logp) if grad is None else grad


class Checks:
    """The checks of one exercise on its probes."""

    def __init__(self, number, probes):
        self.exercise, self.probes = EXERCISES[number], probes
        self.run = functools.partial(spec, self.exercise)
        self.yours = functools.lru_cache(maxsize=2)(self._yours)
        self.found = functools.lru_cache(maxsize=8)(self._found)

    def _yours(self, lab):
        """Return the outcomes of the function under test on all probes."""
        def student(p):
            given = tensors(p)
            loss, stats = call(lab, self.exercise, p, given)
            return {**dict.fromkeys(KEYS), **stats, "loss": loss, "grad": slope(loss, given[0])}

        return {name: outcome(student, p) for name, p in self.probes.items()}

    def _found(self, lab, keys):
        """Return the known mistakes that explain `keys` on all probes."""
        quick, yours = sorted(KEYS, key="grad".__eq__), self.yours(lab)
        table, stats = self.exercise.table, self.exercise.stats
        if everything := identify(self.run, table + stats, self.probes, yours, quick):
            return everything
        if keys == LOSS:
            return identify(self.run, table, self.probes, yours, keys, pairs=table)
        right = fits(self.run, {}, self.probes, yours, LOSS)
        entries = []
        for name, base in [("", {})] if right else self.found(lab, LOSS):
            entries += [(name, base)] + [(own, {**base, **s}) for own, s in stats]
        return identify(self.run, entries, self.probes, yours, keys)

    def parts(self, lab, p, given=None, **how):
        """Call the function; return the loss and the stats if they have the right form."""
        text, wanted = call_text(self.exercise, p), "a pair: loss (shape ()), stats (a dict)"
        with explain.named_crash(lab, text, wanted, lambda: self.found(lab, LOSS)):
            result = call(lab, self.exercise, p, given, **how)
        if result is None:
            explain.fail(text, wanted, "None", "any.none")
        if not isinstance(result, (tuple, list)) or len(result) != 2:
            explain.fail(text, wanted, f"one {type(result).__name__}", "task4.tuple")
        loss, stats = result
        if isinstance(loss, dict):
            explain.fail(text, wanted, "dict, " + type(stats).__name__, "task4.tuple_order")
        if not isinstance(loss, torch.Tensor) or not isinstance(stats, dict):
            shown = f"{type(loss).__name__}, {type(stats).__name__}"
            explain.fail(text, wanted, shown, "any.type")
        if loss.shape != ():
            shown = f"a loss of shape {tuple(loss.shape)}: {explain.show(loss, room=60)}"
            explain.fail(text, wanted, shown, "task4.loss_shape")
        if missing := [key for key in KEYS[2:] if key not in stats]:
            explain.fail(text, f"stats with the keys {list(KEYS[2:])}", f"no {missing}",
                         "task4.stats_keys")
        return loss, stats

    def check(self, lab, p, *keys, given=None, **how):
        """Compare what the function gives for `keys` with the specification."""
        given = tensors(p) if given is None else given
        loss, stats = self.parts(lab, p, given, **how)
        for key in keys:
            text = {"loss": "loss", "grad": "gradient of the loss w.r.t. logp"}.get(key, f'"{key}"')
            text, want = f"{text} of {call_text(self.exercise, p)}", self.run({}, p, key)
            result = slope(loss, given[0]) if key == "grad" else {"loss": loss, **stats}[key]
            ideas = self.ideas(lab, p, key)
            explain.compare(text, want, result, ideas, 2e-5, 2e-5,
                            kind="float" if key in KEYS[2:] else None)

    def ideas(self, lab, p, key):
        """Yield what the mistakes that fit give for one probe; looked for only when needed."""
        yield from guesses(self.found(lab, LOSS if key in LOSS else (key,)), self.run, p, key)
