"""All right and wrong variants through the hidden tests, without a sandbox: LAB15_SLOW=1."""

import itertools
import os

import pytest

from instructor.variants import catalog
from tests.labfile import ROOT, TASKS

SLOW = "LAB15_SLOW" not in os.environ


def sample(made):
    """Return all, or a few where there is no time for all."""
    return list(itertools.islice(made, 0, None, 9 if SLOW else 1))


def test_right_variants_get_full_points(points):
    wrong = {v.id: points(v) for v in sample(catalog.wheats())}
    full = {v.id: TASKS[v.task].points for v in catalog.wheats()}
    assert not {name for name, got in wrong.items() if got != full[name]}


@pytest.mark.skipif(SLOW, reason="slow: LAB15_SLOW=1 runs it")
@pytest.mark.parametrize("kind", ["chaffs", "trivial"])
def test_wrong_variants_lose_what_is_wrong(points, kind):
    made = list(getattr(catalog, kind)())
    lost = {v.id: TASKS[v.task].points - points(v) for v in made}
    assert not {name: some for name, some in lost.items() if some < 0.2}


NOTHING = {  # what a body returns that has learned nothing: a result for each task
    "zeros": "torch.zeros_like(x)",
    "ones": "torch.ones_like(x)",
    "input": "x",
    "copy": "x.clone()",
    "negative": "-x",
    "double": "2 * x",
    "exp": "x.exp()",
    "last": "given[-1] if torch.is_tensor(given[-1]) else x",
    "none": "None",
    "random": "torch.randn_like(x)",
    "mean": "x - x.mean()",
    "square": "x * x",
    "absolute": "x.abs()",
    "softmax": "torch.softmax(x, -1)",
    "same_sample": "x.mean().expand_as(x)",
}
BODY = """

def nothing(*args, **kwargs):
    given = [*args, *kwargs.values()]
    x = next((a for a in given if torch.is_tensor(a)), torch.zeros(1))
    value = {value}
    number = 0.0 if value is None else float(value.float().mean())
    if len(given) == 6 and not torch.is_tensor(given[0]):
        return dict.fromkeys(("reward", "loss", "kl", "clip_frac", "frac_zero_signal", "entropy"),
                             number)
    if len([a for a in given if torch.is_tensor(a)]) > 2:
        return value if value is None else (value.mean(), dict.fromkeys(
            ("kl", "clip_frac", "ratio_max"), number))
    if torch.is_tensor(given[0]) or value is None:
        return value
    lists = [a for a in given if isinstance(a, list)]
    out = sample(next(a for a in given if hasattr(a, "parameters")), lists[0] * {times})
    said = decode_responses(out)
    return dict(out=out, responses=said, rewards=torch.full((len(said),), number))


sample_group = group_advantages = k3_kl = grpo_loss = grpo_step = nothing
"""


@pytest.mark.parametrize("times", [1, 3])
@pytest.mark.parametrize("name", NOTHING)
def test_a_body_that_has_learned_nothing_gets_nothing(points, name, times):
    stub = (ROOT / "lab15_grpo.py").read_text(encoding="utf-8")
    text = stub + BODY.replace("{value}", NOTHING[name]).replace("{times}", str(times))
    made = [catalog.Variant(name, "trivial", task, text) for task in TASKS]
    assert [points(v) for v in made] == [0.0] * 5
