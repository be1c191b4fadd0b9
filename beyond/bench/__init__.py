"""Measurements: python -m beyond.bench.NAME.

What is kept of them lies in bench/results:

    losses    what a call of each loss costs
    answers   how many answers are read in a second
    common    clock, runner and writer that these share
    step      what one grpo_step costs, and where the time goes
    sft       recipes for the SFT model
    parallel  tokens a second of 1 and 2 processes
    hf        ours next to TRL and forge-rl
"""
