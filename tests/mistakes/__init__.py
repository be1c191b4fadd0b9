"""The known mistakes: their texts, what each one computes, and how one is recognized.

To be read in this order:

    search      find the mistake that a function makes
    task1       the mistakes of Task 1: their texts
    task2       of Task 2: their texts, and what each one computes
    task3       of Task 3
    task4       of Task 4
    task5       of Task 5
    arithmetic  plain operations that these functions share
"""
