"""From a student's file to points. No student code runs in this process.

To be read in this order:

    judging   the hidden tests, task by task, and the result
    points    how many points a task gives
    practice  what the public tests say of a file
    sandbox   the border: a process in which a student's file is loaded and called
    bwrap     what such a process sees (its inside is instructor/box)
    engine    which files decide about points, and which ones a sandbox needs
"""
