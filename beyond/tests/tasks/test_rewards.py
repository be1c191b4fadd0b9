"""Rewards and data: right input, wrong input, and the messages about it."""

import asyncio
import json
import math
import threading
import time
import warnings

import pytest

from beyond.tasks import data
from beyond.tasks.rewards import (
    BaseReward,
    CompositeReward,
    ExactMatchReward,
    FormatReward,
    LengthPenaltyReward,
    NumericReward,
    RewardOutput,
    ThinkTagReward,
    call,
)


def scores(reward, responses, **columns):
    return call(reward, ["p"] * len(responses), responses, columns).scores


# ---------------------------------------------------------------- exact match


@pytest.mark.parametrize(
    "response, reference, right",
    [
        ("8", "8", 1), (" 8\n", "8", 1), ("18", "8", 0), ("0123456789", "8", 0), ("", "8", 0),
        ("Answer: 8", "8", 1), ("Answer: 8 apples", "8", 1), ("It is 7.\nAnswer: 8.", "8", 1),
        ("Answer: 8 or 18", "18", 0), ("paris", "Paris", 1), ("Answer: Paris.", "paris", 1),
        ("not Paris", "Paris", 0), ("1,234", "1234", 1), (r"so \boxed{8}", "8", 1),
        ("-8", "8", 0), ("-8", "-8", 1), ("80", "8.0", 0),
    ],
)
def test_exact_match_is_of_the_parsed_answer_not_of_a_part(response, reference, right):
    assert scores(ExactMatchReward(), [response], reference=[reference]) == [right]


def test_references_at_init_or_at_call_and_by_either_name():
    assert ExactMatchReward(["4"])(["p"], ["4"]).scores == [1.0]
    assert ExactMatchReward()(["p"], ["4"], references=["4"]).scores == [1.0]
    assert scores(ExactMatchReward(), ["4", "5"], reference=["4", "4"]) == [1.0, 0.0]
    with pytest.raises(ValueError, match="needs references"):
        call(ExactMatchReward(), ["p"], ["4"], {})
    with pytest.raises(ValueError, match="2 references for 3 responses"):
        ExactMatchReward(["4", "5"])(["p"] * 3, ["4"] * 3)


def test_what_has_no_reference_cannot_be_scored():
    assert scores(ExactMatchReward(), ["4", "4"], reference=["4", None]) == [1.0, None]


# ---------------------------------------------------------------- the others


@pytest.mark.parametrize(
    "response, reference, right",
    [
        ("0.5", "1/2", 1), (r"\boxed{\frac{1}{2}}", "0.5", 1), ("Answer: 1/2", "0.5", 1),
        ("Answer: 1,234 km", "1234", 1), ("it is 7", "8", 0), ("none", "8", 0), ("18", "8", 0),
        ("8.0", "8", 1), ("-3", "3", 0),
    ],
)
def test_numeric_compares_values(response, reference, right):
    pytest.importorskip("math_verify", reason="pip install -r beyond/requirements.txt")
    assert scores(NumericReward(), [response], reference=[reference]) == [right]


def test_length_has_its_top_at_the_optimum():
    reward = LengthPenaltyReward(optimal_length=4, min_length=2, max_length=8)
    words = [" ".join("w" * n) for n in (1, 2, 3, 4, 6, 8, 9)]
    assert scores(reward, words) == [0, 0, 0.5, 1, 0.5, 0, 0]
    with pytest.raises(ValueError, match="min_length < optimal_length"):
        LengthPenaltyReward(optimal_length=1, min_length=2)


def test_think_tags():
    right = "<think>a + b</think> 4"
    wrong = ["4", "<think></think> 4", "<think>a</think>", "x <think>a</think> 4", right * 2]
    assert scores(ThinkTagReward(), [right, *wrong]) == [1, 0, 0, 0, 0, 0]


def test_composites_normalise_nest_and_pass_columns_on():
    inner = CompositeReward([(ExactMatchReward(), 2), (FormatReward(str.isdigit), 2)])
    outer = CompositeReward([(inner, 3), (FormatReward(lambda r: "x" in r), 1)])
    assert scores(outer, ["4", "5", "x"], reference=["4"] * 3) == [0.75, 0.375, 0.25]
    thirds = CompositeReward([(FormatReward(bool), 1), (lambda response: 1 / 3, 2)])
    assert scores(thirds, ["a"]) == [pytest.approx(1 / 3 + 2 / 9, abs=1e-15)]
    assert scores(outer, ["4"], reference=[None]) == [None]
    for weights in ([], [(bool, 0)], [(bool, -1), (bool, 2)]):
        with pytest.raises(ValueError, match="weights"):
            CompositeReward(weights)


def test_the_three_snippets_of_forge_rls_readme_run():
    reward = CompositeReward([
        (ExactMatchReward(), 0.7),
        (FormatReward(lambda r: "answer:" in r.lower()), 0.2),
        (LengthPenaltyReward(optimal_length=150), 0.1),
    ])
    assert scores(reward, ["Answer: 4"], reference=["4"]) == [pytest.approx(0.9)]

    class MyReward(BaseReward):
        def __call__(self, prompts, responses) -> RewardOutput:
            return RewardOutput(scores=[1.0 if "correct" in r else 0.0 for r in responses])

    assert scores(MyReward(), ["correct", "no"], reference=["a", "b"]) == [1.0, 0.0]
    assert RewardOutput([1.0]).metadata == {}


# ---------------------------------------------------------------- calling


