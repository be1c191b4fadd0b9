r"""The rule of tasks/answers.py: tables of what is read how, and two properties of all answers.

The properties: an answer that is the reference, letter by letter, is worth exactly 1; with anything
but a listed unit or style around it, never 1. Hypothesis draws from the grammar of the docstring.
"""

import json
import re
import string
import warnings
from fractions import Fraction
from pathlib import Path

import pytest

pytest.importorskip("hypothesis", reason="pip install -r instructor/requirements.txt")

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from beyond.tasks import math_helper
from beyond.tasks.answers import (
    Number,
    as_reference,
    equal,
    extract_answer,
    find,
    score,
    stated,
)
from beyond.tasks.reader import bare, is_noun
from beyond.tasks.rewards import ExactMatchReward, NumericReward
from beyond.tasks.words import BREAKS, NUMBER_WORDS, STATING, UNITS

many = settings(max_examples=120, deadline=None, derandomize=True, database=None)


def unasked(gold: str, given: str) -> bool | None:
    """Stand in for math-verify where the question is whether it is needed."""
    return None


def numeric(response: str, reference: str) -> float | None:
    """Return what a response is worth without math-verify."""
    right = find(reference)[1]
    return None if right is None else score(response, right, unasked)


def exact(response: str, reference: str) -> float | None:
    """Return ExactMatchReward's score."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ExactMatchReward()(["p"], [response], references=[reference]).scores[0]


# ============================================================== tables

VALUES = [  # (response, what it is worth against it 1)
    # signs
    ("Answer: - 5", "-5"), (r"\boxed{- 5}", "-5"), ("Answer: minus 5", "-5"),
    ("Answer: \u20135", "-5"), ("Answer: \u2014 5", "-5"), ("Answer: negative five", "-5"),
    ("Answer: \u2212$5.00", "-5"), ("Answer: $ -5", "-5"), ("Answer: +5", "5"),
    ("Answer: (-5)", "-5"), ("Answer: -(5)", "-5"), (r"-\boxed{5}", "-5"),
    # mixed numbers and fractions
    ("Answer: 2 2/3", "8/3"), ("Answer: 1 1/4", "5/4"), (r"\boxed{2\frac{1}{2}}", "2.5"),
    (r"\boxed{2\frac12}", "2.5"), ("Answer: 2\u00bd", "2.5"), ("Answer: \u00bd", "0.5"),
    (r"\boxed{-2\frac{1}{2}}", "-2.5"), (r"\boxed{\frac{-7}{3}}", "-7/3"),
    ("Answer: 5 thirds", "5/3"), ("Answer: three and a half", "3.5"),
    # thousands
    ("Answer: 1{,}234", "1234"), (r"Answer: 10,\!000", "10000"), ("Answer: 1 234", "1234"),
    ("Answer: 1\u202f234", "1234"), ("Answer: 1'234'567", "1234567"), ("Answer: 1_234", "1234"),
    ("Answer: 1.234,5", "1234.5"), ("Answer: 1.234.567", "1234567"), (r"\boxed{5\,000}", "5000"),
    ("Answer: 1,00,000", "100000"), ("Answer: 12,05,000", "1205000"),
    ("Answer: 10,20,300", "10, 20, 300"),
    # decimal commas, decimals without an end
    ("Answer: \u20ac12,50", "12.5"), ("Answer: 12,50 \u20ac", "12.5"), ("12,50 euros", "12.5"),
    ("Answer: 1 234,5", "1234.5"), ("Answer: 1 234,56 \u20ac", "1234.56"), ("12, 50", "12,50"),
    (r"\boxed{0.\overline{3}}", "1/3"), (r"\boxed{-1.2\overline{34}}", "-611/495"),
    (r"\boxed{0.\bar 6}", "2/3"), (r"$0.\overline{9}$", "1"),
    # dollars in formulas
    (r"Answer: $\$18$", "18"), (r"Answer: $\$18$ per day", "18"),
    (r"It costs $\$1{,}200$.", "1200"), (r"She earns $9 \times \$2 = \$18$.", "18"),
    # powers of ten, words, percent
    (r"Answer: 1.5 \times 10^3", "1500"), ("Answer: 1.5 x 10^3", "1500"), ("Answer: 1E+3", "1000"),
    ("Answer: 3\u00b710\u2078 m/s", "300000000"), ("Answer: 10^{-3}", "0.001"),
    ("Answer: 3.5 million", "3500000"), ("Answer: $2.5 bn", "2500000000"),
    ("Answer: twenty-one", "21"), ("Answer: one hundred and five", "105"),
    ("Answer: half a dozen", "6"), ("Answer: five percent", "0.05"), ("50%", "50"),
    # equations
    ("Answer: 10 - 3 = 7", "7"), ("Answer: 5 \u00d7 3 = 15", "15"), ("Answer: x = 5", "5"),
    ("Answer: 3 + 4 = x", "7"), ("She sold 48+24 = 72 clips in April and May.", "72"),
    # several
    ("Answer: 1728 and 1331", "1331 and 1728"), ("x=1 or x=2", "{1, 2}"), ("(1, 2)", "1, 2"),
    ("Answer: x=2, y=1", "y=1, x=2"), (r"Answer: \pm 5", "5, -5"), ("[1, 2, 3]", "1, 2, 3"),
    # arithmetic
    (r"\boxed{2516_8}", "2516_{8}"),
    (r"\boxed{2^{10}}", "1024"), ("Answer: 5!", "120"), (r"\sqrt{16}", "4"), ("10-3", "7"),
    # units
    ("5 km", "5000 m"), ("5 m/s^2", "5"), ("Answer: 6 ft 2 in", "74 inches"),
    ("2 hours and 30 minutes", "2.5 h"), ("Answer: $5 and 30 cents", "5.30"),
    ("He has $5 left over.", "5"),
    ("1h 15m", "75 minutes"), ("1h15m", "75 minutes"),
    ("2 hr 30 min", "2.5"), ("5'10\"", "70 inches"), ("5' 10''", "70 inches"),
    (r"\boxed{12\pi \text{ square units}}", r"12\pi"), (r"12\pi\text{ cm}^2", r"12\pi"),
    (r"\boxed{4\sqrt{5} \text{ feet}}", r"4\sqrt{5}"), (r"25\pi cm", r"25\pi\text{ cm}"),
    # choices with what they say
    (r"\boxed{\textbf{(B) } 24}", "24"), (r"\boxed{\textbf{(B) } 24}", "B"), ("(B) 24", "(B)"),
    (r"The answer is (D) \frac{1}{2}.", "0.5"), ("(B) 24", r"\textbf{(B)}\ 24"),
    (r"\boxed{1011_{2}}", "1011_2"), ("2A_{16}", "2A_{16}"),
    (r"$5\,\text{cm}$", "5"), (r"\boxed{90^\circ}", "90"), ("50 cents", "$0.50"),
    ("Answer: 5 red apples", "5"), ("Answer: 18 dollars", "18"), ("20 \u00b0C", "20"),
    # where it stands
    ("<think>The answer is 7. No wait.</think> 8", "8"), ("so 4</think>5", "5"),
    ("<answer>12</answer> (I used 3 steps)", "12"), ("Answer:\n5", "5"),
    ("The total is\n\\[\n x = 5\n\\]", "5"), ("It takes James 240 minutes to write.", "240"),
    ("Final Answer: The final answer is $5$. I hope it is correct.", "5"),
    ("Here is **$18** a day", "18"), ("1/3", "0.333333"), ("12:30 PM", "12:30"), ("(B)", "B"),
    ("Answer: 3:45 pm", "15:45"), ("12:30 pm", "12:30 p.m."),
    # a choice, and what it says
    ("Answer: option B", "B"), (r"\boxed{\textbf{(D)}\ 20}", "D"),
    (r"\boxed{\textbf{(D) }20}", "20"),
    ("Answer: D) $20", "20"), ("The answer is (D) 20.", "(D)"), (r"\boxed{20}", "(D) 20"),
    (r"\boxed{{5}}", "5"), (r"\boxed{\{\sqrt2\}}", r"\{\sqrt2\}"),
]


@pytest.mark.parametrize("response, reference", VALUES)
def test_values_are_read_in_every_spelling(response, reference):
    assert numeric(response, reference) == 1
    assert numeric(reference, reference) == 1


OTHERS = [  # (response, a reference that it is not)
    ("Answer: - 5", "5"), (r"\boxed{- 5}", "5"), ("Answer: minus 5", "5"), ("Answer: \u20135", "5"),
    ("Answer: 2 2/3", "2"), ("Answer: 10 - 3 = 7", "10"), ("Answer: 5!", "5"),
    ("Answer: 12:30", "12"), ("Answer: not 5", "5"), (r"\boxed{1728}", "1331 and 1728"),
    ("<think>The final answer is 8", "8"), ("Answer: 8 <think>or 9", "8"), (r"\boxed{12", "12"),
    ("<answer>12", "12"), ("1/2^98", "1/2^99"), ("1/3000001", "1/3000002"),
    ("0.000000", "1/3000000"), ("1/3", "0.33"), ("10000000", "10000001"), ("0.5%", "50%"),
    ("5 kg", "5 m"), ("5 cents", "$5"), ("2, 1", "1, 2"), ("[1, 2]", "(1, 2)"), ("5, 5", "5"),
    ("The answer is not 5.", "5"), ("Answer: x=2, y=1", "x=1, y=2"), ("I do not know", "5"),
    (r"\boxed{5} or \boxed{6}", "6"), (r"It is not \boxed{5}.", "5"),
    (r"\boxed{5}^2", "5"), ("50% of 2 is 1", "0.01"),
    ("3:45 am", "15:45"), ("3:45", "15:45"), ("(D) 21", "(D) 20"),
    ("(C) 20", "D"), ("(C) 20", "21"),
    (r"\boxed{\{5\}}", "5"), (r"\boxed{\{\sqrt2\}}", r"\sqrt2"),
    ("Answer: \u20ac12,50", "1250"), ("Answer: 1 234,5", "1234"), ("Answer: 1 234,5", "12345"),
    (r"\boxed{0.\overline{3}}", "0.3"), (r"\boxed{0.\overline{12}}", "0.12"),
    ("1h 15m", "115"), ("1h 15m", "1"), ("5'10\"", "5.1"), ("(B) 24", "C"), ("(B) 24", "2"),
    ("(B) 24", "(C) 24"), (r"12\pi\text{ cm}^2", r"12\pi\text{ cm}"), ("1101_2", "1011_2"),
    ("1101_2", "11"), ("11_2", "11_3"),
]


@pytest.mark.parametrize("response, reference", OTHERS)
def test_what_is_another_value_is_worth_nothing(response, reference):
    assert numeric(response, reference) == 0


NOT_READ = [
    "about 5", "5 or more", "at least 5", "5th", "5?", "5 of 7", "(5)", "[5]", "5 squared", "~5",
    "more than 5", "5, I guess", "either 5 or so", "5 (five)", "5-ish", "5 to 6", "5...", "5'",
    "5+", "5 *", "#5", "0x5", "0x10", "9_8", "(101)_2", "5 \\mod 7", "[-5]",
    "5 6", "five six", "5 dozens", "5 pairs", "3 and 1/2",
    "6, not 5", "6 and not 5", "not 6 but 5", "5-6 days", "5 - \\frac12 days", "f(B) 5",
    "2 100/300", "9^9^9^9", "1/0", "1e99999", "between 5 and 6", "5m", "x \\ne 5", "x \u2248 5",
]


@pytest.mark.parametrize("said", NOT_READ)
def test_what_the_rule_does_not_hold_is_neither_right_nor_wrong(said):
    for value in ("5", "6", "3.5"):
        assert numeric(f"Answer: {said}", value) in (None, 0.0)
    assert numeric("Answer: 5", said) is None or said == "5m"  # 5m is a product


@pytest.mark.parametrize("response, reference", [
    ("1011_2", "1011"), ("1011_2", "11"), (r"4\sqrt5\text{ m}", r"4\sqrt5\text{ cm}"), ("x_1", "1"),
    (r"4\sqrt5 cm", r"4\sqrt5 mm"), ("6, not 5", "6"), ("not 6 but 5", "5"), ("9_8", "9"),
])
def test_what_may_be_right_or_wrong_is_neither(response, reference):
    for said, right in ((response, reference), (reference, response)):
        assert numeric(f"Answer: {said}", right) is None


@pytest.mark.parametrize("response", [
    "chapter 5", "He lives in room 5.", "He sold 4 and got 5.", "If it is 5", "The answer is 5!",
    "The ratio is 7:5", "He has at least 5 apples.", "approx. 5", "1. 5", "The answer is about 5.",
    "It is about 5.",
    "He sold 3 apples for 5 dollars", "Is it 5?", "The answer is 5 or 6.", "Maybe it is 5.",
])
def test_in_a_sentence_a_word_that_changes_the_number_spoils_it(response):
    assert numeric(response, "5") in (None, 0.0)


@pytest.mark.parametrize("left", ["about x", "at least x", "less than x", "not x", "x < y",
                                  "x != 2", r"2x \approx y", r"x\ne y"])
def test_what_changes_the_left_side_of_an_equation_spoils_it(left):
    assert numeric(f"Answer: {left} = 5", "5") in (None, 0.0)


def test_three_hundred_answers_of_gsm8k_and_math_are_read():
    """Of answers written as those data sets' are, under 5 % are not read, and none is wrong."""
    path = Path(__file__).parents[1] / "data" / "answers.jsonl"
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    found = []
    for row in rows:
        right = find(row["reference"])[1]
        assert right is not None, row
        found.append(score(row["response"], right, lambda gold, given: True))
    assert len(found) == 300 and 0.0 not in found
    assert found.count(None) < 0.05 * 300


