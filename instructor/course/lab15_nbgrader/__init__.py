"""What nbgrader loads in this course; instructor/builders/course.py copies it into the folder.

Nothing here imports the repository, so that the folder works wherever it is copied.
"""
