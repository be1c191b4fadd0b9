"""A longer TinyLM task: two-digit sums with visible working, in responses of free length.

The seven names of tinylm.py, on the same TinyLM and the same characters, so that the lab's five
functions run on it unedited: load_lab(path, backend=beyond.longtask). A response is a row of
steps with "=" between them; what follows the last "=" is the answer. For 37+48=

    85                       the answer at once
    15=8=85                  columns: 7+8, then 3+4 and the carry, then the answer
    7+8=15=3+4+1=8=85        the same, written out
    14=15=8=8=75=85          with steps done again; the last one counts

The teacher draws a style, repeats steps at random, and errs at random in every step. So length
is the policy's own choice, and at BUDGET tokens a response is cut off.

python -m beyond.longtask     trains the SFT model if need be, prints what it says and how well
"""

import contextlib
import json
import os
import random
import re
import types
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import torch
import torch.nn as nn
from filelock import FileLock

import tinylm
from lab15_run import piped
from tinylm import CHARS, END, PAD, TinyLM, decode_responses, encode, sequence_logprobs

__all__ = ["accuracy", "decode_responses", "load_or_train_sft", "make_batch", "reward", "sample",
           "sequence_logprobs"]  # fmt: skip

SFT_PATH = Path(tinylm.__file__).resolve().with_name("longtask_sft.pt")

# ============================================================== data

HELD_OUT = 500  # pairs kept for evaluation


def _split_pairs() -> tuple[list, list]:
    """Return (training pairs, held-out pairs) with a + b and b + a on the same side."""
    pairs = [(a, b) for a in range(10, 100) for b in range(a, 100)]
    random.Random(0).shuffle(pairs)
    train: list = []
    held_out: list = []
    for a, b in pairs:
        both = [(a, b), (b, a)] if a != b else [(a, b)]
        (held_out if len(held_out) + len(both) <= HELD_OUT else train).extend(both)
    return train, held_out


TRAIN_PAIRS, EVAL_PAIRS = _split_pairs()


def _as_text(pairs: Sequence) -> tuple[list[str], list[str]]:
    """Return (prompts, answers) of a list of (a, b)."""
    return [f"{a}+{b}=" for a, b in pairs], [str(a + b) for a, b in pairs]


def make_batch(n: int, rng: random.Random) -> tuple[list[str], list[str]]:
    """Return n random training problems as (prompts, answers), two lists of strings."""
    return _as_text(rng.choices(TRAIN_PAIRS, k=n))


# ============================================================== rewards


def reward(response: str, answer: str) -> float:
    """Return 1.0 if the last step of the response is exactly the answer, else 0.0."""
    return 1.0 if response.rpartition("=")[2] == answer else 0.0


def reward_anywhere(response: str, answer: str) -> float:
    """Return 1.0 if any step of the response is the answer: a reward that can be hacked."""
    return 1.0 if answer in response.split("=") else 0.0


# ============================================================== sampling and evaluation

BUDGET = 24  # tokens of the longest response, END included


def sample(
    model: TinyLM,
    prompts: list[str],
    temperature: float = 1.0,
    greedy: bool = False,
    max_new_tokens: int = BUDGET,
    generator: torch.Generator | None = None,
) -> dict:
    """Sample one response for every prompt: tinylm.sample with this task's budget.

    Args:
        model: a TinyLM.
        prompts: texts.
        temperature: above 0.
        greedy: take the likeliest tokens.
        max_new_tokens: 1 or more.
        generator: torch's; None: the global one.
    """
    return tinylm.sample(model, prompts, temperature, greedy, max_new_tokens, generator)


def evaluation(model: TinyLM, n: int = HELD_OUT, greedy: bool = False, seed: int = 0) -> tuple:
    """Return (tinylm.sample's dict, responses, answers) for n held-out problems.

    Args:
        model: a TinyLM.
        n: number of problems; above the number of held-out pairs they are asked again.
        greedy: likeliest tokens instead of samples.
        seed: of this evaluation's own generator, so that measuring never changes training.
    """
    if n < 1:
        raise ValueError(f"accuracy: n must be at least 1, got {n}")
    prompts, answers = _as_text([EVAL_PAIRS[i % len(EVAL_PAIRS)] for i in range(n)])
    generator = torch.Generator(tinylm.device_of(model)).manual_seed(seed)
    out = sample(model, prompts, greedy=greedy, generator=generator)
    return out, decode_responses(out), answers


