"""Measure the grader.

Read in this order:

    grade    submissions per hour
    foreign  how grading time grows with hostile input
"""
