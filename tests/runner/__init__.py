"""Run the tests: in this process or in another one, and survive a crash.

Read in this order:

    guard      keep the test run alive when student code exits or crashes
    judge      run the tests of some tasks inside this process
    processes  processes that judge, started in advance
    skips      list at the end of a run what was skipped, and why
"""
