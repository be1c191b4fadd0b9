"""The known mistakes: their texts, what each one computes, and how one is recognized.

Read in this order:

    search      find the mistake that a function makes
    task1       the mistakes of Task 1: their texts
    task2       Task 2: their texts, and what each one computes
    task3       Task 3
    task4       Task 4
    task5       Task 5
    arithmetic  plain operations shared by these modules
"""
