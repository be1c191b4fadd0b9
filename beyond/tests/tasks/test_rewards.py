"""Rewards and data: right input, wrong input, and the messages about it."""

import asyncio
import functools
import json
import math
import sys
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
    ReasoningGymReward,
    RewardOutput,
    ThinkTagReward,
    call,
)


def scores(reward, responses, **columns):
    return call(reward, ["p"] * len(responses), responses, columns).scores


# ---------------------------------------------------------------- comparing


@pytest.mark.parametrize("response, reference, right", [
    ("8", "8", 1), (" 8\n", "8", 1), ("18", "8", 0), ("0123456789", "8", 0), ("", "8", 0),
    ("Answer: 8 apples", "8", 1), ("It is 7.\nAnswer: 8.", "8", 1), ("Answer: 8 or 18", "18", 0),
    ("paris", "Paris", 1), ("Answer: Paris.", "paris", 1), ("not Paris", "Paris", 0),
    ("1,234", "1234", 1), ("1234", "1,234", 1), (r"\boxed{1{,}234}", "1", 0), ("80", "8.0", 0),
    ("Answer: 8.0", "8", 0), (r"so \boxed{8}", "8", 1), ("Answer: 42", 42, 1),
    ("-8", "8", 0), ("-8", "-8", 1), ("\u22125", "-5", 1), ("\u22125", "5", 0), ("\uff18", "8", 1),
    ("Answer: 10:30", "10:30", 1), ("Answer: 5 km", "5 km", 1), ("Answer: 2x+3", "2X+3", 1),
    ("Answer: 1e3", "1", 0), ("Answer: 2^10", "2", 0),
    ("Answer: Mount Everest (8849 m)", "mount everest (8849 m)", 1),
    ("Answer: (C) 20", "20", 1), ("Answer: (C) 20", "C", 1), ("Answer: 20", "(C) 20", 1),
    ("Answer: (C) 20", "(B) 20", 0),
])
def test_exact_match_is_of_the_parsed_answer_and_reads_both_sides_alike(response, reference, right):
    assert scores(ExactMatchReward(), [response], reference=[reference]) == [right]


@pytest.mark.parametrize("response, reference, right", [
    ("50%", "0.5", 1), ("50%", "50", 1), ("0.5", "50%", 1), ("50% of 2 is 1", "0.01", 0),
    (r"\frac{1}{2}", "0.5", 1), ("Answer: 1/2", "0.5", 1), ("0.5", "1/2", 1), ("8.0", "8", 1),
    ("1/3", "0.333333", 1), ("1/3", "0.33", 0), ("1e3", "1,000", 1), ("10000000", "10000001", 0),
    (r"\boxed{2^{10}}", "1024", 1), ("Answer: 2^10", "2", 0), ("Answer: 2x+3", "3+2x", 1),
    (r"\boxed{\frac{1}{\sqrt{4}}}", "0.5", 1), ("1/0", "5", 0), ("Answer: 5 km/h", "5", 1),
    ("Answer: 1,234 km", "1234", 1), ("-$3.50", "-3.5", 1), ("-3", "3", 0), ("it is 7", "8", 0),
    ("none", "8", 0), ("18", "8", 0), ("", "5", 0), ("5", None, None), ("5", "five", 1),
    ("5", "fivish", None),
])
def test_numeric_knows_percent_fractions_money_and_formulas(response, reference, right):
    pytest.importorskip("math_verify", reason="pip install -r beyond/requirements.txt")
    assert scores(NumericReward(), [response], reference=[reference]) == [right]


HOSTILE = ["Answer: 9^9^9^9", r"\boxed{9^{9^{9^9}}}", r"\boxed{\binom{1000000}{500000}}",
           "Answer: 1e999999999", "1" * 20_000, r"\boxed{" * 2000, "answer:" * 5000]


@pytest.mark.parametrize("thread", [False, True])
def test_no_answer_takes_for_ever_also_in_a_thread(thread):
    found = []

    def run():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # how many are not read
            found.extend(scores(NumericReward(), HOSTILE, reference=["5"] * len(HOSTILE)))

    if thread:
        worker = threading.Thread(target=run, daemon=True)
        worker.start()
        worker.join(120)
    else:
        run()
    assert found == [None, None, None, None, None, 0.0, 0.0]


