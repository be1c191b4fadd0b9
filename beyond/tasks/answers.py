r"""What an answer is: the rule by which responses and references are read and compared.

**1. Thinking is taken out.** What is between <think> and </think> (also thinking, thought,
reasoning, [THINK]) is no answer, nor is what comes before a </think> whose beginning was in the
prompt. A thought that is not closed was cut off: such a response has no answer.

**2. The statement is found.** The first of these that there is:

    <answer>...</answer>        the last pair; one that is not closed was cut off: no answer
    \boxed{...}  #### ...  Answer: ...
                                whichever of them comes last; "#### 5" only if it reads as a value,
                                since it also begins headings; a box that is not closed: no answer
    the answer is ...           to the end of the line
    the whole text              if it is one line that reads as a value
    the last sentence           of the last line

"Answer:" reaches to the end of its line (if nothing follows, the next one). If a line does not read
as a whole, its first sentence does, provided that the rest has no number and none of the words of
4. Boxes with only "and", "or" or a comma between them are one statement. What is glued to a box
(-\boxed{5}, \boxed{5}\%) belongs to it, and so does one of the words of 4. before it (not
\boxed{5}). Only the last 20,000 characters are looked at, and a statement of more than
1,000 characters is not read.

**3. The statement is read as a whole.** It is one of

    number      a sign (-, U+2212, other dashes, minus, negative, +), money, digits or words, a
                fraction, a scale, percent, a unit (1h 15m, 5'6",
                $5 and 30 cents too):
                5  -5  $5  -$5  $-5  1,234.5  1{,}234  1 234  1'234  1_234  1.234,5  1.234.567
                1,00,000 (as in India; without a group that begins with 0 it is a list)
                12,50 EUR  0.\overline{3}
                1/2  \frac{1}{2}  \frac12  2 1/2  2\frac12  the sign for a half  two and a half
                twenty-one  two thirds  2.5 million  a dozen  $5k  1e3  1.5 \times 10^3  50%
    arithmetic  of numbers: 2^{10}, 5!, 3 \cdot 4, \sqrt{16}, 10 - 3; its value, exactly
    equation    its right side: x = 5, 10 - 3 = 7, total cost = $5
    list        (1, 2)  [1, 2]  1, 2  x = 1, y = 2      in order; with two values ( is not [
    set         {1, 2}  \{1, 2\}  1 and 2  x=1 or x=2  \pm 5      in any order
    ratio       3:4  12:30  12:30 pm      part by part; 3:45 pm is 15:45, too
    choice      B  (B)  option B, and with what the choice says: (B) 20, B) 20, B. 20: as a choice
                or by its value, whatever the other side is
    formula     any other mathematics: math-verify compares it. 12\pi \text{ cm} has a unit.
                1011_2 equals what has a base, too; to 11 or 1011 alone it is not compared

Styles around it or its parts are taken off: ** __ * _ ` quotes $ $$ \( \[ \boxed \text \mathrm
\textbf \mathbf and the like, one full stop, comma or semicolon. Units: beyond/tasks/words.py.
After a number may come what it counts: up to two plain words and a plural (5 red apples), or a
listed word (people, left, in total), then plain words. "5 m" and "5\text{m}" are metres,
5m is a product.

Anything else makes it no number: not 5, about 5, 5 or more, 5x, 5th, 5?, at least 5, 5 of 7. Not
read, because its meaning is ambiguous: (5), which is -5 to an accountant; 5{,}5; 2 100/300;
[5]; "The answer is 5!" in a sentence; 0x10; 5 \mod 7. 12,34 is the list 12 and 34; 1,234 is
always a thousand and more.

**4. In a sentence** the value is behind the last =, colon or verb (is, costs, earns, has, ...), or
it is the only number there is behind one. No word that changes it (not, about, or, than, between,
if, half, ...: BREAKS) may stand before or behind it, and no label (chapter 5) directly before it.

**5. Two values are equal** if they are the same number exactly. Percent counts as such or as a
hundredth where the other side has no percent; units are converted where both have one of the same
kind, and differ where the kinds do; one without a unit agrees with any. One exception: a decimal
fraction of six significant digits or more agrees, to its last digit, with what has no end (1/3).
Lists and sets are equal part by part; a list and a set of the same values are equal.

**6. What is not read** is None: it counts neither as right nor as wrong. 0 is for what was read and
is not equal, for a text without any number, and for the denial of a single one ("not 5"; "6, not
5" is not read). A reference is read by the same rule; one that cannot be read gives None whatever
the answer is.
"""

