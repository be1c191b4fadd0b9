"""A student's five functions on the page's batches: their numbers beside the right ones.

The right numbers were recorded with data/batches.json; no solution is needed here. Each task is
judged alone, as in tests/: what it calls is the right thing, whatever the student's other tasks
do. What is equal here is equal on these batches; the tests ask for more.
"""

import contextlib
import copy
import linecache
import math
from pathlib import Path
from types import SimpleNamespace

import torch

import lab15_run
import tinylm
from lab15_run import counted
from notebooks.explore import weights
from tests.labfile import (
    TASKS,
    ascii_line,
    error_text,
    lab_frames,
    load_lab,
    no_lab_file,
    problem_line,
    task_state,
)
from tests.loader import settings, shadows
from tests.loader.limits import SECONDS, OutOfTime, TimeLimit
from tests.loader.surroundings import itself, quiet, tamed
from tests.spec import oracle
from tests.spec.standin import stand_in

ARGUMENTS = ("logp", "old_logp", "ref_logp", "adv", "mask")  # of Task 4, in order
AFTER = "after the call, which must not change it"
ATOL = RTOL = 1e-4  # of the tests: float32 and another order of sums stay far below


class Unusable(Exception):
    """A result that cannot be compared with numbers; the message says what it is."""


# ============================================================== comparing


def numbers(value, right, what):
    """Return a result as numbers in the shape of the right ones.

    Args:
        value: what the student's function returned.
        right: a number, or nested lists of numbers.
        what: its name in a message.

    Raises:
        Unusable: it is no number or tensor, or of another shape.
    """
    shape = shape_of(right)
    if torch.is_tensor(value):
        if tuple(value.shape) != shape:
            raise Unusable(f"{what} is a tensor of shape {tuple(value.shape)}, not {shape}")
        return [*value.detach().double().tolist()] if shape else float(value.detach())
    if not shape and isinstance(value, (int, float)):
        return float(value)
    wanted = f"a tensor of shape {shape}" if shape else "a number"
    raise Unusable(f"{what} is {lab15_run.kind_of(value)}, not {wanted}")


def shape_of(values):
    """Return the shape of nested lists as a tuple; () for a number."""
    return (len(values), *shape_of(values[0])) if isinstance(values, list) else ()


def near(a, b):
    """Return whether two numbers agree; NaN agrees with nothing."""
    return math.isfinite(a) and abs(a - b) <= ATOL + RTOL * abs(b)


def first_difference(yours, right):
    """Return the first place (a tuple of indices) where nested lists differ, or None."""
    if not isinstance(right, list):
        same = near(yours, right) if isinstance(right, (int, float)) else yours == right
        return None if same else ()
    for i, (a, b) in enumerate(zip(yours, right)):
        if (found := first_difference(a, b)) is not None:
            return (i, *found)
    return None


def at(values, place):
    """Return the entry of nested lists at a tuple of indices."""
    for i in place:
        values = values[i]
    return values


def written(values):
    """Return numbers for JSON: NaN and infinity, which it lacks, as words; six digits."""
    if isinstance(values, list):
        return [written(v) for v in values]
    if isinstance(values, float):
        return float(f"{values:.6g}") if math.isfinite(values) else str(values)
    return values


def check(what, value, right, batch=None, where=("response", "token")):
    """Return the entry of one comparison: what the page needs to show it.

    Args:
        what: the quantity in words.
        value: the student's result, anything.
        right: a number, text, or nested lists of them.
        batch: the batch's name in batches.json.
        where: what the indices count.
    """
    entry = {"what": what, "batch": batch, "right": written(right)}
    try:
        plain = isinstance(value, (list, str))
        yours = value if plain else numbers(value, right, what)
    except Unusable as error:
        return entry | {"yours": None, "equal": False, "first": None, "says": f"{error}."}
    place = first_difference(yours, right)
    entry |= {"yours": written(yours), "equal": place is None, "first": None}
    if place is None:
        return entry | {"says": f"{what}: equal."}
    named = ", ".join(f"{word} {i}" for word, i in zip(where, place))
    a, b = written(at(yours, place)), written(at(right, place))
    entry["first"] = {"at": list(place), "yours": a, "right": b}
    return entry | {"says": f"{what}{' of ' + named if named else ''}: yours {a}, right {b}."}


# ============================================================== calling


@contextlib.contextmanager
def guarded(lab, limit):
    """Run code of a student's file: without output, in time, with everything put back."""
    with quiet(), tamed(), itself(lab), settings.random_states(), settings.kept():
        with TimeLimit(limit, lab.__file__):
            yield


