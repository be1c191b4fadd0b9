"""Points for what is right in part: a table of submissions with the points that each deserves."""

import pytest

from instructor.variants import catalog
from tests.labfile import TASKS

# A chaff's name -> its points, of those of the task.
PARTLY = {
    # Task 1, 2 points
    "task1_s05_sample_per_prompt": 0.81,  # one call a prompt; with one prompt all is right
    "task1_s05b_sample_per_prompt_cat": 0.51,  # one call a row, which ends with an error
    "task1_s06_no_temperature": 1.7,
    "task1_s12_contains": 1.4,  # only the rewards are wrong
    "task1_s10_float64": 1.4,
    "task1_s16_changes_lists": 1.0,  # all right, but a test of form
    "task1_no_return": 0.0,
    # Task 2, 2 points
    "task2_a08_always": 1.6,
    "task2_a12_eps_hard": 1.6,
    "task2_a01_sample_std": 0.4,
    "task2_a15_in_place": 1.0,
    "task2_a06_view_swapped": 0.0,
    # Task 3, 1 point
    "task3_k08_detached": 0.5,
    "task3_k03_k2": 0.0,
    # Task 4, 3 points
    "task4_t01_kl_pad": 2.65,  # a statistic is wrong
    "task4_t12_swapped": 2.3,  # two are
    "task4_t10_kl_tensor": 2.65,
    "task4_t11b_key_missing": 2.7,
    "task4_l19_rho_detached": 2.0,  # the gradient is
    "task4_l17_not_negated": 1.0,  # the loss and its gradient are
    "task4_l13_token_mean": 1.6,  # right for one response only
    "task4_l18_broadcast": 0.9,  # adv not unsqueezed
    "task4_l44c_none": 0.0,
    # Task 5, 2 points
    "task5_g22_entropy_ref": 1.7,
    "task5_g24_temperature": 1.0,
    "task5_g34_mask_ones": 0.6,
    "task5_g28_tensor": 1.7,
    "task5_not_sampled": 0.0,
}
STATISTICS = """

_right = grpo_loss


def grpo_loss(*args, **kwargs):
    loss, stats = _right(*args, **kwargs)
    return loss, {stats}
"""
ALL_WRONG = {  # all three statistics
    "nonsense": "dict.fromkeys(stats, 0.123)",
    "missing": "{}",
    "tensors": "{k: torch.tensor(v) for k, v in stats.items()}",
    "negative": "{k: -v - 1 for k, v in stats.items()}",
}


def test_the_table_covers_every_task():
    named = [int(name[4]) for name in PARTLY]
    assert set(named) == set(TASKS) and len(PARTLY) >= 25


@pytest.fixture(scope="module")
def chaffs():
    """Give all wrong variants by name; reading them takes a second."""
    return {v.id: v for v in catalog.chaffs()}


@pytest.mark.parametrize("name", PARTLY)
def test_what_is_right_in_part_gives_points(points, chaffs, name):
    assert points(chaffs[name]) == pytest.approx(PARTLY[name])


@pytest.mark.parametrize("name", ALL_WRONG)
def test_statistics_cost_one_point_of_three(points, name):
    text = catalog.solution() + STATISTICS.replace("{stats}", ALL_WRONG[name])
    made = catalog.Variant(name, "chaff", 4, text)
    assert points(made) == 2.0