import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from beyond.tasks.reader import (
    LONGEST,
    Choice,
    Formula,
    InBase,
    Number,
    Ratio,
    Several,
    Value,
    bare,
    denies,
    holds_number,
    in_base,
    notation,
    read,
)
from beyond.tasks.words import BREAKS

CUT = 20_000  # characters at a text's end in which a statement is looked for

# ============================================================== thinking

_NAMES = "think|thinking|thought|thoughts|reasoning"
_THOUGHT = re.compile(rf"<(/?)(?:{_NAMES})>|\[(/?)THINK\]", re.I)
_ENDS = re.compile(r"(?:<\|[a-z_]{1,20}\|>|</s>|<eos>|<end_of_turn>|\s)+\Z")


def without_thinking(text: str) -> str | None:
    """Return a text without its thoughts; None where one is not closed."""
    parts: list[str] = []
    start, thinking = 0, False
    for tag in _THOUGHT.finditer(text):
        if tag[1] or tag[2]:
            if not thinking:
                parts = []  # it began in the prompt
            thinking, start = False, tag.end()
        elif not thinking:
            parts.append(text[start:tag.start()])
            thinking = True
    return None if thinking else "".join([*parts, text[start:]])


# ============================================================== the statement

_BRACES = re.compile(r"\\(?:boxed|fbox)\s{0,9}\{|\\.|[{}]", re.S)
_ANSWER = re.compile(r"\b(?:answers?|ans)\b\.?[*_ \t]{0,9}(?:(?P<verb>is|are)\b|[:=])"
                     r"(?:\*\*|__|[:= \t]){0,99}", re.I)
_TAGS = re.compile(r"<(/?)answer>", re.I)
_DISPLAY = re.compile(r"\\\[|\\\]|\$\$")
_JOINS = re.compile(r"(?:[\s$,;]|\\[()]|\\text\{|\}|\band\b|\bor\b)*")
_GLUED = 20  # characters beside a box that may belong to it


def boxes(text: str) -> tuple[list[tuple[int, int, int]], int]:
    r"""Return (start, start of the inside, end of it) of all closed boxes, and where one is open.

    The second is -1 if all are closed.
    """
    found: list[tuple[int, int, int]] = []
    stack: list[tuple[int, int] | None] = []
    for match in _BRACES.finditer(text):
        if match[0] == "}":
            if stack and (top := stack.pop()) is not None:
                found.append((*top, match.start()))
        elif match[0] == "{":
            stack.append(None)
        elif match[0].endswith("{") and len(match[0]) > 2:
            stack.append((match.start(), match.end()))
    opened = [top[0] for top in stack if top is not None]
    return sorted(found), opened[-1] if opened else -1