def failure(lab, error):
    """Return the state of a task whose function raised: kind and a line that names the place."""
    if isinstance(error, OutOfTime):
        text = f"{error} ({Path(lab.__file__).name} line {error.line})"
        return {"state": "timeout", "line": error.line, "text": ascii_line(text, 300)}
    frames = lab_frames(error, lab.__file__)
    text, line = ascii_line(error_text(error), 200), None
    if frames:
        line = frames[-1][1]
        code = ascii_line(linecache.getline(lab.__file__, line), 90)
        text += f" ({Path(lab.__file__).name} line {line}: {code})"
    return {"state": "raises", "line": line, "text": text}


# ============================================================== the tasks
# Each returns the list of its checks; an exception in the student's function passes through.


def models_of(page):
    """Return a function that gives a new TinyLM after so many iterations of the kept run."""
    kept = dict(zip(page["iterations"], page["models"]))
    return lambda iteration: weights.model_of(kept[iteration])


def check_group(lab, page, call):
    """Task 1: the rows belong to the prompts they should, and so do responses and rewards."""
    found = []
    asked = page["batches"]["group"]
    prompts, G = asked["prompts"], asked["G"]
    answers = [str(sum(map(int, p[:-1].split("+")))) for p in prompts]
    rows = [p for p in prompts for _ in range(G)]
    wanted = [a for a in answers for _ in range(G)]
    for temperature, name in ((asked["temperature"], "T = 1"), (0.02, "T = 0.02 (almost greedy)")):
        model = models_of(page)(page["iterations"][0])  # the one that errs most

        def sampled(model=model, temperature=temperature):
            torch.manual_seed(asked["seed"])
            return lab.sample_group(model, list(prompts), list(answers), G, temperature)

        result = call(sampled)
        wrong = lab15_run.wrong_group(result, {"prompts": prompts, "G": G})
        if wrong:
            return [*found, {"what": f"the group at {name}", "batch": "group", "yours": None,
                             "right": None, "equal": False, "first": None,
                             "says": ascii_line(f"It returned {wrong}.", 300)}]
        out, given = result["out"], list(map(str, result["responses"]))
        said = tinylm.decode_responses(out)
        read = ["".join((*tinylm.CHARS, "", "")[i] for i in row[: out["prompt_len"]])
                for row in out["ids"].tolist()]
        right = [tinylm.reward(text, answer) for text, answer in zip(said, wanted)]
        row = ("row",)
        tokens = out["ids"][:, out["prompt_len"]:]
        ends = (tokens == tinylm.END).long()
        real = ((ends.cumsum(1) - ends) == 0).float()  # up to and including the first END
        found += [check(f"prompt at {name}", read, rows, "group", row),
                  check(f"mask at {name}", out["mask"], real.tolist(), "group", ("row", "token")),
                  check(f"response at {name}", given, said, "group", row),
                  check(f"reward at {name}", result["rewards"], right, "group", row)]
        if temperature < 1:
            best = tinylm.decode_responses(tinylm.sample(model, rows, greedy=True))
            found.append(check(f"likeliest response at {name}", said, best, "group", row))
    return found


def check_advantages(lab, page, call):
    """Task 2: also with the defaults, with another eps, and without a change of the rewards."""
    found = []
    for i, given in enumerate(page["batches"]["advantages"]):
        rewards = torch.tensor(given["rewards"], dtype=torch.float32)
        G, scale = given["G"], given["scale_std"]
        how = "with" if scale else "without"
        ways = [(f"{how} the std", (scale,), given["right"])]
        if i == 0:
            other = oracle.advantages(given["rewards"], G, scale, 0.5)
            ways += [("with the defaults", (), given["right"]), ("eps = 0.5", (scale, 0.5), other)]
        for way, given_settings, right in ways:
            result = call(lambda r=rewards, G=G, s=given_settings: lab.group_advantages(r, G, *s))
            what = f"advantage ({counted(len(rewards), 'reward')}, G = {G}, {way})"
            found.append(check(what, result, right, i, ("response",)))
        found.append(check(f"rewards {AFTER}", rewards, given["rewards"], i, ("response",)))
    return found


def tensors(given):
    """Return the tensors of a batch that Task 3 and 4 take, by name."""
    return {name: torch.tensor(given[name]) for name in ARGUMENTS}