# ============================================================== texts


@pytest.mark.parametrize("text, answer", [
    (r"\boxed{1{,}234}", "1234"), (r"\boxed{1\,234}", "1234"), (r"\boxed{12\text{ cm}}", "12"),
    (r"\boxed{\$5}", "5"), (r"\boxed{-\frac{7}{3}}", "-7/3"), (r"so \dfrac12", "1/2"),
    (r"\boxed{\frac{1}{\sqrt{4}}}", r"\frac{1}{\sqrt{4}}"), (r"Answer: \boxed{5}.", "5"),
    ("it is \u22125", "-5"), ("\uff11\uff18", "18"), ("\u0663", "3"), ("-$5", "-5"),
    ("It costs $1,234.50 a day", "1234.50"), ("1234.", "1234"), ("Answer: .5", ".5"),
    ("Answer: 1e3", "1e3"),
    ("10-3", "10-3"), ("5 + 6 = 11", "11"), ("x = -3", "-3"), ("ANSWER: -7", "-7"),
    ("Answer: 72 apples", "72"), ("Answer: 5\nThen 9 more", "5"), ("Answer:\n5", "5"),
    ("Answer: 3/4 cup", "3/4"), (r"Answer: \(\frac{3}{4}\)", "3/4"), ("The answer is 18.", "18"),
    ("**Answer**: 5 of 7", "5 of 7"), ("**Answer:** 5", "5"), ("Answer: **5**", "5"),
    ("Answer: 2^10", "2^10"), ("Answer: 6*7", "6*7"), ("Answer: 2x+3", "2x+3"),
    ("The answer is 5!", "5!"), ("12,3456", "12, 3456"),
    ("\\boxed{open", None), (r"\boxed{}", None), ("nothing", None), ("", None),
])
def test_the_text_of_an_answer_is_in_plain_notation(text, answer):
    assert extract_answer(text) == answer


