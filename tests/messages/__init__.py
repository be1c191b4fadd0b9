"""What a student reads when a test fails.

Read in this order:

    explain      the four parts of a message: call, expected, yours, likely
    step_checks  run grpo_step once with stand-ins, and find what is wrong
    progress     the five lines at the end, one for the state of each task
    describe     an exception in the student's file, in a few lines
    screen       which messages are shown when many tests fail
    hints        three hints for each task
"""
