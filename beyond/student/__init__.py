"""A student's file in the other programs: loaded, checked, its mistakes named.

To be read in this order:

    plugins  what takes the place of the lab's loss and advantages, by name or from a file
    named    data and rewards by the names that --data and --reward take
    probes   what is wrong with a lab file's functions, named as their tests name it
    checks   a lab file's five functions on a real model: what goes wrong is one line
"""
