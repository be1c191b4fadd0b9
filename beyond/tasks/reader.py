r"""Parse one statement: a number, several, a ratio, a choice or a formula.

The rule is in beyond/tasks/answers.py. Here it is applied in four stages, the order of this
file: one notation for all spellings, styles taken off, tokens, and a parser for each kind of value.
Every parser must use up all tokens; what is left over makes it no value.
"""

import dataclasses
import math
import re
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise

from beyond.tasks.words import (
    BREAKS,
    CURRENCIES,
    DENIALS,
    LABELS,
    LEADS,
    NO_PLURALS,
    NOUNS,
    NUMBER_WORDS,
    PARTS,
    PLURAL_PARTS,
    SCALE_LETTERS,
    SCALES,
    SIGNS,
    SMALL,
    STATING,
    TENS,
    UNITS,
)

LONGEST = 1000  # characters of a statement; a longer one is not read
DIGITS = 1000  # of a number, and bits / 4 of what a sum or a power comes to
LONGEST_PHRASE = 150  # words of a sentence
DEPTH = 30  # brackets within brackets

# ============================================================== what can be read


@dataclass(frozen=True)
class Number:
    """A number: its value, its digits as written, and its unit: (kind, factor) or None."""

    value: Fraction
    text: str
    unit: tuple[str, Fraction] | None = None
    percent: bool = False
    decimals: int = 0  # significant digits behind the point, where it was written with one


@dataclass(frozen=True)
class Several:
    """Several values, in order or not; brackets is "(", "[", "{" or ""."""

    items: tuple["Value", ...]
    text: str
    ordered: bool
    brackets: str = ""


@dataclass(frozen=True)
class Ratio:
    """Numbers with colons between them: 3:4, and 12:30 o'clock."""

    parts: tuple[Fraction, ...]
    text: str
    half: str = ""  # am or pm


@dataclass(frozen=True)
class Choice:
    """One capital letter, with what the choice says where that is given: (B), (B) 20."""

    text: str
    value: "Value | None" = None


@dataclass(frozen=True)
class Formula:
    """Mathematics that is no number by itself, in LaTeX, and its unit as of a number."""

    text: str
    unit: tuple[str, Fraction] | None = None


Value = Number | Several | Ratio | Choice | Formula

# ============================================================== one notation

_CHARACTERS = str.maketrans({
    **dict.fromkeys("\u2212\u2010\u2011\u2012\u2013\ufe63\uff0d\u2796", "-"),
    "\u2014": " -- ",  # a dash between words; in front of a number a minus
    **dict.fromkeys("\u00a0\u2007\u2009\u202f\u2002\u2003\u200a\t\r\n\f\v", " "),
    **dict.fromkeys("\u200b\u200c\u200d\u2060\ufeff", ""),
    **dict.fromkeys("\u00b7\u22c5\u2219\u2217\u00d7\u2715", "*"),
    **dict.fromkeys("\u00f7\u2044\u2215\uff0f", "/"),
    **dict.fromkeys("\u2018\u2019\u02bc", "'"), "\u201c": '"', "\u201d": '"',
    "\uff0b": "+", "\uff1d": "=", "\uff0c": ",", "\uff0e": ".", "\uff1a": ":", "\uff05": "%",
    "\uff08": "(", "\uff09": ")", "\uff04": "$", "\uffe5": "\u00a5", "\u00b0": " degrees ",
    "\u03c0": r"\pi ", "\u221e": r"\infty ", "\u222a": r"\cup ", "\u00b1": r"\pm ",
    "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ", "\u2248": r"\approx ",
    "\u2103": " degrees Celsius", "\u2109": " degrees Fahrenheit",
})
_SUPERSCRIPTS = str.maketrans("\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b",
                              "0123456789-")
_RAISED = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b]+")

# (pattern, replacement), in this order
_LATEX: list[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]]] = [
    (re.compile(r"\{,\}(?:\\!)?|,\\!"), ","),
    (re.compile(r"\\(?:left|right|displaystyle|limits|bigl?|bigr?)(?![A-Za-z])|\\!"), ""),
    (re.compile(r"(?<!\\)\\[,;: ]|\\q?quad(?![A-Za-z])|(?<=[0-9])~(?=[0-9])"
                r"|~(?!\s*[-0-9.$])"), " "),
    (re.compile(r"\\(?:text|mathrm|textbf|mathbf|textit|mathit|textrm|textnormal|mbox|rm|bf"
                r"|boldsymbol|bm|emph|operatorname)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\(?:times|cdot|ast)(?![A-Za-z])"), "*"),
    (re.compile(r"\\div(?![A-Za-z])"), "/"),
    (re.compile(r"\^\s*(?:\{\s*)?\\circ\s*\}?|\\degree(?![A-Za-z])"), " degrees "),
    (re.compile(r"\\l?brace(?![A-Za-z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![A-Za-z])"), r"\\}"),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"\\(?=[$&#_])"), ""),
    (re.compile(r"\\(?:leq|le|geq|ge|neq|ne|pm|infty|pi|cup|cap)(?![A-Za-z])"),
     lambda m: m[0].replace("leq", "le").replace("geq", "ge").replace("neq", "ne") + " "),
    (re.compile("\u221a\\s*([0-9]+|[a-z])"), r"\\sqrt{\1}"),
    (re.compile(r"([0-9]{1,20})\.([0-9]{0,20})\\(?:overline|bar) ?(?:\{([0-9]{1,20})\}|([0-9]))"),
     lambda m: _recurring(m[1], m[2], m[3] or m[4])),
]


def _recurring(whole: str, fixed: str, again: str) -> str:
    """Return a decimal fraction as a plain one; its last digits come again and again."""
    part = Fraction(int(again), (10 ** len(again) - 1) * 10 ** len(fixed))
    value = Fraction(int(whole + fixed), 10 ** len(fixed)) + part
    return f"{value.numerator}/{value.denominator}"


def notation(text: str) -> str:
    """Return a text with one spelling of digits, signs, blanks, times, fractions and styles."""
    if not text.isascii():
        text = _RAISED.sub(lambda m: f"^{{{m[0].translate(_SUPERSCRIPTS)}}}", text)
        text = "".join(_digit(c) for c in text.translate(_CHARACTERS))
    for pattern, new in _LATEX if "\\" in text or "{" in text or "\u221a" in text else ():
        text = pattern.sub(new, text)
    return text.replace("\n", " ").replace("\t", " ").replace("\r", " ")


