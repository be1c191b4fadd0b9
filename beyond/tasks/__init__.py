"""What a real model learns from: problems, how an answer is read, what it is worth.

To be read in this order:

    data          problems: word problems, sums, any JSONL
    answers       what an answer is, where it stands, and when two are equal
    reader        a stated answer read as a whole: numbers, lists, units
    words         the words and the units that the reader knows
    math_helper   math-verify in a process of its own, with a time limit
    rewards       rewards that are ready to use
    reward_calls  which forms a reward of your own may have, and how it is called
    reward_limit  the end of a reward that hangs
"""
