"""Problems for a real model: word problems, sums, any JSONL; each a dict with prompt and reference.

Nothing is downloaded when this file is imported. What is read from a file may have more columns;
they are kept and handed to reward functions that name them.
"""

import json
import random
import warnings
from pathlib import Path
from typing import Any

from beyond.tasks.answers import as_reference, clean_number, extract_answer, is_missing
from lab15_run import counted

__all__ = [
    "as_row", "as_text", "clean_number", "extract_answer", "format_prompt", "gsm8k_answer",
    "is_chat", "load_gsm8k", "load_gsm8k_mock", "load_reasoning_gym", "load_rows", "load_sums",
    "usable",
]

Row = dict[str, Any]

REFERENCES = ("reference", "answer", "target", "solution")  # the first of them that a row has
PROMPTS = ("prompt", "question", "problem")


# ============================================================== prompts and answers


def format_prompt(question: str) -> str:
    """Return a question with the request to end with a line "Answer: <number>"."""
    return (
        "Work out the following problem one step at a time. End with a line of its own that "
        f"reads Answer: and then only the number.\n\nProblem: {question.strip()}\n\nSolution:"
    )


def gsm8k_answer(solution: str) -> str:
    """Return the number behind the "####" of a GSM8K solution.

    Raises:
        ValueError: there is none.
    """
    _, mark, tail = solution.rpartition("####")
    number = clean_number(tail)
    if not mark or number is None:
        raise ValueError(f"no '#### number' in the solution {solution[-60:]!r}")
    return number


def is_chat(prompt: Any) -> bool:
    """Return whether a prompt is a list of messages with role and content."""
    return isinstance(prompt, list) and bool(prompt) and all(
        isinstance(m, dict) and {"role", "content"} <= set(m) for m in prompt
    )


def as_text(prompt: Any, tokenizer) -> str:
    """Return a prompt as the text that the model reads; messages by the chat template.

    Raises:
        ValueError: messages, but the tokenizer has no chat template, or one that refuses them (some
            know no system prompt); or neither text nor messages.
    """
    if isinstance(prompt, str):
        return prompt
    if not is_chat(prompt):
        raise ValueError(f"a prompt must be text or a list of messages, got {prompt!r:.80}")
    if not getattr(tokenizer, "chat_template", None):
        raise ValueError(
            "the prompts are messages (role, content), but this tokenizer has no chat template: "
            "give prompts as text, or take an instruction-tuned model"
        )
    try:
        return tokenizer.apply_chat_template(prompt, tokenize=False, add_generation_prompt=True)
    except Exception as error:  # jinja2's, or what a template raises by itself
        roles = ", ".join(str(m["role"]) for m in prompt)
        raise ValueError(f"the tokenizer's chat template refuses messages with the roles {roles}: "
                         f"{type(error).__name__}: {error}") from None


def listed(dataset: Any) -> Any:
    """Return a data set as something whose items are rows: a pandas table has to_dict.

    Raises:
        ValueError: a path, a single row, a DatasetDict: what to give instead.
    """
    if hasattr(dataset, "to_dict") and hasattr(dataset, "columns"):
        return dataset.to_dict("records")
    if isinstance(dataset, (str, Path)):
        raise ValueError(f"the data is a path: give load_rows({str(dataset)!r}) "
                         "of beyond.tasks.data")
    if isinstance(dataset, dict):
        raise ValueError(f"the data is a dict with {', '.join(map(str, dataset))[:60]}; give a list"
                         " of rows (of a DatasetDict one part, such as data['train'])")
    if not hasattr(dataset, "__iter__"):
        raise ValueError(f"the data is {type(dataset).__name__}, not a list of rows")
    return dataset


