"""The hidden tests: what goes in is drawn from a course's seed, what comes out is compared here.

Nothing in this folder but standins.py is ever within reach of a student's code.
"""