def test_stated_answers_are_whole_lines():
    assert stated("Answer: 3 apples\nand more") == "3 apples" and stated("18") is None


# ============================================================== the grammar

digits = st.one_of(
    st.integers(2, 10**7).map(str), st.integers(1000, 10**9).map("{:,}".format),
    st.integers(1000, 10**9).map(lambda n: f"{n:,}".replace(",", "{,}")),
    st.integers(1000, 10**9).map(lambda n: f"{n:,}".replace(",", " ")),
    st.integers(1000, 10**9).map(lambda n: f"{n:,}".replace(",", "'")),
    st.integers(1000, 10**9).map("{:_}".format),
    st.builds("{}.{}".format, st.integers(2, 999), st.integers(0, 99999)),
    st.builds("{:,}.{}".format, st.integers(1000, 10**7), st.integers(0, 999)),
    st.integers(10**6, 10**9).map(lambda n: f"{n:,}".replace(",", ".") + ",5"),
)
fractions = st.one_of(
    st.builds("{}/{}".format, st.integers(2, 999), st.integers(2, 99)),
    st.builds(r"\frac{{{}}}{{{}}}".format, st.integers(2, 999), st.integers(2, 99)),
    st.builds(r"\dfrac{}{}".format, st.integers(2, 9), st.integers(2, 9)),
    st.builds("{} {}/{}".format, st.integers(2, 99), st.integers(1, 6), st.integers(7, 9)),
    st.builds(r"{}\frac{{{}}}{{{}}}".format, st.integers(2, 99), st.integers(1, 6),
              st.integers(7, 9)),
)
tens = st.one_of(
    st.builds("{}e{}".format, st.integers(2, 99), st.integers(-9, 12)),
    st.builds(r"{} \times 10^{{{}}}".format, st.integers(2, 99), st.integers(-9, 12)),
    st.builds("{} x 10^{}".format, st.integers(2, 99), st.integers(1, 12)),
    st.builds("10^{}".format, st.integers(1, 12)),
)
words = st.sampled_from("""two|seventeen|twenty-one|ninety nine|one hundred and five|a hundred|
    two thousand three hundred|five million|a dozen|half|two thirds|three quarters|two and a half|
    three point one four|half a dozen|1.5 million|3 hundred|2 dozen""".replace("\n", "").replace(
    "    ", "").split("|"))
