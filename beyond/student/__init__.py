"""Load a student's file into the other programs, check it, name its mistakes.

Read in this order:

    plugins  another loss or other advantages instead of the lab's, by name or from a file
    named    the names that --data and --reward accept
    probes   mistakes in a lab file's functions, with the messages of the tests
    checks   the five functions on a real model: each error becomes one line
"""
