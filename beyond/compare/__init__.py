"""TinyLM trained with many losses, the same seeds and batches: python -m beyond.compare.

To be read in this order:

    __main__  the command: its flags, and what it prints and keeps
    tasks     what is trained on, and the standard set of variants of each task
    run       one run, saved at every evaluation
    pool      many runs at once, a process each
    stats     differences to grpo, intervals, tests, the papers' claims
    tables    all of that as text
    figures   and as figures
"""