signs = st.sampled_from(["", "", "-", "\u2212", "- ", "\u2013", "minus ", "negative ", "+"])
bodies = st.one_of(digits, fractions, tens, words)
plain_numbers = st.builds("{}{}".format, signs, bodies)
unit_names = st.sampled_from(sorted(u for u in UNITS if len(u) > 1 and u[0].isalpha()))
styles = ["{}", "**{}**", "${}$", r"\({}\)", r"\[{}\]", "{}.", "`{}`", r"$\mathbf{{{}}}$",
          r"\boxed{{{}}}", r"\text{{{}}}", "$${}$$", " {} ", "**{}.**", '"{}"', "_{}_"]
whole = st.one_of(
    plain_numbers,
    st.builds("{} {}".format, plain_numbers, unit_names),
    st.builds(r"{} \text{{ {}}}".format, plain_numbers, unit_names),
    st.builds("{}${}".format, st.sampled_from(["", "-"]), digits),
    st.builds("{}{}".format, digits, st.sampled_from(
        ["%", r"\%", " percent", "\u20ac", r"^\circ"])),
    st.builds("x = {}".format, plain_numbers),
    st.builds("{} + {} = {}".format, digits, digits, plain_numbers),
)
several = st.one_of(
    st.builds("({}, {})".format, plain_numbers, plain_numbers),
    st.builds("{}, {}, {}".format, plain_numbers, fractions, plain_numbers),
    st.builds("{{{}, {}}}".format, plain_numbers, plain_numbers),
    st.builds(r"\{{{}, {}\}}".format, plain_numbers, plain_numbers),
    st.builds("x = {} or x = {}".format, plain_numbers, plain_numbers),
    st.builds("{} and {}".format, digits, digits),
    st.builds("{}:{}".format, st.integers(0, 99), st.integers(0, 99)),
    st.builds("{} ft {} in".format, st.integers(2, 9), st.integers(1, 11)),
    st.sampled_from(["(B)", "D", r"\text{(C)}", "2x+3", r"3\sqrt{2}", r"\frac{\pi}{6}", "x^2 - 1",
                     r"(-\infty, 3]", r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", "x > 2",
                     "12:30 pm"]),
)
answers = st.one_of(whole, several)
marks = st.sampled_from(["{}", "Answer: {}", r"\boxed{{{}}}", "<answer>{}</answer>", "#### {}",
                         "<think>It is 7.</think>{}", "First 3.\nFinal answer: {}\n"])