def _box_statement(text: str, found: list[tuple[int, int, int]]) -> str:
    """Return what the last box states, with the boxes that it is joined to and what is glued."""
    outer = [box for box in found if not any(a[0] < box[0] and box[2] < a[2] for a in found[-50:])]
    start, inside, end = outer[-1]
    said = text[inside:end]
    for before in reversed(outer[-20:-1]):
        between = text[before[2] + 1:start]
        joined = re.search(r"\b(and|or)\b|[,;]", between)
        if len(between) > 40 or not joined or not _JOINS.fullmatch(between):
            break
        said = f"{text[before[1]:before[2]]} {joined[0]} {said}"
        start = before[0]
    left = re.search(r"[-+*/^0-9.\u2212\u2013]+\Z", text[max(0, start - _GLUED):start])
    right = re.match(r"(?:\\?%|[\^!*/0-9x]|\\times|\\cdot)[-+0-9{}()^]*",
                     text[end + 1:end + 1 + _GLUED])
    said = f"{left[0] if left else ''}{said}{right[0] if right else ''}"
    word = re.search(r"([A-Za-z']+)[\s$*(\\]*\Z", text[max(0, start - 2 * _GLUED):start])
    return f"{word[1]} {said}" if word and word[1].lower() in BREAKS else said  # not \boxed{5}


def _line(text: str, start: int) -> str:
    """Return the line from a place on, or the next one that has something on it."""
    rest = text[start:start + 20 * LONGEST].lstrip()
    return rest.partition("\n")[0].strip()


_ABBREVIATION = re.compile(r"(?:^|\W)(?:no|nos|approx|ca|c|cf|vs|fig|eq|ch|sec|vol|pp?|est|min|max|"
                           r"avg|st|mr|mrs|ms|dr|e\.g|i\.e|rs|ft|in|sq|[0-9])\.$", re.I)


def sentences(line: str) -> list[str]:
    """Return the sentences of a line; a point behind an abbreviation or "3." ends none."""
    found, start = [], 0
    for match in re.finditer(r"[.!?]['\")*$]{0,3}[ \t]+", line):
        last = line[max(start, match.start() - 9):match.start() + 1]
        numbered = last[-2:-1].isdigit() and line[match.end():match.end() + 1].isdigit()
        if not numbered and not (_ABBREVIATION.search(last) and not last[-2:-1].isdigit()):
            found.append(line[start:match.end()].strip())
            start = match.end()
    rest = line[start:].strip()
    return [*found, rest] if rest else found or [""]


def _harmless(text: str) -> bool:
    """Return whether a text has neither numbers nor words that change one."""
    return not holds_number(text) and not any(
        word in BREAKS for word in re.findall("[a-z']+", text[:LONGEST].lower()))


def _whole_or_first(line: str, sentence: bool = False) -> tuple[str, Value | None]:
    """Return a line and its value, or those of its first sentence if the rest is harmless."""
    if (value := read(line, sentence)) is not None:
        return line, value
    first, *rest = sentences(line[:LONGEST]) if len(line) <= LONGEST else [line]
    if rest and _harmless(" ".join(rest)):
        return first, read(first, sentence)
    return line, None


def _displays_on_one_line(text: str) -> str:
    r"""Return a text in which formulas between \[ and \], or $$ and $$, have no line ends."""
    if "\\[" not in text and "$$" not in text:
        return text
    parts, start, opened = [], 0, ""
    for match in _DISPLAY.finditer(text):
        part = text[start:match.start()]
        parts.append(part.replace("\n", " ") if opened else part)
        start = match.start()
        if opened in ("$$", "\\[") and match[0] == {"$$": "$$", "\\[": "\\]"}[opened]:
            opened = ""
        elif not opened and match[0] != "\\]":
            opened = match[0]
    return "".join([*parts, text[start:]])


def find(text: str) -> tuple[str | None, Value | None]:
    """Return the statement of a text's answer and its value; None for each that is missing.

    Args:
        text: a response or a reference.
    """
    shown = without_thinking(text)
    if shown is None:
        return None, None
    shown = _displays_on_one_line(shown[-CUT:])
    if end := _ENDS.search(shown, max(0, len(shown) - 200)):
        shown = shown[:end.start()]
    tags = list(_TAGS.finditer(shown))
    if tags and not tags[-1][1]:
        return None, None
    opened = [tag for tag in tags if not tag[1]]
    if opened:
        closing = next(tag for tag in tags if tag[1] and tag.start() > opened[-1].start())
        inner = shown[opened[-1].end():closing.start()]
        return _inner_statement(inner)
    return _inner_statement(shown)


