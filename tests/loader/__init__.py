"""The parts of labfile.py; they need only the standard library.

Read in this order:

    surroundings  what a lab file sees while it is loaded, and what is kept from it
    limits        a time limit for student code
    settings      process-wide switches that student code may have changed
    errors        explain an exception of Python or PyTorch in one sentence
    shadows       find files that hide one of Python's own modules
"""
