"""What a message says about the known mistakes of Task 1."""

TEXTS = {
    "not_called": "tinylm.sample was never called; the responses have to come from it.",
    "many_calls": (
        "sample was called more than once. Every call pads to its own lengths, so its ids do not "
        "fit beside those of another call: call it once, with all P*G prompts."
    ),
    "not_repeated": (
        "every prompt was sampled only once. The G responses of a group are G separate samples, "
        "so sample has to see each prompt G times."
    ),
    "prompts_tiled": (
        "this is the order a b c a b c ...: the whole list of prompts repeated. Rows of one group "
        "have to stand next to each other: a a ... b b ... c c ..."
    ),
    "string_repeated": (
        "prompt * G repeats the characters of one string; what has to be repeated is the prompt "
        "as an item of the list."
    ),
    "wrong_count": "every prompt was sampled equally often, but not G times.",
    "duplicates": (
        "a prompt that appears in the list twice got only one group of G responses; every entry "
        "of the list has a group of its own."
    ),
    "other_order": "these are the right prompts, but not in the order that the docstring asks for.",
    "keys": "the docstring names the keys of the dict: out, responses, rewards.",
    "out_changed": "under out must be the dict that sample returned, unchanged and whole.",
    "inference_mode": (
        "tensors made under torch.inference_mode cannot take part in backward, and Task 5 needs "
        "the ids and the mask there. sample already works without gradients."
    ),
    "prompt_in_response": "the prompt is part of the responses; only what follows it is one.",
    "one_sample_copied": (
        "all responses of a group are copies of its first one; a group needs G separate samples."
    ),
    "answers_tiled": (
        "these are the rewards with the answers in the order a b c a b c ...; an answer must "
        "be in the same row as the responses to its own prompt: a a ... b b ... c c ..."
    ),
    "answers_not_repeated": (
        "only the first P rows are scored: the answers were not repeated G times, and zip stops "
        "at the end of the shorter list."
    ),
    "responses_changed": (
        "these are not the texts that decode_responses gives: something was cut off, added or "
        "replaced. Return them as they are."
    ),
    "responses_nested": (
        "the responses are still in groups; the docstring promises one flat list of P*G strings."
    ),
    "answers_by_P": (
        "the answer of a row was looked up in blocks of P rows; a block, that is a group, has G."
    ),
    "answers_reversed": "the answers are in reverse order; the responses are not.",
    "contains": (
        "a longer response with the answer in it (such as 185 for 85, or 100 for 10) got the "
        "reward; tinylm.reward wants exactly the answer."
    ),
    "as_numbers": (
        "response and answer were compared as numbers (085 and 85 are equal then); tinylm.reward "
        "compares the strings."
    ),
    "own_reward": (
        "tinylm.reward was replaced for this test, and your rewards did not follow: score every "
        "row with tinylm.reward, not with a comparison of your own."
    ),
    "reward_swapped": (
        "tinylm.reward was called with the answer first; its order is (response, answer)."
    ),
    "minus_one": "wrong responses got -1; the rewards are 1.0 or 0.0, as tinylm.reward gives them.",
    "reward_inverted": "the rewards are upside down: wrong responses got 1.0.",
    "rewards_list": "the rewards are a list; the docstring promises a float tensor.",
    "rewards_dtype": "the rewards must be a float32 tensor.",
    "rewards_2d": "the rewards are one flat row of P*G numbers; do not reshape them here.",
    "temperature": "the temperature that sample_group was given did not reach sample.",
    "rewards_scaled": (
        "there are rewards other than 0 and 1: return what tinylm.reward gives, not centred, "
        "normalised or weighted (that is for Task 2)."
    ),
    "temperature_other": (
        "sample got a temperature that is neither the one of the call nor the default: what is "
        "passed in its place?"
    ),
    "temperature_inverted": "sample got 1 / temperature; it divides the logits by it itself.",
    "greedy": "greedy=True takes the likeliest token: all G responses of a group are the same.",
    "max_new_tokens": "sample was called with a max_new_tokens other than its default.",
    "model": "sample was called with a model other than the one that was given.",
    "lists_changed": "the caller's lists were changed in place; build new lists instead.",
    "model_changed": "the weights of the model were changed; sampling leaves them as they are.",
    "eval_mode": "the model came in training mode and was left in eval mode.",
    "grad_off": "gradients were switched off for the whole program and never switched on again.",
    "seed": (
        "the state of the global random generator was set inside the function, so every "
        "iteration would draw the same samples. The caller seeds, once."
    ),
    "same_samples": (
        "two calls gave the same samples: is a generator with a fixed seed passed to sample?"
    ),
}
