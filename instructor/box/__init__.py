"""The inside of the sandbox.

EVERYTHING HERE IS COPIED INTO THE SANDBOX AND MAY BE READ BY A STUDENT.
In there, all these files are in one folder and import each other by plain names.

    worker        load a student's file, call one function, send the result back as data
    calls         one call, set up as a hidden test asks for it
    standins      replacements for the functions of other tasks
    public_tests  run the public tests, after all hidden ones
    wire          the messages between grader and sandbox; used on both sides
    isolate       namespaces for a process that has torch loaded
    syscalls      refuse the system calls that no submission needs
"""
