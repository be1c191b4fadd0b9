"""What is right, and how it is observed.

To be read in this order:

    oracle       tasks 2 to 4 in plain Python
    oracle_step  task 5 in plain Python
    standin      put other functions in the place of those that the student's functions call
    nested       nested lists and tensors of numbers: do they agree?
"""
