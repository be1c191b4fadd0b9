"""The tests of the bonus exercises: the answers pass, the stubs say so, every mistake is named."""

import os
import subprocess
import sys

import pytest
import torch

from beyond.losses import dapo_group, gspo
from beyond.tests.bonus import conftest as bonus
from beyond.tests.bonus import mistakes
from beyond.tests.bonus.exercises import EXERCISES, KEYS, Checks, Probe
from beyond.tests.bonus.probes import CHECKS
from beyond.tests.inputs import case, value_and_gradient
from lab15_run import TOP
from tests.messages import explain
from tests.mistakes.search import outcome


def pytest_says(*arguments):
    """Run pytest on the bonus tests; return its exit code and what it printed."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider",
                           "beyond/tests/bonus", *arguments],
                          cwd=TOP, capture_output=True, text=True, env=environment)
    return done.returncode, done.stdout


def test_the_answers_pass_and_the_stubs_say_that_they_are_stubs():
    code, text = pytest_says("--bonus=solutions/bonus.py")
    assert code == 0, text
    assert "20 passed" in text
    code, text = pytest_says()
    lines = [line for line in text.splitlines() if line.startswith("not written yet")]
    assert code == 1 and len(lines) == 2 and "2 failed" in text
    assert lines[0].startswith("not written yet: Bonus 1, dapo_loss (bonus.py line ")


def test_the_answers_are_the_zoo_s_functions():
    answers = bonus.load(TOP / "solutions" / "bonus.py")
    for seed in range(20):
        x = case(seed)
        pairs = [(value_and_gradient(dapo_group, x, G=2), value_and_gradient(answers.dapo_loss, x,
                                                                             G=2)),
                 (value_and_gradient(gspo, x), value_and_gradient(answers.gspo_loss, x))]
        assert all((a - b).abs().max() < 1e-13 for ours, theirs in pairs
                   for a, b in zip(ours, theirs))


# ============================================================== mistakes


class Wrong:
    """A stand-in for a student's file: the specification with some stages replaced."""

    __file__ = "wrong.py"

    def __init__(self, checks: Checks, stages: dict) -> None:
        self.checks, self.stages, self.known = checks, stages, {}
        setattr(self, checks.exercise.name, self.function)

    def function(self, logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04, *,
                 clip_high=0.28, G=2):
        """Return a loss and stats as the student's function would."""
        five = [x.tolist() for x in (logp, old_logp, ref_logp, adv, mask)]
        p = Probe(*five, (clip_eps, clip_high), beta, G)
        if str(p) not in self.known:
            self.known[str(p)] = {key: self.checks.run(self.stages, p, key) for key in KEYS}
        got = self.known[str(p)]
        slope = torch.tensor(got["grad"], dtype=logp.dtype)
        moved = (slope * (logp - logp.detach())).sum()  # 0, with the wrong gradient
        return moved + got["loss"], {k: float(got[k]) for k in KEYS[2:]}


def entries():
    """Yield (exercise, its checks, mistake, stages) of the mistakes that exist only here."""
    for n, checks in CHECKS.items():
        for name, stages in EXERCISES[n].table + EXERCISES[n].stats:
            if name.startswith("bonus"):
                yield pytest.param(checks, name, stages, id=name)


@pytest.mark.parametrize("checks, name, stages", entries())
def test_a_mistake_fails_and_is_named(checks, name, stages):
    wrong, said = Wrong(checks, stages), set()
    for key in ("loss", *KEYS[2:]):
        for p in checks.probes.values():
            try:
                checks.check(wrong, p, key)
            except pytest.fail.Exception as failure:
                said.add(failure.mistake)
    if not said:  # right in all but the gradient
        with pytest.raises(pytest.fail.Exception) as failure:
            for p in checks.probes.values():
                checks.check(wrong, p, "grad")
        said.add(failure.value.mistake)
    assert name in said and said <= {name, None}, f"it is called {said}"


@pytest.mark.parametrize("n", EXERCISES)
def test_every_known_mistake_gives_other_numbers(n):
    checks = CHECKS[n]
    for name, stages in EXERCISES[n].table + EXERCISES[n].stats:
        pairs = ([outcome(checks.run, s, p, key) for s in ({}, stages)]
                 for p in checks.probes.values() for key in ("loss", *KEYS[2:]))
        same = all(explain.same(*pair) for pair in pairs)
        if same:  # then it must be the gradient
            p = checks.probes["wide"]
            assert not explain.same(checks.run({}, p, "grad"), checks.run(stages, p, "grad")), name


def test_every_text_belongs_to_a_mistake_and_is_short():
    used = {name for table in (mistakes.DAPO_TABLE, mistakes.DAPO_STATS, mistakes.GSPO_TABLE,
                               mistakes.GSPO_STATS) for name, _ in table}
    assert set(mistakes.MISTAKES) <= used
    assert used <= set(explain.MISTAKES)
    assert all(len(text) <= 180 and text.isascii() for text, _ in mistakes.MISTAKES.values())


def test_the_message_has_four_parts():
    checks = CHECKS[1]
    wrong = Wrong(checks, {"aggregate": mistakes.token_mean})
    with pytest.raises(pytest.fail.Exception) as failure:
        for p in checks.probes.values():
            checks.check(wrong, p, "loss")
    lines = str(failure.value).splitlines()
    assert len(lines) <= 8 and all(len(line) <= 100 for line in lines)
    starts = [line.split()[0] for line in lines if not line.startswith(" ")]
    assert starts == ["loss", "expected", "yours", "likely"]