def test_references_at_init_or_at_call_and_by_either_name():
    assert ExactMatchReward(["4"])(["p"], ["4"]).scores == [1.0]
    assert ExactMatchReward()(["p"], ["4"], references=["4"]).scores == [1.0]
    assert scores(ExactMatchReward(), ["4", "5"], reference=["4", "4"]) == [1.0, 0.0]
    assert scores(ExactMatchReward(["4"]), ["4", "5"], reference=[None, None]) == [1, 0]
    assert scores(ExactMatchReward(["4"]), ["4", "5"], reference=["5", "5"]) == [0, 1]
    assert scores(ExactMatchReward(4), ["4", "5"]) == [1, 0]
    assert scores(ExactMatchReward(), ["4"], reference=["2 + 2 = 4\n#### 4"]) == [1]  # GSM8K's
    with pytest.raises(ValueError, match="needs references"):
        call(ExactMatchReward(), ["p"], ["4"], {})
    with pytest.raises(ValueError, match="2 references for 3 responses"):
        ExactMatchReward(["4", "5"])(["p"] * 3, ["4"] * 3)


def test_what_has_no_reference_cannot_be_scored():
    assert scores(ExactMatchReward(), ["4", "4"], reference=["4", None]) == [1.0, None]


# ---------------------------------------------------------------- the others


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


def test_the_class_of_a_guide_to_torchforge_is_taken_as_it_is():
    class Custom:
        def __call__(self, prompt: str, response: str, target: str) -> float:
            return 1.0 if response == target else 0.0

    for reward in (Custom, Custom()):
        assert scores(reward, ["a", "b"], reference=["a", "a"]) == [1, 0]
    assert scores(ExactMatchReward, ["4"], reference=["4"]) == [1]


def test_trls_forms_are_called_by_name():
    def lengths(completions, **kwargs):
        assert kwargs["prompts"] == ["p", "p"] and kwargs["level"] == [1, 2]
        return [float(len(c)) for c in completions]

    def right(completions, answer, **kwargs):
        return [float(c == a) for c, a in zip(completions, answer)]

    def plain(prompts, completions):
        return [float(p == "p" and c == "b") for p, c in zip(prompts, completions)]

    columns = {"level": [1, 2], "answer": ["a", "a"]}
    assert [scores(f, ["a", "bb"], **columns) for f in (lengths, right)] == [[1, 2], [1, 0]]
    assert scores(plain, ["a", "b"]) == [0, 1]


def test_async_rewards_are_waited_for_also_inside_a_loop():
    async def batch(prompts, responses):
        await asyncio.sleep(0)
        return [1.0] * len(responses)

    async def one(response, answer):
        return float(response == answer)

    async def notebook():
        return scores(batch, ["a"]), scores(one, ["a", "b"], reference=["a", "a"])

    assert asyncio.run(notebook()) == ([1], [1, 0])


def test_a_default_is_filled_when_the_data_has_the_column():
    def one(prompt, response, target=None, level=7):
        return float(target or 0) + level

    assert scores(one, ["a"], reference=["3"]) == [10]
    assert scores(one, ["a"], reference=["3"], level=[1]) == [4]
    assert scores(lambda xs, ys, *, level: level, ["a"], level=[2]) == [2]
    assert scores(lambda prompts, ys, /: [float(y == "a") for y in ys], ["a"]) == [1]
    assert scores(lambda completions, scale=2.0: [scale], ["a"]) == [2]
    assert call(functools.partial(one, level=1), ["p"], ["a"], {"reference": ["3"]}).scores == [4]


def gives_nothing(prompts, responses):
    pass


@pytest.mark.parametrize("reward, said", [
    (lambda response, colour: 1.0, "needs 'colour', and the data has no such column; there are"),
    (lambda prompts, responses, level: level, "needs 'level'"),
    (gives_nothing, "reward gives_nothing gave None, not a list of 1 score"),
    (lambda prompts, responses: 1.0, "gave 1.0, not a list"),
    (lambda prompts, responses: {"a": 1.0}, "not a list"),
    (FormatReward(lambda r: r[9]), r"FormatReward \(<lambda>\): sample 0 \('a'\) raised Index"),
    (CompositeReward([(FormatReward(lambda r: r[9]), 1)]), "sample 0 .* raised IndexError"),
])
def test_what_is_wrong_with_a_reward_is_said(reward, said):
    with pytest.raises(ValueError, match=said):
        scores(reward, ["a"], reference=["4"])