def usable(dataset, policy) -> list[Row]:
    """Return rows with their prompt as "text"; too long prompts are named and left out.

    Messages go through the chat template, which brings its own special tokens: the policy adds
    none then. Texts are taken as they are.

    Raises:
        ValueError: nothing is left, or some prompts are messages and some are texts.
    """
    rows, long, limit = [], 0, policy.longest_prompt
    for i, raw in enumerate(listed(dataset)):
        row = as_row(raw, f"row {i}")
        chat = is_chat(row["prompt"])
        if policy.chat not in (None, chat):
            raise ValueError(f"row {i}: some prompts are messages, some are texts; give one kind")
        policy.chat, policy.add_special_tokens = chat, policy.add_special_tokens and not chat
        try:
            row["text"] = as_text(row["prompt"], policy.tokenizer)
        except ValueError as error:
            raise ValueError(f"row {i}: {error}") from None
        ids = policy.token_ids(row["text"])
        if not ids:
            raise ValueError(f"row {i}: the tokenizer makes no token of {row['text']!r:.60}")
        if len(ids) > limit:
            long += 1
        else:
            rows.append(row)
    if long:
        advice = "raise max_prompt_tokens to keep them"
        if limit < policy.max_prompt_tokens:
            advice = (f"the model has {policy.positions} positions, {policy.max_new_tokens} of "
                      "them for max_new_tokens")
        print(f"{long} of {len(rows) + long} prompts have more than {limit} tokens and are left "
              f"out; {advice}")
    if not rows:
        raise ValueError("there is no prompt to train on")
    warn_of_gaps(rows, "the data")
    return rows


# ============================================================== files


def as_row(raw: Any, where: str) -> Row:
    """Return a dict with at least prompt and reference (None without one).

    Raises:
        ValueError: not a dict, without a prompt, or with one that is neither text nor messages.
    """
    if not isinstance(raw, dict):
        raise ValueError(f"{where}: {type(raw).__name__}, not an object with prompt and answer")
    prompt = next((raw[k] for k in PROMPTS if raw.get(k) not in (None, "")), None)
    if prompt is None:
        raise ValueError(f"{where}: no {' or '.join(PROMPTS)}; there are {sorted(raw)[:8]}")
    if not isinstance(prompt, str) and not is_chat(prompt):
        raise ValueError(f"{where}: a prompt must be text or a list of messages (role, content), "
                         f"got {prompt!r:.60}")
    reference = next((raw[k] for k in REFERENCES if not is_missing(raw.get(k))), None)
    return raw | {"prompt": prompt, "reference": as_reference(reference)}


def warn_of_gaps(rows: list[Row], where: str) -> None:
    """Warn of rows without an answer, if others have one: nothing can be compared with them."""
    without = [i for i, row in enumerate(rows) if row.get("reference") is None]
    if 0 < len(without) < len(rows):
        warnings.warn(f"{where}: {len(without)} of {len(rows)} rows have no answer "
                      f"({', '.join(REFERENCES)}), the first is row {without[0]}: a reward that "
                      "compares answers leaves them out (score None)", stacklevel=3)


def read_rows(path: str | Path) -> list[tuple[str, Any]]:
    """Return (place, what is there) of a JSONL, JSON or parquet file; for a broken line its error.

    Raises:
        OSError: it cannot be read, or is parquet and pyarrow is not installed.
    """
    path = Path(path)
    if path.suffix == ".parquet":
        try:
            from pyarrow import ArrowException, parquet
        except ImportError:
            raise OSError(f"{path} needs pyarrow: pip install -r beyond/requirements.txt") from None
        try:
            table = parquet.read_table(str(path)).to_pylist()
        except ArrowException as error:
            raise OSError(f"{path} is no parquet file: {error}") from None
        return [(f"{path} row {i}", row) for i, row in enumerate(table, 1)]
    data = path.read_bytes().removeprefix(b"\xef\xbb\xbf")  # a byte order mark
    if path.suffix == ".json" and data.lstrip().startswith(b"["):
        try:
            return [(f"{path} item {i}", row) for i, row in enumerate(json.loads(data), 1)]
        except ValueError as error:
            return [(f"{path}", error)]
    found: list[tuple[str, Any]] = []
    # Split at line feeds alone: JSON strings may hold what splitlines takes for an end of line.
    for i, line in enumerate(data.split(b"\n"), 1):
        if line.strip():
            try:
                found.append((f"{path} line {i}", json.loads(line.decode("utf-8"))))
            except (ValueError, RecursionError) as error:
                found.append((f"{path} line {i}", error))
    return found


