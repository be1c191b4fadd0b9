"""Tasks for a real model: problems, reading answers, rewards.

Read in this order:

    data          problems: word problems, sums, any JSONL
    answers       find the answer in a response, and decide when two answers are equal
    reader        parse a complete answer: numbers, lists, units
    words         the words and units that the reader knows
    math_helper   math-verify in its own process, with a time limit
    rewards       ready-made rewards
    reward_calls  the signatures that a reward of your own may have, and how it is called
    reward_limit  a time limit for rewards
"""
