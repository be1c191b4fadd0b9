"""What is right, and how it is observed.

To be read in this order:

    oracle       tasks 2 to 4 in plain Python
    oracle_step  task 5 in plain Python
    standin      put other functions in the place of those that the student's functions call
    step_checks  one run of grpo_step with stand-ins, and the checks on it
"""