def load_rows(path: str | Path, max_samples: int | None = None, make=as_row) -> list[Row]:
    """Return the rows of a JSONL or parquet file; what cannot be used is named and left out.

    Args:
        path: the file.
        max_samples: at most so many rows, from the front.
        make: makes a row of (what was read, place) or raises a ValueError.

    Raises:
        FileNotFoundError: no such file.
        ValueError: no row is left, or max_samples is below 1.
    """
    if max_samples is not None and max_samples < 1:
        raise ValueError(f"max_samples = {max_samples} is not possible; give 1 or more, or None")
    rows: list[Row] = []
    broken: list[str] = []
    for where, raw in read_rows(path):
        try:
            if isinstance(raw, Exception):
                raise ValueError(f"{where}: not JSON ({raw})")
            rows.append(make(raw, where))
        except ValueError as error:
            broken.append(str(error))
    if not rows:
        raise ValueError(f"{path} has no usable row. {' '.join(broken[:1])}")
    if broken:
        more = f" and {len(broken) - 3} more" if len(broken) > 3 else ""
        warnings.warn(
            f"{len(broken)} left out, {counted(len(rows), 'row')} kept: "
            f"{'; '.join(broken[:3])}{more}",
            stacklevel=2,
        )
    return rows[:max_samples]


# ============================================================== data sets


def _gsm8k_row(raw: Any, where: str) -> Row:
    row = as_row(raw, where)
    return {
        "prompt": format_prompt(row["prompt"]),
        "reference": gsm8k_answer(row["reference"] or ""),
        "question": row["prompt"],
    }


def load_gsm8k(
    split: str = "train", max_samples: int | None = 500, path: str | Path | None = None
) -> list[Row]:
    """Return GSM8K from a local parquet or JSONL file, else from the hub.

    Args:
        split: "train" or "test"; used with the hub only.
        max_samples: at most so many, from the front; None for all.
        path: a file with the columns question and answer.

    Raises:
        OSError: neither file nor hub can be read.
        ValueError: no usable row.
    """
    if path is not None:
        return load_rows(path, max_samples, _gsm8k_row)
    try:
        from datasets import load_dataset

        table = load_dataset("openai/gsm8k", "main", split=split)
    except ImportError:
        raise OSError("the package datasets is not installed; give path=, a local file") from None
    except Exception as error:
        raise OSError(
            f"GSM8K cannot be fetched ({type(error).__name__}). Where there is network, run: "
            "python -c \"from datasets import load_dataset; load_dataset('openai/gsm8k', 'main')"
            f"['{split}'].to_parquet('gsm8k.parquet')\" and give path='gsm8k.parquet'"
        ) from None
    rows = table if max_samples is None else table.select(range(min(max_samples, len(table))))
    return [_gsm8k_row(row, f"gsm8k {split} {i}") for i, row in enumerate(rows)]