@many
@given(answers, marks)
def test_an_answer_that_is_the_reference_is_worth_one(reference, mark):
    assert numeric(reference, reference) == 1, find(reference)
    assert exact(reference, reference) == 1
    assert numeric(mark.format(reference), reference) == 1, find(mark.format(reference))
    assert exact(mark.format(reference), reference) == 1


@many
@given(plain_numbers, st.sampled_from(styles), marks)
def test_styles_do_not_count(reference, style, mark):
    assert numeric(mark.format(style.format(reference)), reference) == 1


before = st.sampled_from("""not |about |around |nearly |at least |more than |less than |version |
    chapter |twice |half of |no |never |between 1 and |1 or |1, |1 and |2^|2*|2+|1/|-1-|1:|x|x^|~|
    \u2248|>|<|!|#|foo |\\sqrt |\\ne |5 - |( |[ |{ |2 |minus minus |0.|1 + 1 = 2, |if |either |
    wrong: |maybe |approx. |-- -|?|&|@|12 |3 times |1e|0x|\\pm """.replace("\n    ", "").split("|"))
after = st.sampled_from("""!| or more| or 7| and 7|, 7|^2|^{2}|x|y|th|nd|ish|-fold|?|...|+|-|/2|*3|
    + 1| - 1|:30| of 7| out of 7| to 9| squared| cubed| factorial| times 3| plus 3| foo| at most|
    -9| = 7|\\pi|\\sqrt{2}|i| or so| less| dozens| halves| thirds| pairs|'|''|#|@|&| )|]|}| ( 2)|
    \\%\\%|%%|, I guess|, not 7| ~|e5|E2|_8|.5.5| 7|,7|;7|\\cdot 2|**3| mod 7| million and 1|
    |, maybe| is wrong| approximately| - no| but not really""".replace("\n    ", "").split("|"))
