"""From a student's file to points. No student code runs in this process.

Read in this order:

    judging   the hidden tests, task by task, and the result
    points    how many points each task is worth
    practice  the public tests' messages about a file
    sandbox   the border: the process that loads a student's file and calls it
    bwrap     what that process can see (the code inside is instructor/box)
    engine    which files decide the points, and which ones a sandbox needs
"""