def untouched(arguments, given, batch):
    """Return the checks that a function has left its arguments as they were.

    Args:
        arguments: name -> tensor, after the call.
        given: name -> the numbers before.
        batch: as for `check`.
    """
    return [check(f"{name} {AFTER}", value, given[name], batch)
            for name, value in arguments.items()]


def slopes(value, logp):
    """Return the gradient of a result's sum to logp; 0 where none flows."""
    if torch.is_tensor(value) and value.requires_grad and logp.requires_grad:
        found = torch.autograd.grad(value.sum(), logp, allow_unused=True)[0]
        if found is not None:
            return found
    return torch.zeros_like(logp)


def check_k3(lab, page, call):
    """Task 3: the value, and the slope along logp."""
    found = []
    for name, given in page["batches"]["loss"].items():
        x = tensors(given)
        x["logp"].requires_grad_()

        def done(x=x):
            value = lab.k3_kl(x["logp"], x["ref_logp"])
            return value, slopes(value, x["logp"])

        value, slope = call(done)
        if torch.is_tensor(value) and value.shape == x["mask"].shape:
            value = torch.where(x["mask"] > 0, value, 0.0)
        found.append(check("k3", value, given["right"]["k3"], name))
        right = oracle.k3_gradient(given["logp"], given["ref_logp"])
        found.append(check("slope of k3", slope, right, name))
        found += untouched({key: x[key] for key in ("logp", "ref_logp")}, given, name)
    return found


def loss_cases(page):
    """Return (batch, words, clip_eps and beta, what is right) of every call of Task 4."""
    kept = page["batches"]["loss"]
    cases = [(name, "", (given["right"]["clip_eps"], given["right"]["beta"]), given["right"])
             for name, given in kept.items()]
    first, given = next(iter(kept.items()))
    cases.append((first, " with the defaults", (), given["right"]))
    lists = [given[key] for key in ARGUMENTS]
    for given_settings in ((0.05, 0.04), (0.2, 0.5)):
        words = " at clip_eps = {}, beta = {}".format(*given_settings)
        right = {name: compute(*lists, *given_settings) for name, compute in
                 (("gradient", oracle.loss_gradient), ("loss", oracle.loss),
                  ("stats", oracle.stats))}
        cases.append((first, words, given_settings, right))
    return cases


def check_loss(lab, page, call):
    """Task 4: the loss, its statistics, and its gradient to every token."""
    found = []
    for name, words, given_settings, right in loss_cases(page):
        given = page["batches"]["loss"][name]
        x = tensors(given)
        x["logp"].requires_grad_()

        def done(x=x, given_settings=given_settings):
            with stand_in(lab, k3_kl=lambda a, b: torch.expm1(b - a) - (b - a)):
                loss, stats = lab.grpo_loss(*x.values(), *given_settings)
            return loss, stats, slopes(loss, x["logp"])

        loss, stats, grad = call(done)
        reported = as_dict(stats)
        found.append(check(f"gradient{words}", grad, right["gradient"], name))
        found.append(check(f"loss{words}", loss, right["loss"], name))
        found += [check(f"{key}{words}", reported.get(key), value, name)
                  for key, value in right["stats"].items()]
        if not words:
            found += untouched(x, given, name)
    return found


def as_dict(stats):
    """Return the statistics that a function returned, {} where they are no dict."""
    return stats if isinstance(stats, dict) else {}


def right_loss(logp, old_logp, ref_logp, adv, mask, clip_eps=0.2, beta=0.04):
    """Stand in for grpo_loss: the value and the gradient that the specification gives."""
    given = [x.detach().double().tolist() for x in (logp, old_logp, ref_logp, adv, mask)]
    slope = torch.tensor(oracle.loss_gradient(*given, clip_eps, beta), dtype=logp.dtype)
    value = oracle.loss(*given, clip_eps, beta)
    return value + ((logp - logp.detach()) * slope).sum(), oracle.stats(*given, clip_eps, beta)


