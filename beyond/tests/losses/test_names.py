"""One name, one algorithm: what a loss's name stands for is the same in every command."""

import inspect
import subprocess
import sys

import pytest
import torch

from beyond import losses
from beyond.losses import ADVANTAGES, KL_ESTIMATORS, LOSSES, names, variants
from beyond.losses.names import VARIANTS, functions
from beyond.tests.inputs import case, value_and_gradient
from beyond.tests.solution import SOLUTION, needs_solution
from lab15_run import TOP

LAB = SOLUTION if SOLUTION.exists() else TOP / "lab15_grpo.py"
TRAINED = [name for name in names.NAMES
           if name in names.OTHERS or not (VARIANTS[name].overlong or VARIANTS[name].refill)]


def test_every_loss_advantage_and_estimator_has_its_name_in_the_table():
    assert {v.loss for v in VARIANTS.values()} | set(names.OTHERS) == set(LOSSES)
    assert not {v.loss for v in VARIANTS.values()} & set(names.OTHERS)
    assert tuple(ADVANTAGES) == names.ADVANTAGE_NAMES and tuple(KL_ESTIMATORS) == names.KL_NAMES
    assert losses.__all__ == variants.__all__
    assert set(LOSSES) <= set(losses.__all__), "add the function to __all__"
    assert all(getattr(losses, name) is getattr(variants, name) for name in losses.__all__)


def test_the_names_are_known_without_torch():
    code = ("import sys; from beyond.losses import names; names.own('dr_grpo'); "
            "names.check('luspo'); assert 'torch' not in sys.modules")
    subprocess.run([sys.executable, "-c", code], cwd=TOP, check=True)


@pytest.mark.parametrize("name", TRAINED)
@needs_solution
def test_train_hf_computes_what_compare_does(name):
    """Loss, gradient and advantages, for every name that both know."""
    pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    from beyond.config import GRPOConfig
    from beyond.student import plugins
    from tests.labfile import load_lab

    lab, G, budget = load_lab(SOLUTION), 4, 7
    cfg = plugins.with_own(GRPOConfig(loss=name, group_size=G, max_new_tokens=budget), lab)
    [variant] = names.resolve([name], [], [])
    theirs, advantage = functions(variant, lab, budget, G)
    given = case(0, B=8)
    ours = value_and_gradient(plugins.loss_of(cfg, lab), given)
    wanted = value_and_gradient(theirs, given, variant.clip_eps, variant.beta)
    for one, other in zip(ours, wanted):
        torch.testing.assert_close(one, other)
    rewards = torch.tensor([1.0, 0, 0, 1, 1, 1, 0, 1])
    torch.testing.assert_close(plugins.advantage_of(cfg, lab)(rewards, G), advantage(rewards, G))


def test_what_is_set_by_hand_wins():
    pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")
    from beyond.config import GRPOConfig
    from beyond.student.plugins import with_own

    by_hand = {"adv": "whitened", "clip_epsilon": 0.3, "clip_high": 0.4, "kl_beta": 0.01}
    for name in ("dr_grpo", "gspo", "lab"):
        cfg = with_own(GRPOConfig(loss=name, **by_hand), type("lab", (), {"grpo_loss": id}))
        assert all(getattr(cfg, k) == v for k, v in by_hand.items())
        one = with_own(GRPOConfig(loss=name, kl_beta=0.5), type("lab", (), {"grpo_loss": id}))
        assert one.kl_beta == 0.5 and one.adv == ("mean_only" if name == "dr_grpo" else "lab")


def test_what_is_taken_is_said_in_one_line():
    cfg = type("cfg", (), {"clip_low": None, **names.own("gspo")})
    assert names.described("gspo", cfg) == (
        "loss gspo: advantages lab, clip range 0.06/0.08, no KL (kl_beta 0)")
    cfg = type("cfg", (), {"clip_low": 0.1, **names.own("two_sided")})
    assert names.described("two_sided", cfg) == (
        "loss two_sided: advantages lab, clip range 0.1/0.2, ratio_ceiling 4, KL k3 x 0.04")


@pytest.mark.parametrize("name, said", [
    ("dappo", "did you mean dapo"), ("dapo_full", "only beyond.compare does; here take dapo_group"),
    ("dapo_overlong", "here take dapo")])
def test_a_name_that_cannot_be_trained_here_is_one_line(name, said):
    with pytest.raises(ValueError, match=said):
        names.own(name)
    with pytest.raises(ValueError, match=said):
        names.check(name)


def test_a_variant_says_nothing_that_its_loss_does_not_take():
    for v in VARIANTS.values():
        known = inspect.signature(LOSSES[v.loss]).parameters
        assert set(v.extras) <= known.keys(), v.name
