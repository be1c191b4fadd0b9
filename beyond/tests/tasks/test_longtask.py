"""The longer task: its data, its rewards, its teacher, its checkpoint, the five functions on it."""

import random
from inspect import signature

import pytest
import torch

import tinylm
from beyond import longtask
from beyond.longtask import demonstration, reward, reward_anywhere, style
from tests.labfile import ROOT, load_lab

SOLUTION = ROOT / "solutions" / "lab15_grpo.py"
SEVEN = {"sample", "sequence_logprobs", "decode_responses", "reward", "make_batch", "accuracy",
         "load_or_train_sft"}  # fmt: skip


@pytest.fixture
def model():
    torch.manual_seed(0)
    return tinylm.TinyLM(width=16, layers=1, heads=2, context=longtask.MODEL["context"])


@pytest.fixture
def recipe(monkeypatch):
    """Return a function that changes the recipe for one test."""
    return lambda **changes: [monkeypatch.setitem(longtask.RECIPE, *item)
                              for item in changes.items()]  # fmt: skip


# ---------------------------------------------------------------- names and data


def test_it_offers_the_seven_names_of_tinylm_with_its_arguments():
    assert set(longtask.__all__) == SEVEN
    for name in SEVEN:
        ours, theirs = signature(getattr(longtask, name)), signature(getattr(tinylm, name))
        assert list(ours.parameters) == list(theirs.parameters), name


def test_no_held_out_pair_is_trained_on_in_either_order():
    train, held_out = set(longtask.TRAIN_PAIRS), set(longtask.EVAL_PAIRS)
    assert len(held_out) == len(longtask.EVAL_PAIRS) == longtask.HELD_OUT
    assert not train & held_out and not train & {(b, a) for a, b in held_out}
    assert train | held_out == {(a, b) for a in range(10, 100) for b in range(10, 100)}


def test_batches_are_training_problems_and_follow_the_rng():
    prompts, answers = longtask.make_batch(50, random.Random(1))
    for prompt, answer in zip(prompts, answers):
        a, b = map(int, prompt.rstrip("=").split("+"))
        assert (a, b) in longtask.TRAIN_PAIRS and answer == str(a + b)
    assert longtask.make_batch(50, random.Random(1)) == (prompts, answers)


# ---------------------------------------------------------------- rewards and styles


@pytest.mark.parametrize(
    "response, right, anywhere, written",
    [
        ("85", 1, 1, "answer"),
        ("15=8=85", 1, 1, "columns"),
        ("7+8=15=3+4+1=8=85", 1, 1, "written"),
        ("14=15=8=8=75=85", 1, 1, "columns"),
        ("15=8=85=86", 0, 1, "columns"),  # the last step counts; it was right before
        ("15=8=", 0, 0, "other"),  # cut off before the answer
        ("15=8=8", 0, 0, "columns"),
        ("1585", 0, 0, "other"),  # the right digits in a longer number are no answer
        ("", 0, 0, "other"),
    ],
)
def test_rewards_and_style(response, right, anywhere, written):
    assert reward(response, "85") == right
    assert reward_anywhere(response, "85") == anywhere
    assert style(response) == written


# ---------------------------------------------------------------- the teacher


@pytest.mark.parametrize("styles", [[1, 0, 0], [0, 1, 0], [0, 0, 1]])
def test_a_teacher_without_errors_is_right_in_every_style(recipe, styles):
    recipe(wrong=0.0, again=0.0, styles=styles)
    for a, b in longtask.TRAIN_PAIRS[::7]:
        said = demonstration(a, b, random.Random(a))
        assert reward(said, str(a + b)) == 1, (a, b, said)
        assert style(said) == list(longtask.STYLES)[styles.index(1)], said


def test_the_three_styles_of_one_sum(recipe):
    recipe(wrong=0.0, again=0.0)
    rng = random.Random(0)
    assert {demonstration(37, 48, rng) for _ in range(99)} == {
        "85", "15=8=85", "7+8=15=3+4+1=8=85"}  # fmt: skip


