"""Build a page of quiz questions to print: without answers, or with --answers your own copy.

All questions are in instructor/teaching/quiz.md, in one form: a numbered title; in italics the
section and task; the question; options A to D as a list; as a quotation the right letter, why, and
what makes the others tempting.
"""

import argparse
import re
from pathlib import Path
from typing import NamedTuple

from lab15_run import counted
from tests.labfile import ROOT, ascii_line
from tinylm import write_file

BANK = ROOT / "instructor" / "teaching" / "quiz.md"
FORM = re.compile(
    r"\A## (?P<number>\d+)\. (?P<title>.+)\n"
    r"\*(?P<place>Sections? .+)\*\n\n"
    r"(?P<question>(?:(?!- [A-Z]\. ).*\n)+)"
    r"(?P<options>(?:- [A-Z]\. .*\n(?:  .*\n)*)+)\n"
    r"> \*\*(?P<right>[A-Z])\.\*\* (?P<answer>(?:.*\n)+)\Z")
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<style>
body {{ font: 12pt/1.45 Georgia, "Times New Roman", serif; max-width: 42em; margin: 2em auto;
       padding: 0 1em; color: #111; background: #fff; }}
h1 {{ font-size: 1.5em; }}
section {{ break-inside: avoid; margin: 1.6em 0; }}
h2 {{ font-size: 1.1em; margin: 0 0 0.3em; }}
.place {{ font-weight: normal; font-style: italic; }}
code {{ font-family: Consolas, Menlo, monospace; font-size: 0.9em; }}
ol.options {{ list-style: upper-alpha; margin: 0.4em 0; }}
.answer {{ border-left: 3px solid #555; padding-left: 0.8em; }}
@media print {{ body {{ margin: 0; max-width: none; }} }}
</style>
</head>
<body>
<h1>{title}</h1>
{top}
{questions}
</body>
</html>
"""


class Question(NamedTuple):
    """A question of the bank; all texts are Markdown."""

    number: int
    title: str
    place: str
    question: str
    options: dict[str, str]
    right: str
    answer: str


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the flags of this builder."""
    parser.add_argument("--out", type=Path, default=Path("quiz.html"), metavar="FILE",
                        help="the file (default quiz.html)")
    parser.add_argument("--only", default="", metavar="NUMBERS",
                        help="which questions, in this order, such as 2,9,16 (default: all)")
    parser.add_argument("--answers", action="store_true", help="with the answers: for you")


def parsed(part: str) -> Question:
    """Return the question that a section of the bank holds.

    Raises:
        ValueError: it has another form; the message names its title.
    """
    match = FORM.match(re.sub(r"\n*<!--.*?-->", "", part, flags=re.S).rstrip("\n") + "\n")
    if match is None:
        title = part.partition("\n")[0]
        raise ValueError(f"{BANK.name}: this question has not the form of the others: {title}")
    items = re.findall(r"^- ([A-Z])\. (.*\n(?:  .*\n)*)", match["options"], re.M)
    options = {letter: " ".join(text.split()) for letter, text in items}
    answer = re.sub(r"^> ?", "", match["answer"], flags=re.M).strip()
    return Question(int(match["number"]), match["title"], match["place"], match["question"].strip(),
                    options, match["right"], answer)


def questions(text: str) -> list[Question]:
    """Return the questions of the bank.

    Raises:
        ValueError: one has another form.
    """
    parts = re.split(r"^(?=## )", text.replace("\r\n", "\n"), flags=re.M)
    return [parsed(part) for part in parts[1:]]


def chosen(bank: list[Question], numbers: str) -> list[Question]:
    """Return the questions with these numbers, in their order.

    Raises:
        ValueError: a number is none, or there is no question with it.
    """
    if not numbers:
        return bank
    known = {str(question.number): question for question in bank}
    words = [word.strip() for word in numbers.split(",")]
    if unknown := [word for word in words if word not in known]:
        raise ValueError(f"--only {numbers}: there is no question {unknown[0] or '(empty)'}; "
                         f"numbers go from 1 to {len(bank)}, with commas, such as 2,9,16")
    return [known[word] for word in words]


def shown(question: Question, answers: bool) -> str:
    """Return a question as HTML."""
    import mistune

    render = mistune.create_markdown(escape=True)

    def line(text: str) -> str:
        html = str(render(text)).strip()
        return html.removeprefix("<p>").removesuffix("</p>")

    items = "\n".join(f"<li>{line(text)}</li>" for text in question.options.values())
    place = f' <span class="place">({question.place})</span>' if answers else ""
    answer = render(f"**{question.right}.** {question.answer}")
    answer = f'<div class="answer">\n{answer}</div>\n' if answers else ""
    return (f"<section>\n<h2>{question.number}. {line(question.title)}{place}</h2>\n"
            f"{render(question.question)}"
            f'<ol class="options">\n{items}\n</ol>\n{answer}</section>')


def page(wanted: list[Question], answers: bool) -> str:
    """Return the page of these questions as HTML."""
    title = "Lab 15: GRPO from scratch, " + ("quiz with answers" if answers else "quiz")
    top = "" if answers else "<p>Name: ______________________ One answer is right in each.</p>"
    return PAGE.format(title=title, top=top,
                       questions="\n".join(shown(question, answers) for question in wanted))


def run(flags: argparse.Namespace) -> int:
    """Write the page; return the exit code.

    Raises:
        ValueError: the bank has a question of another form, or a number is unknown.
    """
    wanted = chosen(questions(BANK.read_text(encoding="utf-8")), flags.only)
    text = page(wanted, flags.answers)
    write_file(flags.out, lambda file: file.write(text.encode("utf-8")))
    kind = "with answers" if flags.answers else "without answers"
    print(ascii_line(f"{counted(len(wanted), 'question')} {kind}: {flags.out}", 300))
    return 0