def check_step(lab, page, call):
    """Task 5: what the step reports, and the log-probs of the same tokens after it."""
    asked = page["batches"]["step"]
    policy, ref = (models_of(page)(i) for i in (asked["iteration"], page["iterations"][0]))
    ref.requires_grad_(False)
    groups = group_of(asked)
    cfg = SimpleNamespace(**asked["config"])
    optimizer = torch.optim.SGD(policy.parameters(), lr=cfg.lr)
    given = copy.deepcopy(groups)

    def advantages(rewards, G, scale_std=True, eps=1e-4):
        return torch.tensor(oracle.advantages(rewards.tolist(), G, scale_std, eps))

    entropies = []  # at any moment of the iteration is right, and so is their mean

    def loss(*args):
        entropies.append(entropy_of(policy, groups["out"]))
        return right_loss(*args)

    def done():
        prompts = asked["prompts"]
        with stand_in(lab, sample_group=lambda *args: given, group_advantages=advantages,
                      grpo_loss=loss):
            return lab.grpo_step(policy, ref, optimizer, list(prompts), answers_of(prompts), cfg)

    stats = call(done)
    with torch.no_grad():
        after = tinylm.sequence_logprobs(policy, groups["out"])
    reported, right = as_dict(stats), copy.deepcopy(asked["right"])
    entropies += [lab15_run.mean(entropies or [0.0]), entropy_of(policy, groups["out"])]
    if any(lab15_run.is_number(reported.get("entropy")) and near(reported["entropy"], e)
           for e in entropies):
        right["stats"]["entropy"] = reported["entropy"]
    return [check("logp after the step", after, right["logp"], "step"),
            *(check(key, reported.get(key), value, "step")
              for key, value in right["stats"].items())]


@torch.no_grad()
def entropy_of(model, out):
    """Return the mean entropy of the next token at the response positions, as token_entropy."""
    logits = model(out["ids"][:, :-1])[:, out["prompt_len"] - 1:]
    entropy = torch.distributions.Categorical(logits=logits).entropy()
    return float((entropy * out["mask"]).sum() / out["mask"].sum())


def answers_of(prompts):
    """Return the answers to prompts such as "37+48="."""
    return [str(sum(map(int, p[:-1].split("+")))) for p in prompts]


def group_of(asked):
    """Return what sample_group returns, of prompts and responses that are kept as ids."""
    prompts = [p for p in asked["prompts"] for _ in range(asked["G"])]
    T = max(map(len, asked["responses"]))
    tokens = torch.tensor([row + [tinylm.PAD] * (T - len(row)) for row in asked["responses"]])
    ids = tinylm.encode(prompts)
    out = {"ids": torch.cat([ids, tokens], 1), "prompt_len": ids.shape[1],
           "mask": (tokens != tinylm.PAD).float()}
    said = tinylm.decode_responses(out)
    wanted = [a for a in answers_of(asked["prompts"]) for _ in range(asked["G"])]
    rewards = [tinylm.reward(text, answer) for text, answer in zip(said, wanted)]
    return {"out": out, "responses": said, "rewards": torch.tensor(rewards)}


CHECKS = {1: check_group, 2: check_advantages, 3: check_k3, 4: check_loss, 5: check_step}


# ============================================================== the file


def judged(lab, number, page, limit):
    """Return what the page shows of one task; see `mine`."""
    task = TASKS[number]
    about = {"name": task.name, "test": lab15_run.test_command(number, vars(lab)), "checks": []}
    state = task_state(lab, number)
    if state.kind != "written":
        return about | {"state": state.kind, "text": ascii_line(state.text, 300)}

    def call(function):
        with guarded(lab, limit):
            return function()

    try:
        checks = CHECKS[number](lab, page, call)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # SystemExit and OutOfTime as well
        return about | failure(lab, error)
    wrong = [c for c in checks if not c["equal"]]
    text = wrong[0]["says"] if wrong else f"equal in all {len(checks)} comparisons"
    return about | {"state": "differs" if wrong else "equal", "text": ascii_line(text, 300),
                    "checks": checks}


def mine(path, page, limit=SECONDS):
    """Return a student's results for the page.

    Args:
        path: the lab file.
        page: a dict with batches, iterations and models (float32 arrays), as build.py reads them.
        limit: seconds that loading, and each call of a function, may take.

    Returns a dict:
        "file": its name.
        "problems": lines about what could not be loaded.
        "tasks": number -> dict: name, state (unwritten, missing, broken, raises, timeout, equal,
            differs), text (one line about it), test (the command that runs its tests), and checks,
            a list of dicts as `check` returns.

    Raises:
        ValueError: the file is no lab file; one line that says why.
    """
    if line := no_lab_file(path) or shadows.complaint(path):
        raise ValueError(ascii_line(line, 500))
    lab = load_lab(path, limit=limit)
    tasks = {str(n): judged(lab, n, page, limit) for n in TASKS}
    return {"file": Path(path).name, "tasks": tasks,
            "problems": [ascii_line(problem_line(lab, p), 300) for p in lab.__problems__]}