def test_a_composites_weights_are_numbers_and_weight_zero_only_logs():
    never = FormatReward(bool)
    wrong = [[(never, 1), (never, x)] for x in (math.nan, math.inf, "1", None, -1)]
    for weights in (*wrong, [], [(never, 0)]):
        with pytest.raises(ValueError, match="weights must be"):
            CompositeReward(weights)

    class Unknown(BaseReward):
        def __call__(self, prompts, responses) -> RewardOutput:
            return RewardOutput([None] * len(responses))

    watched = CompositeReward([(never, 2), (Unknown(), 0)])
    out = call(watched, ["p"], ["a"], {})
    assert out.scores == [1.0] and out.metadata["parts"]["Unknown"] == [None]


def test_reasoning_gym_scores_as_its_task_does(monkeypatch):
    class Task(list):
        def score_answer(self, answer, entry):
            return 1.0 if answer in entry["metadata"]["all"] else 0.1

    def create_dataset(name, size, seed):
        if name != "words":
            raise ValueError(f"Dataset '{name}' not registered")
        known = {"answer": "a", "metadata": {"all": ["a", "b\nc"]}}
        return Task({"question": f"Q{seed + i}\n"} | known for i in range(size))

    gym = type(sys)("reasoning_gym")
    gym.create_dataset = create_dataset
    monkeypatch.setitem(sys.modules, "reasoning_gym", gym)
    rows = data.load_reasoning_gym("words", 2, seed=5)
    assert rows[1]["prompt"].startswith("Q6\n\nEnd with") and rows[1]["reference"] == "a"
    columns = {k: [row[k] for row in rows] for k in rows[0] if k != "prompt"}
    assert scores(ReasoningGymReward(), ["so\nAnswer: b\nc", "a b"], **columns) == [1.0, 0.1]
    with pytest.raises(ValueError, match="cannot make 100 problems of 'gone'"):
        data.load_reasoning_gym("gone")
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(OSError, match="pip install reasoning-gym"):
        data.load_reasoning_gym("words")


# ---------------------------------------------------------------- data


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
             {"question": "Q", "answer": "1"}, {"answer": "#### 1"}]
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


def test_lines_end_at_line_feeds_alone_and_bytes_that_are_no_text_are_named(tmp_path):
    path = tmp_path / "x.jsonl"
    good = json.dumps({"prompt": "a\u2028b\u0085c", "answer": "1"}, ensure_ascii=False).encode()
    path.write_bytes(good + b"\r\n" + b'{"prompt": "\xff", "answer": "1"}\n' + b"[" * 9999 + b"\n")
    with pytest.warns(UserWarning, match="2 left out, 1 row kept: .*line 2: not JSON.*line 3"):
        rows = data.load_rows(path)
    assert [row["prompt"] for row in rows] == ["a\u2028b\u0085c"]
    with pytest.raises(ValueError, match="max_samples = 0"):
        data.load_rows(path, 0)


def test_json_lists_and_parquet_keep_messages_and_gaps(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install -r beyond/requirements.txt")
    from pyarrow import parquet

    chat = [{"role": "user", "content": "hi"}]
    rows = [{"prompt": chat, "answer": "1,234"}, {"prompt": chat, "answer": None}]
    (tmp_path / "x.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "x.parquet")
    for name in ("x.json", "x.parquet"):
        found = data.load_rows(tmp_path / name)
        assert [row["prompt"] for row in found] == [chat, chat] and data.is_chat(found[0]["prompt"])
        assert [row["reference"] for row in found] == ["1,234", None]
    (tmp_path / "bad.parquet").write_bytes(b"nothing")
    with pytest.raises(OSError, match="is no parquet file"):
        data.load_rows(tmp_path / "bad.parquet")


def test_a_template_that_refuses_a_role_names_the_row():
    class Strict:
        chat_template = "yes"

        def apply_chat_template(self, messages, **_):
            raise RuntimeError("System role not supported")

    class Policy:
        tokenizer, chat, add_special_tokens = Strict(), None, True
        longest_prompt = max_prompt_tokens = 9

    row = {"prompt": [{"role": "system", "content": "x"}, {"role": "user", "content": "y"}]}
    with pytest.raises(ValueError, match="row 0: .* roles system, user: RuntimeError: System"):
        data.usable([row], Policy())
    assert not data.is_chat([])
    with pytest.raises(ValueError, match="row 0: a prompt must be text"):
        data.usable([{"prompt": [1]}], Policy())
