"""Train TinyLM with many losses on the same seeds and batches: python -m beyond.compare.

Read in this order:

    __main__  the command: its flags, what it prints, what it saves
    tasks     the tasks to train on, each with its standard set of variants
    run       one run, saved at every evaluation
    pool      many runs at once, each in its own process
    stats     differences from grpo, intervals, tests, the papers' claims
    tables    the statistics as text
    figures   the statistics as figures
"""
