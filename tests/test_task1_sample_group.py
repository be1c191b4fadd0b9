"""Task 1: sample_group. `tinylm.sample` is replaced by a script, so every response is known."""

from types import SimpleNamespace

import pytest
import torch

import tinylm

from .messages.explain import cause, compare, fail, show
from .spec.standin import attempt, stand_in

# The prompts differ in length, P differs from G, and among the responses are some that a looser
# comparison than tinylm.reward would let pass ("185" and "085" for "85", "+3" for "3").
PROMPTS = ["37+48=", "5+5=", "1+2="]
ANSWERS = ["85", "10", "3"]
G = 4
SCRIPT = {
    "37+48=": ["185", "85", "085", "8"],
    "5+5=": ["1", "10", "10", "100"],
    "1+2=": ["33", "3", "+3", "3"],
}
RESPONSES = [text for prompt in PROMPTS for text in SCRIPT[prompt]]


def call_text(prompts=PROMPTS, answers=ANSWERS, size=G):
    """Return the call of sample_group as the messages show it."""
    return f"sample_group(model, prompts={prompts}, answers={answers}, G={size})"


CALL = call_text()


def scripted_sample(model, prompts, *others):
    """Stand in for tinylm.sample: the k-th copy of a prompt gets the k-th text of its script."""
    ids = tinylm.encode(prompts)  # rejects what the real one rejects
    copies, rows = {}, []
    for prompt in prompts:
        k = copies[prompt] = copies.get(prompt, -1) + 1
        texts = SCRIPT.get(prompt, ["0"])
        rows.append([tinylm.CHARS.index(c) for c in texts[k % len(texts)]] + [tinylm.END])
    T = max(len(row) for row in rows)
    mask = torch.tensor([[1.0] * len(row) + [0.0] * (T - len(row)) for row in rows])
    new = torch.tensor([row + [tinylm.PAD] * (T - len(row)) for row in rows])
    out = {"ids": torch.cat([ids, new], 1), "prompt_len": ids.shape[1], "mask": mask}
    return out | {"backend": "a key that another backend adds"}


def run(lab, prompts=PROMPTS, answers=ANSWERS, size=G, reward=tinylm.reward, **temperature):
    """Call sample_group with the scripted sample; return its dict and what was recorded.

    An error in the student's code is raised after the calls were looked at: often the calls show
    the cause where the error shows a consequence.
    """
    model, out = tinylm.TinyLM(width=4, layers=1, heads=1), {}

    def sampler(*args):
        result = scripted_sample(*args)
        out.update({k: v.clone() if torch.is_tensor(v) else v for k, v in result.items()})
        return result

    weights = [p.clone() for p in model.parameters()]
    with stand_in(lab, sample=sampler, reward=reward) as seen:
        args = (model, list(prompts), list(answers), size)
        result, error = attempt(lab.sample_group, *args, **temperature)
    call = call_text(prompts, answers, size)
    _check_lists(call, prompts, answers, args)
    for before, now in zip(weights, model.parameters(), strict=True):
        if not torch.equal(before, now):
            fail(f"{call}: the model afterwards", before, now, "task1.model_changed")
    _check_calls(call, seen.sample.calls, prompts, size, error)
    if error:
        raise error
    _check_keys(call, result)
    sampled = seen.sample.calls[0]
    return SimpleNamespace(
        model=model, result=result, sample=sampled, out=out, reward=seen.reward.calls
    )


def _check_lists(call, prompts, answers, args):
    """Fail if the lists that were passed are not as they were."""
    for name, right, got in (("prompts", prompts, args[1]), ("answers", answers, args[2])):
        if got != list(right):
            yours = f"{len(got)} entries: {got}"
            fail(f"{call}: {name} afterwards", str(right), yours, "task1.lists_changed")


def _check_calls(call, calls, prompts, size, error):
    """Fail unless sample was called once, with every prompt `size` times in a row."""
    right = [prompt for prompt in prompts for _ in range(size)]
    seen = [_texts(c.args["prompts"]) for c in calls]
    if seen == [right] or (error and (not seen or seen[-1] is None)):
        return  # the error says it best
    expected = f"one call of sample, {len(right)} prompts: {' '.join(right)}"
    if not calls:
        fail(call, expected, "no call of sample", "task1.not_called")
    if len(calls) > 1:
        sizes = " + ".join(str(len(texts or [])) for texts in seen)
        fail(call, expected, f"{len(calls)} calls of sample, {sizes} prompts", "task1.many_calls")
    yours = f"one call of sample, {len(seen[0])} prompts: {' '.join(map(str, seen[0]))}"
    fail(call, expected, yours, _order_mistake(prompts, size, seen[0]))


