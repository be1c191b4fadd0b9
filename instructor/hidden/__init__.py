"""The hidden tests: what goes in is drawn from a course's seed, what comes out is compared here.

A student's code can reach nothing in this folder.
"""