def test_forms_and_columns():
    assert scores(lambda response, answer: float(response == answer), ["4", "5"],
                  reference=["4", "4"]) == [1, 0]
    assert scores(lambda prompt, response, target: float(target), ["a"], reference=["3"]) == [3]
    assert scores(lambda prompts, responses, level: level, ["a", "b"], level=[1, 2]) == [1, 2]
    assert scores(lambda prompts, responses, **c: [len(c)] * 2, ["a", "b"], x=[1, 2]) == [1, 1]


@pytest.mark.parametrize(
    "reward, said",
    [
        (lambda response: 1 / 0, r"sample 0 \('first'\) raised ZeroDivisionError"),
        (lambda response: {"first": 1.0}[response], r"sample 1 \('second'\) raised KeyError"),
        (lambda prompts, responses: [1.0, math.nan], r"sample 1 \('second'\) got nan"),
        (lambda prompts, responses: [1.0, "good"], "sample 1"),
        (lambda prompts, responses: [1.0], "1 score for 2 responses"),
        (lambda prompts, responses: prompts[5], "raised IndexError"),
    ],
)
def test_a_reward_that_fails_is_named_with_its_sample(reward, said):
    with pytest.raises(ValueError, match=f"reward <lambda>.*{said}"):
        scores(reward, ["first", "second"])


def sleeps(prompts, responses):
    time.sleep(3600)


def loops(response, answer):
    while True:
        try:
            while True:
                pass
        except Exception:
            pass


async def waits(prompts, responses):
    await asyncio.sleep(3600)


@pytest.mark.parametrize("thread", [False, True])
@pytest.mark.parametrize("reward", [sleeps, loops, waits])
def test_a_reward_that_hangs_is_ended_by_its_time_limit(reward, thread):
    said = []

    def run():
        try:
            call(reward, ["p"], ["a"], {"reference": ["a"]}, timeout=0.2)
        except ValueError as error:
            said.append(str(error))

    if thread and reward is loops:
        pytest.skip("a loop left behind in a thread would slow down all tests after it")
    if thread:
        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        worker.join(60)
    else:
        run()
    assert said and said[0].startswith(f"reward {reward.__name__}: no scores for 1 response within"
                                       " 0.2 s") and "reward_timeout" in said[0]
    assert call(lambda response: 1.0, ["p"], ["a"], {}, timeout=60).scores == [1.0]


# ---------------------------------------------------------------- data


@pytest.mark.parametrize(
    "text, answer",
    [
        ("Answer: 72 apples", "72"), ("1234.", "1234"), ("It costs $1,234.50 a day", "1234.50"),
        ("5 + 6 = 11", "11"), ("Answer: 5\nThen 9 more", "5"), ("nothing", None), ("", None),
        ("ANSWER: -7", "-7"), ("Answer: 3/4 cup", "3/4"), (r"\boxed{12}", "12"),
        ("The answer is 18.", "18"), ("Answer: **5**", "5"), ("Answer:\n5", "5"),
    ],
)
def test_extract_answer(text, answer):
    assert data.extract_answer(text) == answer


def test_the_twenty_problems_are_right():
    rows = data.load_gsm8k_mock()
    assert len(rows) == 20 == len({row["prompt"] for row in rows})
    for (_, expression, answer), row in zip(data.WORD_PROBLEMS, rows):
        assert eval(expression) == answer == float(row["reference"])
        assert data.format_prompt(row["question"]) == row["prompt"]
    for n in (0, 21):
        with pytest.raises(ValueError, match="1 to 20"):
            data.load_gsm8k_mock(n)


def test_a_local_gsm8k_file_is_parsed(tmp_path):
    path = tmp_path / "gsm8k.jsonl"
    lines = [{"question": "How many?", "answer": "2 * 600 = 1,200\n#### 1,200"}, "{broken",
             {"question": "Q", "answer": "no mark"}, {"answer": "#### 1"}]
    path.write_text("\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines),
                    encoding="utf-8")
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        rows = data.load_gsm8k(path=path)
    assert [row["reference"] for row in rows] == ["1200"]
    text = str(said[0].message)
    assert "3 left out, 1 row kept" in text and "line 2: not JSON" in text and "line 4" in text


def test_jsonl_keeps_its_columns_and_a_useless_file_is_named(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_bytes(b'\xef\xbb\xbf{"prompt": "a", "answer": 5, "level": 2}\r\n\r\n')
    assert data.load_rows(path) == [{"prompt": "a", "answer": 5, "level": 2, "reference": "5"}]
    path.write_text("nothing\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no usable row.*line 1"):
        data.load_rows(path)


def test_chat_prompts_go_through_the_template_or_are_refused():
    class Chat:
        chat_template = "yes"

        def apply_chat_template(self, messages, tokenize, add_generation_prompt):
            return f"<{messages[0]['content']}>"

    class Plain:
        chat_template = None

    messages = [{"role": "user", "content": "hi"}]
    assert data.as_text(messages, Chat()) == "<hi>" and data.as_text("hi", Chat()) == "hi"
    with pytest.raises(ValueError, match="no chat template"):
        data.as_text(messages, Plain())
    with pytest.raises(ValueError, match="text or a list of messages"):
        data.as_text(5, Plain())


def test_rows_without_an_answer_are_counted(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"prompt": "a", "answer": 5.0}\n{"prompt": "b", "answer": NaN}\n'
                    '{"prompt": "c"}\n', encoding="utf-8")
    rows = data.load_rows(path)
    assert [row["reference"] for row in rows] == ["5", None, None]
    with pytest.warns(UserWarning, match="2 of 3 rows have no answer .*the first is row 1"):
        data.warn_of_gaps(rows, "the data")
