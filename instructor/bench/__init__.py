"""Measurements: what grading costs, how much a student reads, how long the watch takes.

To be read in this order:

    grade    submissions an hour
    foreign  what text of strangers costs the grader
    screen   lines that pytest prints for every known mistake
    watch    from save to verdict
"""