small = st.integers(2, 999).filter(lambda n: n not in (5, 7, 12, 30)).map(str)
letters = st.text(string.ascii_lowercase, min_size=2, max_size=12).filter(
    lambda w: not (is_noun(w) or w in UNITS or w in NUMBER_WORDS or w in STATING
                   or w in ("percent", "pct", "kk", "mn", "bn")))
symbols = st.text("#@&~^<>?!|/*+-=_%()[]{}\\abcxyz0123456789:'", min_size=1, max_size=6)
value_marks = st.sampled_from(
    ["{}", "Answer: {}", r"\boxed{{{}}}", "<answer>{}</answer>", "#### {}"])


@many
@given(small, st.one_of(before, st.just("")), st.one_of(after, st.just("")), value_marks)
def test_with_anything_else_around_it_a_number_is_never_right(number, left, right, mark):
    assume(left or right.strip())
    assert numeric(mark.format(f"{left}{number}{right}"), number) != 1


@many
@given(small, letters, st.booleans(), value_marks)
def test_unknown_words_around_a_number_make_it_none(number, word, first, mark):
    text = f"{word} {number}" if first else f"{number} {word}"
    assert numeric(mark.format(text), number) != 1 or word in (
        "so thus the is are was were it be we get have has only just they he she you in all "
        "equal exactly simply total of an there this that then hence final value sum minus plus "
        "answer answers ans").split()


@many
@given(small, symbols, st.booleans())
def test_symbols_around_a_number_are_part_of_it(number, text, first):
    """What is worth 1 has the number's value by Python's reckoning, or was only styled."""
    said = f"{text}{number}" if first else f"{number}{text}"
    if numeric(f"Answer: {said}", number) == 1:
        plain = re.sub(r"^[a-z'*]{1,6}=|[*_'\s]", "", said) if "=" in said else said
        left = plain.rpartition("=")[2].strip("*_'=: ")
        digits_only = re.sub(r"[^0-9]", "", left)
        assert digits_only.lstrip("0") == number or eval_equals(left, number), said


def eval_equals(text: str, number: str) -> bool:
    """Return whether a text is arithmetic with a number's value."""
    value = find(f"Answer: {text}")[1]
    return isinstance(value, Number) and value.value == Fraction(number)


@many
@given(st.sampled_from(sorted(BREAKS)), small, st.booleans())
def test_every_listed_word_spoils_a_sentence(word, number, first):
    text = f"It is {word} {number}." if first else f"It is {number} {word}."
    assume(word not in ("plus", "positive", "percent") and word not in UNITS)
    assert numeric(text, number) != 1


@many
@given(st.text(max_size=80), small)
def test_no_text_at_all_breaks_the_reader(text, number):
    for shown in (text, f"Answer: {text}", rf"\boxed{{{text}}}", f"${text}$"):
        assert numeric(shown, number) in (0.0, None, 1.0)
        exact(shown, number)


# ============================================================== limits

LONG = 1 << 20