def accuracy(model: TinyLM, n: int = HELD_OUT, greedy: bool = False, seed: int = 0) -> float:
    """Return the share of held-out problems whose last step is exactly the answer.

    Args:
        model: a TinyLM.
        n: number of problems, 1 or more.
        greedy: take the likeliest tokens.
        seed: of the sampling.
    """
    _, responses, answers = evaluation(model, n, greedy, seed)
    return sum(reward(r, a) for r, a in zip(responses, answers)) / n


STEP = r"\d{1,3}"
STYLES = {  # the four forms, each with any step repeated
    "answer": rf"{STEP}(={STEP})?",
    "columns": rf"{STEP}(={STEP}){{2,}}",
    "written": rf"(\d\+\d={STEP}=)+(\d\+\d(\+1)?={STEP}=)+{STEP}(={STEP})*",
}


def style(response: str) -> str:
    """Return which of STYLES a response is written in, or "other"."""
    return next((k for k, v in STYLES.items() if re.fullmatch(v, response)), "other")


# ============================================================== supervised fine-tuning (SFT)

MODEL = {"width": 64, "layers": 2, "heads": 4, "context": 40}
RECIPE: dict[str, Any] = {"wrong": 0.11, "again": 0.25, "styles": [0.2, 0.6, 0.2], "seed": 2}
RECIPE |= {"steps": 1400, "batch": 64, "lr": 2.5e-3, "warmup": 50, "hold": 0.7}


def demonstration(a: int, b: int, rng: random.Random) -> str:
    """Return what the teacher says to a + b: a style, steps done again, steps that are wrong.

    Args:
        a: 10 to 99.
        b: 10 to 99.
        rng: draws style, repetitions and errors.
    """

    def steps(right: int, low: int, high: int, said: str = "") -> int:
        value = right
        while True:
            value = rng.randint(low, high) if rng.random() < RECIPE["wrong"] else right
            text.append(f"{said}{value}")
            if rng.random() >= RECIPE["again"]:
                return value

    text: list[str] = []
    written = rng.choices(("answer", "columns", "written"), RECIPE["styles"])[0]
    if written == "answer":
        steps(a + b, 20, 198)
        return "=".join(text)
    full = written == "written"
    units = steps(a % 10 + b % 10, 0, 18, f"{a % 10}+{b % 10}=" if full else "")
    carry = "+1" if units > 9 else ""
    tens = steps(a // 10 + b // 10 + units // 10, 2, 19,
                 f"{a // 10}+{b // 10}{carry}=" if full else "")  # fmt: skip
    steps(10 * tens + units % 10, 20, 199)
    return "=".join(text)


def _rows(pairs: Sequence, rng: random.Random) -> dict:
    """Return demonstrations for the pairs, in the form of tinylm.sample's dict."""
    prompts, _ = _as_text(pairs)
    said = [[CHARS.index(c) for c in demonstration(a, b, rng)] + [END] for a, b in pairs]
    said = [row[:BUDGET] for row in said]
    T = max(map(len, said))
    ids = torch.tensor([row + [PAD] * (T - len(row)) for row in said])
    ids = torch.cat([encode(prompts), ids], 1)
    return {"ids": ids, "prompt_len": ids.shape[1] - T, "mask": (ids[:, -T:] != PAD).float()}


