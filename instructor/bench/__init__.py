"""Measurements of the grader.

To be read in this order:

    grade    submissions an hour
    foreign  what text of strangers costs it
"""
