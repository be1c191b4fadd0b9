"""The hidden tests: draw inputs from the course's seed, compare what the student's code returns.

Student code cannot reach anything in this folder.
"""