def _digit(c: str) -> str:
    """Return a digit of any script as ASCII, a letter of half or full width as such, else c."""
    if c.isdecimal():
        return str(unicodedata.decimal(c))
    if unicodedata.category(c) == "No" and "FRACTION" in unicodedata.name(c, ""):
        value = Fraction(unicodedata.numeric(c)).limit_denominator(1000)
        return f" {value.numerator}/{value.denominator}"
    return unicodedata.normalize("NFKC", c) if "\uff21" <= c <= "\uff5a" else c


# ============================================================== styles taken off

_PAIRS = [("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("`", "`"), ('"', '"'),
          ("'", "'"), ("*", "*"), ("_", "_"), ("\u201c", "\u201d"), ("``", "''")]
_BOLD = re.compile(r"(?<!\S)\*\*(?=\S)|(?<=\S)\*\*(?![\w({])")  # within a sentence; no power
_WRAPPED = re.compile(r"\\(?:boxed|fbox|text|textbf|mathbf|mathrm|textit|boldsymbol)\s*\{(.*)\}",
                      re.S)


def _closes_at_end(inner: str) -> bool:
    """Return whether the braces of a text close within it, and none that it has not opened."""
    depth = 0
    for c in re.findall(r"\\.|[{}]", inner):
        depth += {"{": 1, "}": -1}.get(c, 0)
        if depth < 0:
            return False
    return depth == 0


def bare(text: str) -> str:
    """Return a text without blanks, one full stop, and the styles around it."""
    stop = True
    while True:
        before = text
        text = text.strip()
        for mark in ("**", "__"):
            text = text.removeprefix(mark).removesuffix(mark).strip()
        if stop and text[-1:] in ".,;\u3002" and text[-2:-1] not in (".", "\\"):
            text, stop = text[:-1].rstrip(), False
        for left, right in _PAIRS:
            inner = text[len(left):-len(right)]
            if (len(text) > len(left + right) and text.startswith(left) and text.endswith(right)
                    and right not in inner and left not in inner
                    and not inner.endswith("\\") and not (left == "*" and inner[:1] == "*")):
                text, stop = inner, True
                break
        if (found := _WRAPPED.fullmatch(text)) and _closes_at_end(found[1]):
            text, stop = found[1], True
        if text == before:
            return text


# ============================================================== tokens

_NUMBER = r"""
    (?<![0-9],)[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9]|,[0-9])(?:\.[0-9]+)?      # 1,234.5
    | [1-9][0-9]?(?=[0-9,]*,0)(?:,[0-9]{2})+,[0-9]{3}(?![0-9]|,[0-9])(?:\.[0-9]+)?  # 1,00,000
    | [1-9][0-9]{0,2}(?:\ [0-9]{3})+,[0-9]{1,2}(?![0-9]|,[0-9])                 # 1 234,5
    | [1-9][0-9]{0,2}(?:\ [0-9]{3})+(?![0-9]|\ ?[0-9]|\ */)(?:\.[0-9]+)?        # 1 234.5
    | [1-9][0-9]{0,2}(?:'[0-9]{3})+(?![0-9]|'[0-9])(?:\.[0-9]+)?                # 1'234.5
    | [1-9][0-9]{0,2}(?:_[0-9]{3})+(?![0-9]|_[0-9])(?:\.[0-9]+)?                # 1_234.5
    | [1-9][0-9]{0,2}(?:\.[0-9]{3})+,[0-9]+(?![0-9]|,[0-9])                     # 1.234,5
    | [1-9][0-9]{0,2}(?:\.[0-9]{3}){2,}(?![0-9]|\.[0-9])                        # 1.234.567
    | (?<=\u20ac)[0-9]+,[0-9]{2}(?![0-9]|,[0-9])                                # \u20ac12,50
    | [0-9]+,[0-9]{2}(?=\ ?(?:\u20ac|euros?\b|EUR\b))                            # 12,50 \u20ac
    | (?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)(?:[eE][+-]?[0-9]{1,20}(?![0-9A-Za-z]))?
"""
_TOKEN = re.compile(rf"""(?P<number>{_NUMBER})|(?P<command>\\(?:[A-Za-z]+|.))
    |(?P<word>[^\W\d_]+(?:'[^\W\d_]+|(?<=s)')?)|(?P<blank>\ +)
    |(?P<mark>\*\*|--|==|!=|<=|>=|:=|.)""", re.X | re.S)


@dataclass(frozen=True)
class Token:
    """A piece of a statement; glued: without a blank before it."""

    kind: str
    text: str
    glued: bool
    start: int
    end: int


def tokens_of(text: str) -> list[Token]:
    """Return the tokens of a text in one notation."""
    found, glued = [], False
    for match in _TOKEN.finditer(text):
        kind = str(match.lastgroup)
        if kind == "blank" or match[0] in (r"\(", r"\)", r"\[", r"\]"):  # a formula's ends
            glued = False
            continue
        found.append(Token(kind, match[0], glued, match.start(), match.end()))
        glued = True
    return found


class Fault(Exception):
    """What was tried does not fit."""


class Ambiguous(Exception):
    """A statement that can be read in two ways."""


class TooLarge(Exception):
    """A number that is too large to be written down."""


class Parser:
    """Tokens, and a place among them."""

    def __init__(self, tokens: Sequence[Token], source: str):
        self.tokens, self.source, self.at, self.depth = tokens, source, 0, 0

    def __bool__(self) -> bool:
        return self.at < len(self.tokens)

    def peek(self, ahead: int = 0) -> Token | None:
        """Return a token that comes, or None."""
        at = self.at + ahead
        return self.tokens[at] if at < len(self.tokens) else None

    def word(self, ahead: int = 0) -> str:
        """Return the word that comes, in lower case, or ""."""
        token = self.peek(ahead)
        return token.text.lower() if token and token.kind == "word" else ""

    def is_mark(self, *texts: str, ahead: int = 0) -> bool:
        """Return whether one of these marks or commands comes."""
        token = self.peek(ahead)
        return token is not None and token.kind in ("mark", "command") and token.text in texts

    def take(self, *texts: str) -> bool:
        """Step over one of these marks or commands, if it comes."""
        found = self.is_mark(*texts)
        self.at += found
        return found

    def need(self, *texts: str) -> None:
        """Step over one of these marks or commands.

        Raises:
            Fault: none of them comes.
        """
        if not self.take(*texts):
            raise Fault

    def is_number(self, ahead: int = 0) -> bool:
        """Return whether digits come."""
        token = self.peek(ahead)
        return token is not None and token.kind == "number"

    def done(self) -> None:
        """Check that no token is left.

        Raises:
            Fault: there is one.
        """
        if self:
            raise Fault

    # ---------------------------------------------------------- digits and words

    def sign(self) -> int:
        """Step over a sign, if one comes: 1 or -1, 0 for none."""
        if self.take("-", "--"):
            return -1
        if self.take("+"):
            return 1
        sign = SIGNS.get(self.word(), 0)
        self.at += bool(sign)
        return sign

    def digits(self) -> tuple[Fraction, str, int]:
        """Step over a number in digits: its value, its text, its decimals."""
        token = self.peek()
        if token is None or token.kind != "number":
            raise Fault
        if len(token.text) > DIGITS:
            raise TooLarge
        self.at += 1
        text = re.sub("[ '_]", "", token.text)
        if re.search(r"\..*,|,[0-9]{1,2}$", text) or text.count(".") > 1:  # 1.234,5
            text = text.replace(".", "").replace(",", ".")
        text = text.replace(",", "")
        mantissa, _, exponent = text.lower().partition("e")
        if abs(int(exponent or 0)) > DIGITS:
            raise TooLarge
        rest = mantissa.partition(".")[2]
        significant = len(rest if mantissa.strip(".0").partition(".")[0].strip("0")
                          and int(mantissa.partition(".")[0] or 0) else rest.lstrip("0"))
        return Fraction(text), text, significant

    def small_words(self) -> int:
        """Step over the words of a number below a hundred."""
        word = self.word()
        if word in SMALL:
            self.at += 1
            return SMALL[word]
        if word not in TENS:
            raise Fault
        self.at += 1
        ahead = 1 if self.is_mark("-") else 0
        one = SMALL.get(self.word(ahead), 0)
        if not 1 <= one <= 9 or (self.word(ahead + 1) in PLURAL_PARTS):
            return TENS[word]
        self.at += ahead + 1
        return TENS[word] + one

    def is_small(self, ahead: int = 0) -> bool:
        """Return whether a token is a word of a number below a hundred."""
        return self.word(ahead) in SMALL or self.word(ahead) in TENS

    def and_before_words(self) -> None:
        """Step over the "and" of "two hundred and five", if it comes."""
        if self.word() == "and" and self.is_small(1):
            self.at += 1

    def whole_words(self) -> int:
        """Step over the words of a whole number: two thousand three hundred and five."""
        total, last = 0, 10**15
        if self.word() in ("a", "an") and self.word(1) in SCALES:
            self.at += 1
            part = 1
        else:
            part = self.small_words()
        while True:
            if self.word() == "hundred" and part < 100:
                self.at += 1
                part *= 100
                self.and_before_words()
                if self.is_small():
                    part += self.small_words()
            scale = SCALES.get(self.word(), 0)
            if scale < 1000:
                break
            if scale >= last:
                raise Fault
            self.at += 1
            total, part, last = total + part * scale, 0, scale
            self.and_before_words()
            if not self.is_small():
                break
            part = self.small_words()
        total += part
        if self.word() == "dozen":
            self.at += 1
            total *= 12
        return total

    def part_words(self) -> Fraction:
        """Step over the words of a fraction: two thirds, a quarter, half."""
        start = self.at
        if self.word() == "half" and self.word(1) in ("a", "an") and self.word(2) == "dozen":
            self.at += 3
            return Fraction(6)
        if self.word() == "half":
            self.at += 1
            return Fraction(1, 2)
        count = 1
        if self.word() in ("a", "an", "one"):
            self.at += 1
        else:
            count = self.small_words()
        self.take("-")
        below = (PARTS if count == 1 else PLURAL_PARTS).get(self.word())
        if below is None:
            self.at = start
            raise Fault
        self.at += 1
        return Fraction(count, below)

    def words(self) -> Fraction:
        """Step over a number in words, which may have a fraction: two and a half."""
        start = self.at
        try:
            return self.part_words()
        except Fault:
            self.at = start
        value = Fraction(self.whole_words())
        if self.word() == "point":
            self.at += 1
            shown = ""
            while SMALL.get(self.word(), 10) < 10:
                shown += str(SMALL[self.word()])
                self.at += 1
            if not shown:
                raise Fault
            return value + Fraction(f"0.{shown}")
        return value + self.and_a_half()

    def and_a_half(self) -> Fraction:
        """Step over "and a half" and the like, if it comes."""
        start = self.at
        if self.word() == "and":
            self.at += 1
            try:
                return self.part_words()
            except Fault:
                self.at = start
        return Fraction(0)

    # ---------------------------------------------------------- fractions and numbers

    def simple_fraction(self) -> tuple[Fraction, str]:
        r"""Step over a fraction of plain numbers: 1/2, \frac{1}{2}, \frac12."""
        if self.take(r"\frac"):
            above, below = self.group(), self.group()
        else:
            above = self.digits()[:2]
            self.need("/")
            below = self.digits()[:2]
        if below[0] == 0:
            raise Fault
        sign = "-" if (above[0] < 0) != (below[0] < 0) and above[0] else ""
        texts = [text.lstrip("-") for _, text in (above, below)]
        return above[0] / below[0], f"{sign}{texts[0]}/{texts[1]}"

    def group(self) -> tuple[Fraction, str]:
        """Step over one number as LaTeX takes it: {12}, {-3}, or a single digit of 12."""
        if self.take("{"):
            sign = self.sign() or 1
            value, text, _ = self.digits()
            self.need("}")
            return sign * value, text if sign > 0 else f"-{text}"
        token = self.peek()
        if token is None or token.kind != "number" or not token.text.isdecimal():
            raise Fault
        first, rest = token.text[0], token.text[1:]
        self.at += 1
        if rest:  # \frac12: the rest is the next argument
            self.tokens = [*self.tokens[:self.at],
                           Token("number", rest, True, token.start + 1, token.end),
                           *self.tokens[self.at:]]
        return Fraction(first), first

    def amount(self) -> tuple[Fraction, str, int]:
        """Step over a number without sign and unit: its value, its text, its decimals."""
        if self.is_mark(r"\frac"):
            return (*self.simple_fraction(), 0)
        if not self.is_number():
            value = self.words()
            return value, str(value), 0
        start = self.at
        value, text, decimals = self.digits()
        if self.is_mark("/") and self.is_number(1):
            self.at = start
            return (*self.simple_fraction(), 0)
        mixed = self.mixed_number(value, text)
        if mixed is not None:
            return (*mixed, 0)
        below = (PARTS if value == 1 else PLURAL_PARTS).get(self.word())
        if below and value.denominator == 1:  # 5 thirds
            self.at += 1
            return value / below, f"{text}/{below}", 0
        changed = self.power_or_half(value)
        if changed is not None:
            return changed, str(changed), 0
        return value, text, decimals

    def mixed_number(self, whole: Fraction, text: str) -> tuple[Fraction, str] | None:
        r"""Step over the fraction behind a whole number, if it comes: 2 1/2, 2 \frac12.

        Raises:
            Ambiguous: 2 100/300, which is 2100/300 as well.
            Fault: the first number is not whole, or the fraction is not below 1.
        """
        token = self.peek()
        digits = token is not None and token.kind == "number"
        if not self.is_mark(r"\frac") and not (digits and self.is_mark("/", ahead=1)):
            return None
        if token is not None and digits and len(token.text) == 3:
            raise Ambiguous
        part, shown = self.simple_fraction()
        if whole.denominator != 1 or "." in text or not 0 < part < 1:
            raise Fault
        return whole + part, f"{text} {shown}"

    def power_or_half(self, value: Fraction) -> Fraction | None:
        """Step over what changes a number: a power of ten, or "and a half"; None without."""
        power = self.power_of_ten()
        if power is not None:
            return value * power
        if value == 10 and self.is_mark("^", "**"):
            return self.raised()
        half = self.and_a_half()
        return value + half if half else None

    def power_of_ten(self) -> Fraction | None:
        r"""Step over what makes 1.5 a 1.5 \times 10^3, if it comes."""
        token = self.peek(1)
        times = self.is_mark("*") or self.word() == "x"
        if not times or not token or token.text != "10" or not self.is_mark("^", "**", ahead=2):
            return None
        self.at += 2
        return self.raised()

    def raised(self) -> Fraction:
        """Step over the exponent of a ten: its power."""
        self.need("^", "**")
        sign = self.sign() if not self.is_mark("{") else 0
        exponent = self.group()[0] if self.is_mark("{") else self.digits()[0] * (sign or 1)
        if self.is_mark("^", "!", "**") or exponent.denominator != 1:
            raise Fault
        if abs(exponent) > DIGITS:
            raise TooLarge
        return Fraction(10) ** int(exponent)

    def scale(self, money: bool) -> int:
        """Step over million and the like, if it comes; behind money over its letter, too."""
        factor = SCALES.get(self.word(), 1)
        self.at += factor > 1
        while factor > 1 and SCALES.get(self.word(), 0) > 100:  # hundred thousand
            factor *= SCALES[self.word()]
            self.at += 1
        if factor == 1 and money and self.word() in SCALE_LETTERS:
            factor = SCALE_LETTERS[self.word()]
            self.at += 1
        return factor

    def currency(self) -> tuple[str, Fraction] | None:
        """Step over a currency before its number, if one comes."""
        token = self.peek()
        if token is None:
            return None
        if token.text in CURRENCIES:
            self.at += 1
            return UNITS[token.text]
        if token.text in ("US", "USD", "EUR", "GBP", "JPY", "INR", "Rs"):
            self.at += 1
            self.take(".")
            if token.text == "US":
                self.need("$")
            return UNITS["$" if token.text == "US" else token.text]
        return None

    def quantity(self) -> Number:
        """Step over a number with its sign, its unit, and whatever harmless words are behind it."""
        sign = self.sign()
        money = self.currency()
        sign = sign or self.sign() or 1
        if self.is_mark("-", "+") or self.word() in SIGNS:
            raise Fault
        value, text, decimals = self.amount()
        factor = self.scale(money is not None)
        if factor > 1:
            value, decimals = value * factor, 0
            text = str(value)
        text = f"-{text}" if sign < 0 else text
        number = Number(sign * value, text, money, False, decimals)
        if self.take("%") or self.word() in ("percent", "pct"):
            self.at += self.word() in ("percent", "pct")
            number = Number(number.value, text, None, True, decimals)
        elif self.word() == "per" and self.word(1) == "cent":
            self.at += 2
            number = Number(number.value, text, None, True, decimals)
        elif money is None:
            number = self.with_unit(number)
        else:
            if (unit := self.unit()) is not None and unit[0] != money[0]:
                raise Fault
            number = self.with_smaller(number, money)
        self.tail(money is not None)
        return number

    # ---------------------------------------------------------- units

    def one_unit(self) -> tuple[str, Fraction] | None:
        """Step over a unit with its power, if one comes."""
        start, power = self.at, 1
        if self.word() in ("square", "sq", "cubic"):
            power = 3 if self.word() == "cubic" else 2
            self.at += 1
            self.take(".")
        token = self.peek()
        name = token.text if token else ""
        found = UNITS.get(name) or UNITS.get(name.lower() if len(name) > 2 else "")
        behind_number = self.at > 0 and self.tokens[self.at - 1].kind == "number"
        alone = token is not None and len(name) == 1 and token.glued and behind_number and (
            name not in CURRENCIES)  # 5m is a product, 5 m a length
        after = self.word(1)
        if found is None or alone or (name == "in" and after and after not in UNITS):
            self.at = start
            return None
        self.at += 1
        if found[0] == "angle" and self.word() in ("c", "f", "celsius", "fahrenheit"):
            found = UNITS["Celsius" if self.word()[0] == "c" else "Fahrenheit"]
            self.at += 1
        if self.word() in ("squared", "cubed"):
            power = 3 if self.word() == "cubed" else 2
            self.at += 1
        elif self.is_mark("^"):
            self.at += 1
            power = int(self.group()[0])
        if name in ("ft", "in", "sec", "min", "hr", "oz", "lb", "lbs", "yd"):
            self.take(".")
        kind, factor = found
        return (kind, factor) if power == 1 or not kind else (f"{kind}^{power}", factor**power)

    def unit(self) -> tuple[str, Fraction] | None:
        """Step over a unit, if one comes: cm, square metres, km/h, miles per hour."""
        found = self.one_unit()
        while found and (self.is_mark("/") or self.word() in ("per", "an", "a", "each", "every")):
            start = self.at
            self.at += 1
            below = self.one_unit()
            if below is None:
                self.at = start
                break
            kinds = f"{found[0]}/{below[0]}"
            found = ("speed", found[1] / below[1] * Fraction("3.6")) if (
                kinds == "length/time") else (kinds, found[1] / below[1])
        return found

    def with_unit(self, number: Number) -> Number:
        """Return a number with the unit that comes, and with smaller ones: 5 ft 3 in."""
        unit = self.unit()
        return number if unit is None else self.with_smaller(number, unit)

    def with_smaller(self, number: Number, unit: tuple[str, Fraction]) -> Number:
        """Return a number in a unit with the smaller ones that come: 5 ft 3 in, $5 and 30 cents."""
        value, text, last = number.value, number.text, unit
        while True:
            start = self.at
            self.at += self.word() == "and"
            self.take(",")
            try:
                more = self.amount()
                lower = self.one_unit()
            except Fault:
                more, lower = (Fraction(0), "", 0), None
            if lower is None or lower[0] != unit[0] or lower[1] >= last[1] or value < 0:
                self.at = start
                break
            value += more[0] * lower[1] / unit[1]
            text, last = f"{text} {more[1]}", lower
        return Number(value, text, unit, False, number.decimals)

    def tail(self, money: bool) -> None:
        """Step over what is counted: a noun in the plural or a listed word, and plain words."""
        start = self.at
        words = []
        while (token := self.peek()) and (token.kind == "word" or token.text in ("/", "-")):
            words.append(token.text)
            self.at += 1
        if not words:
            return
        before = self.tokens[start - 1]
        named = before.text in UNITS or before.text.lower() in UNITS
        unit = money or named or before.kind == "mark"
        plain = [w for before, w in zip(["", *words], words) if (before, w) != ("left", "over")]
        harmless = not any(breaks(w) or w.lower() in NUMBER_WORDS for w in plain)
        counted = unit or any(is_noun(w.lower()) for w in words[:3])
        glued = self.tokens[start].glued and not unit
        if not harmless or not counted or glued or words[-1] in ("/", "-"):
            self.at = start


def breaks(word: str) -> bool:
    """Return whether a word changes what the number next to it means; May is a month."""
    return word.lower() in BREAKS and word != "May"


def is_noun(word: str) -> bool:
    """Return whether a word in lower case may be what is counted."""
    if word in NOUNS:
        return True
    plural = len(word) > 3 and word.endswith("s") and not word.endswith(("ss", "us", "is", "ths"))
    return plural and word.isascii() and word.isalpha() and not (
        word in NO_PLURALS or word in BREAKS or word in STATING or word in PLURAL_PARTS)


# ============================================================== sums, products, powers


class Arithmetic(Parser):
    """Exact arithmetic with the four operations, powers, factorials and roots that come out even.

    What it refuses (Fault) may still be a formula; TooLarge has no value that anyone could compare.
    """

    def value(self) -> Fraction:
        """Return the value of all tokens."""
        found = self.sum()
        self.done()
        return found

    def limited(self, value: Fraction) -> Fraction:
        """Return a value that is not too large."""
        if max(value.numerator.bit_length(), value.denominator.bit_length()) > 4 * DIGITS:
            raise TooLarge
        return value

    def sum(self) -> Fraction:
        """Step over a sum."""
        self.depth += 1
        if self.depth > DEPTH:
            raise TooLarge
        total = self.product()
        while self.is_mark("+", "-") or self.word() in ("plus", "minus"):
            minus = self.is_mark("-") or self.word() == "minus"
            self.at += 1
            total = self.limited(total - self.product() if minus else total + self.product())
        self.depth -= 1
        return total

    def product(self) -> Fraction:
        """Step over a product."""
        total = self.signed()
        while self:
            if self.take("*") or self.word() == "times" or (
                    self.word() == "x" and self.is_number(1) and self.is_number(-1)):
                self.at += self.word() in ("times", "x")
                total *= self.signed()
            elif self.take("/") or (self.word() == "divided" and self.word(1) == "by"):
                self.at += 2 * (self.word() == "divided")
                below = self.signed()
                if below == 0:
                    raise Fault
                total /= below
            elif self.is_mark("("):
                total *= self.power()
            else:
                break
            total = self.limited(total)
        return total

    def signed(self) -> Fraction:
        """Step over a power with a sign before it."""
        sign = self.sign() or 1
        if self.is_mark("-", "+"):
            raise Fault
        return sign * self.power()

    def power(self) -> Fraction:
        """Step over a power or a factorial."""
        base = self.atom()
        if self.take("!"):
            if base.denominator != 1 or not 0 <= base <= 300:
                raise TooLarge
            base = Fraction(math.factorial(int(base)))
            if self.is_mark("!"):
                raise Fault
        if self.take("^", "**"):
            if self.is_mark("{"):
                exponent = self.braced()
            elif self.is_mark("(", "-"):
                exponent = self.signed()
            elif self.is_number():
                exponent = self.power()
            else:
                raise Fault
            if exponent.denominator != 1 or (base == 0 and exponent <= 0):
                raise Fault
            bits = max(base.numerator.bit_length(), base.denominator.bit_length())
            if abs(exponent) * bits > 4 * DIGITS:
                raise TooLarge
            base = base ** int(exponent)
        return base

    def braced(self) -> Fraction:
        """Step over a sum in braces, or a single digit as LaTeX takes it."""
        if self.take("{"):
            value = self.sum()
            self.need("}")
            return value
        return self.group()[0]

    def atom(self) -> Fraction:
        """Step over a number, a sum in brackets, a fraction, a root."""
        if self.take("("):
            value = self.sum()
            self.need(")")
            return value
        if self.is_mark("{"):
            return self.braced()
        if self.take(r"\frac"):
            above, below = self.braced(), self.braced()
            if below == 0:
                raise Fault
            return above / below
        if self.take(r"\sqrt"):
            return self.root()
        if self.take(r"\binom"):
            return self.binomial()
        if self.is_number():
            return self.plain_or_mixed()
        raise Fault

    def root(self) -> Fraction:
        """Step over what is under a root sign: its square root, which must be a fraction."""
        value = self.braced()
        above, below = math.isqrt(max(value.numerator, 0)), math.isqrt(value.denominator)
        if Fraction(above**2, below**2) != value:
            raise Fault
        return Fraction(above, below)

    def binomial(self) -> Fraction:
        """Step over the two numbers of a binomial coefficient: its value."""
        n, k = self.braced(), self.braced()
        if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n:
            raise Fault
        if n > 300:
            raise TooLarge
        return Fraction(math.comb(int(n), int(k)))

    def plain_or_mixed(self) -> Fraction:
        r"""Step over digits, and over the fraction behind them: 2\frac{1}{2}."""
        value, text, _ = self.digits()
        token = self.peek()
        if token and token.kind == "command" and token.text == r"\frac":
            part = self.atom()
            if value.denominator != 1 or "." in text or not 0 < part < 1:
                raise Fault
            return value + part
        if token and token.kind in ("number", "word") and token.glued:
            raise Fault
        return value


# ============================================================== formulas

_FUNCTIONS = set("""sin cos tan cot sec csc arcsin arccos arctan log ln exp sqrt degrees
    sinh cosh tanh gcd lcm mod det matrix pmatrix bmatrix vmatrix""".split())
_NO_FORMULA = set("#?@~;\"`$%\u2026")


_NO_RELATION = (r"\approx", r"\sim", r"\ne", r"\not", "!=", "--", r"\ldots", r"\dots")
# math-verify leaves these out, and what belongs to them: 5 \mod 7 would be 5.
_LEFT_OUT = (r"\mod", r"\bmod", r"\pmod", r"\prime", r"\phantom", r"\hphantom", r"\vphantom",
             r"\vspace", r"\hspace", r"\vbox", r"\hbox", r"\smash")
_IN_BASE = re.compile(r"(-?[0-9A-Za-z]{1,300})_(?:\{([0-9]{1,2})\}|([0-9]))")  # 1011_2
_NO_START = set("*/^_)]},.:=<>!'")
_NO_END = set("+-*/^_([{,.:=<>'")


InBase = tuple[str, Fraction | None]


def in_base(text: str) -> InBase | None:
    """Return (digits, value) of 1011_2; the value of what is no number, such as 9_8, is None."""
    found = _IN_BASE.fullmatch(text)
    if found is None:
        return None
    try:
        return found[1], Fraction(int(found[1], int(found[2] or found[3])))
    except ValueError:
        return found[1], None


def is_formula(tokens: Sequence[Token]) -> bool:
    """Return whether tokens are mathematics: numbers, single letters, signs, closed brackets."""
    if not tokens or len(tokens) > 300 or _two_numbers(tokens):
        return False
    if any(_is_prose(t) or t.text in _NO_RELATION or t.text in _LEFT_OUT for t in tokens):
        return False
    based = any(b.text == "_" and a.kind not in ("word", "command") for a, b in pairwise(tokens))
    if based and in_base("".join(token.text for token in tokens)) is None:
        return False  # x+1_2, 5|_{x=1}: math-verify would read x+1, 5
    signs = _NO_FORMULA
    if not any(token.text == r"\begin" for token in tokens):
        signs = signs | {"&"}
    marks = [token.text for token in tokens if token.kind == "mark"]
    if any(mark in signs or not mark.isascii() for mark in marks):
        return False
    return (_closed(marks) and tokens[0].text not in _NO_START
            and tokens[-1].text not in _NO_END)


def _two_numbers(tokens: Sequence[Token]) -> bool:
    """Return whether two numbers follow each other; the first of log_2 8 is an index."""
    kinds = [t.text if t.text in ("_", "^") else t.kind for t in tokens]
    return any(kinds[i:i + 2] == ["number"] * 2 and (i == 0 or kinds[i - 1] not in ("_", "^"))
               for i in range(len(kinds)))


def _is_prose(token: Token) -> bool:
    """Return whether a token is a word that is no function, or a letter that is none."""
    if token.kind != "word":
        return False
    if len(token.text) > 1 and token.text not in _FUNCTIONS:
        return True
    return not token.text.isascii() and not token.text.isalpha()


def _closed(marks: Sequence[str]) -> bool:
    """Return whether every bracket is closed; ")" may close "[" (an interval), not "{"."""
    opened: list[str] = []
    for mark in marks:
        if mark in "([{":
            opened.append(mark)
        elif mark in ")]}" and (not opened or (opened.pop() == "{") != (mark == "}")):
            return False
    return not opened


def formula(tokens: Sequence[Token], source: str) -> Formula:
    """Return tokens as a formula in LaTeX."""
    text = source[tokens[0].start:tokens[-1].end]
    if any(t.text.lstrip("\\") in ("sin", "cos", "tan", "cot", "sec", "csc") for t in tokens):
        text = re.sub(r"([0-9.]{1,9}) *degrees", r"\\frac{\1\\pi}{180}", text)
    text = text.replace(" degrees", r"^\circ").strip()
    text = re.sub(r"\^([0-9]{2,})", r"^{\1}", text.replace("**", "^"))  # LaTeX takes one digit
    return Formula(re.sub(r" +", " ", text))


# ============================================================== the kinds of statements

_OPENING = {"(": ")", "[": "]", "{": "}", r"\{": r"\}"}


def matching(tokens: Sequence[Token]) -> bool:
    """Return whether the bracket that tokens begin with is closed by the last one of them."""
    if len(tokens) < 2 or _OPENING.get(tokens[0].text) != tokens[-1].text:
        return False
    depth = 0
    for i, token in enumerate(tokens):
        depth += (token.text in _OPENING) - (token.text in _OPENING.values())
        if depth == 0:
            return i == len(tokens) - 1
    return False


def split(tokens: Sequence[Token], where: Callable[[Token], bool]) -> list[Sequence[Token]]:
    """Return the parts between those tokens, outside of brackets, for which where is true."""
    parts, start, depth = [], 0, 0
    for i, token in enumerate(tokens):
        depth += (token.text in _OPENING) - (token.text in _OPENING.values())
        depth += (token.text == r"\begin") - (token.text == r"\end")
        if depth == 0 and where(token):
            parts.append(tokens[start:i])
            start = i + 1
    return [*parts, tokens[start:]]


def is_and(token: Token) -> bool:
    """Return whether a token joins values in no order."""
    return token.text.lower() in ("and", "or", "&")


def is_comma(token: Token) -> bool:
    """Return whether a token joins values."""
    return token.text in (",", ";") or is_and(token)


def is_equal(token: Token) -> bool:
    """Return whether a token is an equals sign."""
    return token.text in ("=", "==", ":=")


def harmless(tokens: Sequence[Token]) -> bool:
    """Return whether no word among tokens changes what the number behind them means."""
    return not any(breaks(t.text) or t.text in ("?", "<", ">", "<=", ">=", "!=")
                   or t.text in (r"\ne", r"\approx", r"\le", r"\ge", r"\sim", r"\not", r"\in")
                   for t in tokens)


class Statement:
    """A statement as tokens, with a method for each thing that it may be."""

    def __init__(self, source: str, depth: int = 0):
        self.source, self.depth = source, depth

    def text(self, tokens: Sequence[Token]) -> str:
        """Return the part of the source that tokens come from."""
        return self.source[tokens[0].start:tokens[-1].end] if tokens else ""

    def read(self, tokens: Sequence[Token]) -> Value | None:
        """Return what tokens say, or None."""
        if not tokens or self.depth > 3:
            return None
        for kind in (self.choice, self.number, self.ratio, self.bracketed, self.arithmetic,
                     self.several, self.equation, self.plus_or_minus, self.mathematics):
            try:
                found = kind(tokens)
            except Fault:
                continue
            if found is not None:
                return found
        return None

    def choice(self, tokens: Sequence[Token]) -> Value | None:
        """Read one capital letter: B, (B), option B, and with what the choice says: (B) 20."""
        parser = Parser(tokens, self.source)
        named = parser.word() in ("option", "choice")
        parser.at += named
        opened = parser.take("(")
        letter = parser.peek()
        if letter is None or not re.fullmatch("[A-J]", letter.text):
            return None
        parser.at += 1
        marked = parser.take(")") if opened else parser.take(")", ".", ":")
        if opened and not marked:
            return None
        if not parser:
            return Choice(letter.text) if opened or not marked else None
        glued = tokens[parser.at].glued  # (B)12 is a product
        value = self.inner(tokens[parser.at:]) if marked and not glued else None
        return Choice(letter.text, value) if value else None

    def number(self, tokens: Sequence[Token]) -> Value | None:
        """Read one number with all that may belong to it."""
        tokens = self.without_dollars(tokens)
        parser = Parser(tokens, self.source)
        found = parser.quantity()
        parser.done()
        return found

    @staticmethod
    def without_dollars(tokens: Sequence[Token]) -> Sequence[Token]:
        """Return tokens without the dollars of a formula, which come in twos."""
        if [t.text for t in tokens].count("$") == 2:
            return [t for t in tokens if t.text != "$"]
        return tokens

    def ratio(self, tokens: Sequence[Token]) -> Value | None:
        """Read numbers with colons between them."""
        parser = Parser(tokens, self.source)
        parts = [parser.digits()[0]]
        while parser.take(":"):
            parts.append(parser.digits()[0])
        half = parser.word()
        if half in ("am", "pm", "a", "p"):
            parser.at += 1
            if half in ("a", "p"):
                parser.need(".")
                parser.at += parser.word() == "m"
                parser.take(".")
            half = f"{half[0]}m"
        else:
            half = ""
        parser.done()
        return Ratio(tuple(parts), self.text(tokens), half) if len(parts) > 1 else None

    def bracketed(self, tokens: Sequence[Token]) -> Value | None:
        """Read several values in brackets, or a negative number; one number alone is refused."""
        if not matching(tokens):
            return None
        brackets, inner = tokens[0].text[-1], tokens[1:-1]
        parts = split(inner, lambda t: t.text in (",", ";"))
        if len(parts) == 1:
            plain = len(inner) == 1 and inner[0].kind == "number"
            if brackets == "[" or (brackets == "(" and plain):
                raise Ambiguous  # a list of one; (5) is 5, -5 to an accountant, and choice 5
            if tokens[0].text == "{":
                return self.inner(inner)  # LaTeX's braces alone make no set
            if brackets == "{" and (one := self.inner(inner)):
                return Several((one,), self.text(tokens), False, brackets)
            return None
        items = [self.inner(part) for part in parts]
        if any(item is None for item in items):
            return None
        return Several(tuple(x for x in items if x), self.text(tokens), brackets != "{", brackets)

    def inner(self, tokens: Sequence[Token]) -> Value | None:
        """Read a part of a statement."""
        return Statement(self.source, self.depth + 1).read(tokens)

    def arithmetic(self, tokens: Sequence[Token]) -> Value | None:
        """Compute sums, products and powers of plain numbers; their text stays as it is."""
        value = Arithmetic(tokens, self.source).value()
        return Number(value, re.sub(" +", " ", self.text(tokens)))

    def equation(self, tokens: Sequence[Token]) -> Value | None:
        """Read the right side of an equation; its left side, where a letter is on the right."""
        parts = split(tokens, is_equal)
        if len(parts) < 2 or not all(parts[1:]):
            return None
        left = parts[0]
        if self.depth and len(left) > 1 and not is_formula(left):
            return None  # prose, of which a part only was looked at
        if any(len(split(part, is_comma)) > 1 for part in parts[1:-1]):
            return None  # several equations, one of which was not read
        if not harmless([t for part in parts[:-1] for t in part]):
            return None
        right = parts[-1]
        if len(right) == 1 and right[0].kind == "word" and len(right[0].text) == 1:
            right = parts[-2]
        return self.inner(right)

    def several(self, tokens: Sequence[Token]) -> Value | None:
        """Read values with commas, and, or between them; x = 1, y = 2 in the order of the names."""
        tokens = [t for t in tokens if t.text != "$"] if (
            [t.text for t in tokens].count("$") % 2 == 0) else tokens
        parts = split(tokens, is_comma)
        if len(parts) < 2:
            return None
        joined = any(is_and(t) for part in [tokens] for t in part)
        kept = [part for part in parts if part]
        commas = sum(1 for part in parts[:-1] if not part)
        if len(kept) < 2 or len(parts) - len(kept) > 1 or (commas and not joined):
            return None
        if not parts[0] or not parts[-1]:
            return None
        items = [self.inner(part) for part in kept]
        if any(item is None for item in items):
            return None
        numbers = [x for x in items if isinstance(x, Number)]
        if joined and len(numbers) == len(items) == 2 and "and" in self.text(tokens).lower() and (
                numbers[0].value.denominator == 1 and 0 < numbers[1].value < 1
                and "." not in numbers[1].text):
            raise Ambiguous  # 3 and 1/2: two numbers, or three and a half
        names = [part[0].text for part in kept if len(part) > 2 and is_equal(part[1])]
        if len(names) == len(kept) == len(set(names)):
            items = [item for _, item in sorted(zip(names, items), key=lambda pair: pair[0])]
            joined = False
        return Several(tuple(x for x in items if x), self.text(tokens), not joined)

    def plus_or_minus(self, tokens: Sequence[Token]) -> Value | None:
        r"""Read \pm 5 as two numbers."""
        if tokens[0].text != r"\pm":
            return None
        one = self.inner(tokens[1:])
        if not isinstance(one, Number):
            return None
        other = Number(-one.value, f"-{one.text}", one.unit, one.percent, one.decimals)
        return Several((one, other), self.text(tokens), False)

    def mathematics(self, tokens: Sequence[Token]) -> Value | None:
        """Leave a formula to math-verify."""
        tokens = self.without_dollars(tokens)
        if is_formula(tokens):
            return formula(tokens, self.source)
        for i in range(max(1, len(tokens) - 8), len(tokens)):  # 12 \pi square units
            head, parser = tokens[:i], Parser(tokens, self.source)
            parser.at = i
            named = tokens[i].kind == "word" and len(tokens[i].text) > 1
            rooted = any(t.text in (r"\pi", r"\sqrt") for t in head)  # 10-12 days is a range
            if named and rooted and (unit := parser.unit()) and not parser and is_formula(head):
                return dataclasses.replace(formula(head, self.source), unit=unit)
        return None

    def phrase(self, tokens: Sequence[Token], sentence: bool) -> Value | None:
        """Read what is behind words that say nothing, or in a sentence behind its last verb.

        Args:
            tokens: the statement.
            sentence: a sentence of prose, whose words need not be listed.
        """
        if len(tokens) > LONGEST_PHRASE:
            return None
        words = [t.text.lower() for t in tokens]
        for i in range(len(tokens) - 1, 0, -1):
            head = tokens[:i]
            colon = words[i - 1] == ":" and i > 1 and tokens[i - 2].kind == "word"  # no 7:8
            stating = words[i - 1] in STATING or colon or words[i - 1] == "=" or (
                words[i - 1] in ("a", "of", "to", "total", "exactly", "only") and sentence
                and not any(t.kind == "number" for t in head))
            if stating and words[i - 1] not in SUMMING and joins_numbers(head):
                continue  # he sold 5 and got 6
            listed = all(w in LEADS or w == "," for w in words[:i - colon])
            if not (listed or (sentence and stating)) or not harmless(head):
                continue
            if (found := self.read(tokens[i:])) and not isinstance(found, Choice | Formula):
                return found
            if found and (listed or stating):
                return found
        return self.only_number(tokens) if sentence else None

    def only_number(self, tokens: Sequence[Token]) -> Value | None:
        """Read the one number of a sentence with a verb: it takes James 240 minutes."""
        words = [t.text.lower() for t in tokens]
        for i in range(1, len(tokens)):
            before = words[:i]
            if tokens[i].kind == "number" or words[i] in NUMBER_WORDS or tokens[i].text in "-$":
                verbs = any(w in STATING or (len(w) > 3 and w.endswith("ed")) for w in before)
                plain = all(t.kind == "word" or t.text in ",*" for t in tokens[:i])
                if not verbs or not plain or before[-1] in LABELS or not harmless(tokens[:i]):
                    return None
                return self.number(tokens[i:])
        return None


SUMMING = {"=", ":", "is", "are", "was", "were", "be", "equals", "equal", "total", "totals"}


def joins_numbers(tokens: Sequence[Token]) -> bool:
    """Return whether an "and" is behind the last number among tokens."""
    last = max((i for i, t in enumerate(tokens) if t.kind == "number"), default=len(tokens))
    return any(is_and(t) for t in tokens[last:])


_HEX = re.compile(r"(?<![\w.])0[xXbBoO][0-9A-Fa-f]+(?!\w)")  # 0x10 is 16, or 0 times 10
# $\$18$: the outer dollars are those of a formula, the inner one is money
_PRICE = re.compile(
    r"(?<![\\$])\$(?!\$)((?:[^$\\]|\\[^$]){0,200}\\\$(?:[^$\\]|\\.){0,200})\$(?!\$)")
_HOURS = re.compile(r"\b([0-9]+) ?h(?:rs?|ours?)? ?([0-9]{1,2}) ?m(?:ins?)?\b"
                    r"(?! ?[a-zA-Z0-9^*/+=(-])")
_FEET = re.compile(r"\b([0-9]+)' ?([0-9]{1,2}(?:\.[0-9]+)?)(?:\"|'')")


def read(text: str, sentence: bool = False) -> Value | None:
    """Return the value of a statement, or None if no parser accepts it.

    Args:
        text: at most LONGEST characters.
        sentence: a sentence of prose rather than an answer that was marked as such.
    """
    if len(text) > LONGEST:
        return None
    text = bare(_BOLD.sub("", notation(bare(_PRICE.sub(r"\1", text)))))
    text = _FEET.sub(r"\1 ft \2 in", _HOURS.sub(r"\1 h \2 min", text))
    if _HEX.search(text):
        return None
    tokens = tokens_of(text)
    statement = Statement(text)
    try:
        found = statement.read(tokens)
        if found is None or (sentence and isinstance(found, Formula) and " " in found.text):
            said = statement.phrase(tokens, sentence)
            found = said if said is not None else found
        return found
    except (TooLarge, Ambiguous, Fault, RecursionError):
        return None


def holds_number(text: str) -> bool:
    """Return whether a text has a digit, a number in words or mathematics in it."""
    text = text[:LONGEST]
    return any(c.isnumeric() or c == "\\" for c in text) or any(
        word in NUMBER_WORDS for word in re.findall("[a-z]+", text.lower()))


def denies(text: str) -> bool:
    """Return whether a text denies an answer instead of giving one; not 5 but 6 gives one."""
    text = text[:LONGEST].lower()
    words = re.findall("[a-z']+", text)
    numbers = len(re.findall(_NUMBER, text, re.X)) + sum(word in NUMBER_WORDS for word in words)
    return numbers < 2 and any(word in DENIALS for word in words)
