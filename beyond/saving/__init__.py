"""What a training run leaves behind; python -m beyond.plot draws it.

To be read in this order:

    folder       the folder of one run: nothing in it is overwritten, two runs never share it
    record       run.yaml, all that a run was made of, and what a resume compares with it
    logs         a line on the console, JSONL, and other tools' formats
    checkpoints  whole or not there, and enough for a resume to the bit
"""
