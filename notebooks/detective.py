"""Six runs, six bugs: which run was trained with which line?

    python -m notebooks.detective --list             the bugs A to F, a line of code each
    python -m notebooks.detective 1=C 2=A ...        is it right? (all six)
    python -m notebooks.detective                    asks for the letters one by one

The runs 1 to 6 are the columns of notebooks/figures/detective.png. A wrong pair gets a hint at
what to look at, never the answer; the right pairs are kept as salted hashes alone.
"""

import argparse
import hashlib
import sys

from lab15_run import piped

# Letter -> (line of solutions/lab15_grpo.py as it is, the line in its place).
BUGS = {
    "A": (
        "entropy = token_entropy(policy, out)",
        "entropy = token_entropy(ref, out)",
    ),
    "B": (
        "answers = [answer for answer in answers for _ in range(G)]",
        "answers = [answer for _ in range(G) for answer in answers]",
    ),
    "C": (
        "old_logp, ref_logp = sequence_logprobs(policy, out), sequence_logprobs(ref, out)",
        "old_logp, ref_logp = sequence_logprobs(policy, out), sequence_logprobs(policy, out)",
    ),
    "D": (
        "adv = groups - groups.mean(dim=1, keepdim=True)",
        "adv = groups",
    ),
    "E": (
        "out = sample(model, prompts, temperature=temperature)",
        "out = sample(model, prompts, greedy=True)",
    ),
    "F": (
        "rho = torch.exp(logp - old_logp)",
        "rho = torch.exp(logp - logp.detach())",
    ),
}
NUMBERS = range(1, len(BUGS) + 1)
SALT = "679a6c41a6386335"
PAIRS = {
    "06b81653c77d8552", "0f30407f2d90264a", "4e1cdae2b6934429",
    "51ed51af990571f4", "7c004abc23296d66", "9578ed8112bf617a",
}
HINTS = {
    1: "the clip_frac row, and that it is so in every iteration. When is a token clipped at all?",
    2: "the KL row; the accuracy moves, so the policy does. Between which two models is this KL?",
    3: "the zero-signal row from the first iteration on. When do all the rewards of a group agree?",
    4: "the entropy beside the accuracy. Whose entropy stays so high while the samples get sure?",
    5: "the reward beside the accuracy. What would make the same samples score so differently?",
    6: "the size of the loss. Which factor of the objective is so large, and in which groups?",
}


def digest(number, letter):
    """Return the entry of PAIRS if run `number` has the bug `letter`."""
    return hashlib.sha256(f"{SALT} {number}={letter}".encode()).hexdigest()[:16]


def name_of(number):
    """Return what the results of a run are called; it does not name the bug."""
    return f"detective_{number}"


def runs():
    """Yield (the settings by which a run's results are known again, its bug) of all six."""
    for letter, pair in BUGS.items():
        number = next(n for n in NUMBERS if digest(n, letter) in PAIRS)
        check = hashlib.sha256(f"{SALT} {number} {pair}".encode()).hexdigest()[:16]
        yield {"name": name_of(number), "changes": {}, "check": check}, pair


def listing():
    """Return the bugs as lines of text."""
    lines = ["One line of the solution was replaced. Figure: notebooks/figures/detective.png", ""]
    for letter, (old, new) in BUGS.items():
        lines += [f"{letter}  - {old}", f"   + {new}", ""]
    return "\n".join(lines)


def parse(words):
    """Return dict number -> letter from words such as 1=C.

    Raises:
        ValueError: something is unknown, twice there, or missing; the message is one line.
    """
    example = "give all six, such as " + " ".join(f"{n}={c}" for n, c in zip(NUMBERS, BUGS))
    found = {}
    for word in words:
        number, _, letter = word.strip(",;").upper().partition("=")
        if number not in map(str, NUMBERS):
            raise ValueError(f"{word}: there is no run {number or 'without a number'}; {example}")
        if letter not in BUGS:
            raise ValueError(f"{word}: there is no bug {letter or 'without a letter'}; {example}")
        if int(number) in found:
            raise ValueError(f"run {number} is there twice; {example}")
        if letter in found.values():
            raise ValueError(f"bug {letter} is there twice, and every bug has one run; {example}")
        found[int(number)] = letter
    if missing := [str(n) for n in NUMBERS if n not in found]:
        raise ValueError(f"run {', '.join(missing)} missing; {example}")
    return found


def verdicts(answer):
    """Return one line per pair of the dict number -> letter, and one that sums up."""
    lines, right = [], 0
    for number, letter in sorted(answer.items()):
        ok = digest(number, letter) in PAIRS
        right += ok
        lines.append(f"{number}={letter}  right" if ok else
                     f"{number}={letter}  wrong. Run {number}: look at {HINTS[number]}")
    end = "all six are right" if right == len(BUGS) else f"{right} of {len(BUGS)} are right"
    return [*lines, end]


def ask():
    """Return the words that a person types at the terminal."""
    print(listing())
    words = []
    for number in NUMBERS:
        letter = input(f"bug of run {number} (A to F): ").strip()
        words.append(f"{number}={letter}")
    return words


def main(argv=None):
    """Say which of the pairs are right."""
    parser = argparse.ArgumentParser(prog="python -m notebooks.detective", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pairs", nargs="*", metavar="RUN=BUG", help="all six, such as 1=C")
    parser.add_argument("--list", action="store_true", help="print the bugs and stop")
    flags = parser.parse_args(argv)
    if flags.list:
        print(listing())
        return 0
    try:
        asked = not flags.pairs and sys.stdin is not None and sys.stdin.isatty()
        answer = parse(ask() if asked else flags.pairs)
    except ValueError as error:
        sys.exit(str(error))
    except (KeyboardInterrupt, EOFError):
        print()
        return 0
    lines = verdicts(answer)
    print("\n".join(lines))
    return 0 if lines[-1].startswith("all") else 1


if __name__ == "__main__":
    sys.exit(piped(main))