def _texts(prompts):
    """Return the prompts as a list, None where they are no sequence of strings."""
    if isinstance(prompts, str) or not hasattr(prompts, "__len__"):
        return None
    texts = list(prompts)
    return texts if all(isinstance(text, str) for text in texts) else None


def _order_mistake(prompts, size, seen):
    """Return the id of the known mistake that gives `seen` to sample."""
    times = max(len(seen or []) // len(prompts), 1)
    known = {
        "task1.not_repeated": prompts,
        "task1.prompts_tiled": prompts * size,
        "task1.string_repeated": [prompt * size for prompt in prompts],
        "task1.wrong_count": [prompt for prompt in prompts for _ in range(times)],
        "task1.duplicates": [prompt for prompt in dict.fromkeys(prompts) for _ in range(size)],
    }
    found = [name for name, value in known.items() if value == seen]
    if not found and seen and sorted(seen) == sorted(prompts * size):
        found = ["task1.other_order"]
    return found[0] if found else None


def _check_keys(call, result):
    """Fail unless the result is a dict with the three keys."""
    expected = "a dict with the keys out, responses, rewards"
    if not isinstance(result, dict):
        mistake = "any.none" if result is None else "any.type"
        fail(call, expected, f"{type(result).__name__}: {str(result)[:60]!a}", mistake)
    if not {"out", "responses", "rewards"} <= set(result):
        fail(call, expected, f"the keys {', '.join(map(str, result))}", "task1.keys")


def _check_rows(call, right, got):
    """Fail with the first row that differs, unless the two lists are equal."""
    if not isinstance(got, list) or len(got) != len(right):
        size = f", {len(got)} rows" if hasattr(got, "__len__") else ""
        fail(call, f"a list, {len(right)} rows", f"{type(got).__name__}{size}")
    for i, (a, b) in enumerate(zip(right, got, strict=True)):
        if a != b:
            fail(call, f"row {i}: {a!a}", f"row {i}: {b!a}")


def _check_rewards(call, right, got, guesses=(), size=G):
    """Fail unless `got` is a float32 tensor that holds the numbers `right`."""
    expected = f"a float32 tensor of shape ({len(right)},)"
    if isinstance(got, (list, tuple)):
        fail(call, expected, f"a {type(got).__name__}: {got}", "task1.rewards_list")
    square = [right[i : i + size] for i in range(0, len(right), size)]
    shapes = [("task1.rewards_2d", square), ("task1.rewards_2d", [[r] for r in right])]
    if isinstance(got, torch.Tensor) and got.dtype != torch.float32:
        fail(call, expected, f"{got.dtype}, shape {tuple(got.shape)}", "task1.rewards_dtype")
    if guesses and cause(right, got, guesses) is None and _other_numbers(got, len(right)):
        guesses = [("task1.rewards_scaled", got)]
    compare(call, right, got, [*guesses, *shapes])


def _other_numbers(got, size):
    """Return whether the rewards have the right form, but entries other than 0 and 1."""
    if not isinstance(got, torch.Tensor) or got.shape != (size,):
        return False
    return not bool((got.isnan() | (got == 0) | (got == 1)).all())


def _pairs():
    """Return the P*G pairs (response, answer) that belong together."""
    return [(text, a) for p, a in zip(PROMPTS, ANSWERS, strict=True) for text in SCRIPT[p]]


def _wrong_rewards(score):
    """Return the rewards of known mistakes where `score` stands for tinylm.reward."""
    pairs = _pairs()
    tiled = [score(*pair) for pair in zip(RESPONSES, ANSWERS * G, strict=True)]
    P = len(ANSWERS)
    blocks = [[i // P % P for i in range(P * G)], [min(i // P, P - 1) for i in range(P * G)]]
    by_P = [[score(RESPONSES[i], ANSWERS[k]) for i, k in enumerate(rows)] for rows in blocks]
    return [
        ("task1.answers_tiled", tiled),
        ("task1.answers_not_repeated", tiled[: len(ANSWERS)]),
        ("task1.reward_swapped", [score(answer, text) for text, answer in pairs]),
        *[("task1.answers_by_P", rewards) for rewards in by_P],
        ("task1.answers_reversed", [score(text, answer) for text, answer in
                                    zip(RESPONSES, [a for a in ANSWERS[::-1] for _ in range(G)])]),
        ("task1.contains", [float(answer in text) for text, answer in pairs]),
        ("task1.contains", [float(text.startswith(answer)) for text, answer in pairs]),
        ("task1.contains", [float(text.endswith(answer)) for text, answer in pairs]),
        ("task1.as_numbers", [float(int(text) == int(answer)) for text, answer in pairs]),
        ("task1.minus_one", [2 * score(*pair) - 1 for pair in pairs]),
        ("task1.reward_inverted", [1 - score(*pair) for pair in pairs]),
    ]


def test_task1_calls_sample_once_with_every_prompt_G_times_in_a_row(lab):
    """Rows 0..G-1 belong to prompt 0, and so on."""
    run(lab)


def test_task1_decodes_the_responses(lab):
    """The responses are P*G strings, in the order of the rows, without the prompt."""
    got = run(lab).result["responses"]
    if isinstance(got, list) and got and all(isinstance(row, (list, tuple)) for row in got):
        kind = f"a list of {len(got)} {type(got[0]).__name__}s: {str(got)[:50]!a}"
        wanted = f"a list of {len(RESPONSES)} strings"
        fail(f"{CALL}: responses", wanted, kind, "task1.responses_nested")
    if not isinstance(got, list) or not all(isinstance(text, str) for text in got):
        kind = f"{type(got).__name__}: {str(got)[:70]!a}"
        fail(f"{CALL}: responses", f"a list of {len(RESPONSES)} strings", kind, "any.type")
    known = {
        "task1.prompt_in_response": [p + text for p in PROMPTS for text in SCRIPT[p]],
        "task1.one_sample_copied": [SCRIPT[p][0] for p in PROMPTS for _ in range(G)],
    }
    if got != RESPONSES:
        names = [name for name, value in known.items() if value == got]
        if not names and len(got) == len(RESPONSES):
            names = ["task1.responses_changed"]
        fail(f"{CALL}: responses", " ".join(RESPONSES), " ".join(got), *names)


def test_task1_scores_every_row_against_its_own_answer(lab):
    """The rewards are 1.0 where the response is exactly the answer of its prompt, else 0.0."""
    # 85 once in the first group, 10 twice in the second, 3 twice in the third
    right = [0, 1, 0, 0, 0, 1, 1, 0, 0, 1, 0, 1]
    result = run(lab).result
    # Where the responses are wrong already, they are the cause.
    guesses = _wrong_rewards(tinylm.reward) if result["responses"] == RESPONSES else []
    _check_rewards(f"{CALL}: rewards", right, result["rewards"], guesses)


def test_task1_scores_with_the_reward_of_tinylm(lab):
    """Another rule instead of tinylm.reward changes the rewards."""

    def longer(response, answer):
        return float(len(response) > len(answer))

    done = run(lab, reward=longer)
    right, got = [longer(*pair) for pair in _pairs()], done.result["rewards"]
    guesses = _wrong_rewards(longer)
    if not done.reward and cause(right, got, guesses) is None:
        guesses = [("task1.own_reward", got)]
    call = f"{CALL}: rewards, with reward(response, answer) = len(response) > len(answer)"
    _check_rewards(call, right, got, guesses)


def _identical(a, b):
    if torch.is_tensor(a) and torch.is_tensor(b):
        return a.dtype == b.dtype and torch.equal(a, b)
    return type(a) is type(b) and a == b


def test_task1_returns_the_dict_of_sample(lab):
    """The value under "out" is what sample returned, so that Task 5 can use it."""
    done = run(lab)
    call, got = f"{CALL}: out", done.result["out"]
    if not isinstance(got, dict):
        fail(call, "the dict that sample returned", f"a {type(got).__name__}", "task1.out_changed")
    for key, value in done.out.items():
        if key not in got:
            fail(call, f"a key {key!r}", f"the keys {', '.join(got)}", "task1.out_changed")
        if not _identical(value, got[key]):
            right, yours = (f"{getattr(x, 'dtype', '')} {show(x)}" for x in (value, got[key]))
            fail(f"{call}[{key!r}]", right, yours, "task1.out_changed")
    if got["mask"].is_inference():
        fail(call, "ordinary tensors", "tensors of torch.inference_mode", "task1.inference_mode")


@pytest.mark.parametrize(
    "named, right", [({"temperature": 0.7}, 0.7), ({"temperature": 1.6}, 1.6), ({}, 1.0)]
)
def test_task1_passes_the_temperature_on(lab, named, right):
    """The temperature reaches sample; without one it is 1.0."""
    args = run(lab, size=3, **named).sample.args
    call = f"{call_text(size=3)[:-1]}, temperature={right}): arguments of sample"
    guesses = [("task1.temperature", 1.0), ("task1.temperature_inverted", 1 / right)]
    if cause(right, args["temperature"], guesses) is None:
        guesses = [("task1.temperature_other", args["temperature"])]
    compare(f"{call}: temperature", right, args["temperature"], guesses)
    if args["greedy"]:
        fail(call, "greedy=False", f"greedy={args['greedy']}", "task1.greedy")
    default = tinylm.MAX_NEW_TOKENS
    if args["max_new_tokens"] != default:
        yours = f"max_new_tokens={args['max_new_tokens']}"
        fail(call, f"max_new_tokens={default}", yours, "task1.max_new_tokens")


@pytest.mark.parametrize("P, size", [(1, 3), (3, 1), (3, 3)])
def test_task1_works_for_other_sizes(lab, P, size):
    """One prompt, groups of one, and P equal to G."""
    prompts, answers = PROMPTS[:P], ANSWERS[:P]
    done = run(lab, prompts, answers, size)
    right = [text for p in prompts for text in SCRIPT[p][:size]]
    call = call_text(prompts, answers, size)
    _check_rows(f"{call}: responses", right, done.result["responses"])
    scores = [float(text == answers[i // size]) for i, text in enumerate(right)]
    _check_rewards(f"{call}: rewards", scores, done.result["rewards"], size=size)


def test_task1_keeps_a_prompt_that_comes_twice(lab):
    """Every place in the list has its own group: make_batch may draw the same problem again."""
    prompts, answers = [PROMPTS[i] for i in (1, 0, 1)], [ANSWERS[i] for i in (1, 0, 1)]
    done = run(lab, prompts, answers)
    right = [text for p in prompts for text in SCRIPT[p]]
    call = call_text(prompts, answers)
    _check_rows(f"{call}: responses", right, done.result["responses"])
    scores = [float(text == answers[i // G]) for i, text in enumerate(right)]
    _check_rewards(f"{call}: rewards", scores, done.result["rewards"])


def test_task1_leaves_model_lists_and_random_state_alone(lab):
    """Nothing that belongs to the caller changes."""
    model = tinylm.TinyLM(width=4, layers=1, heads=1)
    prompts, answers = list(PROMPTS), list(ANSWERS)
    states = []
    with stand_in(lab, sample=scripted_sample) as seen:
        for seed, p, a in ((1, prompts, answers), (2, list(PROMPTS), list(ANSWERS))):
            torch.manual_seed(seed)
            lab.sample_group(model=model, prompts=p, answers=a, G=G, temperature=0.7)
            states.append(torch.get_rng_state())
    if seen.sample.calls and seen.sample.calls[0].args["model"] is not model:
        fail(CALL, "sample gets the model that was given", "another model", "task1.model")
    _check_lists(CALL, PROMPTS, ANSWERS, (model, prompts, answers))
    if not model.training:
        fail(f"{CALL}: afterwards", "model.training True", "False", "task1.eval_mode")
    if not seen.grad:
        fail(f"{CALL}: afterwards", "gradients are recorded", "they are not", "task1.grad_off")
    if torch.equal(*states):  # the seed of before does not count any more
        call = f"torch.manual_seed(1 or 2), {CALL}: random states afterwards"
        fail(call, "two different ones", "twice the same", "task1.seed")


def _babbler():
    """Return a small random model that likes 7 and END: its responses are mostly "", 7, 77."""
    model = tinylm.TinyLM(width=8, layers=1, heads=2)
    with torch.no_grad():
        model.head.bias[tinylm.CHARS.index("7")] += 3
        model.head.bias[tinylm.END] += 3
    return model


def test_task1_with_the_real_sampler(lab):
    """A small random model: ids, responses and rewards belong together, row by row."""
    model, prompts, answers, size = _babbler(), ["37+40=", "3+4="], ["77", "7"], 16
    call = f"sample_group(small random model, prompts={prompts}, answers={answers}, G=16)"
    result = lab.sample_group(model, list(prompts), list(answers), size)
    _check_keys(call, result)
    out, responses = result["out"], result["responses"]
    rows = tinylm.encode([prompt for prompt in prompts for _ in range(size)])
    prompt_ids = out["ids"][:, : out["prompt_len"]]
    _check_rows(f"{call}: prompt ids of out", rows.tolist(), prompt_ids.tolist())
    _check_rows(f"{call}: responses", tinylm.decode_responses(out), responses)
    scores = [float(text == answers[i // size]) for i, text in enumerate(responses)]
    _check_rewards(f"{call}: rewards", scores, result["rewards"], size=size)
    if len(set(responses[:size])) == 1:  # by chance: about 1 in 10**5
        fail(f"{call}: responses of a group", "different samples", str(responses[:size]))


def test_task1_draws_new_samples_at_every_call(lab):
    """Two calls in a row do not give the same samples."""
    model, call = _babbler(), "sample_group(small random model, ['1+2='], ['3'], G=32)"
    with stand_in(lab, sample=tinylm.sample) as seen:
        both = [lab.sample_group(model, ["1+2="], ["3"], 32)["responses"] for _ in range(2)]
    if both[0] == both[1]:
        own = any(c.args["generator"] is not None for c in seen.sample.calls)
        mistake = "task1.same_samples" if own else None
        yours = f"both times {str(both[0][:6])[:-1]}, ...]"
        fail(f"{call}, called twice: responses", "different ones", yours, mistake)
