"""Fourteen faults of forge-rl 0.1.2, each found by running it: ours must not have them."""

import copy

import pytest
import torch

pytest.importorskip("transformers", reason="pip install -r beyond/requirements.txt")

from beyond import (
    CompositeReward,
    ExactMatchReward,
    FormatReward,
    GRPOConfig,
    GRPOTrainer,
    LengthPenaltyReward,
    extract_answer,
    tiny,
)
from beyond.hf import backend
from beyond.hf.schedule import factor
from beyond.settings import default_path
from beyond.student.plugins import load_student
from beyond.tasks.rewards import call


@pytest.fixture
def made(tmp_path):
    def make(reward=lambda response, answer: float(len(response)), rows=None, **changes):
        settings = {"output_dir": str(tmp_path), "max_new_tokens": 5, "log_completions": 0,
                    "save_steps": 0, "learning_rate": 1e-3, "group_size": 4}
        return GRPOTrainer(tiny.model(), tiny.tokenizer(), reward,
                           GRPOConfig(**(settings | changes)))
    return make


def test_1_far_from_the_reference_there_is_still_a_gradient(made):
    trainer = made(kl_beta=0.0)
    logp = torch.full((4, 3), -1.0, requires_grad=True)
    ref = logp.detach() - 0.5  # forge-rl's ratio against ref would be clipped: no gradient
    adv, mask = torch.tensor([1.0, -1.0, 1.0, -1.0]), torch.ones(4, 3)
    loss, _ = trainer.loss(logp, logp.detach(), ref, adv, mask)
    loss.backward()
    assert (logp.grad != 0).all()


def test_2_k3_has_d_from_reference_minus_policy():
    k3 = load_student(default_path(), backend).k3_kl(torch.tensor([[-1.0]]), torch.tensor([[-1.5]]))
    assert float(k3) == pytest.approx(0.1065, abs=1e-3)  # not 0.1487


@pytest.mark.parametrize("reward", [0.1, 0.2, 0.3, 0.7])
def test_3_equal_rewards_give_exactly_zero(made, reward):
    adv = made(group_size=8).advantages(torch.full((8,), reward), 8)
    assert (adv == 0).all()


def test_4_the_schedule_counts_optimizer_steps(made):
    rates = [factor(i, 10, 2, "cosine") for i in range(10)]
    assert rates[0] == 0.5 and rates[1] == rates[2] == 1.0 and rates[-1] < 0.05
    trainer = made(gradient_accumulation_steps=4, prompts_per_step=1, warmup_steps=1,
                   schedule="cosine")
    history = trainer.train(tiny.rows(16))
    assert len(history) == 4 == trainer.schedule.total and history[0]["learning_rate"] > 0


def test_5_the_last_prompts_are_stepped_and_nothing_leaks(made):
    trainer = made(gradient_accumulation_steps=4, prompts_per_step=1)
    before = copy.deepcopy(trainer.policy.state_dict())
    trainer.train(tiny.rows(3))
    after = trainer.policy.state_dict()
    assert trainer.done == 1 and any(not torch.equal(before[k], after[k]) for k in before)
    assert all(p.grad is None for p in trainer.policy.parameters())


def test_6_a_tokenizer_without_a_length_limit_is_fine(made):
    assert tiny.tokenizer().model_max_length > 1e29
    made().train(tiny.rows(2))


def test_7_ids_are_kept_and_eos_is_trained(made):
    trainer = made(max_new_tokens=30, inner_steps=2)
    trainer.policy.model.get_output_embeddings().weight.data[2] *= 3
    rollout = trainer.roll_out([r | {"text": r["prompt"]} for r in tiny.rows(4)])
    ids = backend.response_ids(rollout["out"])
    ended = [i for i, row in enumerate(ids) if row[-1] == 2]
    assert ended
    for i in ended:
        assert rollout["old"][i, len(ids[i]) - 1] < 0 and rollout["out"]["mask"][i].sum() == len(
            ids[i])


def test_8_no_top_k_and_the_temperature_in_scoring(made):
    trainer = made(temperature=0.5, max_new_tokens=1)
    out = backend.sample(trainer.policy, ["1+1="] * 2000, 0.5)
    assert len(out["ids"][:, -1].unique()) > 55
    ids = trainer.policy.tokenizer("1+1=", return_tensors="pt")["input_ids"]
    expected = (trainer.policy.model(ids).logits[0, -1] / 0.5).log_softmax(-1)
    logp = backend.sequence_logprobs(trainer.policy, out)[:, 0]
    torch.testing.assert_close(logp, expected[out["ids"][:, -1]], atol=1e-5, rtol=1e-5)


def test_9_columns_go_only_to_rewards_that_name_them(made):
    nested = CompositeReward([(CompositeReward([(ExactMatchReward(), 1)]), 1),
                              (FormatReward(bool), 1)])
    found = call(nested, ["p"], ["4"], {"reference": ["4"], "level": [1]})
    assert found.scores == [1.0]
    made(FormatReward(str.isdigit)).train(tiny.rows(2))


def test_10_a_random_model_scores_nothing_by_luck():
    text = ["0 1 2 3 4 5 6 7 8 9"] * 10  # every reference occurs in it; it states none of them
    assert sum(call(ExactMatchReward(), text, text, {"reference": list("0123456789")}).scores) == 0


def test_11_lengths_answers_and_weights_are_exact():
    reward = LengthPenaltyReward(optimal_length=200)
    found = reward(["p"] * 2, ["w " * 50, "w " * 200]).scores
    assert found == [0.0, 1.0]
    assert extract_answer("72 apples") == "72" and extract_answer("1234.") == "1234"
    third = CompositeReward([(FormatReward(bool), 1), (FormatReward(lambda r: False), 2)])
    assert third(["p"], ["x"]).scores == [pytest.approx(1 / 3, abs=1e-15)]


def test_12_a_group_of_one_is_refused():
    with pytest.raises(ValueError, match="group_size = 1 is not allowed"):
        GRPOConfig(group_size=1)


def test_13_evaluation_shuffling_and_means_over_the_window(made):
    trainer = made(logging_steps=2, prompts_per_step=2, num_train_epochs=2)
    trainer.eval_rows = tiny.rows(4)
    seen = []

    class Watch:
        def on_rollout(self, trainer, rows, responses, rewards):
            seen.append(([row["prompt"] for row in rows], float(rewards.mean())))

    trainer.callbacks.append(Watch())
    history = trainer.train(tiny.rows(8))
    assert "eval/accuracy" in history[-1]
    orders = [sum((s[0] for s in seen[i : i + 4]), []) for i in (0, 4)]
    assert orders[0] != orders[1] and sorted(orders[0]) == sorted(orders[1])
    assert history[0]["reward"] == pytest.approx((seen[0][1] + seen[1][1]) / 2)


def test_14_the_ratio_is_one_at_the_first_step_in_training_mode_too(made):
    trainer = made()
    for layer in trainer.policy.model.model.layers:
        layer.self_attn.attention_dropout = 0.5
    trainer.policy = backend.Policy(trainer.policy.model.train(), tiny.tokenizer(),
                                       max_new_tokens=5)
    trainer.policy.train()
    history = trainer.train(tiny.rows(4))
    assert history[0]["ratio_max"] == pytest.approx(1.0, abs=1e-4)
