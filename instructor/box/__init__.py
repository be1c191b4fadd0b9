"""The inside of the sandbox.

EVERYTHING HERE IS COPIED INTO THE SANDBOX AND MAY BE READ BY A STUDENT.
There these files are in one folder and import each other by their plain names.

    worker        load a student's file, call one function, hand back data
    calls         one call as a hidden test wants it
    standins      what takes the place of another task's function
    public_tests  the public tests, when all hidden ones are done
    wire          frames between grader and sandbox; used on both sides
    isolate       namespaces for a process that has torch loaded
    syscalls      system calls that no submission needs are refused
"""