_EXCLAIMED = re.compile(r"[0-9]!\W*$")  # a factorial, or an exclamation


def _inner_statement(text: str) -> tuple[str | None, Value | None]:
    """Return the statement of a text without thoughts and tags, and its value."""
    found, open_box = boxes(text)
    answers = [m for m in _ANSWER.finditer(text) if _line(text, m.end())]
    strong = [m for m in answers if not m["verb"]]
    weak = [m for m in answers if m["verb"]]
    filled = bool(found) and bool(text[found[-1][1]:found[-1][2]].strip())
    if found and not filled and not text[:found[-1][0]].strip(" \n$"):
        return None, None
    hashes = text.rfind("####")
    hashed = _whole_or_first(_line(text, hashes + 4)) if hashes >= 0 else ("", None)
    places = {
        "box": found[-1][0] if filled else -1,
        "open box": open_box,
        "answer": strong[-1].start() if strong else -1,
        "hashes": hashes if hashed[1] is not None else -1,
    }
    last = max(places, key=lambda kind: places[kind])
    if places[last] < 0:
        return _unmarked(text, weak)
    if last == "open box":
        return None, None
    if last == "box":
        inside = _box_statement(text, found)
        return inside, read(inside)
    if last == "hashes":
        return hashed
    return _answer_line(text, strong[-1], weak)


def _answer_line(text: str, answer: re.Match[str],
                 weak: list[re.Match[str]]) -> tuple[str, Value | None]:
    """Return what a line "Answer: ..." states.

    Args:
        text: without thoughts and tags.
        answer: the last match with a colon.
        weak: the matches with a verb ("the answer is"); the last one of the same line counts.
    """
    line_end = text.find("\n", answer.end()) % (len(text) + 1)
    later = [m for m in weak if m.start() >= answer.end()]
    if later and later[-1].start() <= line_end:  # Final answer: the final answer is 5
        answer = later[-1]
    return _whole_or_first(_line(text, answer.end()), True)


def _unmarked(text: str, weak: list[re.Match[str]]) -> tuple[str, Value | None]:
    """Return what a text without a mark states: behind "the answer is", or in its last sentence."""
    if weak:
        line = _line(text, weak[-1].end())
        return (line, None) if _EXCLAIMED.search(line) else _whole_or_first(line, True)
    text = text.strip()
    if "\n" not in text and (value := read(text)) is not None:
        return text, value
    last = sentences(text[text.rfind("\n") + 1:][-2 * LONGEST:])[-1]
    return last, None if _EXCLAIMED.search(last) else read(last, True)


# ============================================================== texts of answers


def stated(text: str) -> str | None:
    r"""Return what a text states by a mark (a tag, a box, "Answer:", ...) or None.

    Styles around it are taken off: what is left is compared as words by ExactMatchReward.
    """
    shown = without_thinking(text)
    if shown is None:
        return None
    marked = _TAGS.search(shown) or boxes(shown[-CUT:])[0] or _ANSWER.search(shown[-CUT:]) or (
        "####" in shown)
    said = find(text)[0] if marked else None
    return (bare(notation(bare(said))) or None) if said else None


def canonical(value: Value) -> str:
    """Return a value as text in one notation, without its unit."""
    if isinstance(value, Several):
        return ", ".join(canonical(item) for item in value.items)
    return value.text.strip()


def extract_answer(text: str) -> str | None:
    r"""Return the final answer of a solution in plain notation, or None if there is none.

    A number without its unit and its thousands ("1234.50", "-7/3"), else the words or the formula
    that are stated.
    """
    return shown(text, *find(text))


def shown(text: str, said: str | None, value: Value | None) -> str | None:
    """Return extract_answer's text where find(text) is known already: (said, value).

    Args:
        text: of a response.
        said: its statement, as find returns it.
        value: what that states, as find returns it.
    """
    return canonical(value) if value is not None else stated(text) if said else None


