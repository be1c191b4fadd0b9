"""The modules that nbgrader loads; instructor/builders/course.py copies them into the course.

Nothing here imports the repository, so that the folder works wherever it is copied.
"""
