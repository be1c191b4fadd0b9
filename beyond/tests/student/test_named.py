"""Rewards by name: one, or several with weights."""

import pytest

from beyond.student.named import load_reward
from beyond.tasks.rewards import CompositeReward, ExactMatchReward, call, combined


@pytest.fixture
def mine(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("def length(response, answer):\n    return float(len(response))\n",
                    encoding="utf-8")
    return f"{path}:length"


def scores(reward):
    return call(combined(reward), ["p"] * 2, ["4", "444"], {"reference": ["4", "4"]})


def test_one_name_is_that_reward(mine):
    assert isinstance(load_reward("exact"), ExactMatchReward)
    assert scores(load_reward(mine)).scores == [1.0, 3.0]


def test_several_are_their_weighted_mean(mine):
    for text, expected in ((f"exact,{mine}", [1.0, 1.5]), (f"exact=1, {mine}=3", [1.0, 2.25]),
                           (f"{mine}=2", [1.0, 3.0])):
        found = scores(load_reward(text))
        assert found.scores == expected
    both = scores([(ExactMatchReward(), 1), (load_reward(mine), 3)])
    assert both.scores == [1.0, 2.25]
    assert both.metadata["parts"] == {"ExactMatchReward": [1.0, 0.0], "length": [1.0, 3.0]}
    assert scores([ExactMatchReward(), load_reward(mine)]).scores == [1.0, 1.5]
    assert isinstance(combined([ExactMatchReward()]), ExactMatchReward)
    assert isinstance(combined([ExactMatchReward(), ExactMatchReward()]), CompositeReward)


@pytest.mark.parametrize(("text", "said"), [
    ("exct", "did you mean exact"), ("exact=1,thnk=2", "did you mean think"),
    ("exact=much", "the weight is 'much'; give a number"), ("exact=-1,think=2", "0 or more"),
    ("exact=0", "not all 0"), ("gone.py:f,exact", "there is no file gone.py")])
def test_what_is_wrong_with_a_list_is_one_line(text, said):
    with pytest.raises(ValueError, match=said) as error:
        combined(load_reward(text))
    assert "\n" not in str(error.value)


def test_an_empty_list_is_refused():
    with pytest.raises(ValueError, match="the list of rewards is empty"):
        combined([])