def clean_number(text: str) -> str | None:
    """Return the one number that a text states, as digits: "$1,234.50 a day" gives "1234.50"."""
    value = find(text)[1]
    return value.text if isinstance(value, Number) else None


# ============================================================== comparing

Ask = Callable[[str, str], bool | None]  # of math_helper.same


def numbers_equal(a: Number, b: Number) -> bool:
    """Return whether two numbers are equal: exactly, or to all decimals of one without an end."""
    x, y = a.value, b.value
    if a.unit and b.unit and a.unit[0] and b.unit[0]:
        if a.unit[0] != b.unit[0]:
            return False
        x, y = x * a.unit[1], y * b.unit[1]
    if a.percent != b.percent:
        return _close(x, y, a, b) or (_close(x / 100, y, a, b) if a.percent
                                      else _close(x, y / 100, a, b))
    return _close(x, y, a, b)


def _ends(x: Fraction) -> bool:
    """Return whether a number is a decimal fraction with an end."""
    below = x.denominator
    for prime in (2, 5):
        while below % prime == 0:
            below //= prime
    return below == 1


def _close(x: Fraction, y: Fraction, a: Number, b: Number) -> bool:
    """Return whether x and y are equal, or one is the other to all of its six decimals or more."""
    if x == y or x == 0 or y == 0:
        return x == y
    for decimal, other, number in ((x, y, a), (y, x, b)):
        if number.decimals >= 6 and not _ends(other):
            places = len(number.text.partition(".")[2])
            return abs(decimal - other) < Fraction(1, 10**places)
    return False


def said_by(choice: Value, other: Value) -> Value:
    """Return what a choice says, to be compared with a value that is no choice; else the choice."""
    if isinstance(choice, Choice) and choice.value and not isinstance(other, Choice):
        return choice.value
    return choice


def equal(a: Value, b: Value, ask: Ask) -> bool | None:
    """Return whether two values are equal; None where math-verify cannot tell.

    Args:
        a: the reference.
        b: the answer.
        ask: compares two formulas.
    """
    a, b = said_by(a, b), said_by(b, a)
    if isinstance(a, Choice) and isinstance(b, Choice):
        return _choices_equal(a, b, ask)
    if isinstance(a, Choice) or isinstance(b, Choice):
        return False
    if isinstance(a, Number) and isinstance(b, Number):
        return numbers_equal(a, b)
    if isinstance(a, Several) and isinstance(b, Several):
        return _several_equal(a, b, ask)
    if isinstance(a, Ratio) and isinstance(b, Ratio):
        return _ratios_equal(a, b)
    if isinstance(a, Formula) or isinstance(b, Formula):
        return _formulas_equal(a, b, ask)
    return False


def _ratios_equal(a: Ratio, b: Ratio) -> bool:
    """Return whether two ratios or times of day are equal: 3:45 pm is 15:45, and so is 3:45."""
    if a.half and b.half:
        return _on_24_hours(a) == _on_24_hours(b)
    return a.parts == b.parts or any(
        x.half and y.parts[0] > 12 and _on_24_hours(x) == y.parts for x, y in ((a, b), (b, a)))


def _on_24_hours(time: Ratio) -> tuple[Fraction, ...]:
    """Return the parts of a time of day that has am or pm."""
    hours, *rest = time.parts
    return (hours % 12 + 12 * (time.half == "pm"), *rest)


def _choices_equal(a: Choice, b: Choice, ask: Ask) -> bool | None:
    """Return whether two choices have the same letter, and say the same where both say it."""
    if a.text != b.text or not a.value or not b.value:
        return a.text == b.text
    return equal(a.value, b.value, ask)


_LETTER = re.compile(r"[ }0-9][a-zA-Z]$")  # behind a formula: metres, or a factor m


