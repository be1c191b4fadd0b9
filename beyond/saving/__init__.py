"""What a training run leaves behind; python -m beyond.plot draws it.

To be read in this order:

    logs         a line on the console, JSONL, and other tools' formats
    checkpoints  whole or not there, and enough for a resume to the bit
"""
