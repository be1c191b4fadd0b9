"""Measurements: python -m beyond.bench.NAME.

--save writes the results to bench/results.

    losses    the cost of one call of each loss
    answers   answers read per second
    common    the clock, runner and writer shared by the others
    step      the cost of one grpo_step, and where the time goes
    sft       recipes for the SFT model
    parallel  tokens per second with 1 and 2 processes
    hf        our trainer next to those of TRL and forge-rl
"""