# (question, the sum that answers it, the answer): a test evaluates the sum.
WORD_PROBLEMS = [
    ("Mina buys 3 boxes of 12 pencils and gives away 7. How many does she keep?", "3*12-7", 29),
    ("A bus leaves with 28 people. 9 get off, 14 get on. How many ride on?", "28-9+14", 33),
    ("Tickets cost 8 euros. How much do 6 tickets cost with a discount of 5 euros?", "6*8-5", 43),
    ("Jonas reads 15 pages a day. How many days does a book of 180 pages take?", "180/15", 12),
    ("A garden is 9 m long and 7 m wide. How many metres of fence surround it?", "2*(9+7)", 32),
    ("Half of the 46 apples are red. 5 of the red ones are eaten. How many red are left?",
     "46/2-5", 18),
    ("A baker makes 24 rolls an hour for 5 hours and sells 98. How many are left?", "24*5-98", 22),
    ("Lea is 4 years older than Tom. Together they are 26. How old is Lea?", "(26+4)/2", 15),
    ("A film starts at 19:40 and lasts 105 minutes. How many minutes after 20:00 does it end?",
     "40+105-60", 85),
    ("4 friends share a bill of 92 euros evenly. What does each pay?", "92/4", 23),
    ("A pool holds 600 litres. 25 litres flow in each minute. How long until it is full?",
     "600/25", 24),
    ("There are 7 shelves with 13 books each, and 9 books on the floor. How many books?",
     "7*13+9", 100),
    ("Sara saves 12 euros a week and has 30 euros. How much does she have after 6 weeks?",
     "30+12*6", 102),
    ("A rope of 84 cm is cut into 7 equal parts. How long are 3 of them together?", "84/7*3", 36),
    ("Of 50 seats 40 percent are taken. How many seats are free?", "50-50*40/100", 30),
    ("A train covers 210 km in 3 hours. How far does it go in 5 hours at that speed?",
     "210/3*5", 350),
    ("Each of 11 hens lays 2 eggs a day. How many dozens are laid in 6 days?", "11*2*6/12", 11),
    ("A shirt of 40 euros is sold for a quarter less. What does it cost now?", "40-40/4", 30),
    ("Pia has twice as many stamps as Ole. Ole has 17. How many do both have?", "17+2*17", 51),
    ("A jar has 3 blue, 5 red and twice as many green marbles as red ones. How many in all?",
     "3+5+2*5", 18),
]


def load_gsm8k_mock(n: int = 20) -> list[Row]:
    """Return n (1 to 20) small word problems in GSM8K's manner, our own; no network.

    Raises:
        ValueError: n out of range.
    """
    if not 1 <= n <= len(WORD_PROBLEMS):
        raise ValueError(f"there are 1 to {len(WORD_PROBLEMS)} problems, n = {n} is not possible")
    return [
        {"prompt": format_prompt(question), "reference": str(answer), "question": question}
        for question, _, answer in WORD_PROBLEMS[:n]
    ]


def load_sums(n: int = 100, digits: int = 1, seed: int = 0) -> list[Row]:
    """Return n sums of two numbers of at most so many digits, after two examples.

    Args:
        n: rows, 0 or more.
        digits: of both numbers at most, 1 or more.
        seed: of the draws.
    """
    rng, rows = random.Random(seed), []
    for _ in range(n):
        a, b = rng.randrange(10**digits), rng.randrange(10**digits)
        rows.append({"prompt": f"5+3=8\n2+7=9\n{a}+{b}=", "reference": str(a + b)})
    return rows


def load_reasoning_gym(name: str, n: int = 100, seed: int = 0) -> list[Row]:
    """Return n problems of a reasoning-gym task, such as "chain_sum".

    Their prompts ask for a line "Answer: ..."; rewards.ReasoningGymReward scores them as the task
    itself does, which knows of several right answers and of partly right ones.

    Args:
        name: of the task.
        n: number of problems.
        seed: the same seed gives the same problems.

    Raises:
        OSError: the package is not installed.
        ValueError: it has no such task.
    """
    try:
        import reasoning_gym
    except ImportError:
        raise OSError(
            f"the task {name!r} needs reasoning-gym: pip install reasoning-gym"
        ) from None
    try:
        task = reasoning_gym.create_dataset(name, size=n, seed=seed)
    except Exception as error:
        raise ValueError(f"reasoning-gym cannot make {counted(n, 'problem')} of {name!r}: "
                         f"{error}") from None
    ask = "End with a line that reads Answer: and then only the answer."
    return [
        {"prompt": f"{entry['question'].strip()}\n\n{ask}\n\nSolution:",
         "reference": str(entry["answer"]), "task": name, "entry": entry}
        for entry in task
    ]