def _formulas_equal(a: Value, b: Value, ask: Ask) -> bool | None:
    """Return whether values are equal of which one at least is a formula; None if undecided."""
    if isinstance(a, Ratio) or isinstance(b, Ratio):
        return False
    if any(isinstance(x, Several) and len(x.items) == 1 for x in (a, b)):
        return False  # math-verify takes the set of a number for the number
    units = [getattr(x, "unit", None) for x in (a, b)]
    if units[0] and units[1] and units[0] != units[1] and units[0][0] and units[1][0]:
        return None if units[0][0] == units[1][0] else False
    if any(units) and any(_LETTER.search(x.text) for x in (a, b)):
        return None
    based = [in_base(x.text) for x in (a, b)]
    if any(based):
        return _in_bases(a, b, based)
    texts = [_latex(x) for x in (a, b)]
    return True if texts[0] == texts[1] else ask(*texts)


def _in_bases(a: Value, b: Value, based: list[InBase | None]) -> bool | None:
    """Return whether 1011_2 and another are equal; None if the other is 11, or 1011 without base.

    Either may be what a question asks for, or not.
    """
    (digits, x), (others, y) = (
        found or (value.text, value.value if isinstance(value, Number) else None)
        for value, found in zip((a, b), based))
    if x is None or y is None:  # x_1 is no number, nor is 9_8
        return a.text == b.text or None
    if all(based):
        return x == y
    return None if x == y or digits == others else False


def _latex(value: Value) -> str:
    """Return a value as LaTeX for math-verify."""
    text = value.text
    if isinstance(value, Number) and re.fullmatch(r"-?[0-9.]+ [0-9.]+/[0-9.]+", text):
        return f"{value.value.numerator}/{value.value.denominator}"  # a mixed number
    return text.strip()


def _several_equal(a: Several, b: Several, ask: Ask) -> bool | None:
    """Return whether two lists or sets are equal."""
    if len(a.items) != len(b.items):
        return False
    kinds = {a.brackets, b.brackets}
    if len(a.items) == 2 and kinds == {"(", "["}:
        return False  # an open and a closed interval
    if a.ordered and b.ordered:
        found = [equal(x, y, ask) for x, y in zip(a.items, b.items)]
        return False if False in found else None if None in found else True
    left, unknown = list(b.items), False
    for x in a.items:
        for i, y in enumerate(left):
            same = equal(x, y, ask)
            if same:
                del left[i]
                break
            unknown = unknown or same is None
        else:
            return None if unknown else False
    return True


def is_missing(reference: Any) -> bool:
    """Return whether a reference is none at all: None, NaN (also as text), nothing but blanks."""
    if reference is None:
        return True
    try:
        if bool(reference != reference):
            return True
    except (TypeError, ValueError):
        pass  # an array, or pandas.NA
    return str(reference).strip().casefold() in ("", "nan", "<na>", "nat")


def as_reference(reference: Any) -> str | None:
    """Return a reference as text, None where it is missing; a whole number without a point."""
    if is_missing(reference):
        return None
    if isinstance(reference, float) and reference.is_integer() and abs(reference) < 2**53:
        return str(int(reference))
    return str(reference)


def score(response: str, reference: Value, ask: Ask) -> float | None:
    """Return 1.0 if a response's answer equals a reference, 0.0 if not, None if undecidable.

    Args:
        response: text of a response.
        reference: the value of the right answer.
        ask: decides whether two formulas are equal.
    """
    return score_of(*find(response), reference, ask)


def score_of(said: str | None, value: Value | None, reference: Value, ask: Ask) -> float | None:
    """Return score's result where find(response) is known already: (said, value).

    Args:
        said: the statement of a response, as find returns it.
        value: what that states, as find returns it.
        reference: the value of the right answer.
        ask: decides whether two formulas are equal.
    """
    if value is None:
        return 0.0 if not said or denies(said) or not holds_number(said) else None
    same = equal(reference, value, ask)
    return None if same is None else float(same)