def train_sft() -> TinyLM:
    """Return a TinyLM trained on the teacher's demonstrations, on the CPU, always the same way."""
    from tqdm import tqdm  # type: ignore[import-untyped]

    rng = random.Random(RECIPE["seed"])
    with torch.random.fork_rng(devices=[]):  # the caller's random numbers stay as they were
        torch.manual_seed(RECIPE["seed"])
        model = TinyLM(**MODEL)
        opt = torch.optim.Adam(model.parameters(), lr=RECIPE["lr"], betas=(0.9, 0.98), fused=True)
        for step in tqdm(range(RECIPE["steps"]), "SFT", leave=False, mininterval=1, ascii=True):
            left = (1 - step / RECIPE["steps"]) / (1 - RECIPE["hold"])  # below 1 at the end
            opt.param_groups[0]["lr"] = RECIPE["lr"] * min(1, (step + 1) / RECIPE["warmup"], left)
            out = _rows(rng.choices(TRAIN_PAIRS, k=RECIPE["batch"]), rng)
            loss = -sequence_logprobs(model, out).sum() / out["mask"].sum()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
    return model


def _fingerprint() -> str:
    """Return a hash of all that decides what the SFT model becomes."""
    recipe = [MODEL, RECIPE, CHARS, BUDGET, EVAL_PAIRS, demonstration(37, 48, random.Random(0))]
    return sha256(json.dumps(recipe).encode()).hexdigest()[:16]


def load_or_train_sft(path: str | os.PathLike | None = None) -> TinyLM:
    """Return the SFT model, on the CPU: from the file at path, else trained and saved there.

    None is SFT_PATH. A file that cannot be used is named in a warning and replaced; two
    processes that ask at once train once; where nothing can be written a warning says so.
    """
    path = Path(SFT_PATH if path is None else path)
    if (model := _load(path)) is not None:
        return model
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(OSError, NotImplementedError):  # a read-only folder
            stack.enter_context(FileLock(f"{path}.lock", timeout=300))
        if (model := _load(path)) is None:  # another process may have trained it meanwhile
            model = train_sft()
            saved = {"fingerprint": _fingerprint(), "model": model.state_dict()}
            try:
                tinylm.write_file(path, lambda file: torch.save(saved, file))
            except OSError as error:
                warnings.warn(f"the SFT model is not kept: {error}", stacklevel=2)
    return model


def _load(path: Path) -> TinyLM | None:
    """Return the model saved at path, or None; a file that is there but not ours is named."""
    if not os.path.exists(path):
        return None
    try:
        saved = torch.load(path, map_location="cpu", weights_only=True)
        if saved["fingerprint"] != _fingerprint():
            raise ValueError("made by another version of longtask.py")
        with torch.random.fork_rng(devices=[]):
            model = TinyLM(**MODEL)
        model.load_state_dict(saved["model"])
        return model
    except Exception as error:  # whatever is wrong with a cache, training again mends it
        why = f"{type(error).__name__}: {error}".splitlines()[0][:100]
        warnings.warn(f"{path} cannot be used ({why}); training the SFT model again", stacklevel=3)
        return None


# ============================================================== the task with another reward


def with_reward(function: Callable[[str, str], float]) -> types.ModuleType:
    """Return this task as a backend for load_lab whose reward is another function.

    accuracy still counts what is truly right: with reward_anywhere the two part ways.
    """
    backend = types.ModuleType(f"{__name__}.{function.__name__}", __doc__)
    backend.__dict__.update({name: globals()[name] for name in __all__})
    backend.__dict__["reward"] = function
    return backend


def main() -> None:
    """Print some responses of the SFT model, and what is counted of 500."""
    model = load_or_train_sft()
    out, responses, answers = evaluation(model)
    for problem, said in list(zip(EVAL_PAIRS, responses))[:8]:
        print(f"{problem[0]}+{problem[1]}={said}")
    lengths = out["mask"].sum(1)
    right = torch.tensor([reward(r, a) for r, a in zip(responses, answers)])
    print(f"sampled accuracy {right.mean():.3f}, greedy {accuracy(model, greedy=True):.3f}")
    print(f"tokens: right {lengths[right > 0].mean():.1f}, wrong {lengths[right == 0].mean():.1f}")
    counted = Counter(map(style, responses))
    print("styles: " + ", ".join(f"{k} {counted[k]}" for k in [*STYLES, "other"]))


if __name__ == "__main__":
    piped(main)
