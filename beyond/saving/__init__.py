"""What a training run leaves behind; python -m beyond.plot draws it.

Read in this order:

    folder       the folder of a run: nothing in it is overwritten, no two runs share it
    record       run.yaml: everything that defines a run, and what a resume compares with it
    logs         lines on the console, JSONL, other tools' formats
    checkpoints  written atomically; a resumed run repeats the original bit for bit
"""