@pytest.mark.parametrize("text", [
    " " * LONG, "(" * LONG, "-" * LONG, "{" * LONG, r"\boxed{" * (LONG // 7), "$" * LONG,
    "answer:" * (LONG // 7), "<answer>" * (LONG // 8), "<think>" * (LONG // 7), "1" * LONG,
    "1,234" * (LONG // 5), r"\[" * (LONG // 2), r"\boxed" + " " * LONG, "answer" + " " * LONG,
    r"\boxed{1} and " * (LONG // 14), ". " * (LONG // 2), "<|a" * (LONG // 3), "\\" * LONG,
    "five hundred " * (LONG // 13), "<think></think>" * (LONG // 15), "x=" * (LONG // 2),
])
def test_a_mebibyte_of_anything_is_read_at_once(text):
    assert numeric(text, "5") in (0.0, None)


@pytest.mark.parametrize("text", ["(" * 900, "2^" * 450, "-" * 900, "{1," * 300, "((1)" * 200,
                                  "1 and " * 150, r"\frac" * 190, "1" * 990, "x=y" * 330])
def test_a_statement_of_anything_is_read_at_once(text):
    for shown in (text, text + "5", f"Answer: {text}", rf"\boxed{{{text}}}"):
        assert numeric(shown, "5") in (0.0, None)


@pytest.mark.parametrize("end", ["</s>", "<eos>", "<|im_end|>", "\n", " \n</s>\n"])
@pytest.mark.parametrize("length", [0, 180, 186, 187, 188, 191, 192, 196, 198, 199, 200, 300])
def test_what_ends_a_response_of_any_length_is_no_part_of_its_answer(end, length):
    thought = ("So it is. " * 40)[:length].rpartition(".")[0].rjust(length)
    assert numeric(f"{thought}\nAnswer: 5{end}", "5") == 1


@pytest.mark.parametrize("text, plain", [
    (r"\text{a{b}c}", "a{b}c"), (r"\text{a} and \text{b}", None), (r"\boxed{1} \boxed{2}", None),
    (r"\text{a}}", None), ("*5*", "5"), ("_5_", "5"), ("**5**", "5"), ("*5* or *6*", None),
])
def test_a_style_is_taken_off_where_it_is_around_all(text, plain):
    assert bare(text) == (plain or text)


def test_missing_references_and_whole_floats():
    nan = float("nan")
    assert [as_reference(x) for x in (None, nan, "nan", "", "  ", 5.0, 5, 0.5, [1, 2])] == [
        None, None, None, None, None, "5", "5", "0.5", "[1, 2]"]
    with pytest.warns(UserWarning, match="4 of 4 references are missing.*sample 0"):
        out = ExactMatchReward()(["p"] * 4, ["nan"] * 4, references=[nan, "nan", None, ""])
    assert out.scores == [None] * 4


def test_what_is_not_read_is_reported_once_with_its_number():
    with pytest.warns(UserWarning) as said:
        out = NumericReward()(["p"] * 5, ["Answer: about 5", "Answer: about 6", "5", "6", "5"],
                              references=["5", "5", "5", "5", "purple"])
    assert out.scores == [None, None, 1.0, 0.0, None]
    assert [str(w.message).partition(" cannot")[0] for w in said] == [
        "reward NumericReward: 1 of 5 references", "reward NumericReward: 2 of 5 answers"]


def test_a_thought_that_begins_in_the_prompt_is_a_thought():
    for reward in (NumericReward(), ExactMatchReward()):
        out = reward(["Why?<think>\n", "Why?<think>\n"], ["8", "7</think>8"], references=["8", "8"])
        assert out.scores == [0.0, 1.0]


def test_formulas_go_to_math_verify_and_nothing_else_does():
    asked = []

    def ask(gold, given):
        asked.append((gold, given))
        return True

    for response, reference in [("2x+3", "3+2x"), ("5x", "5"), (r"(-\infty, 3)", "x < 3")]:
        score(response, find(reference)[1], ask)
    assert asked == [("3+2x", "2x+3"), ("5", "5x"), ("x < 3", r"(-\infty , 3)")] or len(asked) == 3
    assert equal(find("2x")[1], find("2x")[1], unasked) is True
    assert math_helper.same("1" * 2000, "1") is None  # too long


# What math-verify leaves out of a formula, as if it were not there.
LEFT_OUT = [r"%s_2", r"%s_{9}", r"(%s)_2", r"%s|_{x=1}", r"%s \mod 7", r"%s \bmod 7",
            r"%s\pmod{7}", r"%s^\prime", r"\phantom{%s}", r"%s\vspace{7}", r"%s\hspace{7}",
            r"\{%s\}", r"[%s]"]


@pytest.mark.parametrize("form", LEFT_OUT)
@pytest.mark.parametrize("value", [r"\sqrt{2}", "x+1", r"\pi", "2.5", "-37"])
def test_nothing_that_math_verify_leaves_out_is_left_out_here(form, value):
    pytest.importorskip("math_verify", reason="pip install -r beyond/requirements.txt")
    reward = NumericReward()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = form.replace("%s", value)
        found = reward(["p"], [f"\\boxed{{{said}}}"], references=[value]).scores[0]
    assert found in (None, 0.0)
