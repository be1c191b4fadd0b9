"""The specification, and how a function is observed.

Read in this order:

    oracle       tasks 2 to 4 in plain Python
    oracle_step  task 5 in plain Python
    standin      replace the functions that the student's functions call
    nested       compare nested lists and tensors of numbers
"""