def test_the_teacher_is_wrong_as_often_as_the_recipe_says(recipe):
    recipe(styles=[0, 1, 0])
    rng = random.Random(0)
    n = 4000
    right = sum(reward(demonstration(37, 48, rng), "85") for _ in range(n)) / n
    # Three steps must be right. A wrong one is right by chance in 1 of 18 or more cases.
    p = 1 - longtask.RECIPE["wrong"] * (1 - 1 / 19)
    assert abs(right - p**3) < 4 * (0.25 / n) ** 0.5


def test_length_tells_nothing_about_being_right(recipe):
    recipe(styles=[0, 1, 0])
    rng = random.Random(0)
    said = [demonstration(37, 48, rng) for _ in range(6000)]
    rate = [[reward(s, "85") for s in said if (len(s) > 9) is long] for long in (False, True)]
    short, long = (sum(r) / len(r) for r in rate)
    assert min(map(len, rate)) > 1000 and abs(short - long) < 0.06


def test_training_rows_have_the_form_of_a_sample_and_end_at_the_budget(recipe):
    recipe(again=0.8, styles=[0, 0, 1])
    out = longtask._rows([(37, 48)] * 30, random.Random(0))
    assert out["mask"].shape == (30, longtask.BUDGET) and out["prompt_len"] == 6
    assert out["ids"].shape == (30, 6 + longtask.BUDGET)
    real = out["ids"][:, 6:] != tinylm.PAD
    assert torch.equal(real.float(), out["mask"])
    cut = out["mask"].all(1)
    assert cut.any() and not (out["ids"][cut] == tinylm.END).any()  # cut off: no END


# ---------------------------------------------------------------- sampling, evaluation, the lab


def test_a_response_is_cut_at_the_budget(model):
    model.head.bias.data[tinylm.END] = -99.0  # never ends of its own accord
    out = longtask.sample(model, ["37+48="] * 3)
    assert out["mask"].shape == (3, longtask.BUDGET) and bool(out["mask"].all())


def test_accuracy_leaves_the_random_numbers_alone_and_repeats(model):
    torch.manual_seed(5)
    before = torch.get_rng_state()
    assert longtask.accuracy(model, n=40) == longtask.accuracy(model, n=40)
    assert torch.equal(before, torch.get_rng_state())
    with pytest.raises(ValueError, match="at least 1"):
        longtask.accuracy(model, n=0)


@pytest.mark.parametrize("hackable", [False, True])
def test_the_five_functions_run_on_it_unedited(model, hackable):
    backend = longtask.with_reward(reward_anywhere) if hackable else longtask
    lab = load_lab(SOLUTION, backend=backend)
    assert lab.reward is (reward_anywhere if hackable else reward)
    assert set(backend.__dict__) >= SEVEN and lab.accuracy is longtask.accuracy
    cfg = lab.GRPOConfig(prompts_per_iter=2, G=3)
    opt = torch.optim.Adam(model.parameters(), lr=1e-3)
    prompts, answers = longtask.make_batch(2, random.Random(0))
    groups = lab.sample_group(model, prompts, answers, 3)
    assert groups["out"]["mask"].shape[1] > tinylm.MAX_NEW_TOKENS  # this task's budget
    stats = lab.grpo_step(model, model, opt, prompts, answers, cfg)
    assert all(value == value for value in stats.values())


# ---------------------------------------------------------------- the checkpoint


def test_the_sft_model_is_trained_once_and_always_the_same(recipe, tmp_path, monkeypatch):
    recipe(steps=2)
    path = tmp_path / "with space" / "sft.pt"
    state = torch.get_rng_state()
    first = longtask.load_or_train_sft(path)
    assert torch.equal(state, torch.get_rng_state())
    again = longtask.train_sft()
    monkeypatch.setattr(longtask, "train_sft", lambda: pytest.fail("trained a second time"))
    loaded = longtask.load_or_train_sft(path)
    for model in (again, loaded):
        for a, b in zip(first.parameters(), model.parameters()):
            assert torch.equal(a, b)


@pytest.mark.parametrize("damage", ["truncated", "another recipe"])
def test_a_checkpoint_that_cannot_be_used_is_named_and_replaced(recipe, tmp_path, damage):
    recipe(steps=1)
    path = tmp_path / "sft.pt"
    longtask.load_or_train_sft(path)
    if damage == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    else:
        recipe(again=0.1)
    with pytest.warns(UserWarning, match="sft.pt cannot be used"):
        longtask.load_or_train_sft(path)
    assert longtask._load(path) is not None
