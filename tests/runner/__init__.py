"""How tests are run: in this process, in another one, in spite of a crash.

To be read in this order:

    guard      a run of the tests that outlives the student's code
    judge      the tests of some tasks inside this process
    processes  processes that judge, started before there is work
    skips      a list at the end of a run of what was skipped, and why
"""
