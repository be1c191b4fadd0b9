"""What a student reads when a test fails.

To be read in this order:

    explain      the four parts of a message: call, expected, yours, likely
    step_checks  one run of grpo_step with stand-ins, and what is wrong with it
    progress     the five lines at the end: how far each task is
    describe     an exception in the student's file, in a few lines
    screen       what is shown of many failing tests
    hints        three hints a task
"""
