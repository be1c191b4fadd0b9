"""What labfile.py is made of; with the standard library alone.

To be read in this order:

    surroundings  what a lab file finds around it, and what it must not reach for
    limits        a time limit for student code
    settings      what a student's code may switch for the whole process
    errors        what an exception of Python or PyTorch means, in a sentence
    shadows       files that hide a module of Python's
"""
