"""Answers as models write them, hostile ones, rewards in other libraries' forms, odd files."""

import asyncio
import functools
import json
import sys
import threading
import warnings

import pytest

from beyond.tasks import data
from beyond.tasks.answers import extract_answer, stated
from beyond.tasks.rewards import (
    BaseReward,
    CompositeReward,
    ExactMatchReward,
    FormatReward,
    NumericReward,
    ReasoningGymReward,
    RewardOutput,
    call,
)


def scores(reward, responses, **columns):
    return call(reward, ["p"] * len(responses), responses, columns).scores


# ---------------------------------------------------------------- answers


@pytest.mark.parametrize("text, answer", [
    (r"\boxed{1{,}234}", "1234"), (r"\boxed{1\,234}", "1234"), (r"\boxed{12\text{ cm}}", "12"),
    (r"\boxed{\$5}", "5"), (r"\boxed{-\frac{7}{3}}", "-7/3"), (r"so \dfrac12", "1/2"),
    (r"\boxed{\frac{1}{\sqrt{4}}}", r"\frac{1}{\sqrt{4}}"),
    ("it is \u22125", "-5"),
    ("\uff11\uff18", "18"), ("\u0663", "3"), ("-$5", "-5"), ("Answer: .5", ".5"),
    ("Answer: 1e3", "1e3"), ("10-3", "10-3"), ("x = -3", "-3"),
    ("**Answer**: 5 of 7", "5 of 7"),
    ("**Answer:** 5", "5"), ("Answer: 2^10", "2^10"), ("Answer: 6*7", "6*7"),
    ("Answer: 2x+3", "2x+3"), (r"Answer: \(\frac{3}{4}\)", "3/4"), (r"Answer: \boxed{5}.", "5"),
    ("\\boxed{open", None), ("The answer is 5!", "5!"),
    ("12,3456", "12, 3456"), (r"\boxed{}", None),
])
def test_answers_are_read_as_they_are_written(text, answer):
    assert extract_answer(text) == answer


@pytest.mark.parametrize("response, reference, right", [
    ("Answer: 1,234", "1,234", 1), ("1234", "1,234", 1), ("Answer: 10:30", "10:30", 1),
    ("Answer: 5 km", "5 km", 1), ("Answer: 2x+3", "2X+3", 1), ("Answer: 1e3", "1", 0),
    ("Answer: 2^10", "2", 0), ("\u22125", "-5", 1), ("\u22125", "5", 0), ("\uff18", "8", 1),
    ("Answer: Mount Everest (8849 m)", "mount everest (8849 m)", 1), (r"\boxed{1{,}234}", "1", 0),
    ("Answer: 8.0", "8", 0), ("Answer: 42", 42, 1), ("Answer: (C) 20", "20", 1),
    ("Answer: (C) 20", "C", 1), ("Answer: 20", "(C) 20", 1), ("Answer: (C) 20", "(B) 20", 0),
])
def test_exact_match_reads_both_sides_alike(response, reference, right):
    assert scores(ExactMatchReward(), [response], reference=[reference]) == [right]


@pytest.mark.parametrize("response, reference, right", [
    ("50%", "0.5", 1), ("50%", "50", 1), ("0.5", "50%", 1), ("50% of 2 is 1", "0.01", 0),
    (r"\frac{1}{2}", "0.5", 1), ("1/3", "0.333333", 1), ("1/3", "0.33", 0), ("1e3", "1,000", 1),
    ("10000000", "10000001", 0), (r"\boxed{2^{10}}", "1024", 1), ("Answer: 2^10", "2", 0),
    ("Answer: 2x+3", "3+2x", 1), (r"\boxed{\frac{1}{\sqrt{4}}}", "0.5", 1), ("1/0", "5", 0),
    ("Answer: 5 km/h", "5", 1), ("-$3.50", "-3.5", 1), ("", "5", 0), ("5", None, None),
    ("5", "five", 1), ("5", "fivish", None),
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


# ---------------------------------------------------------------- forms of rewards


def test_references_of_the_constructor_serve_rows_without_any():
    assert scores(ExactMatchReward(["4"]), ["4", "5"], reference=[None, None]) == [1, 0]
    assert scores(ExactMatchReward(4), ["4", "5"]) == [1, 0]
    assert scores(ExactMatchReward(), ["4"], reference=["2 + 2 = 4\n#### 4"]) == [1]  # GSM8K's
    assert scores(ExactMatchReward(["4"]), ["4", "5"], reference=["5", "5"]) == [0, 1]


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
    for weight in (float("nan"), float("inf"), "1", None, -1):
        with pytest.raises(ValueError, match="weights must be"):
            CompositeReward([(never, 1), (never, weight)])

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


# ---------------------------------------------------------------- files


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


def test_gsm8k_from_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="pip install -r beyond/requirements.txt")
    from pyarrow import parquet

    rows = [{"question": "Why?", "answer": "so\n#### -1,234"}, {"question": "Q", "answer": "1"}]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "g.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = data.load_gsm8k(path=tmp_path / "g.parquet")
    assert [row["reference"] for row in found] == ["-1234"]


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


def test_stated_answers_are_whole_lines():
    assert stated("Answer: 3 apples\nand more") == "3 apples" and stated("18") is None
